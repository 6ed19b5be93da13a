package figure

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results/tables"
)

const resultColumn = "result" // the column that tells the results of a melted table apart

// melt makes one column of several, "tbt_mean_ms,tbt_p99_ms", that share a unit:
// each row becomes one for each of them, and their names become the groups.
func melt(t *tables.Table, sel *Selection) (*tables.Table, error) {
	flag, values := "--y", &sel.Y
	if sel.Kind == "cdf" {
		flag, values = "--x", &sel.X
	}
	names := strings.Split(*values, ",")
	if len(names) == 1 || sel.Kind == "heatmap" {
		return t, nil
	}
	if sel.Group != "" {
		return nil, &input.Error{Key: "--group", Value: sel.Group, Expected: "no group with several columns in " + flag + ", which are the groups"}
	}
	var columns []int
	unit := ""
	for i, name := range names {
		c, err := t.Column(flag, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		_, u := tables.SplitUnit(t.Columns[c])
		if i > 0 && u != unit {
			return nil, &input.Error{Key: flag, Value: *values, Expected: "columns of one unit"}
		}
		columns, unit = append(columns, c), u
	}
	value := sharedName(t, columns)
	point := slices.Index(t.Columns, tables.PointColumn)
	// The groups stand with the keys, so that rows of one cell may not differ in them.
	at := point + 1
	out := &tables.Table{Name: t.Name, Columns: slices.Insert(slices.Clone(t.Columns), at, resultColumn)}
	out.Columns = append(out.Columns, value)
	for _, c := range columns {
		for _, row := range t.Rows {
			melted := slices.Insert(slices.Clone(row), at, tables.Of(tables.Describe(t.Columns[c]).Label))
			out.Rows = append(out.Rows, append(melted, row[c]))
		}
	}
	*values, sel.Group = value, resultColumn
	return out, nil
}

// sharedName returns the words that all columns begin with, and their unit; a
// column of the table does not have this name.
func sharedName(t *tables.Table, columns []int) string {
	quantity, _ := tables.SplitUnit(t.Columns[columns[0]])
	suffix := strings.TrimPrefix(t.Columns[columns[0]], quantity)
	words := strings.Split(quantity, "_")
	for _, c := range columns[1:] {
		q, _ := tables.SplitUnit(t.Columns[c])
		other := strings.Split(q, "_")
		n := 0
		for n < min(len(words), len(other)) && words[n] == other[n] {
			n++
		}
		words = words[:n]
	}
	name := strings.Join(words, "_") + suffix
	if len(words) == 0 {
		name = "value" + suffix
	}
	for slices.Contains(t.Columns, name) {
		name = "all_" + name
	}
	return name
}

// shortenPoints returns a table whose names of points have lost the parts that the figure says
// anyway, where it shows names: of "model=gpt-175b,naive" with a plot for each model, "naive"
// remains. Without it no two models would share a bar's name.
func shortenPoints(t *tables.Table, sel *Selection) *tables.Table {
	point := slices.Index(t.Columns, tables.PointColumn)
	shown := map[string]bool{}
	for _, name := range append([]string{sel.X, sel.Y, sel.Group, sel.Facet}, slices.Concat(conditionColumns(sel.Where), tables.BestKeys(sel.Best))...) {
		if name == "" || strings.Contains(name, ",") {
			continue
		}
		if i, err := t.Column("", name); err == nil { // an unknown one is reported when it is used
			for _, form := range tables.NameForms(t.Columns[i]) {
				shown[form] = true
			}
		}
	}
	if point < 0 || !shown[tables.PointColumn] {
		return t
	}
	out := &tables.Table{Name: t.Name, Columns: t.Columns}
	for _, row := range t.Rows {
		var kept []string
		for part := range strings.SplitSeq(row[point].String(), ",") {
			if key, _, is := strings.Cut(part, "="); !is || !shown[key] {
				kept = append(kept, part)
			}
		}
		row = slices.Clone(row)
		if len(kept) > 0 {
			row[point] = tables.Of(strings.Join(kept, ","))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// conditionColumns returns the columns of conditions "column=value".
func conditionColumns(where []string) []string {
	var columns []string
	for _, text := range where {
		name, _, _ := strings.Cut(text, "=")
		columns = append(columns, strings.TrimSpace(name))
	}
	return columns
}
