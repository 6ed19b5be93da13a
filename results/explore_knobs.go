package results

import (
	"cmp"
	"slices"
	"strconv"
)

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
	Value string `json:"value"` // the smallest where it is a range
	To    string `json:"to"`    // the largest, "" where it is one value
	Front int    `json:"front"` // points on the front with it
	All   int    `json:"all"`   // points with it
}

// count fills Knobs. The knob of which a level is most frequent on the front,
// compared with all points, comes first.
func (e *explorer) count() {
	// The excess is that of the level's share, times both totals: a whole number.
	excess := func(l Level) int { return l.Front*e.Points - l.All*len(e.Front) }
	byExcess := func(a, b Level) int { return cmp.Compare(excess(b), excess(a)) }
	for _, c := range e.knobs {
		knob := Knob{Column: e.table.Columns[c]}
		var of []int
		knob.Levels, of = e.levels(c, quantiles, maxLevels)
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
// parts of equally many points where the numbers are more than most.
func (e *explorer) levels(column, parts, most int) ([]Level, []int) {
	number := map[string]float64{}
	count := map[string]int{}
	var values []string
	numeric := true
	for p := range e.points {
		cell := e.cell(p, column)
		if count[cell]++; count[cell] > 1 {
			continue
		}
		values = append(values, cell)
		v, err := strconv.ParseFloat(cell, 64)
		number[cell], numeric = v, numeric && err == nil && v-v == 0
	}
	if numeric {
		slices.SortStableFunc(values, func(a, b string) int { return cmp.Compare(number[a], number[b]) })
	}
	var levels []Level
	at := map[string]int{}
	before, last := 0, -1
	for _, v := range values {
		part := len(levels) // a level of its own
		if numeric && len(values) > most {
			// The part in which the middle of the value's points lies.
			part = parts * (2*before + count[v]) / (2 * len(e.points))
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
