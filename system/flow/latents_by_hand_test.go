package flow

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// pairs is a policy with runs that equal the first or the second.
type pairs struct{ fake }

func (p pairs) Alike(run int) int { return run % 2 }

// TestAlikeByHand: of runs of 3, 2, 5 and 7 layers, the third equals the first and the fourth the second. Unless the policy says so, none are
// equal.
func TestAlikeByHand(t *testing.T) {
	p := fake{runs: []int{3, 2, 5, 7}}
	for _, c := range []struct {
		p     policy.Costs
		alike []int
		kinds []int
		like  [2]int
		order []dataflow.Run
	}{
		{p, []int{0, 1, 2, 3}, []int{0, 1, 2, 3}, [2]int{3, 2}, []dataflow.Run{{Kind: 0, Count: 1}, {Kind: 1, Count: 3}, {Kind: 2, Count: 2}, {Kind: 3, Count: 5}, {Kind: 4, Count: 7}}},
		{pairs{p}, []int{0, 1, 0, 1}, []int{0, 1}, [2]int{8, 9}, []dataflow.Run{{Kind: 0, Count: 1}, {Kind: 1, Count: 3}, {Kind: 2, Count: 2}, {Kind: 1, Count: 5}, {Kind: 2, Count: 7}}},
	} {
		var a Attends
		a.SetRuns(p.runs, alike(c.p))
		if !slices.Equal(a.Alike, c.alike) || !slices.Equal(a.Kinds, c.kinds) || a.LayersLike(0) != c.like[0] || a.LayersLike(1) != c.like[1] {
			t.Errorf("alike %v, kinds %v, layers %d and %d", a.Alike, a.Kinds, a.LayersLike(0), a.LayersLike(1))
		}
		if !slices.Equal(a.Order, c.order) {
			t.Errorf("layers by kind %v, want %v", a.Order, c.order)
		}
		for run, first := range c.alike {
			if a.Repeats(run) != (first < run) {
				t.Errorf("run %d of %v repeats: %v", run, c.alike, a.Repeats(run))
			}
		}
	}
}

// TestBytesOfTokens: llama-3-8b stores 2·8·128·2 B of a token in a layer. DeepSeek V2 stores a latent of 576 elements; if units read it in
// stacks, it stores the latent's 512 elements of values again.
func TestBytesOfTokens(t *testing.T) {
	h := hardware(t)
	if h.KVBytesPerTokenLayer() != 4096 || h.KVBytesPerToken() != 32*4096 {
		t.Errorf("%v a layer, %v a token", h.KVBytesPerTokenLayer(), h.KVBytesPerToken())
	}
	for _, c := range []struct {
		stacks bool
		layer  units.Bytes
	}{{false, 1152}, {true, 1152 + 1024}} {
		h := hardware(t)
		m := &h.Config.Model
		m.Layers, m.KVHeads, m.HeadDim, m.LatentDim, m.NopeDim, m.ValueDim, m.LayerPattern = 5, 1, 576, 512, 128, 128, ""
		h.KV.InHBM = c.stacks
		if h.KVBytesPerTokenLayer() != c.layer || h.KVBytesPerToken() != 5*c.layer {
			t.Errorf("in stacks %v: %d a layer, %d a token", c.stacks, h.KVBytesPerTokenLayer(), h.KVBytesPerToken())
		}
		if s := PolicyShape(h); s.ValueCopy != int64(c.layer)-1152 || !s.Latent || s.Dim != 576 {
			t.Errorf("in stacks %v: %+v", c.stacks, s)
		}
	}
	other := hardware(t)
	other.Config.Model.ValueDim = 64
	if s := PolicyShape(other); s.Value != 64 {
		t.Errorf("values of 64 elements: %+v", s)
	}
}

// TestSmallParts: what steps add, which times of kernels are kept, and a flow without ranksets.
func TestSmallParts(t *testing.T) {
	a := Attends{Policy: fake{vectors: policy.Vectors{New: 100, Queries: 7}}, verified: 3}
	if got := a.New(5); got != 1500 {
		t.Errorf("five requests of three tokens add %d bytes", got)
	}
	x := &Extrapolated{1, 2}
	kept := x.Kept()
	if x[0] = 9; kept[0] != 1 || kept[1] != 2 || (*Extrapolated)(nil).Kept() != nil || len(kept) != int(gpu.Kinds) {
		t.Errorf("kept %v", kept)
	}
	if got := (&Imbalance{}).Ratio(4); got != 0 {
		t.Errorf("nothing works: %v", got)
	}
	f := twoLayers(t, 1, 1, 1, 1)
	if f.Core() != f || f.Ranksets() != (Imbalance{}) {
		t.Error("a flow is not its own core, or has ranksets")
	}
}

// TestChunksWithoutPrefix: a request's chunk is scored on the GPUs alone if nothing of the request stays
// elsewhere.
func TestChunksWithoutPrefix(t *testing.T) {
	a := NewAttends(hardware(t))
	if a.Scores(&scheduler.Chunk{Prefix: 8}) || a.Copies != 1 || a.Heads != 8 {
		t.Errorf("%+v", a)
	}
}

// TestOperationNames: each operation has its own name on a timeline; operations of one kind share a
// name.
func TestOperationNames(t *testing.T) {
	for op, want := range map[uint8]string{OpEntry: "entry", OpPrefillAttention: "prefill attention", OpWindow: "window attention", OpBlock: "block", OpGPUAttention: "attention", OpDecodeDown: "decode q k v", OpPromptDown: "prompt k v",
		OpLeaving: "leaving k v", OpResults: "results", OpAttention: "decode attention", OpHostAttention: "decode attention", OpPrefixRead: "prefix k v read", OpPrefixUp: "prefix k v", OpFetch: "fetch k v",
		OpProjection: "projection", OpFeedForward: "feed-forward", OpUnitFeedForward: "feed-forward", opHidden: ""} {
		if got := OperationNames[op]; got != want {
			t.Errorf("operation %d is %q, want %q", op, got, want)
		}
	}
}
