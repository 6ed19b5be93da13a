package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// TestSmallKernels: the bytes of an iteration's small kernels at their shares of the bandwidth, and the time of rows that one block
// reduces.
func TestSmallKernels(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.MemoryBandwidth = 1e12
	s.Fused = FusedSpec{Overhead: 2 * units.Microsecond, Norm: 0.5, Activation: 0.25, Copy: 0.1, RowElement: units.Nanosecond}
	const pass = 1000 * 4096 * 2 // bytes
	for _, c := range []struct {
		name           string
		got            Cost
		bytes, seconds float64
	}{
		{"norm reads and writes two", s.addNorm(1000, 4096, 16), 4 * pass, 2e-6 + 4*pass/0.5e12 + 4096e-9},
		{"activation", s.activation(1000, 4096, false, 16), 2 * pass, 2e-6 + 2*pass/0.25e12},
		{"gated activation", s.activation(1000, 4096, true, 16), 3 * pass, 2e-6 + 3*pass/0.25e12},
		{"one copy", s.copied(1, 1000, 4096, 16), 2 * pass, 2e-6 + 2*pass/0.1e12},
		{"two copies", s.copied(2, 1000, 4096, 16), 4 * pass, 4e-6 + 4*pass/0.1e12},
		{"choice", s.choice(1000, 4096, 16), pass, 2e-6 + pass/0.5e12 + 4096e-9},
		{"half as wide", s.activation(1000, 4096, false, 8), pass, 2e-6 + pass/0.25e12},
	} {
		if !near(c.got.Bytes, c.bytes) || !near(c.got.Seconds, c.seconds) || c.got.FLOPs != 0 {
			t.Errorf("%s: %+v, want %g bytes and %g s", c.name, c.got, c.bytes, c.seconds)
		}
		if w := s.work(c.got); !near(w.Clocked, c.got.Seconds-c.got.Overhead) {
			t.Errorf("%s: %g of %g s follow the clock", c.name, w.Clocked, w.Seconds)
		}
	}
	for name, c := range map[string]Cost{
		"norm": s.addNorm(0, 4096, 16), "activation": s.activation(0, 4096, true, 16), "copy": s.copied(2, 0, 4096, 16), "choice": s.choice(0, 10, 16),
	} {
		if w := s.work(c); w.Dynamic != 0 || c.Bytes != 0 {
			t.Errorf("%s of no rows: %+v", name, c)
		}
	}
}

// nearWork compares all of two works.
func nearWork(a, b Work) bool {
	return near(a.Seconds, b.Seconds) && near(a.Clocked, b.Clocked) && near(a.Dynamic, b.Dynamic)
}

// TestIterationSums: an iteration is its layers between embedding and head, each the sum of its kernels.
func TestIterationSums(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-70b") // on 4 GPUs
	s.Collective.Skew = 0
	c := NewModelCost(s, m)
	k := func(costs ...Cost) (w Work) {
		for _, x := range costs {
			w = w.Plus(s.work(x))
		}
		return w
	}
	const n = 5
	if got, want := c.LMHead(n), k(s.addNorm(n, 8192, 16), s.GEMMCost(n, 128256/4, 8192, 16), s.choice(n, 128256/4, 16), s.AllReduceCost(4, 8*n)); !nearWork(got, want) {
		t.Errorf("head: %+v, want %+v", got, want)
	}
	if got, want := c.Embedding(n), k(s.copied(1, n, 8192, 16), s.AllReduceCost(4, n*8192*2)); !nearWork(got, want) {
		t.Errorf("embedding: %+v, want %+v", got, want)
	}
	heads := Heads{Query: 16, KV: 2, Dim: 128, ElementBits: 16}
	layer := func(tokens int, attention ...Cost) Work {
		reduce := s.AllReduceCost(4, units.Bytes(tokens*8192*2))
		return k(s.addNorm(tokens, 8192, 16), s.GEMMCost(tokens, 16*128+2*2*128, 8192, 16), s.copied(2, tokens, 256, 16)).Plus(k(attention...)).
			Plus(k(s.GEMMCost(tokens, 8192, 2048, 16), reduce, s.addNorm(tokens, 8192, 16), s.GEMMCost(tokens, 2*7168, 8192, 16),
				s.activation(tokens, 7168, true, 16), s.GEMMCost(tokens, 8192, 7168, 16), reduce))
	}
	launch := Cost{Seconds: 2 * s.Fused.Overhead.Seconds(), Overhead: 2 * s.Fused.Overhead.Seconds()}
	decode, prefill := s.DecodeAttentionCost(UniformBatch(n, 700), heads), s.PrefillAttentionCost(2, 300, 50, heads)
	for _, x := range []struct {
		name            string
		shape           Shape
		tokens, emitted int
		layer           Work
	}{
		{"decode", Shape{Decode: UniformBatch(n, 700)}, n, n, layer(n, decode)},
		{"prefill", Shape{Prefills: 2, Chunk: 300, Finished: 50}, 600, 2, layer(600, prefill)},
		// Copies into the cache and joining the outputs: three kernels more.
		{"mixed", Shape{Decode: UniformBatch(n, 700), Prefills: 2, Chunk: 300, Finished: 50}, 605, 7, layer(605, decode, prefill, s.copied(1, 605, 2048, 16), launch)},
	} {
		want := c.Embedding(x.tokens).Plus(x.layer.Times(80)).Plus(c.LMHead(x.emitted))
		if got := c.Iteration(x.shape); !nearWork(got, want) {
			t.Errorf("%s: %+v, want %+v", x.name, got, want)
		}
	}
	for out, steps := range map[int][]int{1: nil, 2: {101}, 4: {101, 102, 103}} {
		prefill, decode, joules := c.StaticBatch(n, 100, out)
		want, energy := s.Sustained(c.Iteration(Shape{Prefills: n, Chunk: 100}))
		sum := 0.0
		for _, context := range steps {
			seconds, more := s.Sustained(c.Iteration(Shape{Decode: UniformBatch(n, context)}))
			sum += seconds
			energy += more
		}
		if !near(prefill, want) || !near(decode, sum) || !near(joules, energy) {
			t.Errorf("static batch of %d tokens: %g and %g s, %g J, want %g, %g and %g", out, prefill, decode, joules, want, sum, energy)
		}
	}
}

