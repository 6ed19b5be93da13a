package dram

// Parameter describes one timing of a spec, as the tables of the command line
// print it.
type Parameter struct {
	Timing
	Clocks int
}

// Parameters returns the timings of s in clocks with meaning and source, in the order of its
// standard's table.
func (s *Spec) Parameters() []Parameter {
	var list []Parameter
	for _, t := range s.table().Timings {
		if clocks, ok := s.Timing(t.Term); ok {
			list = append(list, Parameter{t, clocks})
		}
	}
	return list
}
