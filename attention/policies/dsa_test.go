package policies

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// indexedShape is 6 layers of latents of 12 + 4 elements, of which two have an indexer, two share its choice and two see everything.
func indexedShape() policy.Shape {
	return policy.Shape{Layers: 6, QueryHeads: 8, KVHeads: 1, Dim: 16, Value: 12, Latent: true, ElementBits: 16,
		LayerKinds: llm.LayerKinds{LayerPattern: "GIS", Indexer: llm.Indexer{IndexHeads: 2, IndexDim: 8, IndexTopK: 5}}}
}

// TestIndexedByHand: steps, chunks and memory of layers G, I and S. A context of 5 tokens is read whole without scores; of longer ones 5
// tokens are read, and layer I scores all of them.
func TestIndexedByHand(t *testing.T) {
	c := newIndexedCost(indexedShape())
	if !reflect.DeepEqual(c.Runs(), []int{1, 1, 1, 1, 1, 1}) {
		t.Errorf("runs %v", c.Runs())
	}
	requests := []policy.Request{{Prompt: 3, Context: 5}, {Prompt: 3, Context: 9}, {Prompt: 3, Context: 20}}
	for run, want := range []struct {
		tokens []int
		page   int
		index  llm.Indexing
	}{
		{[]int{5, 9, 20}, 0, llm.Indexing{}},
		{[]int{5, 5, 5}, 1, llm.Indexing{Requests: 2, Queries: 1, Keys: 29, Longest: 20, Pairs: 29, Keep: 5, Step: true}},
		{[]int{5, 5, 5}, 1, llm.Indexing{}},
	} {
		x := c.Decode(requests, run)
		if len(x.Attend) != 1 || x.Attend[0].Heads != 1 || !reflect.DeepEqual(x.Attend[0].Tokens, want.tokens) || x.Attend[0].Page != want.page || x.Index != want.index {
			t.Errorf("run %d: %+v, %+v; want %+v", run, x.Attend, x.Index, want)
		}
		if x = c.Decode(requests[:1], run); x.Attend[0].Tokens[0] != 5 || x.Attend[0].Page != 0 || x.Index != (llm.Indexing{}) {
			t.Errorf("run %d: a short context: %+v, %+v", run, x.Attend, x.Index)
		}
		p := c.Prompt(run, 4, 3, true)
		chosen, scores := llm.Chosen{Tokens: 4, Longest: 5, Rows: 4 + 5 + 5 + 5}, llm.Indexing{Requests: 1, Queries: 4, Keys: 7, Longest: 7, Pairs: 4 + 5 + 6 + 7, Keep: 5}
		if run == 0 {
			chosen = llm.Chosen{}
		}
		if run != 1 {
			scores = llm.Indexing{}
		}
		if whole := len(p.Pieces) == 1; p.Chosen != chosen || p.Index != scores || whole != (run == 0) {
			t.Errorf("run %d: %+v", run, p)
		}
		if p = c.Prompt(run, 2, 3, false); len(p.Pieces) != 1 || p.Chosen.Rows != 0 || p.Index.Pairs != 0 {
			t.Errorf("run %d: a chunk that ends within the choice: %+v", run, p)
		}
	}
	for run, want := range []int{1, 2, 1} {
		held, filling := c.Memory(run)
		if !reflect.DeepEqual(held, filling) || len(held) != want || held[0].Bytes != 32 || held[0].Heads != 1 {
			t.Errorf("run %d holds %+v, and %+v before", run, held, filling)
		}
		if want == 2 && (held[1] != policy.Held{Device: policy.Home, Heads: 1, Bytes: 8 + 4, Index: true}) {
			t.Errorf("an index key is %+v", held[1])
		}
	}
	apart := indexedShape()
	apart.Apart = true
	if held, _ := newIndexedCost(apart).Memory(1); held[1].Device != policy.GPU {
		t.Errorf("index keys are with keys and values that the GPUs do not have: %+v", held)
	}
	if v := c.Vectors(); v.Queries != 8*16*2 || v.New != 32 || v.Results != 8*12*2 || c.KV(3) != 96 {
		t.Errorf("vectors %+v, %d bytes of three tokens", v, c.KV(3))
	}
}

