package policies

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// TestDenseByLayer: if a model's layers have windows, dense attention counts in each layer the tokens that its values select there, and
// holds no more than the window.
func TestDenseByLayer(t *testing.T) {
	denseByLayer(t, llm.LayerKinds{Window: 5, LayerPattern: "LLG"}, 2, 5)
	denseByLayer(t, llm.LayerKinds{Window: 5, LayerPattern: "GLLG"}, 0, 3, 4)
}

// denseByLayer checks seven layers, some of which (whole) have full attention.
func denseByLayer(t *testing.T, windows llm.LayerKinds, whole ...int) {
	shape := policy.Shape{Layers: 7, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16, LayerKinds: windows}
	spec := New("dense")
	costs := spec.Costs(shape)
	if err := policy.Verify("dense", costs, shape); err != nil {
		t.Error(err)
	}
	values, err := policy.NewValues(&spec, shape)
	if err != nil {
		t.Fatal(err)
	}
	layer := 0
	for run, layers := range costs.Runs() {
		for range layers {
			want := 5
			if slices.Contains(whole, layer) {
				want = 12
			}
			state := values.NewState(layer, 1, 20)
			state.Prompt(nil, make([]float32, 11*8), nil)
			state.Append(nil, nil)
			selected := 0
			for _, p := range state.Select(nil).Parts {
				selected += p.Tokens()
			}
			counted := costs.Decode([]policy.Request{{Prompt: 11, Context: 12}}, run).Attend
			if selected != want || len(counted) != 1 || counted[0].Heads != 2 || counted[0].Tokens[0] != want {
				t.Errorf("layer %d selects %d tokens and counts %+v, want %d", layer, selected, counted, want)
			}
			held, filling := costs.Memory(run)
			if len(held) != 1 || held[0].Tokens(11, 12) != want || filling[0].Tokens(12, 12) != want {
				t.Errorf("layer %d holds %+v, while its prompt is filled %+v, want %d tokens", layer, held, filling, want)
			}
			layer++
		}
	}
	if layer != 7 {
		t.Errorf("%d layers", layer)
	}
}

// TestChunksByLayer: if layers attend within chunks of the context, a step reads from the start of the chunk of its first token. A prompt
// attends causally within each chunk, and memory counts a whole chunk. Values are not computed.
func TestChunksByLayer(t *testing.T) {
	for verified := range 4 {
		shape := policy.Shape{Layers: 4, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16, Verified: verified, Apart: true,
			LayerKinds: llm.LayerKinds{Window: 5, LayerPattern: "CG"}}
		costs := DenseCosts(shape)
		if err := policy.Verify("dense", costs, shape); err != nil {
			t.Error(err)
		}
		ahead := max(verified-1, 0)
		for context := 2 + ahead; context < 30; context++ {
			step := []policy.Request{{Prompt: 1, Context: context}}
			if got, want := costs.Decode(step, 0).Attend[0].Tokens[0], context-(context-1-ahead)/5*5; got != want {
				t.Errorf("%d tokens at a context of %d: a step reads %d, want %d", verified, context, got, want)
			}
			if got := costs.Decode(step, 1).Attend[0].Tokens[0]; got != context {
				t.Errorf("a whole layer reads %d of %d", got, context)
			}
		}
		if held, filling := costs.Memory(0); held[0].Tokens(11, 22) != 5+ahead || filling[0].Tokens(11, 22) != 5 {
			t.Errorf("%d tokens: %+v, %+v", verified, held, filling)
		}
		want := []policy.Piece{{Heads: 2, Count: 1, Tokens: 2, Behind: 3}, {Heads: 2, Count: 3, Tokens: 5}, {Heads: 2, Count: 1, Tokens: 1}}
		prompt := costs.Prompt(0, 18, 8, true)
		if got := prompt.Pieces; !slices.Equal(got, want) || prompt.Leave[0].Tokens[0] != 26-(25-ahead)/5*5 {
			t.Errorf("%d tokens: a prompt's pieces are %+v, %+v leave; want %+v", verified, got, prompt.Leave, want)
		}
		spec := New("dense")
		if _, err := policy.NewValues(&spec, shape); err == nil || !strings.Contains(err.Error(), "model.layer_pattern = CG: expected no C: values of attention in chunks are not computed") {
			t.Error(err)
		}
	}
}

// TestWindowsOfDrafts: a step that verifies several tokens reads and holds a window plus one token for each draft; a prompt has the window
// alone. The same holds for streaming heads, beyond their sink.
func TestWindowsOfDrafts(t *testing.T) {
	for verified := range 5 {
		shape := policy.Shape{Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16, Verified: verified, LayerKinds: llm.LayerKinds{Window: 5, LayerPattern: "LG"}}
		costs := DenseCosts(shape)
		if err := policy.Verify("dense", costs, shape); err != nil {
			t.Error(err)
		}
		union := 5 + max(verified-1, 0)
		for context := 2; context < 20; context++ {
			got := costs.Decode([]policy.Request{{Prompt: 1, Context: context}}, 0).Attend[0].Tokens[0]
			if want := min(context, union); got != want {
				t.Errorf("%d tokens at a context of %d: a step reads %d, want %d", verified, context, got, want)
			}
		}
		if held, _ := costs.Memory(0); held[0].Tokens(11, 20) != union {
			t.Errorf("%d tokens: %+v, want %d", verified, held, union)
		}
		for _, p := range costs.Prompt(0, 5, 9, false).Pieces {
			if p.Count*p.Tokens != 5 || p.Behind != 5-(5+1)/2 {
				t.Errorf("%d tokens: a chunk of a prompt is %+v", verified, p)
			}
		}
		spec := New("streaming")
		streams := spec.Costs(policy.Shape{Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16, Verified: verified})
		if got, held := streams.Decode([]policy.Request{{Prompt: 1, Context: 999}}, 0).Attend[0].Tokens[0], heldTokens(streams); got != 512+max(verified-1, 0) || held != got {
			t.Errorf("%d tokens: heads that stream read %d and hold %d", verified, got, held)
		}
	}
}

// heldTokens returns the tokens of a long request that a layer's first class holds.
func heldTokens(c policy.Costs) int {
	held, _ := c.Memory(0)
	return held[0].Tokens(1, 999)
}
