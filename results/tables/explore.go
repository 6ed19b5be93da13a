package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

const exploreSchema = "l3sim/explore/3" // names the form of Exploration's JSON

// Exploration is what a sweep shows of the trade-off between goals.
type Exploration struct {
	Schema string `json:"schema"` // exploreSchema
	Goals  []Goal `json:"goals"`
	// Points are those that take part, each the mean of its seeds. Failed points have a seed that
	// failed, Incomplete ones a seed without a number for some goal. Both are left out.
	Points     int `json:"points"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"`
	// Front is the points that no other dominates, best first in the first goal,
	// then the second; equal ones in the order of the table.
	Front []FrontPoint `json:"front"`
	// Shared are the knobs that vary over the points and not over the front, with
	// the value that all of the front have.
	Shared []KnobValue `json:"shared"`
	// Knobs are the keys that vary over the points. The first one has the value that is
	// most overrepresented on the front, compared with all points.
	Knobs []Knob `json:"knobs"`
}

// FrontPoint is a point on the front.
type FrontPoint struct {
	Point string      `json:"point"`
	Knobs []KnobValue `json:"knobs"` // those that vary over the front
	// Values and Std are the mean and the sample standard deviation over the seeds, goal by goal.
	Values []float64 `json:"values"`
	Std    []float64 `json:"std"`
	Seeds  int       `json:"seeds"`
}

// KnobValue is a key of the configuration with its cell.
type KnobValue struct {
	Column string `json:"column"`
	Value  Value  `json:"value"`
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

// collect takes the rows of each point together and leaves out what has no values.
func (e *explorer) collect() error {
	s, err := newSide(e.table)
	if err != nil {
		return err
	}
	for _, name := range s.names {
		rows := s.rows[name]
		if slices.ContainsFunc(rows, func(r int) bool { return s.text(r, s.status) == StatusFailed }) {
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

func (e *explorer) cell(point, column int) Value {
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
		f := FrontPoint{Point: e.cell(i, name).String(), Values: p.values, Std: p.std, Seeds: len(p.rows)}
		for _, c := range differ {
			f.Knobs = append(f.Knobs, KnobValue{e.table.Columns[c], e.cell(i, c)})
		}
		e.Front = append(e.Front, f)
	}
}

// The values of a number are levels of their own up to maxLevels; more are cut
// into quantiles parts of nearly as many points each.
const (
	maxLevels = 8
	quantiles = 4
)

// Knob is a key of the configuration that varies, with its values.
type Knob struct {
	Column string  `json:"column"`
	Most   Level   `json:"most"`   // whose share of the front exceeds its share of all points most
	Levels []Level `json:"levels"` // all of them, rising where they are numbers
}

// Level is a value of a knob, or a range of values.
type Level struct {
	Value Value `json:"value"` // the smallest where it is a range
	To    Value `json:"to"`    // the largest, empty where it is one value
	Front int   `json:"front"` // points on the front with it
	All   int   `json:"all"`   // points with it
}

// count fills Knobs. The knob with the level that is most overrepresented on the
// front, compared with all points, comes first.
func (e *explorer) count() {
	// The excess is that of the level's share, times both totals: a whole number.
	excess := func(l Level) int { return l.Front*e.Points - l.All*len(e.Front) }
	byExcess := func(a, b Level) int { return cmp.Compare(excess(b), excess(a)) }
	for _, c := range e.knobs {
		knob := Knob{Column: e.table.Columns[c]}
		var of []int
		knob.Levels, of = e.levels(c)
		for i, on := range e.on {
			knob.Levels[of[i]].All++
			if on {
				knob.Levels[of[i]].Front++
			}
		}
		knob.Most = slices.MinFunc(knob.Levels, byExcess)
		e.Knobs = append(e.Knobs, knob)
	}
	slices.SortStableFunc(e.Knobs, func(a, b Knob) int { return byExcess(a.Most, b.Most) })
}

// levels returns the levels of a knob, without counts, and the level of each
// point: the values, numbers by size and others in the order of the table, or
// parts of equally many points where the numbers are more than maxLevels.
func (e *explorer) levels(column int) ([]Level, []int) {
	first := list.Map(e.points, func(p explored) int { return p.rows[0] })
	values, numeric := e.table.Distinct(first, column)
	count := map[Value]int{}
	for _, rows := range e.table.Group(first, column) {
		count[e.table.Rows[rows[0]][column]] = len(rows)
	}
	var levels []Level
	at := map[Value]int{}
	before, last := 0, -1
	for _, v := range values {
		part := len(levels) // a level of its own
		if numeric && len(values) > maxLevels {
			// The part in which the middle of the value's points lies.
			part = quantiles * (2*before + count[v]) / (2 * len(e.points))
		}
		before += count[v]
		if part != last {
			levels, last = append(levels, Level{Value: v}), part
		} else {
			levels[len(levels)-1].To = v
		}
		at[v] = len(levels) - 1
	}
	of := make([]int, len(e.points))
	for p := range e.points {
		of[p] = at[e.cell(p, column)]
	}
	return levels, of
}