// TestSkew: a replica's GPUs wait for the slowest one, by a share of the time that scales with the clock; a single GPU does not wait, and
// all-reduces themselves have no skew.
func TestSkew(t *testing.T) {
	even, m := *loadPreset(t, "h200-sxm"), *loadModel(t, "llama-3-8b")
	even.Collective.Skew = 0
	skewed := even
	skewed.Collective.Skew = 0.1
	shape := Shape{Decode: UniformBatch(8, 2000), Prefills: 1, Chunk: 512, Finished: 100}
	for _, gpus := range []int{1, 2, 8} {
		m.TensorParallel = gpus
		a, b := NewModelCost(&even, &m), NewModelCost(&skewed, &m)
		compute := a.QKV(520).Clocked + a.DecodeBatch(shape.Decode).Clocked + a.PrefillAttention(512, 100).Clocked +
			a.Projection(520).Clocked + a.FFN(520).Clocked
		want := 0.1 * 32 * compute
		if gpus == 1 {
			want = 0
		}
		got, before := b.Iteration(shape), a.Iteration(shape)
		if math.Abs(got.Seconds-before.Seconds-want) > 1e-12 || got.Clocked != before.Clocked || got.Dynamic != before.Dynamic {
			t.Errorf("%d GPUs: %g s of waiting, want %g; %+v", gpus, got.Seconds-before.Seconds, want, got)
		}
	}
}

// TestIterationLaws: on every preset and model of one GPU, more requests, tokens or context never make an iteration faster, and a mixed one
// takes at least as long as the larger of its halves. Below the power limit that is exact. Above it, another tile may pad less and thus
// draw less power, by less than a two-hundredth of the time.
func TestIterationLaws(t *testing.T) {
	names := presetNames(t, "models")
	models := map[string]*llm.Model{}
	for _, name := range names {
		models[name] = loadModel(t, name)
	}
	forPresets(t, func(t *rapid.T, preset *Spec) {
		s := *preset
		if s.MatMul.Model == AttAcc {
			return // not monotone by construction
		}
		smooth(&s)
		m := *models[rapid.SampledFrom(names).Draw(t, "model")]
		m.TensorParallel = 1
		c := NewModelCost(&s, &m)
		x := [5]int{size(t, "batch", 1, 512), size(t, "context", 1, 1<<16), size(t, "prefills", 1, 8), size(t, "chunk", 1, 1<<13), size(t, "finished", 1, 1<<15)}
		times := func(x [5]int) [2]float64 {
			w := c.Iteration(Shape{Decode: UniformBatch(x[0], x[1]), Prefills: x[2], Chunk: x[3], Finished: x[4]})
			sustained, _ := s.Sustained(w)
			return [2]float64{w.Seconds * (1 + 1e-9), sustained * 1.005}
		}
		shorter := func(a, b [2]float64) bool { return a[0] < b[0]/(1+1e-9) || a[1] < b[1]/1.005 }
		before := times(x)
		y := x
		y[rapid.IntRange(0, 4).Draw(t, "grows")] += size(t, "by", 1, 1<<10)
		if after := times(y); shorter(after, before) {
			t.Fatalf("%s %v takes %g s, %v only %g", m.Name, x, before, y, after)
		}
		for _, half := range [][5]int{{x[0], x[1], 0, 0, 0}, {0, 0, x[2], x[3], x[4]}} {
			if part := times(half); shorter(before, part) {
				t.Fatalf("%s: %v takes %g s, its part %v %g", m.Name, x, before, half, part)
			}
		}
	})
}
