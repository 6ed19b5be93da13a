package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// plainExtend is plainPrefill with attention of short chunks over long caches in round numbers: at half of 1 PFLOP/s, an SM takes 512/5e12
// s for one row and one key of 128 elements, and a block passes a key and value of 512 bytes in 10 ns.
func plainExtend(t *testing.T) *Spec {
	s := plainPrefill(t)
	s.Peak16, s.MemoryBandwidth = 1e15, 4e12
	s.Extend = ExtendSpec{
		Efficiency: Efficiency{Compute: 0.5, Memory: 1, Overhead: 4 * units.Microsecond}, BlockBandwidth: 51.2e9,
		BlocksPerSM: 2, SplitKeys: 100, MaxSplits: 64, MergeRow: units.Nanosecond,
	}
	return s
}

// TestExtendForm: costs by hand, each with the fastest tile size and number of parts.
func TestExtendForm(t *testing.T) {
	s := plainExtend(t)
	const row, chain = 512 / 5e12, 10e-9 // one row and one key on an SM; a block's time for one key
	for _, c := range []struct {
		name                       string
		query, kv, chunk, finished int
		keys, tile                 float64 // of a part, rows
		merged                     float64 // rows of all tiles over all parts
		limit                      string
	}{
		// One tile of 16 rows in 64 parts: 64 blocks for 100 SMs.
		{"a chain", 8, 1, 2, 25598, 400, 16, 64 * 16, "overhead"},
		// 32 parts would have 50 keys each, below the minimum of 100.
		{"a short cache", 8, 1, 2, 1598, 100, 16, 16 * 16, "overhead"},
		// 8 tiles of 128 rows in 8 parts are 64 blocks. With 16 parts some SMs have two, which takes equally long. 16 tiles of 64 rows in 4
		// parts save half of the merging, but wait longer for their chains.
		{"arithmetic", 8, 1, 128, 6272, 800, 128, 64 * 128, "overhead"},
		// 80 blocks read as fast as the memory: more would only add merging.
		{"memory", 40, 40, 16, 6384, 3200, 16, 80 * 16, "memory"},
		// 200 blocks run two on an SM: concurrently in their chains, one after the other in arithmetic.
		{"two on an SM", 200, 200, 16, 84, 100, 16, 200 * 16, "overhead"},
	} {
		got := s.ExtendAttentionCost(1, c.chunk, c.finished, Heads{Query: c.query, KV: c.kv, Dim: 128, ElementBits: 16})
		turns := math.Ceil(c.merged / c.tile / 100)
		compute, latency := turns*c.keys*c.tile*row, c.keys*chain
		memory := float64(c.kv*(c.finished+c.chunk)*512+c.query*c.chunk*512) / 4e12
		overhead := 3e-6 + 4e-6 + c.merged*1e-9
		if !near(got.Compute, compute) || !near(got.Latency, latency) || !near(got.Memory, memory) || !near(got.Overhead, overhead) ||
			!near(got.Seconds, overhead+max(compute, latency, memory)) || c.limit != got.Limit() {
			t.Errorf("%s: %+v by %s, want compute %g, latency %g, memory %g, overhead %g", c.name, got, got.Limit(), compute, latency, memory, overhead)
		}
		tiles := math.Ceil(float64(c.chunk*c.query/c.kv) / c.tile)
		if want := 512 * float64(c.kv) * tiles * c.tile * float64(c.finished+c.chunk); !near(got.Executed, want) {
			t.Errorf("%s: %g FLOPs executed, want %g", c.name, got.Executed, want)
		}
	}
	// Keys and values of 4 bits are widened for each query head, at least once.
	s.NarrowKV = NarrowKVSpec{Int4: 1000}
	h := Heads{Query: 8, KV: 1, Dim: 128, ElementBits: 16, KVBits: 4, KVScaleBytes: 4}
	if got, want := s.ExtendAttentionCost(3, 2, 9998, h).Compute, 3*10000*8*2*128*1e-9/100; !near(got, want) {
		t.Errorf("4 bits: %g s of compute, want %g", got, want)
	}
}

