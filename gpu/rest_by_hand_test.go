package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// TestUsableByHand: of 100 B, 30 are reserved; of the other 70, tensors may use a share, or all if none is given. If the reserve takes all
// of a part, nothing is left.
func TestUsableByHand(t *testing.T) {
	for _, c := range []struct {
		share      float64
		part, want units.Bytes
	}{{1, 100, 70}, {0, 100, 70}, {0.5, 100, 35}, {0.9, 60, 27}, {0.5, 20, 0}, {1, 30, 0}, {2, 100, 70}} {
		s := Spec{MemoryCapacity: c.part, MemoryReserve: 30, MemoryShare: c.share}
		if got := s.UsableMemory(); got != c.want || s.UsableOf(c.part) != c.want {
			t.Errorf("%+v: %d B", c, got)
		}
	}
	for _, c := range []struct{ query, kv, want int }{{8, 2, 4}, {2, 8, 1}, {7, 0, 7}, {0, 3, 1}} {
		h := Heads{Query: c.query, KV: c.kv}
		if got := h.group(); got != c.want {
			t.Errorf("%+v: a group of %d", c, got)
		}
	}
	h := Heads{Query: 8, KV: 2, Dim: 128, ElementBits: 16, KVBits: 8, KVScaleBytes: 4}
	if got := h.kvBytes(); got != 256+8 {
		t.Errorf("a key and a value have %v B", got)
	}
	if h.Latent, h.Value = true, 96; h.kvBytes() != float64(elementBytes(h.stored(), 8))+4 {
		t.Errorf("a latent has %v B", h.kvBytes())
	}
}

// TestMixedKernelByHand: attention of a chunk and of concurrent decoding is the sum of both, and decoding takes no less than alone.
func TestMixedKernelByHand(t *testing.T) {
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	sides := map[bool]int{}
	for _, name := range []string{"rtx-4090-vllm-0.19", "h200-sxm"} {
		s := *loadPreset(t, name)
		for _, c := range []struct{ requests, context, chunk, finished int }{{1, 30_000, 16, 10}, {64, 4000, 512, 100}, {256, 8000, 2000, 0}, {8, 60_000, 100, 60_000}, {1, 20, 7, 3}} {
			b := UniformBatch(c.requests, c.context)
			decode, alone := s.joinedDecodeCost(c.chunk+c.finished, b, h), s.DecodeAttentionCost(b, h)
			slower := alone.Seconds > decode.Seconds
			if slower {
				decode = alone
			}
			sides[slower]++
			prompt := s.PrefillAttentionCost(1, c.chunk, c.finished, h)
			got := s.MixedAttentionCost(c.chunk, c.finished, b, h)
			want := Cost{
				FLOPs: prompt.FLOPs + decode.FLOPs, Executed: prompt.Executed + decode.Executed, Bytes: prompt.Bytes + decode.Bytes, Compute: prompt.Compute + decode.Compute,
				Memory: prompt.Memory + decode.Memory, Latency: prompt.Latency + decode.Latency, Overhead: prompt.Overhead + decode.Overhead, Seconds: prompt.Seconds + decode.Seconds, ridge: prompt.ridge,
			}
			if got != want || prompt.Seconds == 0 {
				t.Errorf("%s, %+v: %+v, by hand %+v", name, c, got, want)
			}
		}
	}
	if sides[true] == 0 || sides[false] == 0 {
		t.Errorf("alone and beside prompts %v", sides)
	}
	// With latents, decoding costs the same as in the model; prompts expand their keys and values, including those of finished tokens.
	c := NewModelCost(loadPreset(t, "h200-sxm"), latentModel(8))
	a := c.Attention()
	prompts, made := a.Prompts(2, 300, 200, 0), c.expand(2*300, 2*200)
	if want := c.prefills(c.spec.PrefillAttentionCost(2, 300, 200, c.kinds[0].prompts)).Plus(made); prompts != want || made.Seconds == 0 {
		t.Errorf("prompts %+v, by hand %+v", prompts, want)
	}
	if got, want := a.Decoding(UniformBatch(7, 900)), c.DecodeBatch(UniformBatch(7, 900)); got != want {
		t.Errorf("decoding %+v, by hand %+v", got, want)
	}
	if c.absorb(0) != (Work{}) || c.expand(0, 0) != (Work{}) || c.expand(-1, 0) != (Work{}) || NewModelCost(loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-8b")).absorb(7) != (Work{}) {
		t.Error("nothing takes time")
	}
	if c.latent.queries() != 16*(128+64) {
		t.Errorf("queries of %d elements", c.latent.queries())
	}
	if h := c.latent.prompts(16); h.Query != 16 || h.KV != 16 || h.Dim != 192 || h.Value != 128 || h.ElementBits != 16 {
		t.Errorf("prompts have %+v", h)
	}
}

