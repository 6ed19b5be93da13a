package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestNamesOfKinds: the names of kinds of kernels, by the widths of their elements and a replica's collectives.
func TestNamesOfKinds(t *testing.T) {
	for want, w := range map[string]widths{
		"": {In: 16, Weights: 16, Out: 16}, "nvfp4_": {In: 4, Weights: 4, Block: NVFP4Block}, "mxfp4_": {In: 16, Weights: 4, Block: 32}, "mxfp4_fp8_": {In: 8, Weights: 4, Block: 32}, "int4_": {In: 16, Weights: 4},
		"weights8_": {In: 16, Weights: 8}, "fp8_block_": {In: 8, Weights: 8, Block: FP8Block}, "fp8_": {In: 8, Weights: 8},
	} {
		if elementKind(w) != want || productKind(w) != want+"gemm" || expertKind(w) != want+"experts" {
			t.Errorf("%+v: %q, %s, %s", w, elementKind(w), productKind(w), expertKind(w))
		}
	}
	s := loadPreset(t, "h200-sxm")
	for want, p := range map[string]llm.Parallel{"all_reduce": {}, "collectives": {AttentionParallel: llm.DataAttention}, "all_to_all": {AttentionParallel: llm.DataAttention, ExpertParallel: true}} {
		got := kernelTimes{}
		if NewModelCost(s, parallelModel(8, p)).collectiveTimes(got, 8, 1, ""); len(got) != 1 || got[want] == nil || got[want].Seconds != 1 {
			t.Errorf("%+v: %v, want %s", p, got, want)
		}
	}
	for want, set := range map[string]func(*llm.Model){"x": func(*llm.Model) {}, "narrow_x": func(m *llm.Model) { m.KVBits = 8 }, "fp8_x": func(m *llm.Model) { m.KVFormat = llm.FP8 }} {
		m := loadModel(t, "llama-3-8b")
		set(m)
		if got := NewModelCost(s, m).attentionKind("x"); got != want {
			t.Errorf("attention %s, want %s", got, want)
		}
	}
	for i, want := range []string{"products", "prefill attention", "decode attention", "all-reduce", "small kernels"} {
		if Kind(i).String() != want {
			t.Errorf("kind %d is %s", i, Kind(i))
		}
	}
}

// TestTimesOfKinds: only kernels that take time count as a kind; seconds add up, and the first exceeded limit is kept.
func TestTimesOfKinds(t *testing.T) {
	x := kernelTimes{}
	x.add("a", 0, "far")
	x.add("a", -1, "far")
	x.add("b", 1, "")
	x.add("b", 2, "rows")
	x.add("b", 4, "context")
	if len(x) != 1 || *x["b"] != (KernelTime{Kind: "b", Seconds: 7, Far: 6, Beyond: "rows"}) {
		t.Errorf("got %+v", x["b"])
	}
}

// TestMeanLoad: the mean of two loads, value by value; tokens are whole numbers.
func TestMeanLoad(t *testing.T) {
	a, b := ExpertLoad{Tokens: 3, All: 10, Pairs: 6, Touched: 2}, ExpertLoad{Tokens: 6, All: 20, Pairs: 8, Touched: 5}
	a.tiles[0], b.tiles[0], b.tiles[len(b.tiles)-1] = 4, 8, 2
	want := ExpertLoad{Tokens: 5, All: 15, Pairs: 7, Touched: 3.5}
	want.tiles[0], want.tiles[len(want.tiles)-1] = 6, 1
	if got := Mean([]ExpertLoad{a, b}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAbsorbedApart: the products before and after attention of latents together equal those around it; without latents or requests there
// are none.
func TestAbsorbedApart(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	c := NewModelCost(s, latentModel(8))
	c.Verify(2)
	keys, values := c.AbsorbKeys(5), c.AbsorbValues(5)
	l := expertLoad{Pairs: 16 * 10, Touched: 16}
	if want := s.groupedCost(l, 160, 512, 128, uniform(16)).Seconds; !near(keys.Seconds, want) {
		t.Errorf("queries take %g s, want %g", keys.Seconds, want)
	}
	if want := s.groupedCost(l, 160, 128, 512, uniform(16)).Seconds; !near(values.Seconds, want) {
		t.Errorf("outputs take %g s, want %g", values.Seconds, want)
	}
	if both := c.absorb(10).Seconds; !near(keys.Seconds+values.Seconds, both) || c.AbsorbKeys(0) != (Work{}) || c.AbsorbValues(0) != (Work{}) || c.absorb(0) != (Work{}) {
		t.Errorf("together %g s, apart %g", both, keys.Seconds+values.Seconds)
	}
	plain := NewModelCost(s, loadModel(t, "llama-3-8b"))
	if plain.AbsorbKeys(5) != (Work{}) || plain.AbsorbValues(5) != (Work{}) || plain.absorb(5) != (Work{}) {
		t.Error("products of latents without latents")
	}
}

// TestIndexOfARequestsGPU: with data-parallel attention, a GPU scores its own requests: 3 of 10 on four GPUs with their share of keys, but
// at least the longest.
func TestIndexOfARequestsGPU(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	m := indexedModel(4, "III")
	m.AttentionParallel = llm.DataAttention
	c, alone := NewModelCost(s, m), NewModelCost(s, indexedModel(1, "III"))
	x := llm.Indexing{Requests: 10, Queries: 1, Keys: 100_001, Longest: 20_000, Pairs: 100_003, Keep: 2048}
	if got, want := c.Index(x), alone.Index(llm.Indexing{Requests: 3, Queries: 1, Keys: 25_001, Longest: 20_000, Pairs: 25_001, Keep: 2048}); !near(got.Seconds, want.Seconds) {
		t.Errorf("%g s, want %g", got.Seconds, want.Seconds)
	}
	x.Longest = 90_000
	if got, want := c.Index(x), alone.Index(llm.Indexing{Requests: 3, Queries: 1, Keys: 90_000, Longest: 90_000, Pairs: 90_000, Keep: 2048}); !near(got.Seconds, want.Seconds) {
		t.Errorf("the longest alone: %g s, want %g", got.Seconds, want.Seconds)
	}
	x.Requests = 1
	if got, want := c.Index(x), alone.Index(x); !near(got.Seconds, want.Seconds) || c.Index(llm.Indexing{}) != (Work{}) {
		t.Errorf("one request: %g s, want %g", got.Seconds, want.Seconds)
	}
	a := alone.Attention()
	chosen := llm.Chosen{Tokens: 100, Rows: 204_800, Longest: 2048}
	if got, want := a.Chosen(chosen, x), alone.Chosen(chosen).Plus(alone.Index(x)); !near(got.Seconds, want.Seconds) || alone.Chosen(llm.Chosen{}) != (Work{}) || got.Seconds <= alone.Index(x).Seconds {
		t.Errorf("a prompt's chosen rows: %g s, want %g", got.Seconds, want.Seconds)
	}
}
