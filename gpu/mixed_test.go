package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// TestDecodingOverAndOver: the cost of decoding depends only on the batch, not on earlier calls.
func TestDecodingOverAndOver(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
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

// TestMixedIteration: an iteration that both decodes and prefills has both kernels and the copies between them; otherwise it has only one
// kernel.
func TestMixedIteration(t *testing.T) {
	c := NewModelCost(loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-8b"))
	a := c.Attention()
	x := Shape{Decode: UniformBatch(64, 4096), Prefills: 2, Chunk: 512, Finished: 100}
	got, want := c.IterationParts(x), a.Total(a.Prompts(2, 512, 100, 0), a.Decoding(x.Decode), 64+1024)
	apart := got[DecodeAttention].Plus(got[PrefillAttention]).Seconds
	if joined := c.joined(64 + 1024).Seconds; math.Abs(apart/float64(c.model.Layers)+joined-want.Seconds) > 1e-12 || joined <= 0 {
		t.Errorf("attention takes %v s, a layer %v s and %v s of copies", apart, want.Seconds, joined)
	}
	if alone := c.IterationParts(Shape{Decode: x.Decode}); alone[DecodeAttention].Seconds == 0 || alone[PrefillAttention] != (Work{}) {
		t.Errorf("a batch that decodes: %+v", alone)
	}
	if alone := c.IterationParts(Shape{Prefills: 2, Chunk: 512}); alone[PrefillAttention].Seconds == 0 || alone[DecodeAttention] != (Work{}) {
		t.Errorf("a batch that prefills: %+v", alone)
	}
}

// TestJoinedTail: with prompts, the SMs wait for the longest context's excess over a mean one and over the longest prompt, which a block
// processes alone on its SM.
func TestJoinedTail(t *testing.T) {
	s := *loadPreset(t, "rtx-4090-vllm-0.19")
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	s.Prefill.BlocksPerSM, s.Prefill.LoneBlock = 2, 0.8
	p := s.Prefill
	key := 4 * 128 * 64 / (p.Compute * float64(s.Peak16) / float64(s.SMs)) // for a tile of 64 rows at the rate of an SM
	even := UniformBatch(64, 1000)
	for _, c := range []struct{ longest, prompt, waits int }{{1000, 0, 0}, {4000, 0, 3000}, {4000, 2500, 1500}, {4000, 5000, 0}} {
		b := even
		b.Longest = c.longest
		long, short := s.joinedDecodeCost(c.prompt, b, h), s.joinedDecodeCost(c.prompt, even, h)
		more := long.Seconds - short.Seconds
		if math.Abs(long.Overhead-short.Overhead-more) > 1e-12 {
			t.Errorf("%+v: of %g s more %g follow no bandwidth", c, more, long.Overhead-short.Overhead)
		}
		if want := float64(c.waits) * key / 0.8; math.Abs(more-want) > 1e-12 {
			t.Errorf("%+v: %g s more, want %g", c, more, want)
		}
	}
	m := NewModelCost(&s, loadModel(t, "llama-3-8b"))
	after := func(finished int) float64 { // one long context with a chunk, minus the same without it
		b, a, c := even, m.Attention(), m.Attention()
		b.Longest = 4000
		a.Prompts(1, 256, finished, 0)
		c.Prompts(1, 256, finished, 0)
		return a.Decoding(b).Seconds - c.Decoding(even).Seconds
	}
	if first, last := after(0), after(8000); first <= 0 || last != 0 {
		t.Errorf("a long context takes %g s more beside a first chunk, %g s beside one that reads more", first, last)
	}
}

// TestReadAgain: with prompts, a group's heads read keys and values from memory repeatedly once those of a KV head in the batch exceed the
// L2.
func TestReadAgain(t *testing.T) {
	s := *loadPreset(t, "rtx-4090-vllm-0.19") // 128 SMs with a block each, an L2 of 72 MB; a KV head has 512 bytes of a token
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	for _, c := range []struct {
		requests, context int
		want              float64 // reads beyond the first
	}{
		{128, 1000, 0}, {128, 4096, 3}, {128, 1 << 20, 3}, {64, 8192, 1}, {32, 1 << 20, 0}, {256, 8192, 3}, {8, 1 << 20, 0},
		{128, 1500, 3 * (128.*1500*512/72e6 - 1)},
	} {
		b := UniformBatch(c.requests, c.context)
		if got, want := s.readAgain(&s.Prefill, &b, h), c.want*8*512*float64(b.Tokens); math.Abs(got-want) > 1e-9*max(1, want) {
			t.Errorf("%+v: %g bytes, want %g", c, got, want)
		}
	}
	more := func(l2 units.Bytes) float64 {
		s.Alone.L2 = l2
		return s.joinedDecodeCost(0, UniformBatch(128, 2048), h).Memory
	}
	if small, large := more(1e6), more(1e9); !(small > 3.9*large && small < 4*large) {
		t.Errorf("%g s of memory with a small cache, %g s with a large one", small, large)
	}
	h.KV = 32 // no group
	if b := UniformBatch(128, 8192); s.readAgain(&s.Prefill, &b, h) != 0 {
		t.Error("a head alone reads again")
	}
}

// TestJoinedMeanByHand: with prompts, each query head of a decoding request has a tile over the tokens before its own, with the mean
// rounded down.
func TestJoinedMeanByHand(t *testing.T) {
	s := *loadPreset(t, "rtx-4090-vllm-0.19")
	h := Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16} // no groups, which would read repeatedly
	p := s.Prefill
	p.Overhead, p.LoneBlock = 0, 1
	for tokens, before := range map[int64]int{1999: 999, 2000: 999, 2001: 1000, 2002: 1000, 2003: 1001} {
		b := DecodeBatch{Requests: 2, Tokens: tokens}
		if got, want := s.joinedDecodeCost(0, b, h), s.prefillTiles(&p, 2, 1, before, h, true); got != want {
			t.Errorf("two requests of %d tokens: %+v, after %d tokens each %+v", tokens, got, before, want)
		}
	}
	for _, b := range []DecodeBatch{{}, {Requests: 2}, {Tokens: 2}} {
		if got := s.joinedDecodeCost(0, b, h); got != (Cost{}) {
			t.Errorf("%+v: %+v", b, got)
		}
	}
}

// TestTotalByHand: only a batch that both prefills and decodes needs copies between its two kernels.
func TestTotalByHand(t *testing.T) {
	c := NewModelCost(loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-8b"))
	a, some, other, copies := c.Attention(), Work{Seconds: 1}, Work{Seconds: 2}, c.joined(100)
	for _, x := range []struct{ prefill, decode, want Work }{{Work{}, Work{}, Work{}}, {some, Work{}, some}, {Work{}, other, other}, {some, other, some.Plus(other).Plus(copies)}} {
		if got := a.Total(x.prefill, x.decode, 100); got != x.want || copies.Seconds <= 0 {
			t.Errorf("%v s and %v s: %+v, want %+v", x.prefill.Seconds, x.decode.Seconds, got, x.want)
		}
	}
}
