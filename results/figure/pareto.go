package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results/tables"
)

// maxLevels is the number of levels into which a third goal is cut. A reader can follow
// this many staircases in one plot.
const maxLevels = 4

// parseGoals reads Goals and sets X, Y and Z from them. It returns nil without Goals.
func (k *kind) parseGoals(t *tables.Table, s *Selection) ([]tables.Goal, error) {
	if s.Goals == "" {
		return nil, nil
	}
	if !k.goals {
		return nil, &input.Error{Key: "--goals", Value: fmt.Sprintf("%q", s.Goals), Expected: eitherKind(func(k *kind) bool { return k.goals })}
	}
	for _, axis := range []struct{ flag, column string }{{"--x", s.X}, {"--y", s.Y}, {"--z", s.Z}} {
		if axis.column != "" {
			return nil, &input.Error{Key: axis.flag, Value: axis.column, Expected: "either the axes or --goals, not both"}
		}
	}
	goals, err := t.ParseGoals("--goals", s.Goals)
	if err != nil {
		return nil, err
	}
	s.Y, s.X = goals[0].Column, goals[1].Column
	if len(goals) == 3 {
		s.Z = goals[2].Column
	}
	return goals, nil
}

// directions sets the directions of a Pareto front: those of the goals; without goals, high rates,
// low times and small values of keys are better.
func (s *selector) directions() {
	d := s.data
	if s.goals != nil {
		d.MaximumY, d.MinimizeX = s.goals[0].Maximize, !s.goals[1].Maximize
		d.MaximizeZ = len(s.goals) == 3 && s.goals[2].Maximize
		return
	}
	d.MinimizeX = s.isDimension(s.x) || tables.Describe(d.X).Better != tables.Higher
	d.MaximumY = !s.isDimension(s.y) && tables.Describe(d.Y).Better != tables.Lower
	d.MaximizeZ = s.z != none && !s.isDimension(s.z) && tables.Describe(d.Z).Better == tables.Higher
}

// leftOut returns the rows, and counts the cells, of a Pareto front with a seed that failed or has no number for some goal. It
// is nil for other kinds. The other seeds do not represent the point, which may fail where it is slow.
func (s *selector) leftOut() map[int]bool {
	if !s.data.kind.goals {
		return nil
	}
	out := map[int]bool{}
	failed := func(r int) bool { return s.table.Value(r, tables.StatusColumn).String() == tables.StatusFailed }
	incomplete := func(r int) bool {
		return slices.ContainsFunc([]int{s.x, s.y, s.z}, func(c int) bool { _, number := s.cell(r, c).Float(); return c != none && !number })
	}
	for _, rows := range s.cellRows(s.table.All()) {
		switch {
		case slices.ContainsFunc(rows, failed):
			s.data.Failed++
		case slices.ContainsFunc(rows, incomplete):
			s.data.Incomplete++
		default:
			continue
		}
		for _, r := range rows {
			out[r] = true
		}
	}
	return out
}

// LeftOut says which points are left out, "" if none.
func (d *Data) LeftOut() string {
	var parts []string
	if d.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d that failed", d.Failed))
	}
	if d.Incomplete > 0 {
		parts = append(parts, fmt.Sprintf("%d without a number for each goal", d.Incomplete))
	}
	if len(parts) == 0 {
		return ""
	}
	return "points left out: " + strings.Join(parts, ", ")
}

func (d *Data) hasThirdGoal() bool { return d.kind.goals && d.Z != "" }

