package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// narrowHeads are Llama-3-8B's heads with keys and values of the given bits and scales.
func narrowHeads(bits, scaleBytes int) Heads {
	return Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16, KVBits: bits, KVScaleBytes: scaleBytes}
}

// Decode attention moves narrow keys and values with their scales, and wide queries and outputs.
func TestNarrowBytes(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	b := UniformBatch(3, 5000)
	for _, c := range []struct {
		h    Heads
		each float64 // of a token and KV head
	}{{narrowHeads(0, 0), 512}, {narrowHeads(16, 0), 512}, {narrowHeads(8, 4), 264}, {narrowHeads(4, 4), 136}, {narrowHeads(8, 0), 256}} {
		ends := 3.0 * 32 * 512
		if got, want := s.DecodeAttentionCost(b, c.h).Bytes, 3*5000*8*c.each+ends; got != want {
			t.Errorf("%+v: %v bytes of decode attention, want %v", c.h, got, want)
		}
		if got, want := s.PageAttentionCost(b, 64, c.h).Bytes, 3*5000*8*(c.each+4./64)+ends; got != want {
			t.Errorf("%+v: %v bytes over pages, want %v", c.h, got, want)
		}
		chunk := 2.0 * 100 * (32 + 8) * 256
		if got, want := s.PrefillAttentionCost(1, 100, 700, c.h).Bytes, 700*8*c.each+chunk; got != want {
			t.Errorf("%+v: %v bytes of a prompt's chunk, want %v", c.h, got, want)
		}
	}
}

// 8-bit keys and values take half the time if memory bounds. 4-bit ones take the published 0.67 ns for each token and KV head of Llama-3-8B
// on an A100 (LServe, Table 1).
func TestNarrowTimes(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	each := func(cost func(DecodeBatch, Heads) Cost, h Heads) float64 {
		return (cost(UniformBatch(32, 8192), h).Seconds - cost(UniformBatch(32, 4096), h).Seconds) / (32 * 4096 * 8)
	}
	pages := func(b DecodeBatch, h Heads) Cost { return s.PageAttentionCost(b, 64, h) }
	for name, c := range map[string]struct {
		cost  func(DecodeBatch, Heads) Cost
		least float64
	}{"contexts": {s.DecodeAttentionCost, 1.75}, "pages": {pages, 1.9}} { // tiles of grouped heads are near the ridge
		cost := c.cost
		wide, half := each(cost, narrowHeads(0, 0)), each(cost, narrowHeads(8, 4))
		if r := wide / half; r > 512./264+1e-9 || r < c.least {
			t.Errorf("%s: 8 bits are %.3f times as fast as 16, want %.3f or a little less", name, r, 512./264)
		}
		if four := each(cost, narrowHeads(4, 4)); math.Abs(four-0.67e-9) > 0.03e-9 {
			t.Errorf("%s: a token and KV head of 4 bits takes %.3g s, want 0.67 ns", name, four)
		}
	}
}

// A product with narrow weights: each factor's bytes by its width, and the rate of the wider one.
func TestNarrowProducts(t *testing.T) {
	for _, name := range []string{"a100-sxm-80gb", "a100-paper"} {
		s := loadPreset(t, name)
		const m, n, k = 4096, 8192, 4096
		wide, eight := s.productCost(m, n, k, uniform(16)), s.productCost(m, n, k, widths{In: 8, Weights: 8, Out: 16})
		four, only := s.productCost(m, n, k, widths{In: 8, Weights: 4, Out: 16}), s.productCost(m, n, k, widths{In: 16, Weights: 4, Out: 16})
		for _, c := range []struct {
			what      string
			got, want float64
		}{
			{"bytes of W8A8", eight.Bytes, m*k + n*k + 2*m*n}, {"bytes of W4A8", four.Bytes, m*k + n*k/2 + 2*m*n}, {"bytes of W4A16", only.Bytes, 2*m*k + n*k/2 + 2*m*n},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s: %v, want %v", name, c.what, c.got, c.want)
			}
		}
		if four.Compute != eight.Compute || only.Compute != wide.Compute || eight.Compute >= wide.Compute {
			t.Errorf("%s: arithmetic takes %v (16 bits), %v (W8A8), %v (W4A8), %v (W4A16)", name, wide.Compute, eight.Compute, four.Compute, only.Compute)
		}
		// Few rows take the time of the weights' bytes.
		few := func(w widths) float64 { return s.productCost(1, n, k, w).Memory }
		if a, b := few(uniform(16))/few(widths{In: 8, Weights: 8, Out: 16}), few(widths{In: 8, Weights: 8, Out: 16})/few(widths{In: 8, Weights: 4, Out: 16}); math.Abs(a-2) > 0.01 || math.Abs(b-2) > 0.01 {
			t.Errorf("%s: one row takes %v and %v times as long", name, a, b)
		}
	}
}