// TestBeyondByHand: which kernels of an iteration exceed the measured range: by rows of decoding requests and prompts, and by attention of
// either, if there is any.
func TestBeyondByHand(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	c := NewModelCost(&s, loadModel(t, "llama-3-8b"))
	for _, x := range []Shape{{Decode: UniformBatch(100_000, 10)}, {Prefills: 3, Chunk: 900_000, Finished: 7}, {Decode: UniformBatch(2, 100), Prefills: 1, Chunk: 64}, {Decode: UniformBatch(2, 100), Prefills: 200_000, Chunk: 1}} {
		got := c.Beyond(x)
		want := c.layersBeyond(x.Decode.Requests + x.Prefills*x.Chunk)
		want[LMHead] = c.headBeyond(x.Decode.Requests + x.Prefills)[LMHead]
		want[DecodeAttention], want[PrefillAttention] = "", ""
		if x.Decode.Requests > 0 {
			want[DecodeAttention] = s.DecodeBeyond(x.Decode)
		}
		if x.Prefills > 0 {
			want[PrefillAttention] = s.PrefillBeyond(x.Chunk, x.Finished)
		}
		if got != want {
			t.Errorf("%+v: %q, by hand %q", x, got, want)
		}
	}
	if s.AllReduceBeyond(1, 1<<40) != "" || s.AllReduceBeyond(2, 1<<40) == "" {
		t.Error("of an all-reduce of a TiB")
	}
}

// TestWavesOfPromptsByHand: AttAcc's blocks, 12 heads of several prompts on 108 SMs. Nine equal prompts are one wave, which takes as long
// as one block. A longer prompt makes the wave wait for its excess, a shorter one changes nothing.
func TestWavesOfPromptsByHand(t *testing.T) {
	s := attAcc{loadPreset(t, "a100-paper")}
	h := Heads{Query: 12, KV: 12, Dim: 128, ElementBits: 16}
	p := &s.attention().Prefill
	block := func(chunk, finished int) float64 {
		compute, memory := s.block(&p.Efficiency, float64(chunk), float64(chunk+finished), h)
		return compute + memory
	}
	fixed := func(chunk, finished int) float64 { return s.prefillWork(p, 1, chunk, finished, h).Seconds }
	var w wave
	for i, c := range []struct {
		chunk, finished int
		free            int
		longest, waits  float64
	}{
		{500, 100, 96, block(500, 100), block(500, 100)}, {500, 100, 84, block(500, 100), 0}, {900, 300, 72, block(900, 300), block(900, 300) - block(500, 100)}, {40, 0, 60, block(900, 300), 0}, {0, 7, 60, block(900, 300), 0},
	} {
		cost, next := s.prompt(w, c.chunk, c.finished, h)
		want := c.waits
		if c.chunk > 0 {
			want += fixed(c.chunk, c.finished)
		}
		if next.free != c.free || math.Abs(next.longest-c.longest) > 1e-15 || math.Abs(cost.Seconds-want) > 1e-15 {
			t.Errorf("prompt %d: %+v and %g s, by hand %d free, %g s and %g s", i, next, cost.Seconds, c.free, c.longest, want)
		}
		w = next
	}
	// 72 of 84 heads fill the first wave, and 12 start another one.
	h.Query = 72
	cost, next := s.prompt(wave{free: 60, longest: 1}, 500, 100, h)
	if next.free != 96 || math.Abs(cost.Seconds-fixed(500, 100)-block(500, 100)) > 1e-15 {
		t.Errorf("%+v and %g s", next, cost.Seconds)
	}
	// Unequal requests take as long as equal ones of the mean context, and at least as long as the longest block.
	h = Heads{Query: 12, KV: 12, Dim: 128, ElementBits: 16}
	e := &s.attention().Decode.Efficiency
	compute, memory := s.block(e, 1, 9000, h)
	for _, b := range []DecodeBatch{{Requests: 2, Tokens: 9010, Longest: 9000, KVHeads: 12}, {Requests: 2, Tokens: 18_000, Longest: 9000, KVHeads: 12}} {
		if c := s.decode(b, h); math.Abs(c.Latency-compute-memory) > 1e-15 || c.Seconds < c.Latency {
			t.Errorf("%+v: %+v, the longest block takes %g s", b, c, compute+memory)
		}
	}
}

