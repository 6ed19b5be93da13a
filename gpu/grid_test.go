package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// sizes returns sizes from low to high, each factor times the previous one, and at least one more.
func sizes(low, high int, factor float64) (all []int) {
	for n := low; n <= high; n = max(n+1, int(float64(n)*factor)) {
		all = append(all, n)
	}
	return all
}

// onPresets calls check with every preset and its own suite, and also with the kernels of SuitePyTorch if both is set.
func onPresets(t *testing.T, both bool, check func(t *testing.T, s *Spec)) {
	for _, name := range presetNames(t, "gpus") {
		s := loadPreset(t, name)
		t.Run(name, func(t *testing.T) { check(t, s) })
		if pytorch := *s; both && s.PyTorch.Decode.Model != "" {
			pytorch.Suite = SuitePyTorch
			t.Run(name+" pytorch", func(t *testing.T) { check(t, &pytorch) })
		}
	}
}

// onGrid is onPresets for each shape of heads.
func onGrid(t *testing.T, both bool, check func(t *testing.T, s *Spec, h Heads)) {
	onPresets(t, both, func(t *testing.T, s *Spec) {
		for _, kv := range sizes(1, 128, gridStep(5, 1.5)) {
			for _, group := range []int{1, 2, 5, 8, 16} {
				for _, dim := range []int{64, 128, 256} {
					if kv*group <= 128 {
						check(t, s, Heads{Query: kv * group, KV: kv, Dim: dim, ElementBits: 16})
					}
				}
			}
		}
	})
}

// gridStep is the factor between sizes: quick, or in between in a deep run, or dense in a long one.
func gridStep(quick, dense float64) float64 {
	switch {
	case deep.Long():
		return dense
	case deep.On():
		return math.Sqrt(quick * dense)
	}
	return quick
}

// TestDecodeGrid: decode attention is never faster than the roofline, and one more request, token, KV head or query head for each at most
// doubles its time.
func TestDecodeGrid(t *testing.T) {
	onGrid(t, true, func(t *testing.T, s *Spec, h Heads) {
		for _, batch := range sizes(1, 4096, gridStep(4, 1.1)) {
			for _, context := range sizes(1, 1<<20, gridStep(6, 1.4)) {
				c := s.DecodeAttentionCost(UniformBatch(batch, context), h)
				if least := max(c.FLOPs/float64(s.Peak16), c.Bytes/float64(s.MemoryBandwidth)); c.Seconds < least*(1-1e-9) {
					t.Fatalf("%d of %d, %+v: %g s, roofline %g s", batch, context, h, c.Seconds, least)
				}
				if s.Suite == SuitePyTorch { // has steps where it stops splitting contexts
					continue
				}
				head, query := h, h
				head.KV, head.Query = h.KV+1, h.Query+h.group()
				query.Query += h.KV
				for what, more := range map[string]float64{
					"request": s.decodeAttention(UniformBatch(batch+1, context), h), "token": s.decodeAttention(UniformBatch(batch, context+1), h),
					"KV head": s.decodeAttention(UniformBatch(batch, context), head), "query head of each": s.decodeAttention(UniformBatch(batch, context), query),
				} {
					if more > 2*c.Seconds*(1+1e-9) {
						t.Fatalf("%d of %d, %+v: %g s, with one more %s %g s", batch, context, h, c.Seconds, what, more)
					}
				}
			}
		}
	})
}

// TestMixedGrid: one more request of any length never makes a batch of mixed lengths more than 5% faster. AttAcc's model, used in the
// preset paper, is defined differently: a batch takes as long as equally many mean contexts, and at least as long as the longest one's
// block.
func TestMixedGrid(t *testing.T) {
	deep.Heavy(t)
	onGrid(t, false, func(t *testing.T, s *Spec, h Heads) {
		lengths := sizes(1, 1<<20, gridStep(30, 4))
		for _, batch := range sizes(0, 4095, gridStep(5, 1.3)) {
			for _, short := range lengths {
				for _, long := range lengths {
					for _, longs := range []int{1, 1 + batch/10, 1 + batch} {
						b := DecodeBatch{Requests: batch + longs, Tokens: int64(batch*short) + int64(longs*long), Longest: long}
						if short > long || s.decodeAttention(b, h) == 0 {
							continue
						}
						if s.Decode.Model == AttAcc {
							mean, block := int(b.Tokens/int64(b.Requests)), s.DecodeAttentionCost(UniformBatch(1, long), h).Latency
							least, most := s.decodeAttention(UniformBatch(b.Requests, mean), h), s.decodeAttention(UniformBatch(b.Requests, mean+1), h)
							if got := s.decodeAttention(b, h); got < max(least, block)*(1-1e-9) || got > max(most, block)*(1+1e-9) {
								t.Fatalf("%d of %d and %d of %d, %+v: %g s, of mean contexts %g to %g s, the longest alone %g s", batch, short, longs, long, h, got, least, most, block)
							}
							continue
						}
						neverFaster(t, s, h, b, short, long)
					}
				}
			}
		}
	})
}

// neverFaster checks that one more request never makes a batch more than 5% faster.
func neverFaster(t *testing.T, s *Spec, h Heads, b DecodeBatch, short, long int) {
	t.Helper()
	for _, more := range []int{1, short, (short + long) / 2, long} {
		with := b
		with.Add(more)
		if before, after := s.decodeAttention(b, h), s.decodeAttention(with, h); after < 0.95*before {
			t.Fatalf("%d requests of %d tokens, the longest of %d, %+v: %g s, with one of %d more %g s", b.Requests, b.Tokens, b.Longest, h, before, more, after)
		}
	}
}

// TestFewMixed is TestMixedGrid with dense sizes where fixed splits of a single KV head change with each request.
func TestFewMixed(t *testing.T) {
	onPresets(t, false, func(t *testing.T, s *Spec) {
		if s.Decode.Model == AttAcc {
			return
		}
		lengths := sizes(1024, 1<<17, 2)
		for _, h := range []Heads{{Query: 1, KV: 1, Dim: 64, ElementBits: 16}, {Query: 8, KV: 1, Dim: 128, ElementBits: 16}} {
			for batch := range 16 {
				for i, long := range lengths {
					for _, short := range lengths[:i+1] {
						for longs := 1; longs < 5; longs++ {
							neverFaster(t, s, h, DecodeBatch{Requests: batch + longs, Tokens: int64(batch*short) + int64(longs*long), Longest: long}, short, long)
						}
					}
				}
			}
		}
	})
}

// TestIterationGrid: one more request at most doubles the time of a model's decode iteration on 1 to 8 GPUs.
func TestIterationGrid(t *testing.T) {
	for _, name := range presetNames(t, "gpus") {
		s := loadPreset(t, name)
		for tp := 1; tp <= 8; tp *= 2 {
			m := *loadModel(t, "llama-3-8b")
			m.TensorParallel = tp
			c := NewModelCost(s, &m)
			for _, batch := range sizes(1, 4096, gridStep(4, 1.1)) {
				for _, context := range sizes(1, 1<<20, gridStep(30, 4)) {
					took := func(n int) float64 { return c.IterationParts(Shape{Decode: UniformBatch(n, context)}).Total().Seconds }
					if one, two := took(batch), took(batch+1); two > 2*one {
						t.Fatalf("%s, %d GPUs, %d of %d: %g s, with one more %g s", name, tp, batch, context, one, two)
					}
				}
			}
		}
	}
}
