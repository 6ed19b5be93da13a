package service

import (
	"cmp"
	"slices"
)

// What a row shows about memory.
const (
	fits    = ""           // nothing speaks against it
	tooMuch = "arithmetic" // weights, keys and values are more than the framework may use
	seen    = "latency"    // it takes so much longer than smaller batches that requests must have waited
)

// Where latency is evidence.
const (
	// mayWait is the share of the GPUs' memory beyond which requests may have waited:
	// activations, libraries and graphs take a part that no arithmetic knows.
	mayWait = 0.8
	// tooLong is the latency over its bound beyond which they have.
	tooLong = 1.1
)

// spills returns, for each run, what its row shows about memory. Rows are looked at from
// the smallest need upwards, so that a row's bound is from rows that fit.
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

// longest returns the most seconds that a batch can take whose requests do not wait, from
// smaller batches and shorter requests of its series that fit; false without such.
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
	// A request more takes no longer than one did before: the weights are read anyway.
	if two := largest(row.Input, one.Batch); two != nil {
		slope := (one.Latency - two.Latency) / float64(one.Batch-two.Batch)
		consider(one.Latency + float64(slope*float64(row.Batch-one.Batch)))
	}
	// What requests more take grows no faster than steps times keys and values.
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
