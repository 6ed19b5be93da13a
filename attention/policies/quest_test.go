package policies

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// small returns n small integers: sums of their products are exact, and often equal.
func (s source) small(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.IntN(7) - 3)
	}
	return x
}

// drawnPages is a state that chooses pages, and the sequence that it sees.
type drawnPages struct {
	*drawn
	st *pageState
}

// drawPages draws one with exact scores; set changes settings.
func drawPages(t *rapid.T, set func(s *keys)) *drawnPages {
	d := drawPlay(t, "lserve")
	d.spec.StaticSparsity = 0
	if set != nil {
		set(d.spec)
	}
	r := newSource(t)
	d.k = r.small(len(d.k))
	for h := range d.q {
		d.q[h] = r.small(len(d.q[h]))
	}
	return &drawnPages{d, d.newState(d.spec).(*pageState)}
}

// scoreByHand returns the score of a page for some query heads: the maximum over its logical pages of the sum over the
// heads.
func (d *drawnPages) scoreByHand(page, token int, heads []int) float64 {
	best := math.Inf(-1)
	for from := page * d.spec.Page; from < (page+1)*d.spec.Page; from += d.spec.LogicalPage {
		sum := 0.0
		for _, h := range heads {
			for c, x := range d.at(d.q[h], token) {
				high := math.Inf(-1)
				for j := from; j < from+d.spec.LogicalPage; j++ {
					high = max(high, float64(x)*float64(d.k[j*d.dim+c]))
				}
				sum += high
			}
		}
		if d.spec.SelectPrecision == "fp16" {
			sum = float64(attention.RoundHalf(float32(sum/16))) * 16
		}
		best = max(best, sum)
	}
	return best
}

// groupByHand returns the scores of the first pages for the group.
func (d *drawnPages) groupByHand(pages, token int) []float64 {
	all := make([]int, len(d.q))
	scores := make([]float64, pages)
	for h := range all {
		all[h] = h
		own := make([]float64, pages)
		for p := range own {
			own[p] = d.scoreByHand(p, token, []int{h})
		}
		if d.spec.SelectGroup == "softmax-sum" {
			lse := 0.0
			for p := range own {
				own[p] = math.Exp(own[p] / math.Sqrt(float64(d.dim)))
				lse += own[p]
			}
			for p := range own {
				scores[p] += own[p] / lse
			}
			continue
		}
		for p := range own {
			if h == 0 || own[p] > scores[p] {
				scores[p] = own[p]
			}
		}
	}
	if d.spec.SelectGroup == "sum" {
		for p := range scores {
			scores[p] = d.scoreByHand(p, token, all)
		}
	}
	return scores
}

// TestPagesByDefinition compares each list with the definition, with exact scores and many ties: the best pages before the newest, lower
// ones first among equals, for the group or for each head.
func TestPagesByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, nil)
		d.play(t, d.st, d.prompt, func(p *played) {
			if !d.st.pages.selects(d.prompt, p.context) {
				return
			}
			newest := (p.context - 1) / d.spec.Page
			n := d.st.pages.selected(p.context) - 1
			for i, l := range d.st.lists {
				scores := d.groupByHand(newest, p.context-1)
				if d.spec.SelectGroup == "per-head" {
					for page := range scores {
						scores[page] = d.scoreByHand(page, p.context-1, []int{i})
					}
				}
				if d.spec.SelectGroup == "softmax-sum" && len(d.q) > 1 {
					d.checkBest(t, l.chosen, scores, n)
				} else if want := bestByHand(upTo(newest), func(page int32) float64 { return scores[page] }, n); !slices.Equal(l.chosen, want) {
					t.Fatalf("context %d: pages %v, want %v of %v", p.context, l.chosen, want, scores)
				}
			}
		})
	})
}

// checkBest checks the n best under rounded scores.
func (d *drawnPages) checkBest(t *rapid.T, chosen []int32, scores []float64, n int) {
	if len(chosen) != n {
		t.Fatalf("%d pages, want %d", len(chosen), n)
	}
	least, most := math.Inf(1), math.Inf(-1)
	for page, s := range scores {
		if slices.Contains(chosen, int32(page)) {
			least = min(least, s)
		} else {
			most = max(most, s)
		}
	}
	if least < most-1e-6 {
		t.Fatalf("a page of %g is chosen, one of %g is not", least, most)
	}
}

