package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
)

// TestIterationWithWindows: layers with a window cost as much as attention of a context as long as the window, other layers as much as that
// of the whole context. A window beyond the context changes nothing.
func TestIterationWithWindows(t *testing.T) {
	spec, dense := loadPreset(t, "h200-sxm"), loadModel(t, "llama-3-8b")
	parts := func(w llm.LayerKinds, x Shape) Parts {
		m := *dense
		m.LayerKinds = w
		return NewModelCost(spec, &m).IterationParts(x)
	}
	long, short := Shape{Decode: UniformBatch(16, 9000)}, Shape{Decode: UniformBatch(16, 512)}
	all, few := parts(llm.LayerKinds{}, long), parts(llm.LayerKinds{}, short)
	for pattern, windowed := range map[string]float64{"": 1, "LG": 0.5, "GL": 0.5, "LLLG": 0.75} {
		got := parts(llm.LayerKinds{Window: 512, LayerPattern: pattern}, long)
		for g := range all {
			want := windowed*few[g].Seconds + (1-windowed)*all[g].Seconds
			if math.Abs(got[g].Seconds-want) > 1e-12 {
				t.Errorf("%q: %v takes %v s, want %v", pattern, Group(g), got[g].Seconds, want)
			}
		}
		if parts(llm.LayerKinds{Window: 9000, LayerPattern: pattern}, long).Total().Seconds != all.Total().Seconds {
			t.Errorf("%q: a window of the whole context changes the time", pattern)
		}
	}
	prompt := Shape{Prefills: 1, Chunk: 2048, Finished: 6000}
	if a, b := parts(llm.LayerKinds{Window: 512}, prompt), parts(llm.LayerKinds{}, prompt); a[PrefillAttention].Seconds > b[PrefillAttention].Seconds/4 {
		t.Errorf("a prompt's attention takes %v s with a window of 512, %v s without", a[PrefillAttention].Seconds, b[PrefillAttention].Seconds)
	}
}

// TestIterationInChunks: attention within chunks of 4,096 tokens costs as much as attention of the chunk so far, and a prompt as much as
// its parts in each chunk together.
func TestIterationInChunks(t *testing.T) {
	spec, m := loadPreset(t, "h200-sxm"), *loadModel(t, "llama-3-8b")
	chunks := m
	chunks.LayerKinds = llm.LayerKinds{Window: 4096, LayerPattern: "C"}
	c, dense := NewModelCost(spec, &chunks), NewModelCost(spec, &m)
	for context, read := range map[int]int{1: 1, 4095: 4095, 4096: 4096, 4097: 1, 9000: 808} {
		got, want := c.IterationParts(Shape{Decode: UniformBatch(16, context)}), dense.IterationParts(Shape{Decode: UniformBatch(16, read)})
		if got != want {
			t.Errorf("a context of %d: %+v, want %+v", context, got, want)
		}
	}
	a, layers := dense.Attention(), m.Layers
	got := c.IterationParts(Shape{Prefills: 2, Chunk: 10000, Finished: 1000})[PrefillAttention]
	want := a.Prompts(2, 3096, 1000, 0).Plus(a.Prompts(2, 4096, 0, 0)).Plus(a.Prompts(2, 2808, 0, 0)).Times(layers)
	if math.Abs(got.Seconds/want.Seconds-1) > 1e-12 {
		t.Errorf("a prompt takes %+v, want %+v", got, want)
	}
	// Contexts of 100 and 9,900 tokens count as two of 5,000, which read 904.
	if a, b := c.IterationParts(Shape{Decode: DecodeBatch{Requests: 2, Tokens: 10000, Longest: 9900}}), dense.IterationParts(Shape{Decode: UniformBatch(2, 904)}); a != b {
		t.Errorf("%+v, want %+v", a, b)
	}
}

// TestExpertsInMXFP4: a grouped product of 4-bit experts reads 17/32 bytes for each weight (blocks of 32 with a byte of scale), and
// multiplies in 16 bits.
func TestExpertsInMXFP4(t *testing.T) {
	spec, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	bytes := func(bits int) float64 {
		m.ExpertBits = bits
		c := NewModelCost(spec, &m)
		return spec.groupedCost(expertLoad{Pairs: 8, Touched: 8}, 4, 64, 320, c.grouped).Bytes - 4*320*2 - 8*64*2
	}
	for bits, each := range map[int]float64{0: 2, 16: 2, 8: 1, 4: 17.0 / 32} {
		if got := bytes(bits); got != 8*64*320*each {
			t.Errorf("%d bits: %v bytes of weights, want %v", bits, got, 8*64*320*each)
		}
	}
	m.ExpertBits = 4
	if c := NewModelCost(spec, &m); c.grouped.rate() != 16 || c.products.Weights != 16 {
		t.Errorf("experts multiply in %d bits, other weights have %d", c.grouped.rate(), c.products.Weights)
	}
}

// TestWindowBeyondContexts: a window longer than every context changes nothing; with a shorter one, a step costs as much as a batch of
// contexts as long as the window. Requests of 100 and 3,000 tokens with windows of 1,000 count as two of 1,000.
func TestWindowBeyondContexts(t *testing.T) {
	spec, m := loadPreset(t, "h100-sxm"), *loadModel(t, "mistral-7b")
	m.Layers = 4
	decoded := func(window int, b DecodeBatch) Work {
		windowed := m
		windowed.LayerKinds = llm.LayerKinds{Window: window}
		return NewModelCost(spec, &windowed).IterationParts(Shape{Decode: b})[DecodeAttention]
	}
	for _, c := range []struct {
		window   int
		of, want DecodeBatch
	}{
		{5000, UniformBatch(7, 1500), UniformBatch(7, 1500)}, {1500, UniformBatch(7, 1500), UniformBatch(7, 1500)}, {1000, UniformBatch(7, 1500), UniformBatch(7, 1000)},
		{5000, DecodeBatch{Requests: 2, Tokens: 3100, Longest: 3000}, DecodeBatch{Requests: 2, Tokens: 3100, Longest: 3000}},
		{1000, DecodeBatch{Requests: 2, Tokens: 3100, Longest: 3000}, UniformBatch(2, 1000)},
		{2000, DecodeBatch{Requests: 2, Tokens: 3100, Longest: 3000}, DecodeBatch{Requests: 2, Tokens: 3100, Longest: 2000}},
	} {
		if got, want := decoded(c.window, c.of), decoded(1<<20, c.want); got != want || got.Seconds == 0 {
			t.Errorf("a window of %d tokens: %+v takes %+v, as by hand %+v %+v", c.window, c.of, got, c.want, want)
		}
	}
}
