package figure

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

func (s *selector) cells() error {
	d := s.data
	d.Facets, d.GroupNames, d.XNames = s.names(s.facet), s.names(s.group), s.names(s.x)
	if d.kind.samples == ofZ {
		d.YNames = s.names(s.y)
	}
	if d.kind.goals {
		s.directions()
	}
	positions := map[tables.Value]int{} // of columns with many values
	for i, name := range d.XNames {
		positions[name] = i
	}
	for _, rows := range s.cellRows(s.rows) {
		var xs, zs []float64
		first := rows[0]
		c := Cell{row: first,
			Facet: slices.Index(d.Facets, s.cell(first, s.facet)), Group: slices.Index(d.GroupNames, s.cell(first, s.group)),
			X: positions[s.cell(first, s.x)], Y: slices.Index(d.YNames, s.cell(first, s.y)),
		}
		for _, r := range rows {
			c.Limits = c.Limits.Or(s.table.Limits(r))
			c.Samples, xs = append(c.Samples, s.values[r]), append(xs, s.number(r, s.x))
			if d.hasThirdGoal() {
				zs = append(zs, s.number(r, s.z))
			}
		}
		if err := s.sameCell(rows); err != nil {
			return err
		}
		c.XValue, c.XStd = tables.MeanStd(xs)
		if d.hasThirdGoal() {
			c.ZValue, _ = tables.MeanStd(zs)
		}
		if d.kind.samples == ofX {
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
	d.findMarks()
	s.namePoints()
	return nil
}

func (s *selector) number(row, column int) float64 {
	v, _ := s.table.Number(row, column)
	return v
}

// cellRows groups rows by the cells of the figure.
func (s *selector) cellRows(rows []int) [][]int {
	by, k := []int{s.facet, s.group}, s.data.kind
	if k.samples == ofX { // all rows of a curve
		return s.table.Group(rows, by...)
	}
	switch point := slices.Index(s.table.Columns, tables.PointColumn); {
	case s.isDimension(s.x) && !k.goals:
		by = append(by, s.x)
	case point >= 0: // a cloud of points: the repeats of a point are one cell
		by = append(by, point)
	default:
		return list.Map(rows, func(r int) []int { return []int{r} })
	}
	if k.samples == ofZ {
		by = append(by, s.y)
	}
	return s.table.Group(rows, by...)
}

// sameCell checks that rows differ in no key but the seed.
func (s *selector) sameCell(rows []int) error {
	if s.data.kind.samples == ofX {
		return nil
	}
	is := s.table.IsConfig()
	for _, r := range rows[1:] {
		for c := range is {
			if is[c] && c != s.seed && s.table.Rows[r][c] != s.table.Rows[rows[0]][c] {
				return &input.Error{
					Key: s.table.Columns[c], Value: s.text(rows[0], c) + " and " + s.text(r, c),
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
