package sweep

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// tries says that the plan tries variants of presets.
func (p *Plan) tries() bool {
	return slices.Contains(p.columns, variantKey) && !slices.Contains(p.Keys, variantKey)
}

// Best returns the points that count, in order. Of the variants of a combination it takes the one that over all seeds fails least, then rejects fewest requests, then has the
// highest goodput, or throughput without targets; of equals the first. Without variants all points count. Draws are not listed: they count if their point does.
func (p *Plan) Best(o *Outcome) (best []int) {
	t := &tables.Table{Rows: list.Map(p.own(), func(x Point) []tables.Value { return x.cells })}
	if !p.tries() {
		return t.All()
	}
	variant := slices.Index(p.columns, variantKey)
	var columns []int                             // that identify combinations
	for i := range p.columns[:len(p.columns)-1] { // the last is the seed
		if i != variant {
			columns = append(columns, i)
		}
	}
	for _, combination := range t.Group(t.All(), columns...) {
		best = append(best, slices.MinFunc(t.Group(combination, variant), o.compare)...)
	}
	slices.Sort(best)
	return best
}

// compare is negative if the points of one variant are better than those of another, each over all seeds.
func (o *Outcome) compare(a, b []int) int {
	sum := func(points []int) (failed, rejected int64, goodput float64) {
		for _, i := range points {
			if e := o.Entries[i]; e == nil || e.Summary == nil {
				failed++
			} else {
				rejected, goodput = rejected+e.Summary.RejectedRequests, goodput+e.Summary.Goodput.TokensPerS
			}
		}
		return failed, rejected, goodput
	}
	failedA, rejectedA, goodputA := sum(a)
	failedB, rejectedB, goodputB := sum(b)
	return cmp.Or(cmp.Compare(failedA, failedB), cmp.Compare(rejectedA, rejectedB), cmp.Compare(goodputB, goodputA))
}

// counts returns a function that says whether a point counts: it is one of Best, or a draw of one.
func (p *Plan) counts(o *Outcome) func(i int) bool {
	best := p.Best(o)
	return func(i int) bool {
		if draw := p.Points[i].draw; draw != nil {
			i = draw.of
		}
		_, is := slices.BinarySearch(best, i)
		return is
	}
}

// KeepBest drops the points that do not count (Best), with their results.
func (p *Plan) KeepBest(o *Outcome) {
	if !p.tries() {
		return
	}
	var points []Point
	var entries []*Entry
	failed := 0
	for _, i := range p.Best(o) {
		points, entries = append(points, p.Points[i]), append(entries, o.Entries[i])
		if e := o.Entries[i]; e != nil && e.Summary == nil {
			failed++
		}
	}
	p.Points, o.Entries, o.Failed = points, entries, failed
}