// TestExtendTakesTheFastest: the fastest of all tile sizes and numbers of parts, and only if it is below a limit.
func TestExtendTakesTheFastest(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		e := &s.Extend
		if e.MaxSplits == 0 {
			return
		}
		h := drawHeads(t)
		batch, chunk, finished := size(t, "batch", 1, 16), size(t, "chunk", 1, 2048), size(t, "finished", 1, 1<<17)
		keys, sms := float64(finished+chunk), float64(s.SMs)
		bytes := float64(batch*h.ElementBits/8*h.Dim) * float64(2*chunk*h.Query+2*(chunk+finished)*h.KV)
		best := math.Inf(1)
		for _, tile := range []float64{16, 64, 128} {
			for parts := 1.0; parts <= float64(e.MaxSplits); parts *= 2 {
				blocks := float64(batch*h.KV) * math.Ceil(float64(chunk*h.Query/h.KV)/tile) * parts
				part := max(keys/parts, min(keys, float64(e.SplitKeys)))
				compute := math.Ceil(blocks/sms) * part * 4 * float64(h.Dim) * tile / (e.Compute * s.peak(h.ElementBits) / sms)
				latency := math.Ceil(blocks/sms/float64(e.BlocksPerSM)) * part * float64(h.Dim*h.ElementBits/4) / float64(e.BlockBandwidth)
				c := pnorm(e.Ridge, compute, bytes/(e.Memory*float64(s.MemoryBandwidth)), latency) + blocks*tile*e.MergeRow.Seconds()
				best = min(best, c+e.Overhead.Seconds()+s.attention().Prefill.Overhead.Seconds())
			}
		}
		c := s.ExtendAttentionCost(batch, chunk, finished, h)
		if !near(c.Seconds, best) {
			t.Fatalf("%d × %d tokens over %d, %+v: %g s, the fastest takes %g", batch, chunk, finished, h, c.Seconds, best)
		}
		if got, found := s.extend(c.Seconds*1.0001, batch, chunk, finished, h); !found || got != c {
			t.Fatalf("below %g s: %+v, want %+v", c.Seconds*1.0001, got, c)
		}
		if got, found := s.extend(c.Seconds, batch, chunk, finished, h); found {
			t.Fatalf("nothing is below %g s, got %+v", c.Seconds, got)
		}
	})
}

// TestPromptLaws: one more token at most doubles the cost of a prompt; more tokens, more cache and more requests never cost less; and no
// kernel is chosen that is slower than another. Two exceptions have steps: PyTorch's kernels split keys by their own rule, whatever the
// cost, and AttAcc's model has one block for each head.
func TestPromptLaws(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		if s.Suite != SuiteServer || s.Prefill.Model != AttentionFlash || s.Extend.MaxSplits == 1 { // 1: no prompt kernel splits keys
			return
		}
		h := drawHeads(t)
		h.Query *= rapid.SampledFrom([]int{1, 1, 8}).Draw(t, "wider")
		if bits := rapid.SampledFrom([]int{0, 8, 4}).Draw(t, "kv bits"); bits < h.ElementBits {
			h.KVBits, h.KVScaleBytes = bits, bits/4
		}
		x := [3]int{rapid.SampledFrom([]int{1, 1, size(t, "batch", 1, 64)}).Draw(t, "requests"), size(t, "chunk", 1, 4096), size(t, "finished", 1, 1<<20) - 1}
		cost := func(x [3]int) float64 { return s.PrefillAttentionCost(x[0], x[1], x[2], h).Seconds }
		before := cost(x)
		if after := cost([3]int{x[0], x[1] + 1, x[2]}); after > 2*before*(1+1e-9) {
			t.Fatalf("%v takes %g s, one token more %g; %+v", x, before, after, h)
		}
		y := x
		y[rapid.IntRange(0, 2).Draw(t, "grows")] += size(t, "by", 1, 1<<12)
		if after := cost(y); after < before*(1-1e-9) {
			t.Fatalf("%v takes %g s, %v only %g; %+v", x, before, y, after, h)
		}
		if tiles := s.prefillTiles(&s.Prefill, x[0], x[1], x[2], h, true).Seconds; before > tiles {
			t.Fatalf("%v takes %g s, whole tiles %g; %+v", x, before, tiles, h)
		}
		if c := s.PrefillAttentionCost(x[0], x[1], x[2], h); x[2] > 0 && c.Bytes < s.ExtendAttentionCost(x[0], x[1], x[2], h).Bytes*(1-1e-9) && c.Bytes < s.DecodeAttentionCost(UniformBatch(x[0], x[2]+1), h).Bytes*float64(x[1]) {
			t.Fatalf("%v moves %g bytes, less than the queries, keys and values have; %+v", x, c.Bytes, h)
		}
		if split := s.ExtendAttentionCost(x[0], x[1], x[2], h).Seconds; x[2] > 0 && before > max(split, s.prefillTiles(&s.Prefill, x[0], x[1], 0, h, true).Seconds) {
			t.Fatalf("%v takes %g s, split keys %g; %+v", x, before, split, h)
		}
	})
}

