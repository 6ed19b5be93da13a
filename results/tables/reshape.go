package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Means returns a table with one row for each point of a sweep, in the order of their first rows:
// means over the seeds for results, and cells of the first seed otherwise. seeds are the rows of
// each point; failed is the number of points left out because a seed failed. A table that no sweep
// wrote returns an *input.Error.
func (t *Table) Means() (means *Table, seeds [][]int, failed int, err error) {
	s, err := newSide(t)
	if err != nil {
		return nil, nil, 0, err
	}
	means = t.with(nil)
	for _, name := range s.names {
		rows := s.rows[name]
		if slices.ContainsFunc(rows, func(r int) bool { return s.text(r, s.status) != StatusDone }) {
			failed++
			continue
		}
		cells := t.Rows[rows[0]]
		if len(rows) > 1 {
			cells = slices.Clone(cells)
			for c := s.config + 1; c < len(cells); c++ {
				if values := t.numbers(rows, c); len(values) == len(rows) {
					mean, _ := MeanStd(values)
					cells[c] = Of(mean)
				}
			}
		}
		means.Rows, seeds = append(means.Rows, cells), append(seeds, rows)
	}
	return means, seeds, failed, nil
}

func (t *Table) numbers(rows []int, column int) (values []float64) {
	for _, r := range rows {
		if v, ok := t.Number(r, column); ok {
			values = append(values, v)
		}
	}
	return values
}

// Wide returns the table with a column for each value in column x, in their order. Its cells are those of
// column y. The columns left of both identify rows; all others are left out. A cell without a row is
// empty; of several rows with the same cell, the last counts. If x or y is no column, the table is empty.
func (t *Table) Wide(x, y int) *Table {
	t = cmp.Or(t, &Table{})
	left := min(x, y)
	if left < 0 || max(x, y) >= len(t.Columns) {
		return &Table{Name: t.Name}
	}
	out := &Table{Name: t.Name, Columns: slices.Clone(t.Columns[:left]), Kinds: t.Kinds}
	place := map[Value]int{} // columns
	for _, rows := range t.Group(t.All(), x) {
		v := t.Rows[rows[0]][x]
		place[v], out.Columns = len(out.Columns), append(out.Columns, v.String())
	}
	for _, rows := range t.Group(t.All(), indices(left)...) {
		cells := make([]Value, len(out.Columns))
		copy(cells, t.Rows[rows[0]][:left])
		for _, r := range rows {
			cells[place[t.Rows[r][x]]] = t.Rows[r][y]
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

// Best returns the table without the points that another one beats: of points that agree in all keys but some,
// the best in a column, by its mean over the seeds, stays. The text is "max COLUMN over KEY" or "min COLUMN over
// KEY", with several keys joined by commas. Of equal points the first stays. Points without a number in the
// column are left out. The text "" leaves the table as it is. Any other text returns an *input.Error that names
// flag.
func (t *Table) Best(flag, text string) (*Table, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	if text == "" {
		return t, nil
	}
	goal, over, err := t.parseBest(flag, text)
	if err != nil {
		return nil, err
	}
	var kept []int // keys that must agree
	for i, is := range t.IsConfig() {
		if is && t.Columns[i] != SeedColumn && !slices.Contains(over, i) {
			kept = append(kept, i)
		}
	}
	cost := func(point []int) float64 {
		mean, _ := MeanStd(t.numbers(point, goal.index))
		return goal.Cost(mean)
	}
	stays := make([]bool, len(t.Rows))
	for _, rows := range t.Group(t.All(), kept...) {
		points := slices.DeleteFunc(t.Group(rows, over...), func(point []int) bool { return len(t.numbers(point, goal.index)) == 0 })
		if len(points) == 0 {
			continue
		}
		for _, r := range slices.MinFunc(points, func(a, b []int) int { return cmp.Compare(cost(a), cost(b)) }) {
			stays[r] = true
		}
	}
	return t.only(func(r int) bool { return stays[r] }), nil
}

// BestKeys returns the keys after "over" in a text for Best.
func BestKeys(text string) []string {
	_, keys, _ := strings.Cut(text, " over ")
	return strings.FieldsFunc(keys, func(r rune) bool { return r == ',' || r == ' ' })
}

func (t *Table) parseBest(flag, text string) (goal Goal, over []int, err error) {
	part, _, _ := strings.Cut(text, " over ")
	keys := BestKeys(text)
	if len(keys) == 0 {
		return Goal{}, nil, &input.Error{Key: flag, Value: fmt.Sprintf("%q", text), Expected: `"max COLUMN over KEY" or "min COLUMN over KEY"`}
	}
	if goal, err = t.parseGoal(flag, part); err != nil {
		return Goal{}, nil, err
	}
	config := t.IsConfig()
	for _, name := range keys {
		column, err := t.Column(flag, name)
		if err != nil {
			return Goal{}, nil, err
		}
		if !config[column] {
			return Goal{}, nil, &input.Error{Key: flag, Value: fmt.Sprintf("%q", name), Expected: "a key that the sweep varies"}
		}
		over = append(over, column)
	}
	return goal, over, nil
}
