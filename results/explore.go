package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/list"
)

// exploreSchema names the form of Exploration's JSON.
const exploreSchema = "l3sim/explore/2"

// Exploration is what a sweep shows of the trade-off between goals.
type Exploration struct {
	Schema string `json:"schema"` // exploreSchema
	Goals  []Goal `json:"goals"`
	// Points are those that take part, each the mean of its seeds. Left out are
	// Failed, of which some seed failed, and Incomplete, of which some seed has no
	// number for some goal.
	Points     int `json:"points"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"`
	// Front is the points that no other dominates, best first in the first goal,
	// then the second; equal ones in the order of the table.
	Front []FrontPoint `json:"front"`
	// Shared are the knobs that vary over the points and not over the front, with
	// the value that all of the front have.
	Shared []KnobValue `json:"shared"`
	// Knobs are the keys that vary over the points. First is the one of which a
	// value is most frequent on the front, compared with all points.
	Knobs []Knob `json:"knobs"`
}

// FrontPoint is a point on the front.
type FrontPoint struct {
	Point string      `json:"point"`
	Knobs []KnobValue `json:"knobs"` // those that vary over the front
	// Values and Std are the mean and the sample standard deviation over the seeds,
	// goal by goal.
	Values []float64 `json:"values"`
	Std    []float64 `json:"std"`
	Seeds  int       `json:"seeds"`
}

// KnobValue is a key of the configuration with its cell.
type KnobValue struct {
	Column string `json:"column"`
	Value  string `json:"value"`
}

// explorer is an exploration with what it is made from.
type explorer struct {
	Exploration
	table  *Table
	points []explored
	knobs  []int // columns of the configuration that vary, without seed and goals
	on     []bool
}

// explored is a point with its rows, one a seed.
type explored struct {
	rows   []int
	values []float64 // mean over the seeds by goal
	std    []float64
}

// Explore finds the Pareto front of a sweep's points and counts what the points
// on it have in common. Seeds of a point are taken together. A table that no sweep wrote, or
// in which no point has all goals, is an *input.Error.
func Explore(t *Table, goals []Goal) (*Exploration, error) {
	e := &explorer{Exploration: Exploration{Schema: exploreSchema, Goals: goals}, table: t}
	if err := e.collect(); err != nil {
		return nil, err
	}
	e.varying()
	e.findFront()
	e.count()
	return &e.Exploration, nil
}

// collect takes the rows of each point together and leaves out what has no
// values.
func (e *explorer) collect() error {
	s, err := newSide(e.table)
	if err != nil {
		return err
	}
	for _, name := range s.names {
		rows := s.rows[name]
		if slices.ContainsFunc(rows, func(r int) bool { return e.table.Rows[r][s.status] == StatusFailed }) {
			e.Failed++
			continue
		}
		p := explored{rows: rows, values: make([]float64, len(e.Goals)), std: make([]float64, len(e.Goals))}
		complete := true
		samples := make([]float64, len(rows))
		for g, goal := range e.Goals {
			for i, r := range rows {
				v, ok := e.table.Number(r, goal.index)
				samples[i], complete = v, complete && ok
			}
			p.values[g], p.std[g] = MeanStd(samples)
		}
		if !complete {
			e.Incomplete++
			continue
		}
		e.points = append(e.points, p)
	}
	if e.Points = len(e.points); e.Points > 0 {
		return nil
	}
	columns := list.Map(e.Goals, func(g Goal) string { return g.Column })
	return &input.Error{File: e.table.Name, Key: strings.Join(columns, ", "),
		Expected: fmt.Sprintf("at least one point with a number for each; %d failed, %d lack one", e.Failed, e.Incomplete)}
}

// varying finds the knobs: keys that differ between points. The seed is no knob,
// and neither is a key that is a goal.
func (e *explorer) varying() {
	for c, isConfig := range e.table.IsConfig() {
		isGoal := slices.ContainsFunc(e.Goals, func(g Goal) bool { return g.index == c })
		first := e.cell(0, c)
		if !isConfig || isGoal || e.table.Columns[c] == SeedColumn {
			continue
		}
		for p := range e.points {
			if e.cell(p, c) != first {
				e.knobs = append(e.knobs, c)
				break
			}
		}
	}
}

// cell returns a point's cell in a column of the configuration.
func (e *explorer) cell(point, column int) string {
	return e.table.Rows[e.points[point].rows[0]][column]
}

// findFront finds the points on the front and the knobs that they share.
func (e *explorer) findFront() {
	costs := make([]float64, 0, len(e.points)*len(e.Goals))
	for i := range e.points {
		for g, goal := range e.Goals {
			costs = append(costs, goal.Cost(e.points[i].values[g]))
		}
	}
	e.on = NonDominated(costs, len(e.Goals))
	var front []int
	for i, on := range e.on {
		if on {
			front = append(front, i)
		}
	}
	slices.SortStableFunc(front, func(a, b int) int {
		for g, goal := range e.Goals {
			if d := cmp.Compare(goal.Cost(e.points[a].values[g]), goal.Cost(e.points[b].values[g])); d != 0 {
				return d
			}
		}
		return 0
	})
	var differ []int
	for _, c := range e.knobs {
		if slices.ContainsFunc(front, func(p int) bool { return e.cell(p, c) != e.cell(front[0], c) }) {
			differ = append(differ, c)
		} else {
			e.Shared = append(e.Shared, KnobValue{e.table.Columns[c], e.cell(front[0], c)})
		}
	}
	name := slices.Index(e.table.Columns, PointColumn)
	for _, i := range front {
		p := &e.points[i]
		f := FrontPoint{Point: e.cell(i, name), Values: p.values, Std: p.std, Seeds: len(p.rows)}
		for _, c := range differ {
			f.Knobs = append(f.Knobs, KnobValue{e.table.Columns[c], e.cell(i, c)})
		}
		e.Front = append(e.Front, f)
	}
}
