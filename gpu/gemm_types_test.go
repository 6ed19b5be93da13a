package gpu

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// typedSpec is a GPU of ten SMs of 1 TFLOP/s each in 16 bits and 1 TB/s, with FP8 and NVFP4 products at full efficiency.
func typedSpec() *Spec {
	s := &Spec{Peak16: 10e12, Peak8: 20e12, MemoryBandwidth: 1e12, SMs: 10, Suite: SuiteServer}
	all := Tiling{Efficiency: Efficiency{Compute: 1, Memory: 1}, WaveQuantization: true}
	s.MatMul = GEMMSpec{Model: GEMMTiles, Tiling: all, Narrow: 0.5}
	typed := TypedGEMMSpec{Tiling: all, Tiles: "64x64 <= 64, 64x128/2 <= 128, 128x128/2", Convert: 2_000_000, ConvertMemory: 0.5}
	typed.Overhead = 1_000_000 // 1 us; Convert is 2 us
	s.FP8, s.FP8Block, s.NVFP4 = typed, typed, typed
	s.FP8Block.Convert, s.NVFP4.Convert = 3_000_000, 4_000_000
	return s
}

func TestTypedProductByHand(t *testing.T) {
	s := typedSpec()
	const k = 1000
	for _, c := range []struct {
		m, n, bits, block int
		blocks, tile      float64 // thread blocks, and the elements of their tile
		convert           float64 // us
	}{
		{1, 640, 8, 0, 10, 64 * 64, 2},           // 1 x 10 tiles: one wave
		{64, 704, 8, 0, 11, 64 * 64, 2},          // 11 tiles on 10 SMs: two waves
		{65, 640, 8, 0, 10, 64 * 128, 2},         // two tiles, one above the other, 5 columns
		{128, 640, 8, FP8Block, 10, 64 * 128, 3}, // 128 rows are one pair of tiles, like 65
		{129, 640, 8, FP8Block, 10, 128 * 128, 3},
		{257, 640, 8, 0, 20, 128 * 128, 2}, // rows are padded to 512: two waves
		{512, 640, 4, NVFP4Block, 20, 128 * 128, 4},
	} {
		got := s.NarrowGEMMCost(c.m, c.n, k, c.bits, c.block)
		rate := 2e12 // of an SM, in FLOP/s
		if c.bits == 4 {
			rate *= 2
		}
		waves := 1.0
		if c.blocks > 10 {
			waves = 2
		}
		compute := waves * 2 * c.tile * k / rate
		width := float64(c.bits) / 8
		bytes := width*(float64(c.m)*k+k*float64(c.n)) + 2*float64(c.m*c.n)
		if c.block > 0 {
			bytes += k * float64(c.n) / float64(c.block)
		}
		converted := float64(c.m) * k * (2 + width)
		want := max(compute, bytes/1e12) + 1e-6 + c.convert*1e-6 + converted/0.5e12
		if !near(got.Seconds, want) || !near(got.Bytes, bytes+converted) || got.FLOPs != 2*k*float64(c.m*c.n) {
			t.Errorf("%+v: %v s, %v B, want %v s, %v B", c, got.Seconds, got.Bytes, want, bytes+converted)
		}
		// Tensor cores multiply whole tiles, and an 8-bit operation counts half.
		if executed := 2 * c.blocks * c.tile * k * float64(c.bits) / 16; !near(got.Executed, executed) {
			t.Errorf("%+v: %v operations executed, want %v", c, got.Executed, executed)
		}
	}
}

// TestTypedKernels: which products have kernels of their type, and which use 16-bit kernels at a share of the rate.
func TestTypedKernels(t *testing.T) {
	s := typedSpec()
	for _, c := range []struct {
		w    widths
		want *TypedGEMMSpec
	}{
		{widths{8, 8, 16, 0}, &s.FP8}, {widths{8, 8, 16, FP8Block}, &s.FP8Block}, {widths{8, 4, 16, NVFP4Block}, &s.NVFP4}, {widths{4, 4, 16, NVFP4Block}, &s.NVFP4},
		{widths{16, 16, 16, 0}, nil}, {widths{16, 8, 16, 0}, nil}, {widths{16, 4, 16, NVFP4Block}, nil}, {widths{8, 4, 16, 32}, nil}, {widths{8, 4, 16, 0}, nil}, {widths{8, 8, 16, 64}, nil},
	} {
		if got, _ := s.typed(c.w); got != c.want {
			t.Errorf("%+v: kernels %p, want %p", c.w, got, c.want)
		}
	}
	s.MatMul.Model = AttAcc
	if got, _ := s.typed(widths{8, 8, 16, 0}); got != nil {
		t.Error("AttAcc's model has kernels of FP8")
	}
	without := typedSpec()
	without.FP8 = TypedGEMMSpec{}
	if got, _ := without.typed(widths{8, 8, 16, 0}); got != nil {
		t.Error("a fit without kernels of FP8 has some")
	}
}

