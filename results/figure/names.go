package figure

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results"
)

// shortenPoints returns a table whose names of points have lost the parts that
// the figure says anyway, where it shows names: of "model=gpt-175b,naive" with a
// plot for each model, "naive" remains. Without it no two models would share a
// bar's name.
func shortenPoints(t *results.Table, sel *Selection) *results.Table {
	point := slices.Index(t.Columns, results.PointColumn)
	shown := map[string]bool{}
	for _, name := range append([]string{sel.X, sel.Y, sel.Group, sel.Facet}, slices.Concat(conditionColumns(sel.Where), results.BestKeys(sel.Best))...) {
		if name == "" || strings.Contains(name, ",") {
			continue
		}
		if i, err := t.Column("", name); err == nil { // an unknown one is reported when it is used
			for _, form := range keyForms(t.Columns[i]) {
				shown[form] = true
			}
		}
	}
	if point < 0 || !shown[results.PointColumn] {
		return t
	}
	out := &results.Table{Name: t.Name, Columns: t.Columns}
	for _, row := range t.Rows {
		var kept []string
		for part := range strings.SplitSeq(row[point], ",") {
			if key, _, is := strings.Cut(part, "="); !is || !shown[key] {
				kept = append(kept, part)
			}
		}
		row = slices.Clone(row)
		if len(kept) > 0 {
			row[point] = strings.Join(kept, ",")
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

// keyForms returns how the name of a point may write a column's key: in full or
// without its section, and without the unit that the column ends with.
func keyForms(column string) []string {
	full, _ := results.SplitUnit(column)
	forms := []string{column, full}
	for _, f := range forms[:2] {
		forms = append(forms, f[strings.LastIndexByte(f, '.')+1:])
	}
	return forms
}
