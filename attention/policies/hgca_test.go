package policies

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// TestHGCAByHand: a window of 4 tokens in blocks of 2, with averages in which a step counts half. A
// prompt of zero queries weighs all tokens alike, so all have salience 1.
func TestHGCAByHand(t *testing.T) {
	const prompt, dim = 3, 8
	zero := make([]float32, prompt*dim)
	shape := policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: dim, ElementBits: 16}
	st := newHGCAState(keysOf[HGCASpec](ownSpec(t, "hgca", func(s *keys) { s.Window, s.Block, s.Alpha, s.PromptQueries = 4, 2, 0.5, 2 })), shape, 20)
	st.Prompt([][]float32{zero}, zero, zero)
	for i, step := range []struct {
		salient [][2]int
		window  [2]int
		weights []float32 // of salient tokens, then of the window
	}{
		{nil, [2]int{0, 4}, []float32{0.7, 0.1, 0.1, 0.1}},                 // averages 1.9, 0.7, 0.7, 0.4: 0 stays, 1 goes
		{[][2]int{{0, 1}}, [2]int{2, 5}, []float32{1, 0.2, 0.2, 0.6}},      // 0.65, 0.5, 1.8
		{[][2]int{{0, 1}}, [2]int{2, 6}, []float32{1, .25, .25, .25, .25}}, // 0.825, 0.75, 1.4, 1: 2 and 3 go
		{[][2]int{{0, 1}}, [2]int{4, 7}, []float32{1, 0, 0.5, 0.5}},        // 0.7, 1.25, 1.5
		{[][2]int{{0, 1}}, [2]int{4, 8}, []float32{1, .25, .25, .25, .25}}, // 0.85, 1.125, 1.25, 1: 4 goes, 5 stays
		{[][2]int{{0, 1}, {5, 6}}, [2]int{6, 9}, nil},
	} {
		st.Append(nil, nil)
		parts := st.Select(nil).Parts
		if len(parts) == 2 && (parts[0].Device != policy.Home || !slices.Equal(parts[0].Ranges, step.salient)) || (len(parts) == 2) != (step.salient != nil) ||
			parts[len(parts)-1].Device != policy.GPU || !slices.Equal(parts[len(parts)-1].Ranges, [][2]int{step.window}) {
			t.Fatalf("step %d attends to %+v, want %v and %v", i, parts, step.salient, step.window)
		}
		if step.weights != nil {
			st.Observe([][]float32{step.weights})
		}
	}
}

// TestHGCAAgainstDefinition follows the definition token by token, in float64: every token of the
// window has an average, and blocks leave while the window is full. A token whose average is within
// rounding of the limit may be kept or not.
func TestHGCAAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "hgca")
		type entry struct {
			token   int32
			average float64
		}
		var window []entry
		salient, either := []int32{}, map[int32]bool{}
		evict := func() {
			for len(window) >= d.spec.Window {
				for _, e := range window[:d.spec.Block] {
					if e.average > d.spec.Beta || int(e.token) < d.spec.PinSinks || d.spec.Beta == 0 {
						salient = append(salient, e.token)
					}
					either[e.token] = math.Abs(e.average-d.spec.Beta) < 1e-5 && int(e.token) >= d.spec.PinSinks && d.spec.Beta > 0
				}
				window = window[d.spec.Block:]
			}
		}
		for j := range d.prompt {
			sum, queries := 0.0, 0
			for m := max(j, d.prompt-d.spec.PromptQueries); m < d.prompt; m++ {
				queries++
				for head := range d.q {
					sum += float64(d.weights(head, m, upTo(m+1))[j] * float64(m+1) / float64(len(d.q)))
				}
			}
			window = append(window, entry{int32(j), sum / float64(queries)})
		}
		evict()
		d.play(t, d.state, d.prompt, func(p *played) {
			window = append(window, entry{int32(p.context - 1), math.NaN()})
			var got, held []int32
			for _, j := range p.attended[0][:len(p.attended[0])-len(window)] {
				if !either[j] {
					got = append(got, j)
				}
			}
			for _, e := range window {
				held = append(held, e.token)
			}
			want := slices.DeleteFunc(slices.Clone(salient), func(j int32) bool { return either[j] })
			if !slices.Equal(got, want) || !slices.Equal(p.attended[0][len(p.attended[0])-len(window):], held) {
				t.Fatalf("context %d: attends to %v, want %v and the window %v", p.context, p.attended[0], salient, held)
			}
			salience := make([]float64, len(window))
			for head := range d.q {
				for i, w := range d.weights(head, p.context-1, held) {
					salience[i] += float64(w * float64(len(window)) / float64(len(d.q)))
				}
			}
			for i, r := range salience {
				average := &window[i].average
				if i == len(window)-1 {
					*average = r
				} else {
					*average = float64((1-d.spec.Alpha)*(*average)) + float64(d.spec.Alpha*r)
				}
			}
			evict()
		})
	})
}

// TestHGCANested: a lower β keeps every token that a higher one keeps. If β is above every average, nothing is kept beyond the window but
// pinned sinks.
func TestHGCANested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawPlay(t, "hgca")
		attended := func(beta float64, pinned int) (all [][]int32) {
			spec := *d.spec
			spec.Beta, spec.PinSinks = beta, pinned
			d.play(t, d.newState(&spec), d.prompt, func(p *played) { all = append(all, p.attended[0]) })
			return all
		}
		low, high, none, pinned := attended(d.spec.Beta, 0), attended(d.spec.Beta+0.3, 0), attended(1e6, 0), attended(1e6, 3)
		for i := range low {
			context := d.prompt + 1 + i
			for _, j := range high[i] {
				if !slices.Contains(low[i], j) {
					t.Fatalf("context %d: token %d is kept with %v but not with %v", context, j, d.spec.Beta+0.3, d.spec.Beta)
				}
			}
			w := hgcaWindow{Size: d.spec.Window, Block: d.spec.Block}
			if len(none[i]) != w.Held(context) || len(pinned[i]) != w.Held(context)+min(3, w.Evicted(context-1)) {
				t.Fatalf("context %d: %v without salient tokens, %v with 3 pinned", context, none[i], pinned[i])
			}
		}
	})
}

// TestHGCAGroup: two query heads with the same queries keep what one keeps.
func TestHGCAGroup(t *testing.T) { checkGroup(t, "hgca") }
