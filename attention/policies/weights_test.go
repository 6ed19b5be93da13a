package policies

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// bestByHand returns the k candidates with the highest scores, lower indices first among equals, in ascending order.
func bestByHand(candidates []int32, score func(int32) float64, k int) []int32 {
	all := slices.Clone(candidates)
	slices.SortFunc(all, func(a, b int32) int {
		switch x, y := score(a), score(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(a - b)
	})
	all = all[:max(0, min(k, len(all)))]
	slices.Sort(all)
	return all
}

// upTo returns 0 to n-1.
func upTo(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// TestAppendTop compares with sorting, with many ties.
func TestAppendTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := make([]float32, rapid.IntRange(1, 200).Draw(t, "scores"))
		values := rapid.IntRange(1, 300).Draw(t, "different values")
		for i := range scores {
			scores[i] = float32(rapid.IntRange(-values, values).Draw(t, "score"))
		}
		k := rapid.IntRange(0, len(scores)+2).Draw(t, "k")
		before := slices.Clone(scores)
		got := policy.AppendTop([]int32{7}, scores, k, make([]float32, len(scores)))[1:]
		want := bestByHand(upTo(len(scores)), func(i int32) float64 { return float64(scores[i]) }, k)
		if !slices.Equal(got, want) || !slices.Equal(scores, before) {
			t.Fatalf("the best %d of %v are %v, want %v", k, scores, got, want)
		}
	})
}

// TestAppendTopNotFinite: if scores overflow FP16 any choice is allowed, but the search must end and return no
// index twice.
func TestAppendTopNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, scores := range [][]float32{{nan, nan, nan}, {1, nan, 3, nan, 2}, {inf, -inf, nan, inf}, {-inf, -inf, -inf}} {
		for k := range len(scores) + 1 {
			if got := policy.AppendTop(nil, scores, k, make([]float32, len(scores))); len(got) > k || len(slices.Compact(got)) != len(got) {
				t.Errorf("the best %d of %v are %v", k, scores, got)
			}
		}
	}
}

// TestPromptWeights compares with attention in float64 on one-hot values, whose results are the
// weights.
func TestPromptWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim, group, n := 8*rapid.IntRange(1, 3).Draw(t, "dim"), rapid.IntRange(1, 3).Draw(t, "group"), rapid.IntRange(1, 20).Draw(t, "tokens")
		s := newSource(t)
		q, k := make([][]float32, group), s.normal(n*dim)
		for head := range q {
			q[head] = s.normal(n * dim)
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		calls := 0
		policy.PromptWeights(q, k, dim, from, func(token int, weights []float32) {
			if token != from+calls/group || len(weights) != token+1 {
				t.Fatalf("call %d: token %d, %d weights", calls, token, len(weights))
			}
			head := calls % group
			query, scale := q[head][token*dim:][:dim], 1/math.Sqrt(float64(dim))
			lse := attention.Reference(make([]float64, dim), query, k[:(token+1)*dim], make([]float32, (token+1)*dim), scale)
			for j, w := range weights {
				score := 0.0
				for c, x := range query {
					score += float64(float64(x) * float64(k[j*dim+c]))
				}
				if want := math.Exp(float64(score*scale) - lse); math.Abs(float64(w)-want) > 1e-5 {
					t.Fatalf("query %d weighs token %d %v, want %v", token, j, w, want)
				}
			}
			calls++
		})
		if calls != group*(n-from) {
			t.Fatalf("%d calls for %d queries of %d heads", calls, n-from, group)
		}
	})
}