// TestSharedPrefixByHand: a KV head's queries fill tiles of rows separately for each group; the largest group's rows determine how contexts
// are split.
func TestSharedPrefixByHand(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	m := measured{&s}
	h := Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16}
	d := &s.attention().Decode
	for _, groups := range [][]Shared{{{Requests: 3, Tokens: 1000}}, {{Requests: 40, Tokens: 2000}, {Requests: 5, Tokens: 500}, {Requests: 1, Tokens: 8000}}} {
		requests, tokens, attended, most, longest := 0, 0, 0, 0, 0
		for _, g := range groups {
			requests, tokens, attended, most, longest = requests+g.Requests, tokens+g.Tokens, attended+g.Requests*g.Tokens, max(most, 4*g.Requests), max(longest, g.Tokens)
		}
		items, mean := float64(8*len(groups)), float64(tokens)/float64(len(groups))
		parts, rows := d.parts(s.SMs, items, mean, m.blockToken(h), most)
		padded := 0
		for _, g := range groups {
			padded += (4*g.Requests + rows - 1) / rows * rows * g.Tokens
		}
		q, kv := h.decodeBytes(float64(requests), float64(tokens))
		want := Cost{FLOPs: h.pairFLOPs() * 32 * float64(attended), Bytes: kv + q, Executed: h.pairFLOPs() * float64(padded) * 8, Overhead: d.Overhead.Seconds() + d.GroupOverhead.Seconds()}
		m.blocks(&want, items, parts, mean, float64(longest), float64(tokens), float64(attended), kv, most, h)
		want = want.combine(d.Ridge)
		if got := m.shared(groups, h); got != want || got.Executed <= got.FLOPs*0.99 {
			t.Errorf("%+v: %+v, by hand %+v", groups, got, want)
		}
	}
	if got := m.shared([]Shared{{Requests: 7}}, h); got != (Cost{}) {
		t.Errorf("prefixes without tokens take %+v", got)
	}
}

// TestCombinedSteps: several steps' parts are combined as one step's are: 3, 4 and 0 s to 5 s, plus the overhead.
func TestCombinedSteps(t *testing.T) {
	var costs [aheadSteps]Cost
	for i := range costs {
		parts := [3]float64{3, 4, 0}
		costs[i] = Cost{Compute: parts[i%3], Memory: parts[(i+1)%3], Latency: parts[(i+2)%3], Overhead: float64(i)}
	}
	combineAll(2, &costs)
	for i, c := range costs {
		if math.Abs(c.Seconds-float64(5+i)) > 1e-9 || c.ridge != 2 {
			t.Errorf("step %d takes %v s, by hand %d", i, c.Seconds, 5+i)
		}
	}
}

// TestNarrowProductBytes: one byte for each element of the factors, two for the result, and one byte of scale for each 32 weights.
func TestNarrowProductBytes(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	if got := s.NarrowGEMMCost(30, 500, 700, 8, 0).Bytes; got != 30*700+500*700+2*30*500 {
		t.Errorf("%v B", got)
	}
	if got := (widths{In: 16, Weights: 4, Out: 8, Block: 32}).bytes(10, 640, 6); got != 20+320+6+20 {
		t.Errorf("%v B, by hand 366", got)
	}
	if got := (widths{In: 16, Weights: 4, Out: 8}).bytes(10, 640, 6); got != 346 {
		t.Errorf("%v B, by hand 346", got)
	}
}

// TestWindowsLongerThanContexts: a window longer than every context changes nothing, however unequal the contexts are.
func TestWindowsLongerThanContexts(t *testing.T) {
	model := *loadModel(t, "llama-3-8b")
	model.Window = 4096
	c := NewModelCost(loadPreset(t, "h200-sxm"), &model)
	x := Shape{Decode: DecodeBatch{Requests: 2, Tokens: 1010, Longest: 1000}, Prefills: 1, Chunk: 64, Finished: 100}
	if got, want := c.attend(x, llm.Local), c.attend(x, llm.Global); got != want || want[DecodeAttention].Seconds == 0 {
		t.Errorf("with a window %+v, without %+v", got, want)
	}
	x.Decode.Tokens, x.Decode.Longest = 9000, 8990 // a window holds at most 2 · 4,096 of them
	y := x
	y.Decode.Tokens, y.Decode.Longest = 8192, 4096
	if got, want := c.attend(x, llm.Local), c.attend(y, llm.Global); got != want {
		t.Errorf("with a window %+v, by hand %+v", got, want)
	}
}
