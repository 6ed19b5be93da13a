package gpu

import (
	"math"
	"testing"
)

// TestAttentionRoofline checks attention without losses against closed forms.
func TestAttentionRoofline(t *testing.T) {
	s := bareRoofline(t)
	s.SMs = 128 // 65,536 rows fill them evenly
	h := Heads{Query: 32, KV: 32, Dim: 128, ElementBits: 16}
	// A chunk of n over f finished tokens: n·f + n(n+1)/2 pairs, 4·d FLOPs each.
	n, f := 2048.0, 6000.0
	if got, want := s.prefillAttention(2048, 6000, h), 32*4*128*(n*f+n*(n+1)/2)/156e12; !near(got, want) {
		t.Errorf("prefill: %g s, want %g", got, want)
	}
	// Decode reads K and V of every context, and moves q and the output.
	if got, want := s.decodeAttention(UniformBatch(64, 4096), h), 64*(4096+1)*32*2*128*2/2.039e12; !near(got, want) {
		t.Errorf("decode: %g s, want %g", got, want)
	}
}

// measuredA100 is the A100 with the decode kernel to which its preset was fitted: vLLM's FlashAttention-2, which splits only grouped
// queries, and every context into the same number of parts.
func measuredA100(t *testing.T) *Spec {
	s := *loadPreset(t, "a100-sxm-80gb")
	s.Decode.SplitMinGroup, s.Decode.SplitLimit, s.Decode.WaveQuantization, s.Decode.Split = 2, 1.6, true, SplitFixed
	return &s
}

// TestUnsplitContexts checks multi-head decoding of few requests on the measured A100: the kernel does not split contexts, so one block
// reads each.
func TestUnsplitContexts(t *testing.T) {
	s := measuredA100(t)
	multi := Heads{Query: 2, KV: 2, Dim: 128, ElementBits: 16}
	c := s.DecodeAttentionCost(UniformBatch(1, 131072), multi)
	if want := 131072 * 2 * 128 * 2 / float64(s.Decode.BlockBandwidth); !near(c.Latency, want) || c.Limit() != "latency" {
		t.Errorf("%g s, limit %s, want %g, latency", c.Latency, c.Limit(), want)
	}
	s.Decode.SplitMinGroup = 1
	if got := s.decodeAttention(UniformBatch(1, 131072), multi); got > c.Seconds/10 {
		t.Errorf("split: %g s, not split: %g s", got, c.Seconds)
	}
}

// TestStraggler: one long context among short ones takes at least the time that its block needs to read it.
func TestStraggler(t *testing.T) {
	s := measuredA100(t)
	h := Heads{Query: 12, KV: 12, Dim: 128, ElementBits: 16}
	var b DecodeBatch
	for range 63 {
		b.Add(100)
	}
	b.Add(100_000)
	if got, floor := s.decodeAttention(b, h), 100_000*2*128*2/float64(s.Decode.BlockBandwidth); got < floor {
		t.Errorf("%g s, less than the %g s of its longest context", got, floor)
	}
}

// TestDecodeWaves: with 256 items on 216 slots the second wave is mostly empty; with 216 items there is none.
func TestDecodeWaves(t *testing.T) {
	s := measuredA100(t)
	h := Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16}
	full, over := s.DecodeAttentionCost(UniformBatch(27, 8192), h), s.DecodeAttentionCost(UniformBatch(32, 8192), h)
	perItem := func(c Cost, items float64) float64 { return c.Memory / items }
	if a, b := perItem(full, 216), perItem(over, 256); b < 1.1*a {
		t.Errorf("%g s an item in a full wave, %g s with a tail", a, b)
	}
}

// TestChunksAddUp: a prompt in chunks computes the same pairs as a whole prompt.
func TestChunksAddUp(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	whole, parts := s.PrefillAttentionCost(1, 4096, 0, h), 0.0
	for done := 0; done < 4096; done += 512 {
		parts += s.PrefillAttentionCost(1, 512, done, h).FLOPs
	}
	if !near(parts, whole.FLOPs) {
		t.Errorf("chunks: %g FLOPs, whole: %g", parts, whole.FLOPs)
	}
}

// TestGroupOverhead: arranging groups takes time only with groups, several KV heads and several requests.
func TestGroupOverhead(t *testing.T) {
	s := *loadPreset(t, "a100-sxm-80gb")
	for _, c := range []struct {
		query, kv, requests int
		laid                bool
	}{{8, 2, 2, true}, {8, 4, 3, true}, {8, 1, 2, false}, {8, 2, 1, false}, {2, 2, 2, false}} {
		h := Heads{Query: c.query, KV: c.kv, Dim: 128, ElementBits: 16}
		b := UniformBatch(c.requests, 100) // too short to be split
		d := s.Decode
		d.BlockStartup, d.FillTime = 0, 0
		s.Decode = d
		if got, want := s.DecodeAttentionCost(b, h).Overhead-s.Decode.Overhead.Seconds(), s.Decode.GroupOverhead.Seconds(); c.laid != near(got, want) || !c.laid && math.Abs(got) > 1e-12 {
			t.Errorf("%+v: %g s", c, got)
		}
	}
}

// TestPrefillMemory: q and output are moved once, a chunk's own keys and values kv_traffic times, finished ones once.
func TestPrefillMemory(t *testing.T) {
	s := bareRoofline(t)
	s.Prefill.KVTraffic, s.Prefill.Memory = 3, 0.5
	h := Heads{Query: 8, KV: 2, Dim: 64, ElementBits: 16}
	row := 2. * 64 * 2 // q and output, or k and v
	for _, c := range []struct{ batch, chunk, finished int }{{1, 10, 0}, {1, 10, 300}, {5, 7, 1000}} {
		b, n, f := float64(c.batch), float64(c.chunk), float64(c.finished)
		cost := s.PrefillAttentionCost(c.batch, c.chunk, c.finished, h)
		if want := b * row * (8*n + 3*2*n + 2*f) / (0.5 * 2.039e12); !near(cost.Memory, want) {
			t.Errorf("%+v: %g s of memory, want %g", c, cost.Memory, want)
		}
		if want := b * row * (8*n + 2*n + 2*f); !near(cost.Bytes, want) {
			t.Errorf("%+v: %g bytes, want %g", c, cost.Bytes, want)
		}
	}
}
