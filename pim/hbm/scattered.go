package hbm

// Scattered tokens are at arbitrary positions in a head. Units read one token of each way at once, so a row that is opened serves few of
// them.

// Ways returns the number of successive tokens that the units of a level read at once: one of each way. An unknown level has 1.
func (l Level) Ways() int { return max(1, layouts[l].ways) }

// RowTokens returns the number of successive tokens of a head whose keys are in one row of all banks that open together, and the number
// whose values are, for one pass. passes is the number of passes over values.
func (t *Table) RowTokens() (keys, values, passes int) { return t.keyTokens, t.valueTokens, t.passes }

// Opening returns the mean clocks of CK that each further row adds, if a head's tokens are in more rows than they fill; OpeningTally has
// the events. If banks open independently, a part of it overlaps with reads.
func (t *Table) Opening() float64 { return t.opening[0] }

// OpeningTally is the events of Opening.
func (t *Table) OpeningTally() Tally { return t.opening.tally() }

func (a *amounts) tally() Tally { return Tally{a[1], a[2], a[3], a[4]} }

// row returns the number of columns in a row of all banks that open together. In the buffer die, successive columns are in different banks.
func (y *layout) row() int {
	if y.sets > banks {
		return rowColumns * y.sets
	}
	return rowColumns
}

// The measured case of scattered tokens: tokens of each way, and values in each of their rows. With fewer values, a row would have to stay
// open beyond its last read.
const scatteredTokens, scatteredValues = 16, 8

// measureOpening measures the cost of a further row, from a head with scattered tokens and the same head in order.
func (t *Table) measureOpening(spec Spec, shape Shape, y *layout) error {
	row, columns := y.row(), y.columns(shape)
	t.keyTokens, t.valueTokens, t.passes = y.ways*max(1, row/columns), y.ways*row, y.passes(shape)
	load := StackLoad(shape, scatteredTokens*y.ways, 1)
	inOrder, err := Measure(spec, load, nil)
	if err != nil {
		return err
	}
	load.apart = row / scatteredValues
	if y.sets > banks { // so that successive tokens begin in different banks
		load.apart++
	}
	apart, err := Measure(spec, load, nil)
	if err != nil {
		return err
	}
	a, b, each := apart.amounts(spec), inOrder.amounts(spec), float64(y.ways*y.split*row/rowColumns)
	further := (a[1] - b[1]) / each
	for i := range a {
		t.opening[i] = max(0, a[i]-b[i]) / further
	}
	return nil
}
