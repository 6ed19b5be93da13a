package figure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results/tables"
)

func (s *selector) cells() error {
	d := s.data
	d.Facets, d.GroupNames, d.XNames = s.names(s.facet), s.names(s.group), s.names(s.x)
	if d.Kind == "heatmap" {
		d.YNames = s.names(s.y)
	}
	if d.Kind == "pareto" {
		s.directions()
	}
	positions := map[string]int{}
	for i, name := range d.XNames {
		positions[name] = i
	}
	keys, of := tables.Groups(len(s.rows), func(i int) string { return s.cellKey(s.rows[i]) })
	for _, key := range keys {
		var xs, zs []float64
		var rows []int
		first := s.rows[of[key][0]]
		c := Cell{
			Facet: slices.Index(d.Facets, s.text(first, s.facet)), Group: slices.Index(d.GroupNames, s.text(first, s.group)),
			X: positions[s.text(first, s.x)], Y: slices.Index(d.YNames, s.text(first, s.y)),
		}
		for _, i := range of[key] {
			x, _ := s.table.Number(s.rows[i], s.x)
			c.Samples, xs, rows = append(c.Samples, s.values[i]), append(xs, x), append(rows, s.rows[i])
			if d.hasThirdGoal() {
				z, _ := s.table.Number(s.rows[i], s.z)
				zs = append(zs, z)
			}
		}
		if err := s.sameCell(rows); err != nil {
			return err
		}
		c.XValue, c.XStd = tables.MeanStd(xs)
		if d.hasThirdGoal() {
			c.ZValue, _ = tables.MeanStd(zs)
		}
		if d.Kind == "cdf" {
			slices.Sort(c.Samples)
		}
		d.Cells = append(d.Cells, c)
	}
	if d.hasThirdGoal() {
		d.cutLevels()
	}
	slices.SortStableFunc(d.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Facet, b.Facet), cmp.Compare(a.Group, b.Group), cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y))
	})
	return nil
}

func (s *selector) cellKey(row int) string {
	key := fmt.Sprintf("%q %q", s.text(row, s.facet), s.text(row, s.group))
	if s.data.Kind == "cdf" { // all rows of a curve
		return key
	}
	switch point := slices.Index(s.table.Columns, tables.PointColumn); {
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

// sameCell checks that rows differ in no key but the seed.
func (s *selector) sameCell(rows []int) error {
	if s.selection.Kind == "cdf" {
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
