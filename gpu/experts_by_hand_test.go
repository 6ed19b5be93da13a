package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// TestTilesMeetTheNormal: with a deviation of 8 rows around means near 64 and 128, the share of a second tile is the normal probability of
// more than 64 rows, within 0.011; that of a third is the same one tile later.
func TestTilesMeetTheNormal(t *testing.T) {
	for z, above := range map[float64]float64{-3: 0.00135, -2: 0.02275, -1: 0.15866, -0.5: 0.30854, 0: 0.5, 0.5: 0.69146, 1: 0.84134, 2: 0.97725, 3: 0.99865} {
		for tiles := 1.0; tiles <= 2; tiles++ {
			if got, want := tilesAfterFirst(64*tiles+0.5+8*z, 8, 64), tiles-1+above; math.Abs(got-want) > 0.011 {
				t.Errorf("%v deviations beyond %v tiles: %v, want %v", z, tiles, got, want)
			}
		}
	}
	// Rows that deviate by more than a tile fill half of the last on average, so n tiles have 32 more rows than the mean.
	for mean, want := range map[float64]float64{64.5: 0.5, 6400.5: 99.5, 20: 0} {
		if got := tilesAfterFirst(mean, 65, 64); math.Abs(got-want) > 1e-9 {
			t.Errorf("a mean of %v: %v tiles after the first, want %v", mean, got, want)
		}
	}
	for mean, want := range map[float64]float64{1: 0, 64: 0, 65: 1, 128: 1, 129: 2} { // no deviation: the tiles of exactly as many rows
		if got := tilesAfterFirst(mean, 1e-9, 64); math.Abs(got-want) > 1e-9 {
			t.Errorf("exactly %v rows: %v tiles after the first, want %v", mean, got, want)
		}
	}
}

// TestNoExperts: without rows or with width 0, nothing is multiplied.
func TestNoExperts(t *testing.T) {
	s := expertsSpec()
	some, none := NewExpertLoad(4, 1, []int{4}), NewExpertLoad(4, 1, []int{0})
	for _, c := range []struct {
		load  *ExpertLoad
		shape Experts
		costs bool
	}{{&some, Experts{64, 64, 3}, true}, {&none, Experts{64, 64, 3}, false}, {&some, Experts{0, 64, 3}, false}, {&some, Experts{64, 0, 3}, false}} {
		if got := s.ExpertsCost(expertType("bf16"), c.load, c.shape); (got != Cost{}) != c.costs {
			t.Errorf("%+v: %+v", c.shape, got)
		}
	}
}

// TestMeasuredMixture: with expert kernels, a mixture is its router plus these kernels; for one expert with all rows, they cost the same as
// for a counted load.
func TestMeasuredMixture(t *testing.T) {
	s, m := loadPreset(t, "h200-sxm"), *loadModel(t, "mixtral-8x7b")
	s.Experts.Whole = ExpertSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.8, Overhead: 10e6}, PassMemory: 0.5, ExpertTime: 1e6}
	m.Experts, m.ActiveExperts = 1, 1
	c := NewModelCost(s, &m)
	for _, n := range []int{1, 64, 65, 4096} {
		load := NewExpertLoad(n, 1, []int{n})
		want := s.gemmTime(n, 1, 4096, 16) + s.Elementwise(2, n, 1, 16).Seconds + s.ExpertsCost(expertType("bf16"), &load, Experts{Hidden: 4096, Width: 7168, Matrices: 3}).Seconds
		if got := c.mixture(&c.feedForwards[0], n).Seconds; !near(got, want) {
			t.Errorf("%d tokens: %g s, want %g", n, got, want)
		}
	}
	if got := c.mixture(&c.feedForwards[0], 0); got != (Work{}) {
		t.Errorf("no tokens: %+v", got)
	}
}

