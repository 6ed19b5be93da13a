package gpus

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestAbsorbByHand: with attention of latents on another device, the GPUs multiply queries before it and outputs after it. Without latents they do
// neither.
func TestAbsorbByHand(t *testing.T) {
	d := script(t, &scripted{})
	if d.Absorb(1, 5); d.Decoding[1].Chooses != (gpu.Work{}) || d.Decoding[1].Merge != (gpu.Work{}) {
		t.Errorf("without latents %+v", d.Decoding[1])
	}
	d = script(t, &scripted{}, "run.model=deepseek-v3", "gpu.preset=h200-sxm", "node.gpus=8", "model.tensor_parallel=8")
	before := Decoding{Chooses: gpu.Work{Seconds: 1}, Merge: gpu.Work{Seconds: 2}}
	d.Decoding[1] = before
	d.Absorb(1, 5)
	c := d.ModelCost
	if x := d.Decoding[1]; x.Chooses != before.Chooses.Plus(c.AbsorbKeys(5)) || x.Merge != before.Merge.Plus(c.AbsorbValues(5)) || c.AbsorbKeys(5).Seconds <= 0 || d.Decoding[0].Chooses != (gpu.Work{}) {
		t.Errorf("with latents %+v", d.Decoding)
	}
}

// TestSustainedByHand: work that runs alone takes its own time, or longer if its power exceeds the limit.
func TestSustainedByHand(t *testing.T) {
	d := script(t, &scripted{}, "gpu.preset=h200-sxm")
	for _, w := range []gpu.Work{{Seconds: 1e-3}, {Seconds: 1e-3, Clocked: 1e-3, Dynamic: 5}} {
		k := sumOf(w)
		slow := d.hw.Config.GPU.Slowdown(w)
		if got := d.Sustained(&k); got != k.Took(slow) || (slow > 1) != (w.Dynamic > 0) || (got > units.Millisecond) != (w.Dynamic > 0) {
			t.Errorf("%+v takes %v, slowed by %v", w, got, slow)
		}
	}
}

// TestScaleByHand: every time of a stage is scaled, except that of a device beside the GPUs.
func TestScaleByHand(t *testing.T) {
	g := stage{Entry: 100, Block: 200, Exit: 300, Layers: []layerCost{{Count: 3, Attention: 10, Prompts: 20, Merge: 30, Chooses: 40}, {Count: 2, Attention: 50}}}
	g.Beside(7, 8)
	g.Scale(1.5)
	want := []layerCost{{Count: 3, Attention: 15, Prompts: 30, Merge: 45, Chooses: 60, Device: 7, Bus: 8}, {Count: 2, Attention: 75, Device: 7, Bus: 8}}
	if g.Entry != 150 || g.Block != 300 || g.Exit != 450 || g.Layers[0] != want[0] || g.Layers[1] != want[1] {
		t.Errorf("got %+v", g)
	}
}

// TestPredictionsByHand: a prediction without batches has a sub-batch's dense work and prompts. Equal runs are one kind of layers, with all their layers and
// the time beyond the measurements, also of prompts in the spare memory. Work that takes nothing is not laid out.
func TestPredictionsByHand(t *testing.T) {
	d := script(t, &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 2000}}}, {}}})
	d.Attends.SetRuns([]int{20, 12}, []int{0, 0})
	d.measured.PrefillTokens = 1000
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 2000, Last: true}}, Decode: make([]scheduler.Decoding, 3)}
	d.Decoding[0].Batches = []gpu.DecodeBatch{gpu.UniformBatch(3, 500)}
	with := d.GPUTime(sub)
	alone := d.GPU(sub, 7)
	if alone >= with || alone != d.Whole(d.StageRuns(sub)) || len(d.Decoding[0].Batches) != 0 {
		t.Errorf("%v with batches, %v without", with, alone)
	}
	g := d.StageRuns(sub)
	if g.Layers[0].Count != 32 || g.Layers[1].Count != 0 || g.Layers[0].Prompts == 0 {
		t.Errorf("layers %+v", g.Layers)
	}
	a := d.ModelCost.Attention()
	if want := 32 * a.PromptsOf(1, 2000, 0, 8, false).Seconds; d.attention == nil || !near(d.attention[gpu.PrefillKernels], want) {
		t.Errorf("beyond the measurements: %v, by hand %v s of all 32 layers", d.attention, want)
	}
	spare := script(t, &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 3000}}}, {}}})
	spare.measured.PrefillTokens, d.Spare = 1000, &spare
	sub.Prefill[0].Near = true
	for range 2 { // each call counts anew
		d.StageRuns(sub)
		if want := 32 * a.PromptsOf(1, 3000, 0, 8, false).Seconds; d.attention == nil || !near(d.attention[gpu.PrefillKernels], want) {
			t.Errorf("beyond the measurements in the spare memory: %v, by hand %v s of all 32 layers", d.attention, want)
		}
	}
	var nothing stage
	f := flow.Flow{}
	if nothing.Lay(&f, 0, 0); len(f.Iteration.Ops) != 0 {
		t.Errorf("nothing is laid as %+v", f.Iteration.Ops)
	}
}

// TestBatchOfAClass: a batch has a class's tokens for the requests that attend to any.
func TestBatchOfAClass(t *testing.T) {
	c := &policy.Class{Heads: 6, Tokens: []int{100, 0, 300}, Weights: true, Paged: policy.Paged{Page: 16, PerQueryHead: true}, Windowed: true}
	want := gpu.DecodeBatch{Requests: 2, Tokens: 400, Longest: 300, KVHeads: 6, Page: 16, PerQueryHead: true, Weights: true, Windowed: true}
	if got := DecodeBatch(c); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestShareOfNothing: a task of no seconds changes no group. Groups that take time share it all, to the
// picosecond.
func TestShareOfNothing(t *testing.T) {
	var x GPUIteration
	var seconds [partCount]float64
	if x.share(77, &seconds); x != (GPUIteration{}) {
		t.Errorf("got %v", x)
	}
	seconds[PartChoice], seconds[PartMerge] = 1, 3
	if x.share(8, &seconds); x[PartChoice] != 2 || x[PartMerge] != 6 || x.Total() != 8 {
		t.Errorf("got %v", x)
	}
}

// TestPartsOfAPicosecond: a selection that takes a picosecond is shown.
func TestPartsOfAPicosecond(t *testing.T) {
	d := script(t, &scripted{})
	if got := d.Parts(flow.OpEntry, 1, 1, 0, flow.Use{Slow: 1, Chooses: 1}); len(got) != 3 || got[2].Name != "page choice" {
		t.Errorf("got %v", got)
	}
}
