package policies

import (
	"math"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/units/portable"
)

// pageState is the values of Quest, and of LServe's retrieval heads, for one KV head. The score of a logical page is Σ max(q·max, q·min)
// over the dimensions, an upper bound on every q·k in it. It equals q⁺·max + q⁻·min with q's positive and negative parts and is linear in
// (q⁺, q⁻), so one pass scores the sum over a group. A page has the highest score of its logical pages. With select_precision "fp32", sums
// are in float64, since another order of summation would change choices.
//
// A logical page's first token resets its minima and maxima. LServe's released kernel instead merges it with the memory's earlier contents.
type pageState struct {
	wholePrompt
	pages          Pages
	dim, group     int
	groupBy        string // value of select_group
	half           bool   // select_precision is "fp16"
	tokens, prompt int
	bounds         []float32 // [logical pages, 2·dim]: maxima, minima
	lists          []pageList
	split          []float32 // [2·dim]: q⁺, q⁻
	logical        []float64 // scores of logical pages
	scores, other  []float64 // of pages
	parts          []policy.Part
	query          [1][]float32
	scorer         Scorer
}

// Scorer sets the scores of the first logical pages: the products of their bounds (Bounds) with split. split has the positive parts of a
// query, or of a group's sum, then the negative ones, each divided by 16.
type Scorer func(scores []float64, split []float32)

// ScoreBy makes pages be scored by the device that holds their bounds, instead of the GPUs.
func (p *pageState) ScoreBy(s Scorer) { p.scorer = s }

// Bounds returns the largest elements of a logical page's keys, then the smallest.
func (p *pageState) Bounds(logical int) []float32 {
	n := 2 * p.dim
	return p.bounds[logical*n:][:n]
}

// Bounded returns the number of full logical pages, whose bounds no longer change.
func (p *pageState) Bounded() int { return p.tokens / p.pages.Logical }

// pageList is the pages of one query head, or of the group.
type pageList struct {
	chosen []int32 // ascending, without the newest page
	newest int     // page
	ranges [][2]int
	head   [1]uint16
}

func newPageState(s *policy.PagesSpec, of Pages, shape policy.Shape, limit int) *pageState {
	p := &pageState{
		pages: of, dim: shape.Dim, group: shape.QueryHeads / shape.KVHeads, groupBy: s.SelectGroup, half: s.SelectPrecision == "fp16",
		split: make([]float32, 2*shape.Dim),
	}
	p.bounds = make([]float32, p.pages.summaries(limit)*2*shape.Dim)
	p.logical = make([]float64, p.pages.summaries(limit))
	all := p.pages.Pages(limit)
	p.scores, p.other = make([]float64, all), make([]float64, all)
	p.lists = make([]pageList, 1)
	if p.groupBy == "per-head" {
		p.lists = make([]pageList, p.group)
	}
	p.parts = make([]policy.Part, len(p.lists))
	for i := range p.lists {
		l := &p.lists[i]
		l.chosen, l.ranges, l.head[0] = make([]int32, 0, all), make([][2]int, 0, all), uint16(i)
		if len(p.lists) > 1 {
			p.parts[i].Heads = l.head[:]
		}
	}
	return p
}

func (p *pageState) Prompt(_ [][]float32, k, _ []float32) {
	for ; len(k) > 0; k = k[p.dim:] {
		p.Append(k[:p.dim], nil)
	}
	p.prompt = p.tokens
}

// Append updates the bounds of the newest logical page with a key.
func (p *pageState) Append(k, _ []float32) {
	b := p.bounds[p.tokens/p.pages.Logical*2*p.dim:][:2*p.dim]
	high, low := b[:p.dim], b[p.dim:]
	if p.tokens%p.pages.Logical == 0 {
		copy(high, k)
		copy(low, k)
	}
	for i, x := range k[:p.dim] {
		high[i], low[i] = max(high[i], x), min(low[i], x)
	}
	p.tokens++
}

// Select returns the tokens of the list's pages, after making the list if the step is due to.
func (p *pageState) Select(q [][]float32) policy.Selection {
	if p.pages.selects(p.prompt, p.tokens) {
		p.list(q)
	}
	for i := range p.lists {
		l := &p.lists[i]
		l.ranges = p.ranges(l, l.ranges[:0])
		p.parts[i].Ranges = l.ranges
	}
	return policy.Selection{Parts: p.parts}
}

func (p *pageState) list(q [][]float32) {
	newest := p.pages.Pages(p.tokens) - 1
	n := p.pages.selected(p.tokens) - 1
	scores := p.scores[:newest]
	for i := range p.lists {
		l := &p.lists[i]
		l.newest, l.chosen = newest, l.chosen[:0]
		switch {
		case n == newest: // all pages
			clear(scores)
		case len(p.lists) > 1:
			p.pageScores(scores, q[i:i+1])
		default:
			p.groupScores(scores, q)
		}
		l.chosen = policy.AppendTop(l.chosen, scores, n, p.other)
	}
}

