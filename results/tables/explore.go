package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
)

const exploreSchema = "l3sim/explore/3" // version of Exploration's JSON

// Exploration is the trade-off between goals over a sweep.
type Exploration struct {
	Schema string `json:"schema"` // exploreSchema
	Goals  []Goal `json:"goals"`
	// Points is the number of points that take part, each the mean of its seeds. Failed points have a
	// seed that failed, Incomplete ones a seed without a number for some goal; both are left out.
	Points     int `json:"points"`
	Failed     int `json:"failed"`
	Incomplete int `json:"incomplete"`
	// Front is the points that no other dominates, best first in the first goal,
	// then the second; equal ones in the order of the table.
	Front []FrontPoint `json:"front"`
	// Shared are the knobs that vary over the points but not over the front, with the front's value.
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
	// BeyondBoards is as in results.Summary.
	BeyondBoards bool `json:"beyond_boards,omitempty"`
	// BeyondSlot says that a DIMM draws more than its slot supplies.
	BeyondSlot bool `json:"beyond_slot,omitempty"`
}

func (f *FrontPoint) limits() results.Limits {
	return results.Limits{Boards: f.BeyondBoards, Slot: f.BeyondSlot}
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
	points *Table  // with a row for each point that takes part
	seeds  [][]int // its rows in table
	knobs  []int   // columns of the configuration that vary, without seed and goals
	on     []bool
}

// Explore finds the Pareto front of a sweep's points and counts what the points on it have in
// common. Seeds of a point are taken together. A table that no sweep wrote, or in which no point
// has all goals, returns an *input.Error.
func Explore(t *Table, goals []Goal) (*Exploration, error) {
	e := &explorer{Exploration: Exploration{Schema: exploreSchema, Goals: goals}, table: t}
	if err := e.collect(); err != nil {
		return nil, err
	}
	for c, isConfig := range t.IsConfig() {
		isGoal := slices.ContainsFunc(goals, func(g Goal) bool { return g.index == c })
		if isConfig && !isGoal && t.Columns[c] != SeedColumn && e.points.Varies(c) {
			e.knobs = append(e.knobs, c)
		}
	}
	e.findFront()
	e.count()
	return &e.Exploration, nil
}

// collect gathers the rows of each point and leaves out those without values.
func (e *explorer) collect() error {
	means, seeds, failed, err := e.table.Means()
	if err != nil {
		return err
	}
	e.points, e.Failed = means.with(nil), failed
	for p, rows := range seeds {
		if slices.ContainsFunc(e.Goals, func(g Goal) bool { return len(e.table.numbers(rows, g.index)) < len(rows) }) {
			e.Incomplete++
			continue
		}
		e.points.Rows, e.seeds = append(e.points.Rows, means.Rows[p]), append(e.seeds, rows)
	}
	if e.Points = len(e.seeds); e.Points > 0 {
		return nil
	}
	columns := list.Map(e.Goals, func(g Goal) string { return g.Column })
	return &input.Error{File: e.table.Name, Key: strings.Join(columns, ", "),
		Expected: fmt.Sprintf("at least one point with a number for each; %d failed, %d lack one", e.Failed, e.Incomplete)}
}

// costs returns the goals of a point as costs to be minimised.
func (e *explorer) costs(point int) []float64 {
	return list.Map(e.Goals, func(g Goal) float64 {
		v, _ := e.points.Number(point, g.index)
		return g.Cost(v)
	})
}

// findFront finds the points on the front and the knobs that they share.
func (e *explorer) findFront() {
	var costs []float64
	for p := range e.seeds {
		costs = append(costs, e.costs(p)...)
	}
	e.on = NonDominated(costs, len(e.Goals))
	front := slices.DeleteFunc(e.points.All(), func(p int) bool { return !e.on[p] })
	slices.SortStableFunc(front, func(a, b int) int { return slices.Compare(e.costs(a), e.costs(b)) })
	knob := func(p, c int) KnobValue { return KnobValue{e.points.Columns[c], e.points.Rows[p][c]} }
	var differ []int
	for _, c := range e.knobs {
		if len(e.points.Group(front, c)) > 1 {
			differ = append(differ, c)
		} else {
			e.Shared = append(e.Shared, knob(front[0], c))
		}
	}
	for _, p := range front {
		limits := e.points.Limits(p)
		f := FrontPoint{Point: e.points.Value(p, PointColumn).String(), Seeds: len(e.seeds[p]), BeyondBoards: limits.Boards, BeyondSlot: limits.Slot, Knobs: list.Map(differ, func(c int) KnobValue { return knob(p, c) })}
		for _, goal := range e.Goals {
			v, _ := e.points.Number(p, goal.index)
			_, std := MeanStd(e.table.numbers(e.seeds[p], goal.index))
			f.Values, f.Std = append(f.Values, v), append(f.Std, std)
		}
		e.Front = append(e.Front, f)
	}
}

// Up to maxLevels numeric values are levels of their own; more are cut into quantiles, with nearly
// as many points in each.
const (
	maxLevels = 8
	quantiles = 4
)

// Knob is a key of the configuration that varies, with its values.
type Knob struct {
	Column string  `json:"column"`
	Most   Level   `json:"most"`   // the level whose share of the front exceeds its share of all points most
	Levels []Level `json:"levels"` // all of them, ascending if they are numbers
}

// Level is a value of a knob, or a range of values.
type Level struct {
	Value Value `json:"value"` // the smallest if it is a range
	To    Value `json:"to"`    // the largest, empty for a single value
	Front int   `json:"front"` // points on the front with it
	All   int   `json:"all"`   // points with it
}

// count fills Knobs. The knob with the level that is most overrepresented on the
// front, compared with all points, comes first.
func (e *explorer) count() {
	// The excess is that of the level's share, multiplied by both totals to be an integer.
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

// levels returns the levels of a knob, without counts, and the level of each point. A level is a
// value, numbers ascending and others in the order of the table; or a quantile if there are more
// than maxLevels numbers.
func (e *explorer) levels(column int) ([]Level, []int) {
	values, numeric := e.points.Distinct(e.points.All(), column)
	count := map[Value]int{}
	for _, rows := range e.points.Group(e.points.All(), column) {
		count[e.points.Rows[rows[0]][column]] = len(rows)
	}
	var levels []Level
	at := map[Value]int{}
	before, last := 0, -1
	for _, v := range values {
		part := len(levels) // a level of its own
		if numeric && len(values) > maxLevels {
			// The quantile with the middle of the value's points.
			part = quantiles * (2*before + count[v]) / (2 * e.Points)
		}
		before += count[v]
		if part != last {
			levels, last = append(levels, Level{Value: v}), part
		} else {
			levels[len(levels)-1].To = v
		}
		at[v] = len(levels) - 1
	}
	return levels, list.Map(e.points.Rows, func(row []Value) int { return at[row[column]] })
}
