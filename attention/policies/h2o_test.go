package policies

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestH2OByHand: queries of 0 weigh all tokens alike, so the first tokens of a prompt collect most.
// Among equal tokens the newest is dropped.
func TestH2OByHand(t *testing.T) {
	const prompt, dim = 10, 8
	x := &sequence{dim: dim, tokens: 14, q: [][]float32{make([]float32, 14*dim)}, k: make([]float32, 14*dim), v: make([]float32, 14*dim)}
	st := x.newState(ownSpec(t, "h2o", func(s *keys) { s.Heavy, s.Recent = 0.3, 0.2 }))
	st.Prompt([][]float32{x.q[0][:prompt*dim]}, x.k[:prompt*dim], x.v[:prompt*dim])
	for i, want := range [][][2]int{
		{{0, 3}, {8, 11}}, // 3 heavy, 2 recent, own
		// 8 collected 1/9 + 1/10, 9 only 1/10: both less than any heavy token, so 8 was dropped.
		{{0, 3}, {9, 12}},
		{{0, 3}, {10, 13}},
		{{0, 3}, {11, 14}},
	} {
		st.Append(x.at(x.k, prompt+i), x.at(x.v, prompt+i))
		got := st.Select(nil).Parts
		if len(got) != 1 || !slices.Equal(got[0].Ranges, want) {
			t.Errorf("step %d attends to %v, want %v", i, got, want)
		}
		st.Observe([][]float32{{1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6, 1. / 6}})
	}
	// A weight of 1 on token 10 makes it a heavy one: of the other three, token 2 has collected least.
	st = x.newState(ownSpec(t, "h2o", func(s *keys) { s.Heavy, s.Recent = 0.3, 0.2 }))
	st.Prompt([][]float32{x.q[0][:prompt*dim]}, x.k[:prompt*dim], x.v[:prompt*dim])
	for i, weights := range [][]float32{{0, 0, 0, 0, 0, 9}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}} {
		st.Append(x.at(x.k, prompt+i), x.at(x.v, prompt+i))
		if got := st.Select(nil).Parts[0].Ranges; i == 3 && !slices.Equal(got, [][2]int{{0, 2}, {10, 14}}) {
			t.Errorf("the heavy token went: %v", got)
		}
		st.Observe([][]float32{weights})
	}
}

// TestH2OTies: of tokens with equally low sums the newest is dropped, but none of the last.
func TestH2OTies(t *testing.T) {
	st := &h2oState{budget: h2oBudget{Heavy: 3, Recent: 2}, kept: []int32{0, 4, 6, 8, 9, 11}, collected: []float64{1, 0.5, 0.5, 0.5, 0, 0}}
	for _, want := range [][]int32{{0, 4, 6, 9, 11}, {0, 4, 6, 11, 12}} { // drops 8, then 9
		st.Observe([][]float32{make([]float32, 6)})
		if !slices.Equal(st.kept, want) {
			t.Errorf("%v are kept, want %v", st.kept, want)
		}
		st.tokens = 12
		st.Append(nil, nil)
	}
}

// TestH2OAgainstDefinition follows the definition on sets, in float64. If the state keeps another
// token, both sums must be equal up to rounding.
func TestH2OAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "h2o")
		heavy, recent := int(d.spec.Heavy*float64(d.prompt)), int(d.spec.Recent*float64(d.prompt))
		collected := map[int32]float64{}
		add := func(token int, keys []int32) {
			for head := range d.q {
				for i, w := range d.weights(head, token, keys) {
					collected[keys[i]] += w
				}
			}
		}
		for i := range d.prompt {
			add(i, upTo(i+1))
		}
		kept := upTo(d.prompt)
		keep := func() {
			older := kept[:max(0, len(kept)-recent)]
			newer := kept[len(older):]
			kept = append(bestByHand(older, func(j int32) float64 { return collected[j] }, heavy), newer...)
		}
		keep()
		d.play(t, d.state, d.prompt, func(p *played) {
			got := p.attended[0][:len(p.attended[0])-1]
			for i, j := range got { // of equal length by TestCounts
				if slices.Contains(kept, j) {
					continue
				}
				other := kept[slices.IndexFunc(kept, func(k int32) bool { return !slices.Contains(got, k) })]
				if a, b := collected[j], collected[other]; math.Abs(a-b) > 1e-5*b {
					t.Fatalf("context %d: %v kept, want %v: token %d collected %v, %d %v", p.context, got, kept, got[i], a, other, b)
				}
			}
			kept = append(slices.Clone(got), int32(p.context-1))
			add(p.context-1, kept)
			keep()
		})
	})
}

// TestH2OGroup: two query heads with the same queries keep what one keeps.
func TestH2OGroup(t *testing.T) {
	checkGroup(t, "h2o")
}

// checkGroup compares a state of one query head with one of two that have equal queries.
func checkGroup(t *testing.T, name string) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, name)
		one, two := *d.sequence, *d.sequence
		one.q, two.q = d.q[:1], [][]float32{d.q[0], d.q[0]}
		var want [][]int32
		one.play(t, one.newState(d.spec), d.prompt, func(p *played) { want = append(want, p.attended[0]) })
		two.play(t, two.newState(d.spec), d.prompt, func(p *played) {
			for _, got := range p.attended {
				if !slices.Equal(got, want[p.context-d.prompt-1]) {
					t.Fatalf("context %d: two heads attend to %v, one to %v", p.context, got, want[p.context-d.prompt-1])
				}
			}
		})
	})
}
