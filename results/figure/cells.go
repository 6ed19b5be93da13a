package figure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// cells forms the cells of the rows.
func (s *selector) cells() error {
	d := s.data
	d.Facets, d.GroupNames, d.XNames = s.names(s.facet), s.names(s.group), s.names(s.x)
	if d.Kind == "heatmap" {
		d.YNames = s.names(s.y)
	}
	if d.Kind == "pareto" {
		s.directions()
	}
	type collected struct {
		cell   Cell
		xs, zs []float64
		rows   []int
	}
	positions := indexed(d.XNames)
	byKey := map[string]*collected{}
	var order []*collected
	for i, r := range s.rows {
		key := s.cellKey(r)
		c := byKey[key]
		if c == nil {
			c = &collected{cell: Cell{
				Facet: slices.Index(d.Facets, s.text(r, s.facet)), Group: slices.Index(d.GroupNames, s.text(r, s.group)),
				X: positions[s.text(r, s.x)], Y: slices.Index(d.YNames, s.text(r, s.y)),
			}}
			byKey[key] = c
			order = append(order, c)
		}
		x, _ := s.table.Number(r, s.x)
		c.cell.Samples, c.xs, c.rows = append(c.cell.Samples, s.values[i]), append(c.xs, x), append(c.rows, r)
		if d.hasThirdGoal() {
			z, _ := s.table.Number(r, s.z)
			c.zs = append(c.zs, z)
		}
	}
	for _, c := range order {
		if err := s.sameCell(c.rows); err != nil {
			return err
		}
		c.cell.XValue, c.cell.XStd = mean(c.xs), std(c.xs)
		if d.hasThirdGoal() {
			c.cell.ZValue = mean(c.zs)
		}
		if d.Kind == "cdf" {
			slices.Sort(c.cell.Samples)
		}
		d.Cells = append(d.Cells, c.cell)
	}
	if d.hasThirdGoal() {
		d.cutLevels()
	}
	slices.SortStableFunc(d.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Facet, b.Facet), cmp.Compare(a.Group, b.Group), cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y))
	})
	return nil
}

// cellKey returns what rows of one cell have in common.
func (s *selector) cellKey(row int) string {
	key := fmt.Sprintf("%q %q", s.text(row, s.facet), s.text(row, s.group))
	if s.data.Kind == "cdf" { // all rows of a curve
		return key
	}
	switch point := slices.Index(s.table.Columns, results.PointColumn); {
	case s.isDimension(s.x) && s.data.Kind != "pareto":
		key += fmt.Sprintf(" %q", s.text(row, s.x))
	case point >= 0: // a cloud of points: the repeats of each are one cell
		key += fmt.Sprintf(" %q", s.text(row, point))
	default:
		key += fmt.Sprint(" ", row)
	}
	if s.data.Kind == "heatmap" {
		key += fmt.Sprintf(" %q", s.text(row, s.y))
	}
	return key
}

// indexed returns the position of each name.
func indexed(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, n := range names {
		at[n] = i
	}
	return at
}

// sameCell checks that rows differ in no key but the seed.
func (s *selector) sameCell(rows []int) error {
	if s.selection.Kind == "box" || s.selection.Kind == "cdf" {
		return nil
	}
	is := s.table.IsConfig()
	for _, r := range rows[1:] {
		for c := range is {
			if is[c] && c != s.seed && s.table.Rows[r][c] != s.table.Rows[rows[0]][c] {
				return &input.Error{
					Key: s.table.Columns[c], Value: s.table.Rows[rows[0]][c] + " and " + s.table.Rows[r][c],
					Expected: "one value for each x, group and facet; --group, --facet or --where tells them apart"}
			}
		}
		if s.seed >= 0 && s.table.Rows[r][s.seed] == s.table.Rows[rows[0]][s.seed] || s.seed < 0 {
			return &input.Error{File: s.table.Name, Key: s.table.Columns[s.x], Value: s.text(r, s.x),
				Expected: "one row for each x, group, facet and seed"}
		}
	}
	return nil
}
