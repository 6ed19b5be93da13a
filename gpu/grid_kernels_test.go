package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// bound limits the change of a kernel's time when a size grows by one.
type bound struct{ least, most float64 }

// doubles is the bound for fitted kernels: one more unit of a size at most doubles the time, and lowers it by at most 5%, since tiles and
// splits change; decode attention of mixed lengths has the same bound.
var doubles = bound{0.95, 2}

func (b bound) check(t *testing.T, kernel []int, h Heads, what string, before, after Cost) {
	t.Helper()
	if ratio := after.Seconds / before.Seconds; ratio < b.least*(1-1e-9) || ratio > b.most*(1+1e-9) {
		t.Fatalf("%v, %+v: %g s, with one more %s %g s, bounds %v", kernel, h, before.Seconds, what, after.Seconds, b)
	}
}

// aboveRoofline checks that a kernel beats neither peak arithmetic nor peak bandwidth.
func aboveRoofline(t *testing.T, s *Spec, kernel []int, h Heads, bits int, c Cost) {
	t.Helper()
	if least := max(c.FLOPs/s.peak(bits), c.Bytes/float64(s.MemoryBandwidth)); c.Seconds < least*(1-1e-9) {
		t.Fatalf("%v, %+v: %g s, roofline %g s", kernel, h, c.Seconds, least)
	}
}

// TestPrefillGrid: attention of chunks of prompts, one or several, over finished tokens. PyTorch's kernels are only checked against the
// roofline: they step where FlashAttention-2 stops splitting, and get faster with fewer parts to merge.
func TestPrefillGrid(t *testing.T) {
	deep.Heavy(t)
	onGrid(t, true, func(t *testing.T, s *Spec, h Heads) {
		for _, batch := range []int{1, 2, 7, 32} {
			for _, chunk := range sizes(1, 1<<17, gridStep(7, 1.2)) {
				for _, finished := range append([]int{0}, sizes(1, 1<<20, gridStep(40, 3))...) {
					kernel, c := []int{batch, chunk, finished}, s.PrefillAttentionCost(batch, chunk, finished, h)
					aboveRoofline(t, s, kernel, h, 16, c)
					if s.Suite == SuitePyTorch {
						continue
					}
					token, group := doubles, doubles
					if p, n, keys := s.Prefill.Model, float64(chunk), float64(chunk+finished); p == AttAcc {
						// All scores are computed, in waves of blocks: one more token adds a row and a column of them.
						token.most = max(2, (n+1)*(keys+1)/(n*keys))
						// One more query head in each group lowers the share of keys and values for each of its blocks.
						group.least = float64(h.group()) / float64(h.group()+1)
					}
					head, query := h, h
					head.KV, head.Query = h.KV+1, h.Query+h.group()
					query.Query += h.KV
					token.check(t, kernel, h, "token", c, s.PrefillAttentionCost(batch, chunk+1, finished, h))
					doubles.check(t, kernel, h, "finished token", c, s.PrefillAttentionCost(batch, chunk, finished+1, h))
					doubles.check(t, kernel, h, "prompt", c, s.PrefillAttentionCost(batch+1, chunk, finished, h))
					doubles.check(t, kernel, h, "KV head", c, s.PrefillAttentionCost(batch, chunk, finished, head))
					group.check(t, kernel, h, "query head of each group", c, s.PrefillAttentionCost(batch, chunk, finished, query))
				}
			}
		}
	})
}

// TestProductGrid: products of up to 32,768 rows with the weights of models on 1 to 8 GPUs, and odd sizes.
func TestProductGrid(t *testing.T) {
	widths := sizes(64, 1<<17, gridStep(9, 1.7))
	for _, hidden := range []int{4096, 8192, 12288, 28672} { // of models, and shares of them
		for tp := 1; tp <= 8; tp *= 2 {
			widths = append(widths, hidden/tp)
		}
	}
	onPresets(t, false, func(t *testing.T, s *Spec) {
		for _, bits := range []int{16, 8} {
			for _, m := range sizes(1, 1<<15, gridStep(6, 1.1)) {
				for i, n := range widths {
					for j, k := range widths {
						if (i+j)%int(gridStep(5, 1)) != 0 {
							continue
						}
						kernel, c := []int{m, n, k, bits}, s.GEMMCost(m, n, k, bits)
						aboveRoofline(t, s, kernel, Heads{}, bits, c)
						b := doubles
						if s.MatMul.Model == AttAcc { // the tile minimises traffic over the square of the SMs' utilisation, not the time
							b.least = 0.5
						}
						b.check(t, kernel, Heads{}, "row", c, s.GEMMCost(m+1, n, k, bits))
						b.check(t, kernel, Heads{}, "column", c, s.GEMMCost(m, n+1, k, bits))
						b.check(t, kernel, Heads{}, "inner element", c, s.GEMMCost(m, n, k+1, bits))
					}
				}
			}
		}
	})
}
