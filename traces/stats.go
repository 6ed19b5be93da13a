package traces

import (
	"math"
	"slices"
)

// Lengths are statistics of a number of tokens. Percentile p is the smallest value such that p percent of all values do not exceed it.
type Lengths struct {
	Tokens int64   `json:"total"`
	Mean   float64 `json:"mean"`
	Std    float64 `json:"std"`
	Min    int     `json:"min"`
	P25    int     `json:"p25"`
	Median int     `json:"median"`
	P75    int     `json:"p75"`
	P90    int     `json:"p90"`
	P95    int     `json:"p95"`
	P99    int     `json:"p99"`
	Max    int     `json:"max"`
}

// gapCV returns the coefficient of variation of the times between arrivals: 0 for equal ones, 1 for a Poisson process, more for bursts; 0
// if all arrive at once.
func (t *Trace) gapCV() float64 {
	n, span := len(t.Requests)-1, t.span()
	if span == 0 {
		return 0
	}
	mean, sum := span.Seconds()/float64(n), 0.0
	for i := range n {
		d := (t.Requests[i+1].Arrival - t.Requests[i].Arrival).Seconds() - mean
		sum += float64(d * d)
	}
	return math.Sqrt(sum/float64(n)) / mean
}

func lengths(requests []Request, of func(*Request) int) Lengths {
	if len(requests) == 0 {
		return Lengths{}
	}
	var l Lengths
	sorted := make([]int, len(requests))
	for i := range requests {
		sorted[i] = of(&requests[i])
		l.Tokens += int64(sorted[i])
	}
	slices.Sort(sorted)
	n := float64(len(sorted))
	l.Mean = float64(l.Tokens) / n
	for _, x := range sorted {
		d := float64(x) - l.Mean
		l.Std += float64(d * d)
	}
	l.Std = math.Sqrt(l.Std / n)
	rank := func(percent int) int { return sorted[max((len(sorted)*percent+99)/100-1, 0)] }
	l.Min, l.Max = sorted[0], sorted[len(sorted)-1]
	l.P25, l.Median, l.P75, l.P90, l.P95, l.P99 = rank(25), rank(50), rank(75), rank(90), rank(95), rank(99)
	return l
}

// prefixes counts blocks in a tree: two blocks are the same if they have the same hash and all blocks before them are the same. It returns
// nil if no request has hashes.
func (t *Trace) prefixes() *prefixStats {
	p, tokens := &prefixStats{BlockTokens: t.HashBlock()}, int64(0)
	type block struct {
		before int // the preceding block, 0 for none
		hash   uint64
	}
	tree := map[block]int{}
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Hashes == nil {
			continue
		}
		p.Requests++
		tokens += int64(r.Input)
		p.Blocks += int64(len(r.Hashes))
		at, shared := 0, 0
		for k, hash := range r.Hashes {
			next, seen := tree[block{at, hash}]
			if !seen {
				next = len(tree) + 1
				tree[block{at, hash}] = next
			} else {
				shared = k + 1
			}
			at = next
		}
		if shared > 0 {
			p.SharingRequests++
			p.SharedTokens += int64(min(shared*p.BlockTokens, r.Input))
		}
	}
	if p.Requests == 0 {
		return nil
	}
	p.DistinctBlocks, p.SharedShare = int64(len(tree)), float64(p.SharedTokens)/float64(tokens)
	return p
}