// TestPageScores: a page's score is at least every q·k in it, and equal to the largest if logical pages have one token. Smaller logical
// pages never raise it. A group's scores add up over its heads.
func TestPageScores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, func(s *keys) { s.SelectPrecision = "fp32" })
		fine := *d.spec
		fine.LogicalPage = rapid.SampledFrom([]int{1, d.spec.LogicalPage}).Draw(t, "finer")
		d.st.Prompt(nil, d.k, nil)
		finer := d.newState(&fine).(*pageState)
		finer.Prompt(nil, d.k, nil)
		n := d.tokens / d.spec.Page
		coarse, other, sum := make([]float64, n), make([]float64, n), make([]float64, n)
		var queries [][]float32
		for h := range d.q {
			q := d.at(d.q[h], d.tokens-1)
			queries = append(queries, q)
			d.st.pageScores(coarse, queries[h:])
			finer.pageScores(other, queries[h:])
			for p := range coarse {
				best := math.Inf(-1)
				for j := p * d.spec.Page; j < (p+1)*d.spec.Page; j++ {
					product := 0.0
					for c, x := range q {
						product += float64(x * d.k[j*d.dim+c])
					}
					best = max(best, product)
				}
				if coarse[p] < other[p] || other[p] < best || fine.LogicalPage == 1 && other[p] != best {
					t.Fatalf("page %d: %g, with finer logical pages %g, the best product is %g", p, coarse[p], other[p], best)
				}
				if d.spec.LogicalPage == d.spec.Page {
					sum[p] += coarse[p]
				}
			}
		}
		if d.spec.LogicalPage == d.spec.Page { // each head may have another best logical page
			d.st.pageScores(coarse, queries)
			if !slices.Equal(coarse, sum) {
				t.Fatalf("the group's scores are %v, the sum of its heads' %v", coarse, sum)
			}
		}
	})
}

// TestBudgetsNest: a larger budget includes the pages of a smaller one.
func TestBudgetsNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, func(s *keys) { s.Reuse = 1 })
		larger := *d.spec
		larger.Budget += rapid.IntRange(0, 50).Draw(t, "more")
		var lists [][][]int32
		d.play(t, d.st, d.prompt, func(p *played) { lists = append(lists, p.attended) })
		d.play(t, d.newState(&larger), d.prompt, func(p *played) {
			for h, tokens := range lists[p.context-d.prompt-1] {
				for _, j := range tokens {
					if _, in := slices.BinarySearch(p.attended[h], j); !in {
						t.Fatalf("context %d: token %d is attended to with budget %d, not with %d", p.context, j, d.spec.Budget, larger.Budget)
					}
				}
			}
		})
	})
}

// sameTokens checks that two states attend to the same tokens.
func (x *sequence) sameTokens(t *rapid.T, prompt int, a, b policy.State, ax, bx *sequence) {
	var lists [][][]int32
	ax.play(t, a, prompt, func(p *played) { lists = append(lists, p.attended) })
	bx.play(t, b, prompt, func(p *played) {
		for h := range p.attended {
			if !slices.Equal(p.attended[h], lists[p.context-prompt-1][h]) {
				t.Fatalf("context %d, head %d: %v and %v", p.context, h, lists[p.context-prompt-1][h], p.attended[h])
			}
		}
	})
}

// TestPagesStay: scaling queries by a power of two, adding a constant vector to keys, or reordering tokens within a logical page does not
// change the chosen pages.
func TestPagesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, func(s *keys) { s.SelectPrecision = "fp32" })
		if d.spec.SelectGroup == "softmax-sum" {
			d.spec.SelectGroup = "max"
		}
		other := &sequence{dim: d.dim, tokens: d.tokens, v: d.v, k: slices.Clone(d.k)}
		factor := float32(math.Ldexp(1, rapid.IntRange(-6, 6).Draw(t, "factor")))
		for _, q := range d.q {
			q = slices.Clone(q)
			for i := range q {
				q[i] *= factor
			}
			other.q = append(other.q, q)
		}
		if len(d.q) == 1 { // one head's scores all shift equally
			shift := newSource(t).small(d.dim)
			for i := range other.k {
				other.k[i] += shift[i%d.dim]
			}
		}
		// Only whole pages of the prompt: a step sees later tokens.
		for from := 0; from+d.spec.LogicalPage <= d.prompt; from += d.spec.LogicalPage {
			a, b := from+rapid.IntRange(0, d.spec.LogicalPage-1).Draw(t, "token"), from
			for c := range d.dim {
				other.k[a*d.dim+c], other.k[b*d.dim+c] = other.k[b*d.dim+c], other.k[a*d.dim+c]
			}
		}
		d.sameTokens(t, d.prompt, d.newState(d.spec), d.newState(d.spec), d.sequence, other)
	})
}

// TestReuse: steps with equal queries reuse the list that each of them would make, until a page begins.
func TestReuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, nil)
		for _, q := range d.q {
			for i := d.dim; i < len(q); i += d.dim {
				copy(q[i:i+d.dim], q[:d.dim])
			}
		}
		each := *d.spec
		each.Reuse = 1
		var lists [][][]int32
		d.play(t, d.newState(&each), d.prompt, func(p *played) { lists = append(lists, p.attended) })
		d.play(t, d.st, d.prompt, func(p *played) {
			made := d.st.pages.MadeAt(d.prompt, p.context)
			for h := range p.attended {
				if d.st.pages.Pages(made) == d.st.pages.Pages(p.context) && made > d.spec.Budget && !slices.Equal(p.attended[h], lists[p.context-d.prompt-1][h]) {
					t.Fatalf("context %d: %v, want %v", p.context, p.attended[h], lists[p.context-d.prompt-1][h])
				}
			}
		})
	})
}

