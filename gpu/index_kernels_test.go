package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// indexGPU returns a GPU of 100 SMs with its own indexer kernels, with numbers that are easy to compute with.
func indexGPU() *Spec {
	s := &Spec{SMs: 100, Peak8: 1e15, MemoryBandwidth: 1e12}
	s.Index = IndexTables{
		Scores:     ScoreSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 1, Overhead: 4 * units.Microsecond}, KeyTile: 256, BlockTime: units.Microsecond, WaveQuantization: true},
		StepScores: StepScoreSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 1, Overhead: 4 * units.Microsecond}, RowTime: 3 * units.Nanosecond, PairTime: 2, FillBandwidth: 1e12},
		TopK:       RankSpec{Overhead: 2 * units.Microsecond, RowTime: 3 * units.Microsecond, ElementTime: 500, ShortTime: units.Microsecond, TieRow: 4 * units.Microsecond, TieElement: 1000, WaveQuantization: true},
	}
	return s
}

// TestPromptScoresByHand: 404 blocks, each of 4 tokens with 32 heads, pass over keys in tiles of 256, in 5 rounds. A block with tokens of
// four requests passes over the keys of all four.
func TestPromptScoresByHand(t *testing.T) {
	s := indexGPU()
	key := 2.0 * 128 * 128 / (0.5e15 / 100)
	of := func(requests, chunk, finished int) llm.Indexing {
		var one llm.Indexing
		x := llm.Indexer{IndexTopK: -1}
		x.Add(&one, chunk+finished, chunk)
		one.Requests, one.Keys, one.Pairs, one.Step = requests, one.Keys*int64(requests), one.Pairs*int64(requests), false
		return one
	}
	for _, c := range []struct {
		x                llm.Indexing
		compute, latency float64
	}{
		{of(1, 1616, 20_000), 5 * (20992*key + 1e-6), 21760*key + 1e-6}, // 20,808.5 keys on average, 21,616 at most
		{of(8, 1, 299), 1 * (1280*key + 1e-6), 1280*key + 1e-6},         // four requests of 300
		{of(2, 1, 299), 1 * (768*key + 1e-6), 768*key + 1e-6},
		{of(2, 4, 252), 1 * (256*key + 1e-6), 256*key + 1e-6},
	} {
		got := s.IndexScoreCost(c.x, 32, 128, 132)
		memory := (float64(c.x.Keys)*132 + 4*float64(c.x.Pairs) + float64(c.x.Requests*c.x.Queries)*32*128) / 1e12
		if !near(got.Compute, c.compute) || !near(got.Latency, c.latency) || !near(got.Memory, memory) || !near(got.Seconds, 4e-6+max(c.compute, c.latency, memory)) {
			t.Errorf("%+v: %+v, want %v, %v and %v s", c.x, got, c.compute, c.latency, memory)
		}
	}
	if got := s.IndexScoreCost(of(1, 8, 248), 64, 128, 132); !near(got.Compute, 256*key+1e-6) || s.rounds(150, false) != 1.5 || s.rounds(50, false) != 1 || s.rounds(101, true) != 2 {
		t.Errorf("64 heads: %+v", got)
	}
}

// TestStepScoresByHand: a step's keys are distributed over all SMs, and each token has an additional cost.
func TestStepScoresByHand(t *testing.T) {
	s := indexGPU()
	x := llm.Indexing{Requests: 100, Queries: 1, Keys: 1_000_000, Longest: 20_000, Pairs: 1_000_000, Keep: 2048, Step: true}
	got := s.IndexScoreCost(x, 32, 128, 132)
	compute, memory, fill := 2*128*64*1e6/0.5e15, (132e6+4e6+100*32*128)/1e12, 4*100*20_000/1e12
	if overhead := 4e-6 + 100*3e-9 + 1e4*2e-12; !near(got.Compute, compute) || !near(got.Memory, memory) || !near(got.Latency, fill) || !near(got.Overhead, overhead) || !near(got.Seconds, overhead+max(compute, memory)) {
		t.Errorf("%+v, want %v, %v and %v s", got, compute, memory, fill)
	}
}

// TestIndexTopKByHand: 110 of 150 tokens see more than are kept, in two rounds over 100 SMs; the others cost little. Equal scores cost
// more.
func TestIndexTopKByHand(t *testing.T) {
	s := indexGPU()
	x := llm.Indexing{Requests: 1, Queries: 150, Longest: 2158, Keep: 2048} // 2,008 before them
	x.Pairs = 150*2008 + 150*151/2
	mean := 2048 + 111.0/2
	for tied, row := range map[bool]float64{false: 3e-6 + mean*0.5e-9, true: 7e-6 + mean*1.5e-9} {
		if got, want := s.IndexTopKCost(x, tied).Seconds, 2e-6+2*row+0.4e-6; !near(got, want) {
			t.Errorf("tied %t: %v s, want %v", tied, got, want)
		}
	}
	x = llm.Indexing{Requests: 30, Queries: 1, Longest: 5000, Pairs: 90_000, Keep: 2048, Step: true}
	if got, want := s.IndexTopKCost(x, false).Seconds, 2e-6+3e-6+3000*0.5e-9; !near(got, want) {
		t.Errorf("a step takes %v s, want %v", got, want)
	}
	s.Index.TopK = RankSpec{}
	s.PageSparse.Memory = 1
	if got, want := s.IndexTopKCost(x, false), s.TopKCost(DecodeBatch{Requests: 30, Tokens: 90_000, Longest: 5000}, 1, 2048); got != want || math.IsNaN(got.Seconds) {
		t.Errorf("without kernels of its own %+v, want %+v", got, want)
	}
}

// TestStepsScoreAsSteps: an iteration's decode steps take the kernels of steps over a paged cache, not those of prompts. A module of
// attention is the layer's products and attention, without the first norm and the all-reduce.
func TestStepsScoreAsSteps(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.Index = indexGPU().Index
	c := NewModelCost(&s, indexedModel(2, ""))
	rows, of := UniformBatch(16, 2048), llm.Indexing{Requests: 16, Queries: 1, Keys: 16 * 30000, Longest: 30000, Pairs: 16 * 30000, Keep: 2048, Step: true}
	rows.Page = 1
	x := Shape{Decode: UniformBatch(16, 30000)}
	attends := c.DecodeBatch(rows).Seconds + c.Index(of).Seconds
	if got := c.IterationParts(x)[DecodeAttention].Seconds; !near(got, 3*attends) {
		t.Errorf("a step takes %g s, want %g", got, 3*attends)
	}
	if of.Step = false; near(c.DecodeBatch(rows).Seconds+c.Index(of).Seconds, attends) {
		t.Error("scores of prompts take as long")
	}
	norm := c.waits(c.norm(16)).Seconds
	if got, want := c.AttentionModule(x, llm.Indexed), c.QKV(16).Seconds-norm+attends+c.projection(16)[ProjectionProduct].Seconds; !near(got, want) || norm <= 0 {
		t.Errorf("a module takes %g s, want %g", got, want)
	}
	if got, want := c.AttentionModule(x, llm.Shared), c.AttentionModule(x, llm.Indexed)-attends+c.DecodeBatch(rows).Seconds; !near(got, want) {
		t.Errorf("a module that shares a choice takes %g s, want %g", got, want)
	}
}
