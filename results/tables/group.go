package tables

import (
	"cmp"
	"slices"
)

// groupStep is a step of Group from the values so far, which have a number, by the next value.
type groupStep struct {
	before int
	value  Value
}

// Group parts rows by their values in some columns: the rows of a group in order, the groups in the order
// of their first rows. A column below 0 is left out. Without columns all rows are one group.
func (t *Table) Group(rows []int, columns ...int) [][]int {
	var groups [][]int
	steps, place := map[groupStep]int{}, map[int]int{}
	for _, r := range rows {
		at := 0
		for _, c := range columns {
			if c < 0 {
				continue
			}
			step := groupStep{at, t.Rows[r][c]}
			next, known := steps[step]
			if !known {
				next = len(steps) + 1
				steps[step] = next
			}
			at = next
		}
		g, known := place[at]
		if !known {
			g = len(groups)
			place[at] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], r)
	}
	return groups
}

// All returns the indices of all rows, for Group.
func (t *Table) All() []int { return indices(len(t.Rows)) }

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Distinct returns the values that rows have in a column, in the order of their first rows, or by size where all are numbers.
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
