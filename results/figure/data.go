package figure

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// Selection says which columns of a table a figure shows. Columns are named as
// tables.Table.Column takes them.
type Selection struct {
	Kind string `toml:"kind"` // one of Kinds
	X    string `toml:"x"`
	// Y is a column, or several of one unit joined by commas, which then become the groups. A CDF
	// takes no Y: it shows the share of rows with at most x.
	Y     string `toml:"y"`
	Z     string `toml:"z"`     // heat map: the value at (x, y); Pareto front: a third goal, or ""
	Group string `toml:"group"` // "" for one group
	Facet string `toml:"facet"` // a plot for each value; "" for one plot
	// NormalizeTo is "column=value": every value is divided by that of the row with this column value
	// and the same x, group, facet and seed.
	NormalizeTo string `toml:"normalize_to"`
	// Goals are those of a Pareto front, in place of X, Y and Z: y, x and a third, as
	// tables.Table.ParseGoals reads them.
	Goals string   `toml:"goals"`
	Where []string `toml:"where"` // "column=value": other rows are left out
	// Best leaves out points that another one beats, as tables.Table.Best does: "max COLUMN over KEY";
	// "" keeps all.
	Best string `toml:"best"`
}

// Data is the content of a figure. Columns have the names of the table.
type Data struct {
	kind                *kind
	X, Y, Z             string
	Group, Facet        string
	NormalizedTo        string       // "column=value", "" for absolute values
	baseline            tables.Value // that value
	XNumeric            bool         // every x is a number; else position is the index in XNames
	XNames, YNames      []tables.Value
	GroupNames, Facets  []tables.Value // in the order of the table; numbers ascending
	Cells               []Cell         // in the order of facet, group, x
	MinimizeX, MaximumY bool           // directions of a Pareto front's goals
	MaximizeZ           bool           // direction of its third goal, whose levels are GroupNames
	// Failed and Incomplete are the numbers of points left out of a Pareto front because a seed failed
	// or has no number for a goal.
	Failed, Incomplete int
	// Width is the width on paper in millimetres, 0 for a screen. Texts keep the size that journals
	// print.
	Width float64
	// Source is written into the file as the source of the numbers; "" for none.
	Source string

	long       map[tables.Value]tables.Value // whole names of points that have a number as name
	styles     []int                         // of GroupNames
	marks      *marks
	references []placed // numbers from elsewhere; the legend calls them reference
	reference  string
}

// Cell is one position of a figure with its samples.
type Cell struct {
	Facet, Group int // indices of Facets and GroupNames
	X            int // index of XNames
	Y            int // of YNames; heat maps only
	// XValue is the mean of x over the samples if x is a number. For a key all are equal, for a metric
	// each seed has its own.
	XValue, XStd float64
	ZValue       float64        // mean of a Pareto front's third goal
	Limits       results.Limits // of real servers that any of its runs exceeds
	sign         string         // marks of Limits (†, ‡) that are drawn beside the cell
	name         string         // name of the cell's design, drawn beside it if there is room
	row          int            // its first row of the table
	Samples      []float64      // of y; of z in a heat map; of x in a CDF, ascending
}

// Mean returns the mean of the samples.
func (c *Cell) Mean() float64 {
	mean, _ := tables.MeanStd(c.Samples)
	return mean
}

// Std returns the sample standard deviation, 0 for a single sample.
func (c *Cell) Std() float64 {
	_, std := tables.MeanStd(c.Samples)
	return std
}

const shareColumn = "cumulative_share" // the y axis of a CDF: share of rows up to x

const none = -1 // the column of a dimension that a selection does not use

// selector holds the columns of a selection while it reads rows.
type selector struct {
	table                       *tables.Table
	selection                   Selection
	goals                       []tables.Goal   // those of Selection.Goals
	x, y, z, group, facet, seed int             // columns, or none
	values                      map[int]float64 // of the selected rows
	rows                        []int           // selected rows, as indices of table.Rows
	data                        *Data
	normColumn                  int
}

// Select reads the cells of a figure from a table. Rows without a value are left out, for example
// those of failed points. A Pareto front leaves out all seeds of these points, as tables.Explore
// does. Rows of one cell may differ only in the seed and the results. Another difference returns an
// error that names the column. Errors are of type *input.Error.
func Select(t *tables.Table, sel Selection) (*Data, error) {
	t, err := t.Where("--where", sel.Where)
	if err == nil {
		t, err = t.Best("--best", sel.Best)
	}
	if err != nil {
		return nil, err
	}
	k := kindNamed(sel.Kind)
	if k == nil {
		return nil, input.UnknownName("--kind", sel.Kind, Kinds())
	}
	return k.dataOf(t, sel)
}

// dataOf reads the cells of a figure of its kind from the selected rows.
func (k *kind) dataOf(t *tables.Table, sel Selection) (*Data, error) {
	goals, err := k.parseGoals(t, &sel)
	if err != nil {
		return nil, err
	}
	t, long := shortenPoints(t, &sel)
	if t, err = k.melt(t, &sel); err != nil {
		return nil, err
	}
	s := &selector{table: t, selection: sel, goals: goals, data: &Data{kind: k, long: long}, normColumn: none, values: map[int]float64{}}
	for _, step := range []func() error{s.columns, s.read, s.normalize, s.cells} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s.data, nil
}

