package tables

import (
	"cmp"
	"slices"
)

// Group groups rows by their values in some columns: rows stay in order, groups are in the order of their
// first rows. Columns below 0 are ignored. Without columns all rows are one group.
func (t *Table) Group(rows []int, columns ...int) [][]int {
	var groups [][]int
	place := map[any]int{} // index of a group by its values: [[[nil, first], second], ...]
	for _, r := range rows {
		var key any
		for _, c := range columns {
			if c >= 0 {
				key = [2]any{key, t.Rows[r][c]}
			}
		}
		g, known := place[key]
		if !known {
			g = len(groups)
			place[key] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], r)
	}
	return groups
}

// All returns the indices of all rows, for Group.
func (t *Table) All() []int {
	t = cmp.Or(t, &Table{})
	return indices(len(t.Rows))
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Distinct returns the values of rows in a column, in the order of their first rows, or ascending if all are numbers.
func (t *Table) Distinct(rows []int, column int) (values []Value, numbers bool) {
	numbers = true
	for _, group := range t.Group(rows, column) {
		v := t.Rows[group[0]][column]
		_, is := v.Float()
		values, numbers = append(values, v), numbers && is
	}
	if numbers {
		slices.SortStableFunc(values, func(a, b Value) int {
			x, _ := a.Float()
			y, _ := b.Float()
			return cmp.Compare(x, y)
		})
	}
	return values, numbers
}
