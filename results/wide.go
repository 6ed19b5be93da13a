package results

import "slices"

// Wide returns the table with a column for each value in column x, in their order, that holds what
// the row has in column y. The columns left of both tell rows apart, all others are left out. What no
// row has is empty; of rows for one cell the last counts.
func (t *Table) Wide(x, y int) *Table {
	left := min(x, y)
	out := &Table{Name: t.Name, Columns: slices.Clone(t.Columns[:left])}
	for _, row := range t.Rows {
		column := slices.Index(out.Columns[left:], row[x])
		if column < 0 {
			column = len(out.Columns) - left
			out.Columns = append(out.Columns, row[x])
		}
		at := slices.IndexFunc(out.Rows, func(r []string) bool { return slices.Equal(r[:left], row[:left]) })
		if at < 0 {
			at, out.Rows = len(out.Rows), append(out.Rows, slices.Clone(row[:left]))
		}
		for len(out.Rows[at]) <= left+column {
			out.Rows[at] = append(out.Rows[at], "")
		}
		out.Rows[at][left+column] = row[y]
	}
	for i := range out.Rows {
		for len(out.Rows[i]) < len(out.Columns) {
			out.Rows[i] = append(out.Rows[i], "")
		}
	}
	return out
}
