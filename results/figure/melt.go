package figure

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results/tables"
)

const resultColumn = "result" // tells the results of a melted table apart

// melt merges several columns of one unit, such as "tbt_mean_ms,tbt_p99_ms", into one: each row
// becomes one row per column, and the columns' names become the groups.
func (k *kind) melt(t *tables.Table, sel *Selection) (*tables.Table, error) {
	flag, values := "--y", &sel.Y
	if k.samples == ofX {
		flag, values = "--x", &sel.X
	}
	names := strings.Split(*values, ",")
	if len(names) == 1 || k.samples == ofZ {
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
	shared, _ := tables.Words(value)
	point := slices.Index(t.Columns, tables.PointColumn)
	// The groups are among the keys, so that rows of one cell may not differ in them.
	at := point + 1
	out := &tables.Table{Name: t.Name, Columns: slices.Insert(slices.Clone(t.Columns), at, resultColumn)}
	out.Columns = append(out.Columns, value)
	for _, c := range columns {
		words, _ := tables.Words(t.Columns[c])
		if own, is := strings.CutPrefix(words, shared); is && own != "" { // the axis names the rest
			words = strings.TrimLeft(own, ", ")
		}
		for _, row := range t.Rows {
			melted := slices.Insert(slices.Clone(row), at, tables.Of(words))
			out.Rows = append(out.Rows, append(melted, row[c]))
		}
	}
	*values, sel.Group = value, resultColumn
	return out, nil
}

// sharedName returns the words that begin all columns' names, and their unit; no column of the
// table may have this name.
func sharedName(t *tables.Table, columns []int) string {
	name, _ := tables.SplitUnit(t.Columns[columns[0]])
	suffix := strings.TrimPrefix(t.Columns[columns[0]], name)
	for _, c := range columns[1:] {
		for other, _ := tables.SplitUnit(t.Columns[c]); name != "" && !strings.HasPrefix(other+"_", name+"_"); {
			name = name[:max(0, strings.LastIndexByte(name, '_'))]
		}
	}
	switch {
	case name == "" && slices.Contains([]string{"_s", "_ms", "_us", "_ns"}, suffix):
		name = "time"
	case name == "":
		name = "value"
	}
	name += suffix
	for slices.Contains(t.Columns, name) {
		name = "all_" + name
	}
	return name
}

// shortenPoints returns a table whose points have short names, and the whole names of those that became numbers. Short
// names leave out what the figure shows otherwise: of "model=gpt-175b,naive" with a plot for each model, "naive" remains.
func shortenPoints(t *tables.Table, sel *Selection) (*tables.Table, map[tables.Value]tables.Value) {
	var said []string
	for _, name := range append(tables.BestKeys(sel.Best), sel.X, sel.Y, sel.Group, sel.Facet) {
		if i, err := t.Column("", name); err == nil { // an unknown column is reported when it is used
			said = append(said, tables.NameForms(t.Columns[i])...)
		}
	}
	short, long := t.ShortPoints(said...), map[tables.Value]tables.Value{}
	if !slices.Contains(said, tables.PointColumn) || short == nil {
		return t, nil
	}
	if name, is := strings.CutPrefix(sel.NormalizeTo, tables.PointColumn+"="); is && !short[tables.Of(name)].Empty() {
		sel.NormalizeTo = tables.PointColumn + "=" + short[tables.Of(name)].String()
	}
	point := slices.Index(t.Columns, tables.PointColumn)
	out := &tables.Table{Name: t.Name, Columns: t.Columns}
	for _, row := range t.Rows {
		row = slices.Clone(row)
		if to := short[row[point]]; strings.HasPrefix(to.String(), "#") {
			long[to] = row[point]
		}
		row[point] = short[row[point]]
		out.Rows = append(out.Rows, row)
	}
	return out, long
}