// TestDenseKeepsIndexes: without the choice, every layer attends to everything, and the indexers' keys are still held.
func TestDenseKeepsIndexes(t *testing.T) {
	d, c := DenseCosts(indexedShape()), newIndexedCost(indexedShape())
	for run := range c.Runs() {
		x := d.Decode([]policy.Request{{Prompt: 3, Context: 500}}, run)
		if x.Attend[0].Tokens[0] != 500 || x.Attend[0].Page != 0 || x.Index != (llm.Indexing{}) {
			t.Errorf("run %d: %+v, %+v", run, x.Attend, x.Index)
		}
		if p := d.Prompt(run, 100, 400, true); len(p.Pieces) != 1 || p.Pieces[0].Tokens != 100 || p.Pieces[0].Behind != 400 || p.Chosen.Rows != 0 {
			t.Errorf("run %d: %+v", run, p)
		}
		want, _ := c.Memory(run)
		if got, _ := d.Memory(run); !reflect.DeepEqual(got, want) {
			t.Errorf("run %d holds %+v, want %+v", run, got, want)
		}
	}
}

// plainNames returns the policies that run for a model without an indexer.
func plainNames() []string {
	return slices.DeleteFunc(Builtin().Names(), func(name string) bool { s := New(name); return s.Indexed() })
}

// TestSharedChoicesByHand: of GLM-5.2's 78 layers 0, 1, 2 and then each fourth choose, 21 in all, and every layer attends to 2,048 rows of a
// long context. Index keys are in 21 layers, latents in all.
func TestSharedChoicesByHand(t *testing.T) {
	s := indexedShape()
	s.Layers, s.LayerPattern, s.IndexTopK = 78, "II"+strings.Repeat("ISSS", 19), 2048
	c := newIndexedCost(s)
	scores, attends, keys := 0, 0, 0
	for run, layers := range c.Runs() {
		x := c.Decode([]policy.Request{{Prompt: 9, Context: 100_000}}, run)
		if x.Index != (llm.Indexing{}) {
			scores += layers
			if x.Index.Pairs != 100_000 || x.Index.Keep != 2048 {
				t.Errorf("run %d: %+v", run, x.Index)
			}
		}
		if a := x.Attend; len(a) == 1 && a[0].Tokens[0] == 2048 && a[0].Page == 1 && a[0].Chosen == 2048 {
			attends += layers
		}
		held, _ := c.Memory(run)
		keys += layers * (len(held) - 1)
	}
	if scores != 21 || attends != 78 || keys != 21 {
		t.Errorf("%d layers score, %d attend to what is chosen, %d have index keys; want 21, 78 and 21", scores, attends, keys)
	}
}

// TestIndexedDraftsByHand: each of three tokens chooses 5 of its own context, and their union is read once: of 20 tokens, 5 if all choose
// alike and 20 · (1 - 0.75³) = 11.6 if they overlap only by chance. If the first token has 5 or fewer, all is read. The indexer reads keys
// once, and scores 18, 19 and 20 of them.
func TestIndexedDraftsByHand(t *testing.T) {
	requests := []policy.Request{{Prompt: 3, Context: 5}, {Prompt: 3, Context: 7}, {Prompt: 3, Context: 8}, {Prompt: 3, Context: 20}}
	for _, c := range []struct {
		verified int
		overlap  float64
		tokens   []int
		index    llm.Indexing
	}{
		{1, 0.3, []int{5, 5, 5, 5}, llm.Indexing{Requests: 3, Queries: 1, Keys: 35, Longest: 20, Pairs: 35, Keep: 5, Step: true}},
		{3, 1, []int{5, 7, 5, 5}, llm.Indexing{Requests: 3, Queries: 3, Keys: 35, Longest: 20, Pairs: 5 + 6 + 7 + 6 + 7 + 8 + 18 + 19 + 20, Keep: 5, Step: true}},
		{3, 0, []int{5, 7, 8, 12}, llm.Indexing{Requests: 3, Queries: 3, Keys: 35, Longest: 20, Pairs: 5 + 6 + 7 + 6 + 7 + 8 + 18 + 19 + 20, Keep: 5, Step: true}},
	} {
		s := indexedShape()
		s.Verified, s.Overlap = c.verified, c.overlap
		x := newIndexedCost(s).Decode(requests, 1)
		if a := x.Attend[0]; !reflect.DeepEqual(a.Tokens, c.tokens) || a.Page != 1 || a.Chosen != 5 || x.Index != c.index {
			t.Errorf("%d tokens, overlap %v: %+v, %+v; by hand %+v", c.verified, c.overlap, a, x.Index, c)
		}
	}
}