// TestTypedProductsGrow: more rows, columns or inner elements never make a product faster, even where tiles change.
func TestTypedProductsGrow(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.FP8 = TypedGEMMSpec{Tiling: s.MatMul.Tiling, Tiles: "64x64 <= 64, 64x128/2 <= 128, 128x128/2", ConvertMemory: 1}
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(1, 1024).Draw(t, "m"), rapid.IntRange(1, 4096).Draw(t, "n"), rapid.IntRange(1, 4096).Draw(t, "k")
		s.FP8.Tiles = rapid.SampledFrom([]TileList{"", "64x64 <= 64, 64x128/2 <= 128, 128x128/2", "32x128 <= 16, 64x128 <= 64, 128x128/2"}).Draw(t, "tiles")
		cost := func(m, n, k int) float64 { return s.NarrowGEMMCost(m, n, k, 8, 0).Seconds }
		for _, more := range []float64{cost(m+1, n, k), cost(m, n+1, k), cost(m, n, k+1)} {
			if base := cost(m, n, k); more < base*(1-1e-12) {
				t.Fatalf("%d x %d x %d: %v s, one more: %v s", m, n, k, base, more)
			}
		}
	})
}

func TestTileList(t *testing.T) {
	tiles, ok := TileList("64x96 <= 64, 64x128/2<=128 ,128x128/4").tiles()
	want := [mostListed]listedTile{{tile{64, 96}, 1, 64}, {tile{64, 128}, 2, 128}, {tile{128, 128}, 4, 1<<63 - 1}}
	if !ok || tiles != want {
		t.Errorf("%v, %t", tiles, ok)
	}
	for _, bad := range []TileList{"64", "64x", "x64", "0x64", "64x64 <= 64", "64x64, 128x128", "64x64 <= 64, 64x64 <= 64, 128x128", "64x64 <= 64, 64x64 <= 32, 128x128",
		"64x64/0", "64x64/17", "2048x64", "64x64 <= x, 64x64", "64x64,", "1x1 <= 1, 1x1 <= 2, 1x1 <= 3, 1x1 <= 4, 1x1", "64x64/2/2"} {
		if _, ok := bad.tiles(); ok {
			t.Errorf("%q is a list", bad)
		}
		var c input.Check
		bad.check(&c, "tiles")
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "tiles") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestFP8Attention: a fit's kernels for FP8 keys and values are used only for these, in the server suite and the fitted model.
func TestFP8Attention(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	narrow := Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16, KVBits: 8, KVFloat: true}
	wide, ints := narrow, narrow
	wide.KVBits, wide.KVFloat, ints.KVFloat = 0, false, false
	batch := UniformBatch(64, 4096)
	decode, prefill := s.DecodeAttentionCost(batch, narrow).Seconds, s.PrefillAttentionCost(4, 512, 0, narrow).Seconds
	own := *s
	own.DecodeFP8, own.PrefillFP8 = s.Decode, s.Prefill
	own.DecodeFP8.Overhead += 1_000_000_000
	own.PrefillFP8.Overhead += 1_000_000_000
	own.PrefillFP8.Compute *= float64(s.Peak16) / float64(s.Peak8) // these multiply at the 8-bit rate
	// Apart from the longer launch there is no time for widening elements: the fitted times include it.
	unwidened := *s
	unwidened.NarrowKV = NarrowKVSpec{}
	if got, want := own.DecodeAttentionCost(batch, narrow).Seconds, unwidened.DecodeAttentionCost(batch, narrow).Seconds+1e-3; !near(got, want) {
		t.Errorf("decode attention %v s, want %v", got, want)
	}
	if got := own.PrefillAttentionCost(4, 512, 0, narrow).Seconds; !near(got, prefill+1e-3) {
		t.Errorf("prefill attention %v s, want %v", got, prefill+1e-3)
	}
	if got, whole := own.PrefillAttentionCost(4, 512, 0, narrow).Executed, s.PrefillAttentionCost(4, 512, 0, narrow).Executed; got != whole/2 {
		t.Errorf("%v operations of 16 bits executed, want half of %v", got, whole)
	}
	for _, h := range []Heads{wide, ints} {
		if own.DecodeAttentionCost(batch, h) != s.DecodeAttentionCost(batch, h) || own.PrefillAttentionCost(4, 512, 0, h) != s.PrefillAttentionCost(4, 512, 0, h) {
			t.Errorf("%+v takes FP8's kernels", h)
		}
	}
	pytorch, attacc := own, own
	pytorch.Suite, attacc.Decode.Model, attacc.Prefill.Model = SuitePyTorch, AttAcc, AttAcc
	for _, g := range []*Spec{&pytorch, &attacc} {
		if d, p := g.DecodeAttentionCost(batch, narrow).Seconds, g.PrefillAttentionCost(4, 512, 0, narrow).Seconds; d > 100*decode || p > prefill+0.9e-3 {
			t.Errorf("%s: %v and %v s", g.Suite, d, p)
		}
	}
}

