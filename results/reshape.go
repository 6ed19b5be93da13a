package results

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
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

// Wide returns the table with a column for each value in column x, in their order. Its cells are those of
// column y. The columns left of both tell rows apart; all others are left out. A cell without a row is
// empty; if several rows have the same cell, the last counts.
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

// Best returns the table without the points that another one beats: of points that are alike
// in all keys but some, the one that is best in a column, by its mean over the seeds. The text is
// "max COLUMN over KEY" or "min COLUMN over KEY", with several keys joined by commas. Of equal
// points the first stays. Points without a number in the column are left out. The text "" leaves the table as it
// is. Flag says who asks, for the *input.Error of any other text.
func (t *Table) Best(flag, text string) (*Table, error) {
	if text == "" {
		return t, nil
	}
	goal, over, err := t.parseBest(flag, text)
	if err != nil {
		return nil, err
	}
	var kept []int // keys that must be alike
	for i, is := range t.IsConfig() {
		if is && t.Columns[i] != SeedColumn && !slices.Contains(over, i) {
			kept = append(kept, i)
		}
	}
	cells := func(row []string, columns []int) string {
		var b strings.Builder
		for _, c := range columns {
			fmt.Fprintf(&b, "%q,", row[c])
		}
		return b.String()
	}
	type mean struct{ sum, n float64 }
	means := map[[2]string]mean{} // by what must be alike, and by what may differ
	for i, row := range t.Rows {
		if v, ok := t.Number(i, goal.index); ok {
			key := [2]string{cells(row, kept), cells(row, over)}
			m := means[key]
			means[key] = mean{m.sum + v, m.n + 1}
		}
	}
	best := map[string]string{}
	for _, row := range t.Rows { // in order: of equals the first
		key := [2]string{cells(row, kept), cells(row, over)}
		m, ok := means[key]
		if !ok {
			continue
		}
		chosen, found := best[key[0]]
		b := means[[2]string{key[0], chosen}]
		if !found || goal.Cost(m.sum/m.n) < goal.Cost(b.sum/b.n) {
			best[key[0]] = key[1]
		}
	}
	out := &Table{Name: t.Name, Columns: t.Columns}
	for _, row := range t.Rows {
		if chosen, found := best[cells(row, kept)]; found && chosen == cells(row, over) {
			out.Rows = append(out.Rows, row)
		}
	}
	return out, nil
}

// BestKeys returns the columns over which a text chooses, as it names them.
func BestKeys(text string) []string {
	_, keys, _ := strings.Cut(text, " over ")
	return strings.FieldsFunc(keys, func(r rune) bool { return r == ',' || r == ' ' })
}

// parseBest reads the text of Best.
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