// TestLeastPrefill: the lower bound of a prompt's cost is one, whatever the kernels, and is most of the cost of a turn of Llama-3-8B. The
// kernel that splits keys is also compared with the long way.
func TestLeastPrefill(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		if s.Prefill.Model == AttAcc {
			return
		}
		h := drawHeads(t)
		if bits := rapid.SampledFrom([]int{0, 8, 4}).Draw(t, "kv bits"); bits < h.ElementBits {
			h.KVBits, h.KVScaleBytes = bits, bits/4
		}
		batch := rapid.SampledFrom([]int{1, 1, 1, size(t, "batch", 1, 64)}).Draw(t, "requests")
		// Many sizes near those at which another kernel is the fastest.
		for range 60 {
			chunk, finished := size(t, "chunk", 1, 600), size(t, "finished", 1, 1<<rapid.IntRange(4, 20).Draw(t, "long"))-1
			checkLeastPrefill(t, s, batch, chunk, finished, h)
		}
		checkLeastPrefill(t, s, batch, size(t, "whole", 600, 1<<15), 0, h)
		llama := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
		if least, is := (measured{s}).leastPrefill(1, 512, 1<<16, llama), s.PrefillAttentionCost(1, 512, 1<<16, llama).Seconds; least < 0.7*is {
			t.Fatalf("512 tokens of Llama-3-8B after 65,536 take %g s, at least %g", is, least)
		} else if token := 512 * (measured{s}).leastPerToken(1<<16, llama); token < 0.4*is {
			t.Fatalf("512 tokens of Llama-3-8B after 65,536 take %g s, by the token at least %g", is, token)
		}
	})
}

func checkLeastPrefill(t *rapid.T, s *Spec, batch, chunk, finished int, h Heads) {
	m, p := measured{s}, s.prefillOf(&h)
	least, is := m.leastPrefill(batch, chunk, finished, h), s.PrefillAttentionCost(batch, chunk, finished, h).Seconds
	if least > is {
		t.Fatalf("%d chunks of %d after %d take %g s, at least %g; %+v", batch, chunk, finished, is, least, h)
	}
	if token := m.leastPerToken(finished, h); batch == 1 && token*float64(chunk) > is {
		t.Fatalf("a chunk of %d after %d takes %g s, each token at least %g; %+v", chunk, finished, is, token, h)
	}
	long := s.prefillTiles(p, batch, chunk, finished, h, true)
	if s.Suite == SuiteServer && s.Extend.MaxSplits > 1 && finished > 0 {
		if split, faster := s.extend(long.Seconds, batch, chunk, finished, h); faster {
			long = split
			long.Seconds = max(split.Seconds, s.prefillTiles(p, batch, chunk, 0, h, true).Seconds)
		}
	}
	if c := m.fastestPrefill(p, batch, chunk, finished, h); chunk > p.QueryRows && c != long {
		t.Fatalf("%d chunks of %d after %d: %+v, the long way %+v; %+v", batch, chunk, finished, c, long, h)
	}
}

// TestPromptSteps: a chunk that fills little of a tile uses decode steps if these are faster; a chunk slightly longer than a tile uses one
// kernel for the tile and another for the rest.
func TestPromptSteps(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	h := Heads{Query: 9600, KV: 75, Dim: 128, ElementBits: 16}
	for chunk := 1; chunk <= 2; chunk++ {
		step := s.DecodeAttentionCost(UniformBatch(4, 101), h)
		got := s.PrefillAttentionCost(4, chunk, 100, h)
		if n := float64(chunk); !near(got.Seconds, n*step.Seconds) || !near(got.Bytes, n*step.Bytes) || !near(got.Executed, n*step.Executed) || !near(got.FLOPs, n*step.FLOPs) || !near(got.Overhead, n*step.Overhead) {
			t.Errorf("%d tokens: %+v, a step %+v", chunk, got, step)
		}
	}
	tile, rest := s.PrefillAttentionCost(4, 128, 100, h), s.PrefillAttentionCost(4, 3, 228, h)
	if got := s.PrefillAttentionCost(4, 131, 100, h); !near(got.Seconds, tile.Seconds+rest.Seconds) || !near(got.Bytes, tile.Bytes+rest.Bytes) || !near(got.Executed, tile.Executed+rest.Executed) ||
		!near(got.Compute, tile.Compute+rest.Compute) || !near(got.Overhead, tile.Overhead+rest.Overhead) || !near(got.FLOPs, tile.FLOPs+rest.FLOPs) {
		t.Errorf("131 tokens: %+v, 128 and 3: %+v, %+v", got, tile, rest)
	}
}

// BenchmarkPrefillAttention: the tail of a prompt, with split keys, and a chunk without.
func BenchmarkPrefillAttention(b *testing.B) {
	s := loadPreset(b, "h200-sxm")
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	for name, chunk := range map[string]int{"short": 64, "long": 2048} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.PrefillAttentionCost(1, chunk, 65536, h)
			}
		})
	}
}
