package gpu

import (
	"math"
	"testing"
)

// bareRoofline returns a GPU without any loss: only max(FLOPs/peak, bytes/bandwidth) remains.
func bareRoofline(t testing.TB) *Spec {
	s := *loadPreset(t, "a100-paper")
	s.Prefill.Model, s.Decode.Model = AttentionFlash, AttentionFlash
	s.Pointwise.Model = ElementwiseRoofline
	s.Prefill.QueryRows, s.Prefill.BlocksPerSM, s.Prefill.LoneBlock = 1, 1, 1
	s.MatMul.Compute, s.MatMul.Memory = 1, 1
	s.Prefill.Compute, s.Prefill.Memory = 1, 1
	s.Decode.Compute, s.Decode.Memory = 1, 1
	return &s
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

// TestTilesPickTheBest compares with an exhaustive search.
func TestTilesPickTheBest(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	g := s.MatMul
	for _, size := range [][3]int{{1, 4096, 4096}, {64, 12288, 12288}, {100, 1024, 16384}, {300, 12288, 4096}, {8192, 8192, 8192}} {
		m, n, k := float64(size[0]), float64(size[1]), float64(size[2])
		best := math.Inf(1)
		for _, tile := range gemmTiles {
			for _, split := range splitsK {
				tm, tn := float64(tile.m), float64(tile.n)
				waves := math.Ceil(math.Ceil(m/tm) * math.Ceil(n/tn) * split / 108)
				edge := 2 * tm * tn / (tm + tn)
				compute := waves * 2 * tm * tn * (k/split + g.KRamp) / (312e12 / 108 * g.Compute * edge / (edge + g.TileKnee))
				bytes := 2 * (m*k + n*k + m*n)
				overhead := g.Overhead.Seconds()
				if split > 1 {
					bytes += 8 * g.SplitTraffic * split * m * n
					overhead += g.SplitOverhead * 1e-6
				}
				memory, latency := bytes/(g.Memory*2.039e12), k/split*g.StepLatency*1e-9
				p := g.Ridge
				time := overhead + math.Pow(math.Pow(compute, p)+math.Pow(memory, p)+math.Pow(latency, p), 1/p)
				best = min(best, time)
			}
		}
		if got := s.gemmTime(size[0], size[1], size[2], 16); !near(got, best) {
			t.Errorf("%v: %g s, want %g", size, got, best)
		}
	}
}

func TestZeroSizesCostNothing(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	h := Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16}
	for name, got := range map[string]float64{
		"gemm": s.gemmTime(0, 10, 10, 16), "prefill": s.prefillAttention(0, 100, h), "prefill of none": s.PrefillAttentionCost(0, 100, 0, h).Seconds,
		"columns": s.gemmTime(10, 0, 10, 16), "inner": s.gemmTime(10, 10, 0, 16), "contexts of none": s.decodeAttention(DecodeBatch{Requests: 1}, h),
		"decode": s.decodeAttention(DecodeBatch{}, h),
		"norm":   s.Norm(0, 10, 16).Seconds, "one GPU": s.allReduce(1, 1000), "no bytes": s.allReduce(8, 0),
	} {
		if got != 0 {
			t.Errorf("%s: %g s, want 0", name, got)
		}
	}
}

// TestEightBits: half the bytes, twice the rate.
func TestEightBits(t *testing.T) {
	s := bareRoofline(t)
	if a, b := s.gemmTime(512, 27648, 8192, 16), s.gemmTime(512, 27648, 8192, 8); !near(a, 2*b) {
		t.Errorf("compute bound: %g s in 16 bits, %g s in 8, want half", a, b)
	}
	h16 := Heads{Query: 32, KV: 32, Dim: 128, ElementBits: 16}
	h8 := h16
	h8.ElementBits = 8
	if a, b := s.decodeAttention(UniformBatch(64, 4096), h16), s.decodeAttention(UniformBatch(64, 4096), h8); !near(a, 2*b) {
		t.Errorf("memory bound: %g s in 16 bits, %g s in 8, want half", a, b)
	}
}

func BenchmarkGEMM(b *testing.B) {
	s := loadPreset(b, "a100-sxm-80gb")
	b.ReportAllocs()
	for b.Loop() {
		s.gemmTime(300, 12288, 12288, 16)
	}
}

// TestThinProducts: products with one row, column or inner element work, too.
func TestThinProducts(t *testing.T) {
	for _, name := range []string{"a100-paper", "a100-sxm-80gb"} {
		s := loadPreset(t, name)
		for _, size := range [][3]int{{1, 4096, 4096}, {4096, 1, 4096}, {4096, 4096, 1}} {
			if got, least := s.gemmTime(size[0], size[1], size[2], 16), 2*4096*4096/float64(s.MemoryBandwidth); got < least {
				t.Errorf("%s, %v: %g s, want %g at least", name, size, got, least)
			}
		}
	}
}

// TestTileCut: a tile has the number of rows with which tiles cover a product evenly, in steps of 8.
func TestTileCut(t *testing.T) {
	for _, c := range []struct{ tile, m, step, rows int }{
		{256, 256, 8, 256}, {256, 257, 8, 136}, {256, 1, 8, 8}, {128, 100, 8, 104}, {128, 320, 8, 112}, {64, 320, 8, 64},
		{64, 1000, 8, 64}, {256, 1000, 8, 256}, {256, 8192, 8, 256}, {16, 3, 8, 8}, {128, 100, 0, 128}, {128, 130, 16, 80},
	} {
		if got := (tile{c.tile, 128}).cut(c.m, c.step); got != (tile{c.rows, 128}) {
			t.Errorf("%d rows in tiles of %d, steps of %d: %d rows, want %d", c.m, c.tile, c.step, got.m, c.rows)
		}
	}
	// Padding counts as executed: 257 rows are two tiles of 136, and 100 columns are padded to a tile's.
	s := *loadPreset(t, "h200-sxm")
	for _, size := range [][3]int{{257, 12288, 4096}, {1, 100, 4096}, {8192, 8192, 8192}, {5, 7, 9}} {
		c := s.GEMMCost(size[0], size[1], size[2], 16)
		padded := math.Inf(1) // the least that any tile executes
		for _, tl := range gemmTiles {
			cut := tl.cut(size[0], 8)
			padded = min(padded, 2*float64(ceilDiv(size[0], cut.m)*cut.m)*float64(ceilDiv(size[1], cut.n)*cut.n)*float64(size[2]))
		}
		if c.Executed < padded*(1-1e-12) || c.Executed < c.FLOPs || c.Executed > 256*128*c.FLOPs {
			t.Errorf("%v: executes %g of %g FLOPs, at least %g", size, c.Executed, c.FLOPs, padded)
		}
	}
}
