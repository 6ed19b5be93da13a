package results

import (
	"slices"
	"strconv"
)

// Means returns a table with one row for each point of a sweep, in the order of their first
// rows: cells of the first seed, and means over the seeds of the columns that are results. seeds
// is the number of each point's seeds; failed is that of the points that are left out, as a seed
// of theirs failed. A table that no sweep wrote is an *input.Error.
func (t *Table) Means() (means *Table, seeds []int, failed int, err error) {
	s, err := newSide(t)
	if err != nil {
		return nil, nil, 0, err
	}
	means = &Table{Name: t.Name, Columns: t.Columns}
	for _, name := range s.names {
		rows := s.rows[name]
		if slices.ContainsFunc(rows, func(r int) bool { return t.Rows[r][s.status] != StatusDone }) {
			failed++
			continue
		}
		cells := slices.Clone(t.Rows[rows[0]])
		for c := s.config + 1; c < len(cells) && len(rows) > 1; c++ {
			sum, all := 0.0, true
			for _, r := range rows {
				v, ok := t.Number(r, c)
				sum, all = sum+v, all && ok
			}
			if all {
				cells[c] = strconv.FormatFloat(sum/float64(len(rows)), 'g', -1, 64)
			}
		}
		means.Rows, seeds = append(means.Rows, cells), append(seeds, len(rows))
	}
	return means, seeds, failed, nil
}