func (s *selector) columns() error {
	k := s.data.kind
	for _, c := range []struct {
		flag, name string
		to         *int
		column     *string
	}{
		{"--x", s.selection.X, &s.x, &s.data.X},
		{"--y", s.selection.Y, &s.y, &s.data.Y},
		{"--z", s.selection.Z, &s.z, &s.data.Z},
		{"--group", s.selection.Group, &s.group, &s.data.Group},
		{"--facet", s.selection.Facet, &s.facet, &s.data.Facet},
	} {
		*c.to = none
		if c.name == "" {
			if c.flag == "--x" || slices.Contains(k.needs, c.flag) {
				return &input.Error{Key: c.flag, Expected: "a column, which --kind " + k.name + " needs"}
			}
			continue
		}
		i, err := s.table.Column(c.flag, c.name)
		if err != nil {
			return err
		}
		*c.to, *c.column = i, s.table.Columns[i]
	}
	if err := s.refused(); err != nil {
		return err
	}
	if k.samples == ofX {
		s.data.Y = shareColumn
	}
	s.seed = slices.Index(s.table.Columns, tables.SeedColumn)
	if s.selection.NormalizeTo != "" {
		var err error
		if s.normColumn, s.data.baseline, err = s.table.Condition("--normalize-to", s.selection.NormalizeTo); err != nil {
			return err
		}
		s.data.NormalizedTo = s.table.Columns[s.normColumn] + "=" + s.data.baseline.String()
	}
	return nil
}

// refused returns the error for parts of the selection that its kind does not take.
func (s *selector) refused() error {
	k, sel := s.data.kind, &s.selection
	if k.goals && s.group != none && s.z != none {
		return &input.Error{Key: "--group", Value: sel.Group, Expected: "no group with a third goal, whose levels are the groups; --facet gives one plot each"}
	}
	for _, given := range [][2]string{{"--group", sel.Group}, {"--y", sel.Y}, {"--z", sel.Z}, {"--normalize-to", sel.NormalizeTo}} {
		flag, value := given[0], given[1]
		expected, refused := k.refuses[flag]
		if flag == "--z" && !k.takesZ() {
			expected, refused = eitherKind((*kind).takesZ), true
		}
		if refused && value != "" {
			return &input.Error{Key: flag, Value: value, Expected: expected}
		}
	}
	return nil
}

// value is the column of a cell's samples.
func (s *selector) value() int {
	return [...]int{ofY: s.y, ofX: s.x, ofZ: s.z}[s.data.kind.samples]
}

func (s *selector) read() error {
	k, leftOut := s.data.kind, s.leftOut()
	for r := range s.table.Rows {
		v, ok := s.table.Number(r, s.value())
		if !ok || leftOut[r] {
			continue
		}
		if v < 0 && k.bars == stacked {
			return &input.Error{File: s.table.Name, Key: s.table.Columns[s.y], Value: s.text(r, s.y), Expected: "at least 0, to be stacked"}
		}
		s.rows, s.values[r] = append(s.rows, r), v
	}
	if len(s.rows) == 0 {
		return &input.Error{File: s.table.Name, Key: s.table.Columns[s.value()], Expected: "at least one row with a number"}
	}
	s.data.XNumeric = k.cloud || k.numeric
	for _, r := range s.rows {
		_, number := s.table.Number(r, s.x)
		s.data.XNumeric = s.data.XNumeric && number
	}
	return nil
}

// cell returns a row's value in a column, empty for the column none.
func (s *selector) cell(row, column int) tables.Value {
	if column == none {
		return tables.Value{}
	}
	return s.table.Rows[row][column]
}

func (s *selector) text(row, column int) string { return s.cell(row, column).String() }

// names returns the values of a column in the order of the rows, or ascending if all are numbers.
func (s *selector) names(column int) []tables.Value {
	if column == none {
		return []tables.Value{{}}
	}
	values, _ := s.table.Distinct(s.rows, column)
	return values
}

// normalize divides each value by its baseline.
func (s *selector) normalize() error {
	if s.normColumn == none {
		return nil
	}
	shown := []int{s.facet, s.group, s.seed}
	if s.isDimension(s.x) {
		shown = append(shown, s.x)
	}
	if s.data.kind.samples == ofZ {
		shown = append(shown, s.y)
	}
	shown = slices.DeleteFunc(shown, func(c int) bool { return c == s.normColumn })
	for _, rows := range s.table.Group(s.rows, shown...) {
		of := slices.DeleteFunc(slices.Clone(rows), func(r int) bool { return s.table.Rows[r][s.normColumn] != s.data.baseline })
		bad := &input.Error{Key: "--normalize-to", Value: s.data.NormalizedTo}
		if len(of) > 1 {
			bad.Expected = "one row of these for each x, group, facet and seed; --where, --group or --facet tells them apart"
			return bad
		}
		if len(of) == 0 || s.values[of[0]] == 0 {
			bad.Expected = fmt.Sprintf("a row to divide by, with %s above 0, for %s = %s and the same group, facet and seed",
				s.table.Columns[s.value()], s.table.Columns[s.x], s.text(rows[0], s.x))
			return bad
		}
		base := s.values[of[0]]
		for _, r := range rows {
			s.values[r] /= base
		}
	}
	return nil
}

// isDimension says that a column is a position in the design space rather than a result: it is a
// key or, if the table does not say which columns are keys, any column of a figure without cloud.
func (s *selector) isDimension(column int) bool {
	if is := s.table.IsConfig(); slices.Contains(is, true) {
		return is[column] || s.table.Columns[column] == tables.PointColumn
	}
	return !s.data.kind.cloud
}