func (p *pageState) groupScores(scores []float64, q [][]float32) {
	if p.groupBy == "sum" || len(q) == 1 {
		p.pageScores(scores, q)
		return
	}
	clear(scores)
	own := p.other[:len(scores)]
	for h := range q {
		p.pageScores(own, q[h:h+1])
		if p.groupBy == "softmax-sum" {
			scale := 1 / math.Sqrt(float64(p.dim))
			if p.half || p.scorer != nil { // scores are multiplied by halfScale
				scale /= halfScale
			}
			policy.Softmax(own, scale)
		}
		for i, s := range own {
			switch {
			case p.groupBy == "softmax-sum":
				scores[i] += s
			case h == 0 || s > scores[i]: // "max"
				scores[i] = s
			}
		}
	}
}

// pageScores sets the scores of the first pages to the sum over queries.
func (p *pageState) pageScores(scores []float64, q [][]float32) {
	a := p.pages.Page / p.pages.Logical
	logical := p.logical[:len(scores)*a]
	if p.scorer != nil {
		p.splitQueries(q, true)
		p.scorer(logical, p.split)
	} else {
		p.logicalScores(logical, q, p.half)
	}
	for i := range scores {
		s := logical[i*a]
		for _, l := range logical[i*a : (i+1)*a] {
			s = max(s, l)
		}
		scores[i] = s
	}
}

// halfScale keeps scores within FP16, whose largest number is 65504. It does not change rankings.
const halfScale = 1.0 / 16

// splitQueries sets split to the sum over queries.
func (p *pageState) splitQueries(q [][]float32, half bool) {
	clear(p.split)
	for _, head := range q {
		for i, x := range head[:p.dim] {
			p.split[i] += max(x, 0)
			p.split[p.dim+i] += min(x, 0)
		}
	}
	if half {
		for i := range p.split {
			p.split[i] *= halfScale
		}
	}
}

// logicalScores sets the scores of the first logical pages to the sum over queries, in FP16 or in FP32.
func (p *pageState) logicalScores(scores []float64, q [][]float32, half bool) {
	p.splitQueries(q, half)
	n := len(p.split)
	x := blas32.Vector{N: n, Inc: 1, Data: p.split}
	for i := range scores {
		scores[i] = blas32.DDot(x, blas32.Vector{N: n, Inc: 1, Data: p.bounds[i*n : (i+1)*n]})
		if half {
			scores[i] = float64(attention.RoundHalf64(scores[i]))
		}
	}
}

// ranges appends the tokens of a list: chosen pages, the list's newest page, and pages begun since, in addition to it or in its place.
func (p *pageState) ranges(l *pageList, ranges [][2]int) [][2]int {
	add := func(from, to int) {
		if n := len(ranges); n > 0 && ranges[n-1][1] == from {
			ranges[n-1][1] = to
		} else {
			ranges = append(ranges, [2]int{from, to})
		}
	}
	for _, page := range l.chosen {
		add(int(page)*p.pages.Page, int(page+1)*p.pages.Page)
	}
	newest := l.newest
	if p.pages.Replace && p.tokens > p.pages.Budget {
		newest = p.pages.Pages(p.tokens) - 1
	}
	add(newest*p.pages.Page, p.tokens)
	return ranges
}

// DroppedBound returns an upper bound on the ratio of dropped to kept softmax mass of a query head. It uses the scores of the logical pages
// that are not attended to: Σ n·exp(score/√d − lse), where n is a page's number of tokens and lse the logarithm of the kept tokens' sum of
// exponentials. It uses the step's own query, even if the list is an earlier step's.
func (p *pageState) DroppedBound(q []float32, part *policy.Part, lse float64) float64 {
	logical := p.logical[:p.pages.summaries(p.tokens)]
	p.query[0] = q
	p.logicalScores(logical, p.query[:], false) // a rounded score is not a bound
	var sum float64
	ranges := part.Ranges
	for i, s := range logical {
		from, to := i*p.pages.Logical, min((i+1)*p.pages.Logical, p.tokens)
		for len(ranges) > 0 && ranges[0][1] <= from {
			ranges = ranges[1:]
		}
		if len(ranges) == 0 || ranges[0][0] >= to { // attended ranges are whole pages
			sum += float64(float64(to-from) * portable.Exp(s/math.Sqrt(float64(p.dim))-lse))
		}
	}
	return sum
}

func (p *pageState) Observe([][]float32) {}

// LogicalTokens returns the number of tokens of a logical page.
func (p *pageState) LogicalTokens() int { return p.pages.Logical }

// PageTokens returns the number of tokens of a page.
func (p *pageState) PageTokens() int { return p.pages.Page }
