package service

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/internal/portable"
)

// Overhead is what a framework adds to the time of the GPUs: scheduling, sampling,
// detokenising, the interpreter. It is the same for all models and numbers of GPUs.
type Overhead struct {
	Framework string  `json:"framework"`
	GPU       string  `json:"gpu"`
	PerStep   float64 `json:"per_step_us"`     // of each iteration
	PerToken  float64 `json:"per_sequence_us"` // of each request in each iteration that emits its token
	Fitted    int     `json:"fitted_rows"`
}

// seconds returns the overhead of a run.
func (o *Overhead) seconds(r *run) float64 {
	return (float64(o.PerStep*float64(r.steps)) + float64(o.PerToken*float64(r.tokens))) / 1e6
}

// every is the number of rows of which one is fitted, and nth which one, from 0.
const every, nth = 5, 2

// deal returns which rows of one framework and GPU are fitted, of those that fit: the
// third of every five in the order of models, numbers of GPUs, lengths and batches. So
// fitted rows are of all lengths and batches. Closed loops are in the order of their users first: a series of them may have
// five rows a length, and the third would always be of as many users.
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

// fit returns the overhead, neither part below 0, with the least sum of |predicted /
// measured - 1| over runs: in the first power, so that a row outside the law does not bend
// it. That sum is convex, and so is its minimum over one part as a function of the other.
func fit(runs []run, among []int) (perStep, perToken float64) {
	loss := func(step, token float64) (sum float64) {
		o := Overhead{PerStep: step, PerToken: token}
		for _, i := range among {
			sum += math.Abs((runs[i].seconds+o.seconds(&runs[i]))/runs[i].row.Latency - 1)
		}
		return sum
	}
	var most, mostToken float64 // microseconds with which all rows are predicted too long
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
	// More digits would claim a precision that no measurement has.
	return portable.Significant(perStep, 4), portable.Significant(perToken, 4)
}

// lowest returns where a convex function from low to high is least, by ternary search.
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
