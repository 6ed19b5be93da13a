package policies

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"pgregory.net/rapid"
)

// indexer is a model of two layers with that indexer.
func indexer(x llm.Indexer) policy.Shape {
	return policy.Shape{Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16, LayerKinds: llm.LayerKinds{Indexer: x}}
}

// indexedStates returns the states of both KV heads of a layer.
func indexedStates(t rapid.TB, shape policy.Shape, layer, limit int) (all []policy.IndexedState) {
	spec := New("dsa")
	v, err := policy.NewValues(&spec, shape)
	if err != nil {
		t.Fatal(err)
	}
	for head := range shape.KVHeads {
		st, ok := v.NewState(layer, head, limit).(policy.IndexedState)
		if !ok {
			t.Fatalf("layer %d does not choose by an index", layer)
		}
		all = append(all, st)
	}
	return all
}

// tokensOf returns the tokens of a selection.
func tokensOf(s policy.Selection) (tokens []int) {
	for _, part := range s.Parts {
		for _, r := range part.Ranges {
			for t := r[0]; t < r[1]; t++ {
				tokens = append(tokens, t)
			}
		}
	}
	return tokens
}

// TestIndexedValues compares choices with a sort of scores by their definition, and costs with choices. Elements are small whole numbers,
// so that scores are exact in any order of sums, and often equal.
func TestIndexedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		shape := indexer(llm.Indexer{IndexHeads: number("heads", 1, 4), IndexDim: number("dim", 1, 5), IndexTopK: number("top-k", 1, 20)})
		n, prompt, costs := number("tokens", 1, 50), number("prompt", 0, 50), newIndexedCost(shape)
		states, r := indexedStates(t, shape, 1, n), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		numbers := func(n int) []float64 {
			all := make([]float64, n)
			for i := range all {
				all[i] = float64(r.IntN(5) - 2)
			}
			return all
		}
		var keys [][]float64
		for token := range n {
			x := policy.Index{Key: numbers(shape.IndexDim), Queries: numbers(shape.IndexHeads * shape.IndexDim), Weights: numbers(shape.IndexHeads)}
			keys = append(keys, slices.Clone(x.Key))
			scores, order := make([]float64, token+1), make([]int, token+1)
			for s := range scores {
				order[s] = s
				for h, w := range x.Weights {
					product := 0.0
					for e := range shape.IndexDim {
						product += float64(x.Queries[h*shape.IndexDim+e] * keys[s][e])
					}
					scores[s] += float64(w * math.Max(0, product))
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
			want := order[:min(shape.IndexTopK, token+1)]
			slices.Sort(want)
			for _, st := range states {
				st.Index(&x)
			}
			for _, v := range [][]float64{x.Key, x.Queries, x.Weights} {
				clear(v) // a state must copy its arguments
			}
			for head, st := range states {
				if token == prompt {
					st.Prompt(nil, nil, nil)
				}
				st.Append(nil, nil)
				for range 2 { // the second time nothing has changed
					if got := tokensOf(st.Select(nil)); !slices.Equal(got, want) {
						t.Fatalf("token %d of scores %v: head %d has chosen %v, want %v", token, scores, head, got, want)
					}
				}
				st.Observe(nil)
			}
			if token > 0 {
				if a := costs.Decode([]policy.Request{{Prompt: token, Context: token + 1}}, 0).Attend; a[0].Tokens[0] != len(want) {
					t.Fatalf("token %d: costs count %d tokens, %d are chosen", token, a[0].Tokens[0], len(want))
				}
			}
		}
	})
}