// cutLevels makes the levels of the third goal the groups, best first: its values if they are few,
// otherwise quarters of the points.
func (d *Data) cutLevels() {
	values := make([]float64, len(d.Cells))
	for i := range d.Cells {
		values[i] = d.Cells[i].ZValue
	}
	worse := func(a, b float64) int {
		if d.MaximizeZ {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	}
	slices.SortFunc(values, worse)
	limits := slices.Compact(slices.Clone(values))
	if len(limits) > maxLevels {
		limits = limits[:0]
		for part := 1; part <= maxLevels; part++ {
			limits = append(limits, values[(part*len(values)-1)/maxLevels])
		}
		limits = slices.Compact(limits)
	}
	word := "up to "
	if d.MaximizeZ {
		word = "from "
	}
	d.Group, d.GroupNames = d.Z, nil
	for _, v := range limits {
		d.GroupNames = append(d.GroupNames, tables.Of(word+tickLabel(d.Z, v)))
	}
	for i := range d.Cells {
		d.Cells[i].Group = slices.IndexFunc(limits, func(limit float64) bool { return worse(d.Cells[i].ZValue, limit) <= 0 })
	}
}

// betterLabel says on an axis which way is better.
func betterLabel(more bool) string {
	if more {
		return "more is better"
	}
	return "less is better"
}

// pareto draws the front of each group as a staircase, and every point: those on the front in full,
// the others paler and smaller. With a third goal, the staircase of a level is the front of all
// points that are at least as good in it.
type pareto struct {
	data  *Data
	cells []Cell
	axes  *axes
}

// Plot implements plot.Plotter.
func (b *pareto) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := b.axes.transforms(&c, p)
	d := b.data
	on := make([]bool, len(b.cells))
	stairs := make([][]Cell, len(d.GroupNames))
	for group := range d.GroupNames {
		var members []int
		for i := range b.cells {
			if b.cells[i].Group == group || d.hasThirdGoal() && b.cells[i].Group < group {
				members = append(members, i)
			}
		}
		front := d.front(b.cells, members, false)
		for _, i := range front {
			on[i] = on[i] || !d.hasThirdGoal()
			stairs[group] = append(stairs[group], b.cells[i])
		}
	}
	if d.hasThirdGoal() {
		all := make([]int, len(b.cells))
		for i := range all {
			all[i] = i
		}
		for _, i := range d.front(b.cells, all, true) {
			on[i] = true
		}
	}
	b.markers(&c, p, on, false)
	for group := len(stairs) - 1; group >= 0; group-- { // the best level on top
		line := d.staircase(stairs[group])
		points := make([]vg.Point, len(line))
		for i, at := range line {
			points[i] = vg.Point{X: x(at[0]), Y: y(at[1])}
		}
		c.StrokeLines(styleLine(d.style(group)), points)
	}
	b.markers(&c, p, on, true)
}

// markers draws the points that are on the front, or those that are not.
func (b *pareto) markers(c *draw.Canvas, p *plot.Plot, on []bool, front bool) {
	x, y := b.axes.transforms(c, p)
	for i := range b.cells {
		if on[i] != front {
			continue
		}
		cell := &b.cells[i]
		marker := styleMarker(b.data.style(cell.Group))
		if !front {
			marker.Color, marker.Radius = tint(styleColor(b.data.style(cell.Group)), 0.45), 2
		}
		at := vg.Point{X: x(cell.XValue), Y: y(cell.Mean())}
		b.axes.errorBars(c, p, cell, at.X, marker.Color)
		c.DrawGlyphNoClip(marker, at)
		b.data.drawSign(c, cell.sign, vg.Point{X: at.X + 3, Y: at.Y + 1}, false)
	}
}

// front returns the indices of the cells that no other dominates in x and y, and with third also in
// the third goal, in order of x, then y.
func (d *Data) front(cells []Cell, members []int, third bool) []int {
	goals := []tables.Goal{{Maximize: !d.MinimizeX}, {Maximize: d.MaximumY}, {Maximize: d.MaximizeZ}}
	if !third {
		goals = goals[:2]
	}
	var values []float64
	for _, i := range members {
		at := [...]float64{cells[i].XValue, cells[i].Mean(), cells[i].ZValue}
		for g := range goals {
			values = append(values, goals[g].Cost(at[g]))
		}
	}
	var front []int
	for m, on := range tables.NonDominated(values, len(goals)) {
		if on {
			front = append(front, members[m])
		}
	}
	slices.SortStableFunc(front, func(a, b int) int {
		return cmp.Or(cmp.Compare(cells[a].XValue, cells[b].XValue), cmp.Compare(cells[a].Mean(), cells[b].Mean()))
	})
	return front
}

// staircase returns the corners of the line through a front, in order of x: between two points,
// only the worse of both in x and in y is reached.
func (d *Data) staircase(front []Cell) [][2]float64 {
	var line [][2]float64
	for i := range front {
		at := [2]float64{front[i].XValue, front[i].Mean()}
		if i > 0 {
			before := line[len(line)-1]
			corner := [2]float64{min(before[0], at[0]), max(before[1], at[1])}
			if d.MinimizeX {
				corner[0] = max(before[0], at[0])
			}
			if d.MaximumY {
				corner[1] = min(before[1], at[1])
			}
			line = append(line, corner)
		}
		line = append(line, at)
	}
	return line
}