// TestHeadKnee: tiles of heads as wide as the knee run at half of their rate.
func TestHeadKnee(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	h := Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16}
	full := s.PrefillAttentionCost(4, 4096, 0, h).Compute
	s.Prefill.HeadKnee = 128
	if got := s.PrefillAttentionCost(4, 4096, 0, h).Compute; !near(got, 2*full) {
		t.Errorf("%v s at the knee, %v without", got, full)
	}
	h.Value = 64 // the mean of key and value counts
	s.Prefill.HeadKnee = 0
	full = s.PrefillAttentionCost(4, 4096, 0, h).Compute
	s.Prefill.HeadKnee = 96
	if got := s.PrefillAttentionCost(4, 4096, 0, h).Compute; !near(got, 2*full) {
		t.Errorf("values of half the width: %v s at the knee, %v without", got, full)
	}
}

// TestPackedGroups: a KV head's eight query heads with 16 tokens each fill one tile of 128 rows instead of eight; tiles that are full
// without packing are unchanged.
func TestPackedGroups(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	p := &s.Prefill
	p.QueryRows, p.SplitLimit, p.Startup, p.CausalTail, p.LoneBlock, p.BlocksPerSM = 128, 0, 0, 0, 1, 1
	h := Heads{Query: 64, KV: 8, Dim: 128, ElementBits: 16}
	const batch = 132 // each request's KV head is a block for one SM
	apart, full := s.prefillTiles(p, batch, 16, 0, h, true), s.prefillTiles(p, batch, 128, 0, h, true)
	p.PacksGroups = true
	if got := s.prefillTiles(p, batch, 16, 0, h, true); !near(got.Compute, apart.Compute/8) || !near(got.Executed, apart.Executed/8) {
		t.Errorf("packed %v s and %v operations, apart %v s and %v", got.Compute, got.Executed, apart.Compute, apart.Executed)
	}
	if got := s.prefillTiles(p, batch, 128, 0, h, true); got != full {
		t.Errorf("full tiles: %+v, apart %+v", got, full)
	}
	// Without packing, 129 rows are two tiles for each head, the second nearly empty. With it, 1,032 rows of a group are nine tiles instead
	// of sixteen.
	p.PacksGroups = false
	apart = s.prefillTiles(p, batch, 129, 0, h, true)
	p.PacksGroups = true
	packed := s.prefillTiles(p, batch, 129, 0, h, true)
	if tiles := packed.Executed / apart.Executed; !near(tiles, 9./16*(128*(9+8)/16.+56)/192) {
		t.Errorf("129 tokens: %v of the operations", tiles)
	}
	if alone := (Heads{Query: 64, KV: 64, Dim: 128, ElementBits: 16}); s.prefillTiles(p, 1, 16, 0, alone, true).Executed != 64*alone.pairFLOPs()*128*128 {
		t.Error("heads of their own are packed")
	}
}

// TestArrangedScales: iterations leave out the part of the overhead in which tables arrange scales of weights, and no other element type's.
func TestArrangedScales(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), latentModel(1)
	s.FP8Block = TypedGEMMSpec{Tiling: s.MatMul.Tiling, ConvertMemory: 1, Arrange: 2 * units.Microsecond}
	s.FP8Block.Overhead = 3 * units.Microsecond
	c, w := NewModelCost(s, m), widths{In: 8, Weights: 8, Out: 16, Block: FP8Block}
	table := s.NarrowGEMMCost(16, 4096, 2048, 8, FP8Block)
	if got, want := c.product(16, 4096, 2048, w).Seconds, table.Seconds-2e-6; !near(got, want) {
		t.Errorf("a product takes %g s in an iteration, want %g", got, want)
	}
	if got, want := c.product(16, 4096, 2048, uniform(16)).Seconds, s.productCost(16, 4096, 2048, uniform(16)).Seconds; got != want {
		t.Errorf("a product of 16 bits takes %g s, want %g", got, want)
	}
	for arrange, ok := range map[units.Duration]bool{0: true, 3 * units.Microsecond: true, 3*units.Microsecond + 1: false, -1: false} {
		s.FP8Block.Arrange = arrange
		var check input.Check
		if s.FP8Block.Check(&check); strings.Contains(fmt.Sprint(check.Err()), "arrange_overhead") == ok {
			t.Errorf("%v: %v", arrange, check.Err())
		}
	}
}