// TestLServeLimits: with streaming heads alone, LServe is the streaming policy; with equal page sizes, no reuse and no streaming heads it
// is Quest.
func TestLServeLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "lserve")
		d.spec.StaticSparsity = 1
		streaming := newKeys("streaming")
		streaming.Sink, streaming.Window = d.spec.Sink, d.spec.Window
		d.sameTokens(t, d.prompt, d.newState(d.spec), d.newState(streaming), d.sequence, d.sequence)
		d.spec.StaticSparsity, d.spec.LogicalPage, d.spec.Reuse = 0, d.spec.Page, 1
		d.spec.Budget = max(d.spec.Budget, 3*d.spec.Page) // LServe has at least three pages
		quest := newKeys("quest")
		quest.Page, quest.Budget, quest.SkipLayers = d.spec.Page, d.spec.Budget, 0
		quest.SelectGroup, quest.SelectPrecision = d.spec.SelectGroup, d.spec.SelectPrecision
		d.sameTokens(t, d.prompt, d.newState(d.spec), d.newState(quest), d.sequence, d.sequence)
	})
}

// TestEqualQueries: query heads with equal queries choose the pages that a single one would.
func TestEqualQueries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, func(s *keys) { s.SelectPrecision = "fp32" })
		one := &sequence{dim: d.dim, tokens: d.tokens, q: d.q[:1], k: d.k, v: d.v}
		group := &sequence{dim: d.dim, tokens: d.tokens, q: [][]float32{d.q[0], d.q[0], d.q[0], d.q[0]}, k: d.k, v: d.v}
		if d.spec.SelectGroup == "softmax-sum" {
			d.spec.SelectGroup = "sum" // exact
		}
		var lists [][]int32
		one.play(t, one.newState(d.spec), d.prompt, func(p *played) { lists = append(lists, p.attended[0]) })
		group.play(t, group.newState(d.spec), d.prompt, func(p *played) {
			for _, tokens := range p.attended {
				if want := lists[p.context-d.prompt-1]; !slices.Equal(tokens, want) {
					t.Fatalf("context %d: %v, want %v", p.context, tokens, want)
				}
			}
		})
	})
}

// TestScoredElsewhere: if something else scores the bounds of full pages, with a sixteenth of the query, the choice equals that of the
// state's own scores, for every way of combining a group's scores.
func TestScoredElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPages(t, func(s *keys) { s.SelectPrecision = "fp32" })
		other := d.newState(d.spec).(*pageState)
		other.ScoreBy(func(scores []float64, split []float32) {
			if full := other.Bounded(); len(scores) > full || full != other.tokens/other.LogicalTokens() {
				t.Fatalf("%d pages are scored, %d of %d tokens are full", len(scores), full, other.LogicalTokens())
			}
			for i := range scores {
				scores[i] = 0
				for e, b := range other.Bounds(i) {
					scores[i] += float64(split[e]) * float64(b)
				}
			}
		})
		d.sameTokens(t, d.prompt, d.st, other, d.sequence, d.sequence)
	})
}

// TestDroppedBound: the ratio of dropped to kept mass is at most the bound from the dropped pages' scores, and equal to it if pages have
// one token.
func TestDroppedBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "lserve")
		d.spec.StaticSparsity = 0
		if rapid.Bool().Draw(t, "one token") {
			d.spec.LogicalPage = 1
		}
		st := d.newState(d.spec).(*pageState)
		d.play(t, st, d.prompt, func(p *played) {
			for h := range d.q {
				_, whole := d.output(h, p.context-1, upTo(p.context))
				_, lse := d.output(h, p.context-1, p.attended[h])
				part := &p.selection.Parts[min(h, len(p.selection.Parts)-1)]
				got := st.DroppedBound(d.at(d.q[h], p.context-1), part, lse)
				want := math.Exp(whole-lse) - 1
				if got < want-1e-4*(1+want) || d.spec.LogicalPage == 1 && got > want+1e-4*(1+want) {
					t.Fatalf("context %d: dropped over kept is %g, the bound %g", p.context, want, got)
				}
			}
		})
	})
}

// TestHalfScores: in FP16, close scores become equal, and large ones stay finite.
func TestHalfScores(t *testing.T) {
	for _, c := range []struct {
		q, first, second float32
		precision        string
		want             int32 // page
	}{{64, 64, 64.03125, "fp32", 1}, {64, 64, 64.03125, "fp16", 0}, {1000, 1000, 1001, "fp16", 1}} {
		s := newKeys("quest")
		s.Page, s.Budget, s.SelectPrecision = 1, 2, c.precision
		p := newPageState(s.spec().Pages(), listsOf(s), policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 2}, 3)
		p.Prompt(nil, []float32{c.first, 0, c.second, 0}, nil)
		p.Append([]float32{0, 0}, nil)
		p.Select([][]float32{{c.q, 0}})
		if got := p.lists[0].chosen; len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v: pages %v", c, got)
		}
	}
}