// TestRouterOfOwnTokens: if attention is data-parallel and experts are whole, each GPU chooses experts only for its own tokens, an eighth;
// if only one of the two holds, for all tokens.
func TestRouterOfOwnTokens(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Experts.Whole = ExpertSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.8}, PassMemory: 0.5}
	const n = 801 // 101 on the busiest of 8 GPUs
	for _, x := range []struct {
		parallel llm.Parallel
		own      int
	}{{llm.Parallel{}, 801}, {llm.Parallel{ExpertParallel: true}, 801}, {llm.Parallel{AttentionParallel: "data"}, 801}, {llm.Parallel{AttentionParallel: "data", ExpertParallel: true}, 101}} {
		m := parallelModel(8, x.parallel)
		c := NewModelCost(s, m)
		f := &c.feedForwards[0]
		l, inputs := newExpertLoad(f.experts, 6, n), n
		if f.dealt != nil {
			l = f.dealt.load(6, n)
			inputs = min(n, l.Pairs)
		}
		want := s.gemmTime(x.own, 64, m.Hidden, 16) + s.Elementwise(2, x.own, 64, 16).Seconds
		if got := c.mixture(f, n).Seconds - c.experts(f, l, n, inputs).Seconds; !near(got, want) {
			t.Errorf("%+v: a router of %g s, want %g", x.parallel, got, want)
		}
	}
}

// TestMeasuredExpertsOfBothTypes: a network that partly stays in 16 bits uses expert kernels if the fit has both types.
func TestMeasuredExpertsOfBothTypes(t *testing.T) {
	m := *loadModel(t, "mixtral-8x7b")
	m.WeightBits, m.WeightBlock = 4, NVFP4Block
	for _, x := range []struct{ narrow, whole, kept, want bool }{{true, false, false, true}, {true, false, true, false}, {true, true, true, true}, {false, true, true, false}, {false, true, false, false}} {
		s := loadPreset(t, "h200-sxm")
		one := ExpertSpec{Efficiency: Efficiency{Compute: 0.5, Memory: 0.8}, PassMemory: 0.5}
		s.Experts = ExpertTables{}
		if x.narrow {
			s.Experts.Int4, s.Experts.NVFP4 = one, one
		}
		if x.whole {
			s.Experts.Whole = one
		}
		n := m
		if x.kept {
			n.KeptNetwork = 0.25
		}
		if got := NewModelCost(s, &n).MeasuredExperts(); got != x.want {
			t.Errorf("%+v: %t", x, got)
		}
	}
}

// TestLeastTiles: a server that chooses tiles by tokens gives tiles of 64 rows to 4 of 32 experts that take 8 rows each of 64 tokens, 8 for
// each expert of the GPU if it had all; beyond the largest tile, that one. A row adds 1 ns to each of 1,024 and 512 k steps.
func TestLeastTiles(t *testing.T) {
	for _, c := range []struct {
		share          float64
		tokens, active int
		tile           float64
	}{{0, 64, 4, 8}, {1, 64, 4, 64}, {0.5, 64, 4, 32}, {0.51, 64, 4, 64}, {1, 4096, 4, 256}, {1, 8, 4, 8}} {
		s := expertsSpec()
		e := &s.Experts.Whole
		e.RowLatency, e.TileShare, e.StepLatency = 1000, c.share, 2
		l := NewExpertLoad(c.tokens, c.active, []int{8, 8, 8, 8})
		shape := Experts{Hidden: 1024, Width: 512, Matrices: 3}
		if got, want := s.ExpertsCost(expertType("bf16"), &l, shape).Latency, (1024+512)*(2e-9+c.tile*1e-9); !near(got, want) {
			t.Errorf("%+v: %g s, want %g", c, got, want)
		}
		even := ExpertLoad{All: float64(c.tokens * c.active)}
		even.spread([]llm.ExpertShare{{Experts: 1, Share: 0.5}, {Experts: 3, Share: 0.1}}, 100, 1)
		if even.Held != 4 || l.Held != 4 || Mean([]ExpertLoad{l, l}).Held != 4 {
			t.Errorf("%v and %v experts, want 4", even.Held, l.Held)
		}
	}
}

// TestLoneElements: a KV head with a single query head takes its time for each element if that is the longest part. 10 requests of 1,000
// tokens, with four heads of 128 elements in key and value, have 10.24 million elements over 100 SMs, at 1 ns.
func TestLoneElements(t *testing.T) {
	s := plainDecode(t)
	s.Decode.LoneElement = units.Nanosecond
	for query, want := range map[int]bool{4: true, 8: false} {
		got := s.DecodeAttentionCost(UniformBatch(10, 1000), Heads{Query: query, KV: 4, Dim: 128, ElementBits: 16, KVBits: 16}).Compute
		if near(got, 102.4e-6) != want {
			t.Errorf("%d query heads on 4: %g s", query, got)
		}
	}
}
