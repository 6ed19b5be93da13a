package results

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// MinContrast is how many points on the front, and as many off it, a statement
// about knobs needs: of 5 among 10, 252 choices are possible, so that none with
// fewer could be told from chance once several knobs are tried.
const MinContrast = 5

// The values of a number are levels of their own up to maxLevels; more are cut
// into quantiles parts of nearly as many points each.
const (
	maxLevels = 8
	quantiles = 4
)

// Knob is what a key of the configuration says about being on the front.
type Knob struct {
	Column string `json:"column"`
	// Explained is the share of the uncertainty whether a point is on the front
	// that knowing this knob alone takes away, beyond what chance does: the mutual
	// information of the two, adjusted so that 0 is what a random front of that size
	// gives and 1 is certainty (N. X. Vinh, J. Epps and J. Bailey, "Information
	// Theoretic Measures for Clusterings Comparison", JMLR 11, 2010). Less than
	// chance gives is 0.
	Explained float64 `json:"explained"`
	// P is the share of random fronts about which this knob says as much or more,
	// times the number of knobs (Bonferroni's correction), 1 at most. It is exact
	// where Drawn is 0, else from so many random fronts.
	P      float64 `json:"p"`
	Drawn  int     `json:"drawn"`
	Levels []Level `json:"levels"`
}

// Level is a value of a knob, or a range of values.
type Level struct {
	Value string `json:"value"` // the smallest where it is a range
	To    string `json:"to"`    // the largest, "" where it is one value
	Front int    `json:"front"` // points on the front with it
	All   int    `json:"all"`   // points with it
}

// contrast fills Knobs.
func (e *explorer) contrast() {
	front := len(e.Front)
	if e.TooFew = min(front, e.Points-front) < MinContrast; e.TooFew || len(e.knobs) == 0 {
		return
	}
	uncertainty, logFactorial := entropy(front, e.Points), logFactorials(e.Points)
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
		random := newFronts(knob.Levels, front, logFactorial)
		rest := uncertainty - information(knob.Levels, front, e.Points)
		if mean := random.meanRest(); mean > 1e-12 { // a knob that differs in every point tells all fronts
			knob.Explained = max(0, 1-rest/mean)
		}
		var p float64
		// Equal but for the order of a sum is as much.
		p, knob.Drawn = random.p(rest+1e-12, leastDrawn*len(e.knobs))
		knob.P = min(1, float64(len(e.knobs))*p)
		e.Knobs = append(e.Knobs, knob)
	}
	slices.SortStableFunc(e.Knobs, func(a, b Knob) int {
		return cmp.Or(cmp.Compare(b.Explained, a.Explained), cmp.Compare(a.P, b.P))
	})
}

// entropy returns the uncertainty, in bits, whether one of n points is among k
// of them.
func entropy(k, n int) float64 {
	h := 0.0
	for _, c := range [2]int{k, n - k} {
		if c > 0 {
			p := float64(c) / float64(n)
			h -= float64(p * math.Log2(p))
		}
	}
	return h
}

// information returns the mutual information, in bits, of a knob's level and of
// being among the front points of n.
func information(levels []Level, front, n int) float64 {
	rest := 0.0
	for _, l := range levels {
		rest += float64(float64(l.All) / float64(n) * entropy(l.Front, l.All))
	}
	return entropy(front, n) - rest
}

// levels returns the levels of a knob, without counts, and the level of each
// point: the values, numbers by size and others in the order of the table, or
// ranges of numbers where there are many.
func (e *explorer) levels(column int) ([]Level, []int) {
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