// Relative to 16 bits, attention over narrow keys and values takes as long as measured on an H100, for each format, whether 4 query heads
// share the conversion or there is no group. Without sharing, each of 4 heads converts.
func TestNarrowFormats(t *testing.T) {
	s := loadPreset(t, "h100-sxm")
	batch := UniformBatch(32, 32768)
	for _, c := range []struct {
		h         Heads
		low, high float64
	}{
		{Heads{KVBits: 8, KVFloat: true}, 1.83, 1.93}, {Heads{KVBits: 8, KVScaleBytes: 4}, 1.44, 1.58}, {Heads{KVBits: 4, KVScaleBytes: 8}, 1.05, 1.35},
	} {
		c.h.Query, c.h.KV, c.h.Dim, c.h.ElementBits = 32, 8, 128, 16
		narrow := s.DecodeAttentionCost(batch, c.h)
		if r := s.DecodeAttentionCost(batch, narrowHeads(0, 0)).Seconds / narrow.Seconds; r < c.low || r > c.high {
			t.Errorf("%+v: %.3f times as fast as 16 bits, want %v to %v", c.h, r, c.low, c.high)
		}
		alone := c.h
		alone.Query = 8
		if got := s.DecodeAttentionCost(batch, alone); !near(got.Compute, narrow.Compute) {
			t.Errorf("%+v: converting takes %v, without groups %v", c.h, narrow.Compute, got.Compute)
		}
		s.NarrowKV.Once = false
		if got := s.DecodeAttentionCost(batch, c.h); !near(got.Compute, 4*narrow.Compute) {
			t.Errorf("%+v: converting for each query head takes %v, shared %v", c.h, got.Compute, narrow.Compute)
		}
		s.NarrowKV.Once = true
	}
}

// 8-bit products reach a share of the rate, and draw half of the energy for each operation.
func TestNarrowShare(t *testing.T) {
	s := loadPreset(t, "h100-sxm")
	cost := func() Cost { return s.NarrowGEMMCost(4096, 8192, 8192, 8, 0) }
	s.MatMul.Narrow = 1
	full, wide := cost(), s.NarrowGEMMCost(4096, 8192, 8192, 16, 0)
	s.MatMul.Narrow = 0.5
	if got := cost(); !near(got.Compute, 2*full.Compute) || !near(full.Compute, wide.Compute*float64(s.Peak16)/float64(s.Peak8)) {
		t.Errorf("%v s at half, %v at full rate, %v of 16 bits", got.Compute, full.Compute, wide.Compute)
	}
	if !near(full.Executed, wide.Executed/2) || full.FLOPs != wide.FLOPs || s.NarrowGEMMCost(4096, 8192, 8192, 16, 0).Seconds != wide.Seconds {
		t.Errorf("%+v, 16 bits %+v", full, wide)
	}
}

// A model's format is used in its decode attention.
func TestModelFormat(t *testing.T) {
	s, m := loadPreset(t, "h100-sxm"), loadModel(t, "llama-3-8b")
	batch := UniformBatch(32, 32768)
	for format, h := range map[llm.KVFormat]Heads{llm.FP16: narrowHeads(16, 0), llm.FP8: narrowHeads(8, 0), llm.INT8: narrowHeads(8, 4), llm.INT4: narrowHeads(4, 4)} {
		m.KVFormat, h.KVFloat = format, format == llm.FP8
		if got, want := NewModelCost(s, m).DecodeBatchCost(batch).Seconds, s.DecodeAttentionCost(batch, h).Seconds; got != want {
			t.Errorf("%s: %v s, want %v", format, got, want)
		}
	}
}
