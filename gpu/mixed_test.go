package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestMixedAttention: one launch for prompts and decoding requests takes no longer than
// kernels apart, and no less than the longer of them alone; a batch of one kind alone
// does not feel the switch.
func TestMixedAttention(t *testing.T) {
	for _, name := range []string{"h200-sxm", "h100-sxm", "a100-sxm-80gb"} {
		apart := loadPreset(t, name)
		together := *apart
		together.MixedAttention = MixedTogether
		m := loadModel(t, "llama-3-8b")
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				batch := UniformBatch(size(t, "batch", 1, 256), size(t, "context", 1, 1<<15))
				chunk, finished := size(t, "chunk", 1, 1<<13), size(t, "finished", 1, 1<<15)-1
				took := func(s *Spec, decode, prefill bool) float64 {
					a := NewModelCost(s, m).Attention()
					var d, p Work
					if prefill {
						p = a.Prompts(1, chunk, finished, 0)
					}
					if decode {
						d = a.Decoding(batch)
					}
					return a.Total(p, d, batch.Requests+chunk).Seconds
				}
				one, two := took(&together, true, true), took(apart, true, true)
				decode, prefill := took(apart, true, false), took(apart, false, true)
				if one > two*(1+1e-9) || one < max(decode, prefill)*(1-1e-9) {
					t.Fatalf("one launch takes %v s, apart %v, decoding alone %v, the prompt alone %v", one, two, decode, prefill)
				}
				if took(&together, true, false) != decode || took(&together, false, true) != prefill {
					t.Fatal("a batch of one kind feels the switch")
				}
			})
		})
	}
}

// TestOneLaunchByHand: the one launch is a kernel with the arithmetic and the traffic of
// both, and the longer of their chains and overheads. It draws what both draw.
func TestOneLaunchByHand(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.MixedAttention = MixedTogether
	c := NewModelCost(&s, loadModel(t, "llama-3-8b"))
	batch, sum := UniformBatch(48, 6000), 48+3000
	a := c.Attention()
	p, d := a.Prompts(1, 3000, 500, 0), a.Decoding(batch)
	got := a.Total(p, d, sum)
	x, y := s.PrefillAttentionCost(1, 3000, 500, c.heads), s.DecodeAttentionCost(batch, c.heads)
	ridge := max(s.Prefill.Ridge, s.Decode.Ridge)
	want := pnorm(ridge, x.Compute+y.Compute, x.Memory+y.Memory, max(x.Latency, y.Latency)) + max(x.Overhead, y.Overhead)
	if math.Abs(got.Seconds/want-1) > 1e-12 || want <= max(x.Seconds, y.Seconds) || want >= x.Seconds+y.Seconds {
		t.Errorf("one launch takes %v s, want %v; alone %v and %v", got.Seconds, want, x.Seconds, y.Seconds)
	}
	if min(s.Prefill.Ridge, s.Decode.Ridge) == 0 || math.Abs(got.Dynamic/(p.Dynamic+d.Dynamic)-1) > 1e-12 {
		t.Errorf("it draws %v J beyond the base, the kernels apart %v", got.Dynamic, p.Dynamic+d.Dynamic)
	}
	// What requests share is part of the launch, a merge is not.
	z := c.SharedCost([]Shared{{48, 4096}})
	e, merge := a.Shared(z), a.Beside(c.Merge(48))
	got = a.Total(p, d.Plus(e).Plus(merge), sum)
	want = pnorm(ridge, x.Compute+y.Compute+z.Compute, x.Memory+y.Memory+z.Memory, max(x.Latency, y.Latency, z.Latency)) + max(x.Overhead, y.Overhead, z.Overhead) + merge.Seconds
	if math.Abs(got.Seconds/want-1) > 1e-12 || math.Abs(got.Dynamic/(p.Dynamic+d.Dynamic+e.Dynamic+merge.Dynamic)-1) > 1e-12 {
		t.Errorf("one launch and a merge take %+v, want %v s", got, want)
	}
}

// TestDecodingOverAndOver: what decoding takes depends on the batch alone, not on what a
// model's costs were asked for before.
func TestDecodingOverAndOver(t *testing.T) {
	for _, way := range []MixedAttention{MixedApart, MixedTogether} {
		s := *loadPreset(t, "h200-sxm")
		s.MixedAttention = way
		m := loadModel(t, "llama-3-8b")
		rapid.Check(t, func(t *rapid.T) {
			c := NewModelCost(&s, m)
			for range 30 {
				n := func(name string) int { return rapid.IntRange(1, 2).Draw(t, name) }
				b := DecodeBatch{Requests: 2 * n("requests"), Tokens: int64(9000 * n("tokens")), Longest: 4500 * n("longest"), KVHeads: 4 * n("heads"), Page: 16 * (n("page") - 1), Weights: n("weights") == 2}
				a, fresh := c.Attention(), NewModelCost(&s, m).Attention()
				got, want := a.Decoding(b), fresh.Decoding(b)
				if got != want || a.Total(Work{Seconds: 1}, got, 9) != fresh.Total(Work{Seconds: 1}, want, 9) {
					t.Fatalf("%+v: %+v, for costs that were asked for nothing else %+v", b, got, want)
				}
			}
		})
	}
}

// TestJoined: a launch in which prompts and decoding requests attend side by side has the arithmetic and the traffic of both kernels and the longer of their
// fixed times and chains, and takes no less than either kernel alone. An iteration with MixedTogether counts this launch and neither kernel.
func TestJoined(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.MixedAttention = MixedTogether
	c := NewModelCost(&s, loadModel(t, "llama-3-8b"))
	a := c.Attention()
	for _, k := range []Cost{
		{FLOPs: 1, Executed: 2, Bytes: 3, Compute: 4, Memory: 5, Latency: 60, Overhead: 7, Seconds: 80},
		{FLOPs: 10, Executed: 20, Bytes: 30, Compute: 40, Memory: 50, Latency: 6, Overhead: 70, Seconds: 8}, {},
	} {
		a.join(k)
	}
	if want := (Cost{FLOPs: 11, Executed: 22, Bytes: 33, Compute: 44, Memory: 55, Latency: 60, Overhead: 70, Seconds: 88}); a.kernel != want || a.alone != 80 {
		t.Errorf("%+v, the longest %v s; want %+v", a.kernel, a.alone, want)
	}
	a = c.Attention()
	x := Shape{Decode: UniformBatch(64, 4096), Prefills: 2, Chunk: 512, Finished: 100}
	want := a.Total(a.Prompts(2, 512, 100, 0), a.Decoding(x.Decode), 64+1024).Times(c.model.Layers)
	if got := c.IterationParts(x); got[DecodeAttention] != want || got[PrefillAttention] != (Work{}) {
		t.Errorf("attention takes %+v and %+v, want %+v", got[DecodeAttention], got[PrefillAttention], want)
	}
	if alone := c.IterationParts(Shape{Decode: x.Decode}); alone[DecodeAttention].Seconds == 0 || alone[PrefillAttention] != (Work{}) {
		t.Errorf("a batch that decodes: %+v", alone)
	}
	if alone := c.IterationParts(Shape{Prefills: 2, Chunk: 512}); alone[PrefillAttention].Seconds == 0 || alone[DecodeAttention] != (Work{}) {
		t.Errorf("a batch that prefills: %+v", alone)
	}
}
