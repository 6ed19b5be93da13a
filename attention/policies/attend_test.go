package policies

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// TestAttend: for any policy, results and sums over parts equal attention over their tokens, and the weights of each part equal its
// softmax.
func TestAttend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, rapid.SampledFrom(plainNames()).Draw(t, "policy"))
		a, scores, out := policy.NewAttender(d.tokens, d.dim), make([]float64, d.tokens), make([]float64, d.dim)
		d.play(t, d.state, d.prompt, func(p *played) {
			for head := range d.q {
				for i := range scores {
					scores[i] = math.NaN() // scores of other tokens are not read
				}
				for i := range p.selection.Parts {
					policy.Scores(scores, d.at(d.q[head], p.context-1), d.k, p.selection.Parts[i].Ranges)
				}
				lse, weights := a.Attend(out, &p.selection, head, scores, d.v)
				want, wantLSE := d.output(head, p.context-1, p.attended[head])
				if math.Abs(lse-wantLSE) > 1e-12 {
					t.Fatalf("the logarithm of the sum is %g, want %g", lse, wantLSE)
				}
				for i, x := range out {
					if math.Abs(x-want[i]) > 1e-12 {
						t.Fatalf("element %d is %g, want %g", i, x, want[i])
					}
				}
				for i := range p.selection.Parts {
					if part := &p.selection.Parts[i]; part.For(head) {
						var tokens []int32
						for _, r := range part.Ranges {
							tokens = append(tokens, upTo(r[1])[r[0]:]...)
						}
						for i, w := range d.weights(head, p.context-1, tokens) {
							if math.Abs(float64(weights[i])-w) > 1e-5 {
								t.Fatalf("weight %d is %g, want %g", i, weights[i], w)
							}
						}
						weights = weights[len(tokens):]
					}
				}
				if len(weights) > 0 {
					t.Fatalf("%d weights too many", len(weights))
				}
			}
		})
	})
}

// TestMerge: merging any split of tokens, in any order, gives attention over all of them, also with empty parts and logarithms far from 0.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newSequence(newSource(t), 1, 16, rapid.IntRange(1, 40).Draw(t, "tokens"))
		split := make([][]int32, rapid.IntRange(1, 6).Draw(t, "parts"))
		for i := range x.tokens {
			at := rapid.IntRange(0, len(split)-1).Draw(t, "part")
			split[at] = append(split[at], int32(i))
		}
		shift := rapid.SampledFrom([]float64{0, 1e4, -1e4}).Draw(t, "shift")
		out, lse := make([]float64, x.dim), math.Inf(-1)
		for _, tokens := range split {
			part, own := x.output(0, 0, tokens)
			lse = policy.Merge(out, lse, part, own+shift)
		}
		want, wantLSE := x.output(0, 0, upTo(x.tokens))
		if math.Abs(lse-shift-wantLSE) > 1e-9 {
			t.Fatalf("%g, want %g", lse-shift, wantLSE)
		}
		for i, v := range out {
			if math.Abs(v-want[i]) > 1e-9 {
				t.Fatalf("element %d is %g, want %g", i, v, want[i])
			}
		}
	})
	if lse := policy.Merge([]float64{1}, math.Inf(-1), []float64{1}, math.Inf(-1)); !math.IsInf(lse, -1) {
		t.Errorf("nothing and nothing is %g", lse)
	}
	out := []float64{1}
	if policy.Merge(out, 1e4, []float64{5}, -1e4); out[0] != 1 {
		t.Errorf("%v", out)
	}
}

// TestCut compares with the highest scores found by hand, with many ties.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := make([]float32, rapid.IntRange(1, 60).Draw(t, "scores"))
		for i := range scores {
			scores[i] = float32(rapid.IntRange(0, 9).Draw(t, "score"))
		}
		k := rapid.IntRange(1, len(scores)).Draw(t, "k")
		cut, ties := policy.Cut(scores, k, make([]float32, len(scores)))
		at := 0
		for _, i := range bestByHand(upTo(len(scores)), func(i int32) float64 { return float64(scores[i]) }, k) {
			if scores[i] == cut {
				at++
			} else if scores[i] < cut {
				t.Fatalf("%g is among the %d highest of %v", scores[i], k, scores)
			}
		}
		if at != ties || ties == 0 {
			t.Fatalf("%d of the %d highest of %v are %g, want %d", ties, k, scores, cut, at)
		}
	})
}
