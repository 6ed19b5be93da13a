package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/units"
)

// plainPrefill is a GPU of 100 SMs, each 1 TFLOP/s, whose prefill attention has round
// numbers.
func plainPrefill(t *testing.T) *Spec {
	s := *loadPreset(t, "h200-sxm")
	s.SMs, s.MemoryBandwidth, s.Peak16 = 100, 1e15, 200e12
	s.Prefill = PrefillSpec{
		Model: AttentionFlash, Efficiency: Efficiency{Compute: 0.5, Memory: 1, Overhead: 3 * units.Microsecond},
		QueryRows: 64, SplitRows: 32, BlocksPerSM: 2, LoneBlock: 0.8, Startup: 10, CausalTail: 0.5, MaxSplits: 1,
		SplitKeys: 100, MergeOverhead: 5 * units.Microsecond, MergeRow: units.Nanosecond, KVTraffic: 1,
	}
	s.Extend = ExtendSpec{}
	return &s
}

// TestPrefillWaves: a block alone on its SM reaches 0.8 of the rate; equal blocks end in waves of two on each SM, unequal ones free their
// slots one by one.
func TestPrefillWaves(t *testing.T) {
	s := plainPrefill(t)
	for blocks, want := range map[float64][2]float64{
		1: {1.25, 1.25}, 100: {1.25, 1.25}, 101: {2, 1.25}, 150: {2, 1.5}, 200: {2, 2}, 201: {4, 2.01}, 1000: {10, 10},
	} {
		if whole, even := s.waves(&s.Prefill, blocks); !near(whole, want[0]) || !near(even, want[1]) {
			t.Errorf("%g blocks: %g and %g, want %v", blocks, whole, even, want)
		}
	}
}

// TestPrefillForm: a chunk's time by hand. A block's time for one key is 4 · 128 · 64
// FLOPs at 1 TFLOP/s.
func TestPrefillForm(t *testing.T) {
	s := plainPrefill(t)
	const key = 4 * 128 * 64 / 1e12
	for _, c := range []struct {
		name                   string
		heads, chunk, finished int
		causal                 bool
		want                   float64 // in keys of a block
	}{
		// 4 tiles of 50 heads are two on each SM. A mean tile sees 160 of the chunk's keys and the longest 96 more, of which the GPU
		// waits for half.
		{"one wave", 50, 256, 0, true, 2*(160+10) + 0.5*96},
		{"finished tokens", 50, 256, 1000, true, 2*1000 + 2*(160+10) + 0.5*96},
		{"padded", 50, 200, 0, true, 2*(160+10) + 0.5*96},
		// 2.4 blocks on each SM: finished tokens, which all tiles see, take two whole waves.
		{"a last wave", 60, 256, 1000, true, 4*1000 + 2.4*(160+10) + 0.5*96},
		{"a lone block", 1, 64, 0, true, 1.25 * (64 + 10)},
		{"no mask", 60, 256, 0, false, 4 * (256 + 10)},
	} {
		h := Heads{Query: c.heads, KV: c.heads, Dim: 128, ElementBits: 16}
		got := s.PrefillAttentionCost(1, c.chunk, c.finished, h)
		keys := float64(c.finished) + 160
		if c.chunk == 64 {
			keys = 64
		}
		if !c.causal {
			got, keys = s.UnmaskedAttentionCost(1, c.chunk, c.finished, h), 256
		}
		padded := float64(ceilDiv(c.chunk, 64) * 64)
		if !near(got.Compute, c.want*key) || !near(got.Overhead, 3e-6) || !near(got.Executed, float64(c.heads)*4*128*padded*keys) {
			t.Errorf("%s: %g s of compute, want %g; %+v", c.name, got.Compute, c.want*key, got)
		}
	}
	// A second request is like more heads.
	one, two := Heads{Query: 100, KV: 100, Dim: 128, ElementBits: 16}, Heads{Query: 50, KV: 50, Dim: 128, ElementBits: 16}
	if a, b := s.PrefillAttentionCost(1, 256, 99, one), s.PrefillAttentionCost(2, 256, 99, two); !near(a.Seconds, b.Seconds) {
		t.Errorf("100 heads: %g s, two requests of 50: %g", a.Seconds, b.Seconds)
	}
}

// TestPrefillSplits: if there are few blocks, parts of the keys become separate blocks, which a kernel merges.
func TestPrefillSplits(t *testing.T) {
	s := plainPrefill(t)
	s.Prefill.SplitTarget, s.Prefill.SplitLimit, s.Prefill.MaxSplits = 2, 1.5, 8
	const key = 4 * 128 * 32 / 1e12 // of a tile of 32 rows
	for _, c := range []struct {
		name                   string
		heads, chunk, finished int
		parts                  float64
	}{
		{"two on each SM", 50, 32, 4000, 4}, {"at most eight", 10, 32, 4000, 8}, {"100 keys at least", 10, 32, 268, 3}, {"one is none", 10, 32, 60, 1}, {"enough blocks", 150, 32, 4000, 1},
	} {
		got := s.PrefillAttentionCost(1, c.chunk, c.finished, Heads{Query: c.heads, KV: c.heads, Dim: 128, ElementBits: 16})
		f, blocks, merge, k, own := float64(c.finished), float64(c.heads)*c.parts, 5e-6+c.parts*float64(c.heads*32)*1e-9, key, 32.0
		if c.parts == 1 {
			merge, k, own = 0, 2*key, 64 // unsplit tiles have 64 rows
		}
		whole, even := s.waves(&s.Prefill, blocks)
		if want := (whole*f/c.parts + even*(own/c.parts+10)) * k; !near(got.Compute, want) || !near(got.Overhead, 3e-6+merge) {
			t.Errorf("%s: %g s of compute, want %g; overhead %g, want %g", c.name, got.Compute, want, got.Overhead, 3e-6+merge)
		}
	}
}