// TestIndexedLayers: layers without an indexer attend to everything; keys that do not fit a model are refused
// by name.
func TestIndexedLayers(t *testing.T) {
	spec, shape := New("dsa"), indexer(llm.Indexer{IndexHeads: 1, IndexDim: 1, IndexTopK: 1})
	shape.LayerPattern = "GI"
	v, err := policy.NewValues(&spec, shape)
	if err != nil {
		t.Fatal(err)
	}
	whole := v.NewState(0, 0, 9)
	whole.Prompt([][]float32{make([]float32, 3*8)}, make([]float32, 3*8), make([]float32, 3*8))
	whole.Append(make([]float32, 8), make([]float32, 8))
	if got := tokensOf(whole.Select(nil)); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("a layer without an indexer attends to %v", got)
	}
	indexedStates(t, shape, 1, 9)
	for want, spoil := range map[string]func(s *policy.Shape){
		`policy.name = "dsa": expected another policy, such as "dense" or "quest": the model has no indexer`: func(s *policy.Shape) { s.IndexTopK = 0 },
		`policy.name = "dsa": expected another policy, such as "dense"`:                                      func(s *policy.Shape) { s.IndexHeads = 0 },
		`whose heads, dimension and top-k "dsa" needs`:                                                       func(s *policy.Shape) { s.IndexDim = 0 },
	} {
		other := shape
		spoil(&other)
		_, err := policy.NewValues(&spec, other)
		if said := new(input.Error); !errors.As(err, &said) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestSharedChoices: a layer that shares a choice attends to the choice passed to it for the token, whatever the choosing layer does
// later. The two layers share no memory, and steps allocate nothing.
func TestSharedChoices(t *testing.T) {
	spec, shape := New("dsa"), indexer(llm.Indexer{IndexHeads: 1, IndexDim: 1, IndexTopK: 2})
	shape.LayerPattern = "IS"
	v, err := policy.NewValues(&spec, shape)
	if err != nil {
		t.Fatal(err)
	}
	leads, follows := v.NewState(0, 0, 9).(policy.IndexedState), v.NewState(1, 0, 9).(policy.FollowingState)
	var given [][]int
	var choices []policy.Selection
	for _, key := range []float64{3, 1, 4, 1, 5} {
		leads.Index(&policy.Index{Key: []float64{key}, Queries: []float64{1}, Weights: []float64{1}})
		x := leads.Select(nil)
		ranges := slices.Clone(x.Parts[0].Ranges)
		given, choices = append(given, tokensOf(x)), append(choices, policy.Selection{Parts: []policy.Part{{Device: policy.GPU, Heads: []uint16{1}, Ranges: ranges}}})
	}
	for token, want := range [][]int{{0}, {0, 1}, {0, 2}, {0, 2}, {2, 4}} {
		follows.Follow(choices[token])
		clear(choices[token].Parts[0].Ranges)
		follows.Append(nil, nil)
		got := follows.Select(nil)
		if !slices.Equal(given[token], want) || !slices.Equal(tokensOf(got), want) || got.Parts[0].Device != policy.GPU || !slices.Equal(got.Parts[0].Heads, []uint16{1}) {
			t.Errorf("token %d: chosen %v, followed %+v, want %v", token, given[token], got, want)
		}
	}
	choice := policy.Selection{Parts: []policy.Part{{Ranges: [][2]int{{0, 3}, {5, 6}}}}}
	if n := testing.AllocsPerRun(100, func() { follows.Follow(choice); follows.Select(nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := follows.Select(nil).Parts; len(got) != 1 || got[0].Heads != nil {
		t.Errorf("%+v", got)
	}
}

// TestIndexedAllocations: steps allocate nothing.
func TestIndexedAllocations(t *testing.T) {
	x := llm.Indexer{IndexHeads: 3, IndexDim: 4, IndexTopK: 20}
	st, r := indexedStates(t, indexer(x), 0, 400)[0], fixedSource()
	index := policy.Index{Key: make([]float64, 4), Queries: make([]float64, 12), Weights: make([]float64, 3)}
	step := func() {
		for _, v := range [][]float64{index.Key, index.Queries, index.Weights} {
			for i, x := range r.normal(len(v)) {
				v[i] = float64(x)
			}
		}
		st.Index(&index)
	}
	drawn := testing.AllocsPerRun(100, step)
	if all := testing.AllocsPerRun(100, func() { step(); st.Append(nil, nil); st.Select(nil) }); all != drawn {
		t.Errorf("%v allocations a step, of which %v draw it", all, drawn)
	}
}
