package service

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/units/portable"
)

// Overhead is the time that a framework adds to that of the GPUs: scheduling, sampling,
// detokenising, the interpreter. It is the same for all models and numbers of GPUs.
type Overhead struct {
	Framework string  `json:"framework"`
	GPU       string  `json:"gpu"`
	PerStep   float64 `json:"per_step_us"`     // per iteration
	PerToken  float64 `json:"per_sequence_us"` // per request in each iteration that emits its token
	Fitted    int     `json:"fitted_rows"`
}

func (o *Overhead) seconds(r *run) float64 {
	return (float64(o.PerStep*float64(r.steps)) + float64(o.PerToken*float64(r.tokens))) / 1e6
}

// One row in every is fitted to: the nth, from 0.
const every, nth = 5, 2

// deal chooses the rows to fit to, among those of one framework and GPU that fit in memory: the third of every five in
// the order of models, numbers of GPUs, lengths and batches, so that fitted rows cover all lengths and batches. Closed
// loops are ordered by users first: a series of them may have five rows per length, and the third of each would always
// have the same number of users.
func deal(runs []run, among []int) (fitted []int) {
	order := slices.Clone(among)
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := runs[i].row, runs[j].row
		return cmp.Or(cmp.Compare(a.users(), b.users()), strings.Compare(a.Model, b.Model), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Input, b.Input),
			cmp.Compare(a.Output, b.Output), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Latency, b.Latency))
	})
	for n, i := range order {
		if n%every == nth {
			fitted = append(fitted, i)
		}
	}
	return fitted
}

// fit returns the overhead, with both parts at least 0, that minimises the sum of
// |predicted/measured − 1| over runs: in the first power, outliers do not distort it. That sum is
// convex, and so is its minimum over one part as a function of the other.
func fit(runs []run, among []int) (perStep, perToken float64) {
	loss := func(step, token float64) (sum float64) {
		o := Overhead{PerStep: step, PerToken: token}
		for _, i := range among {
			sum += math.Abs((runs[i].seconds+o.seconds(&runs[i]))/runs[i].row.Latency - 1)
		}
		return sum
	}
	var most, mostToken float64 // microseconds with which all rows would be predicted too long
	for _, i := range among {
		r := &runs[i]
		left := max(r.row.Latency-r.seconds, 0) * 1e6
		most, mostToken = max(most, left/float64(r.steps)), max(mostToken, left/float64(r.tokens))
	}
	best := func(step float64) (token, sum float64) {
		token = lowest(0, mostToken, func(token float64) float64 { return loss(step, token) })
		return token, loss(step, token)
	}
	perStep = lowest(0, most, func(step float64) float64 { _, sum := best(step); return sum })
	perToken, _ = best(perStep)
	// More digits would claim more precision than the measurements have.
	return portable.Significant(perStep, 4), portable.Significant(perToken, 4)
}

// lowest returns the minimum of a convex function between low and high, by ternary search.
func lowest(low, high float64, f func(float64) float64) float64 {
	for range 60 {
		third := (high - low) / 3
		if a, b := low+third, high-third; f(a) <= f(b) {
			high = b
		} else {
			low = a
		}
	}
	if end := low + float64((high-low)/2); f(end) < f(0) {
		return end
	}
	return 0
}

// What a row shows about memory.
const (
	fits    = ""           // nothing contradicts it
	tooMuch = "arithmetic" // weights, keys and values exceed what the framework may use
	seen    = "latency"    // the latency is so far above smaller batches that requests must have waited
)

// When latency is evidence.
const (
	// mayWait is the share of the GPUs' memory above which requests may have waited: activations,
	// libraries and graphs take an unknown part.
	mayWait = 0.8
	// tooLong is the latency over its bound above which they have.
	tooLong = 1.1
)

// spills returns, for each run, what its row shows about memory. It goes from the smallest need
// upwards, so that a row's bound comes from rows that fit.
func spills(runs []run) []string {
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(runs[i].share, runs[j].share) })
	shows := make([]string, len(runs))
	var fit []*Row
	for _, i := range order {
		r := &runs[i]
		if r.share > r.usable {
			shows[i] = tooMuch
		} else if bound, ok := longest(r.row, fit); ok && r.row.TTFT == 0 && r.share > mayWait && r.row.Latency > tooLong*bound {
			shows[i] = seen
		}
		if shows[i] == fits {
			fit = append(fit, r.row)
		}
	}
	return shows
}

// longest returns the longest time, in seconds, of a batch whose requests do not wait, from smaller batches
// and shorter requests of its series that fit. ok is false if the series has no such rows.
func longest(row *Row, fit []*Row) (bound float64, ok bool) {
	smaller := func(r *Row, lengths, batch int) bool {
		return r.Series == row.Series && r.Batch < batch && r.Input == lengths && r.Output*row.Input == row.Output*r.Input
	}
	largest := func(lengths, batch int) (best *Row) {
		for _, r := range fit {
			if smaller(r, lengths, batch) && (best == nil || r.Batch > best.Batch) {
				best = r
			}
		}
		return best
	}
	one := largest(row.Input, row.Batch)
	if one == nil {
		return 0, false
	}
	consider := func(seconds float64) {
		if seconds = max(seconds, one.Latency); !ok || seconds < bound {
			bound, ok = seconds, true
		}
	}
	// A further request takes at most as long as one before, since the weights are read anyway.
	if two := largest(row.Input, one.Batch); two != nil {
		slope := (one.Latency - two.Latency) / float64(one.Batch-two.Batch)
		consider(one.Latency + float64(slope*float64(row.Batch-one.Batch)))
	}
	// The time of further requests grows no faster than steps times keys and values.
	for _, r := range fit {
		if r.Batch != row.Batch || r.Input >= row.Input || !smaller(r, r.Input, row.Batch+1) {
			continue
		}
		for _, base := range fit {
			if base.Batch == one.Batch && smaller(base, r.Input, row.Batch) {
				ratio := float64(row.Input) / float64(r.Input)
				consider(one.Latency + float64(ratio*ratio*max(r.Latency-base.Latency, 0)))
			}
		}
	}
	return bound, ok
}
