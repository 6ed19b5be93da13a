package gpu

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// TestSharedByHand: 20 requests of Llama-3-70B on one of four A100s share 8,192 tokens. With 16 query heads and 2 KV heads, 160 rows fill
// 10 tiles. Each KV head is split into as many blocks as pay off: merging one takes 167.7 ns. Arithmetic is the bottleneck.
func TestSharedByHand(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	s.Decode.Ridge = 0
	h := Heads{Query: 16, KV: 2, Dim: 128, ElementBits: 16}
	c := s.SharedAttentionCost([]Shared{{20, 8192}}, h)
	compute, memory := 4*128*160*2*8192/(0.4319*312e12), (8192*2*512+20*16*512)/(0.9587*2.039e12)
	parts := math.Sqrt(8192 * 512 / 22.82e9 / 167.7e-9) // 33
	waves := 2 * parts / 216.
	overhead := 9.547e-6 + 5.795e-6 + waves*6.65e-6 + waves*10.36e-9 + 4.014e-6 + parts*167.7e-9
	if !near(c.Compute, compute) || !near(c.Memory, memory) || !near(c.Overhead, overhead) || !near(c.Seconds, overhead+compute) || !near(c.Latency, 8192/parts*512/22.82e9) {
		t.Errorf("%+v, want %g s of arithmetic, %g of traffic and %g of overhead", c, compute, memory, overhead)
	}
	if c.Bytes != 8192*2*512+20*16*512 || c.FLOPs != 4*128*16*20*8192 || c.Executed != 4*128*160*2*8192 {
		t.Errorf("%+v", c)
	}
	// Two requests of 3,000 other tokens in the same kernel: two groups of 10 tiles and 1.
	c = s.SharedAttentionCost([]Shared{{20, 8192}, {2, 3000}}, h)
	if want := 4. * 128 * 2 * (160*8192 + 16*3000); c.Executed != want || c.Bytes != (8192+3000)*2*512+22*16*512 || !near(c.Compute, want/(0.4319*312e12)) {
		t.Errorf("%+v, want %g operations", c, want)
	}
	// Every request's own query converts narrow keys and values, in 1 ps for each element on 100 SMs; the largest group determines whether
	// rows are arranged and contexts split.
	s.NarrowKV.Int8, s.SMs = 100*units.Picosecond, 100
	c = s.SharedAttentionCost([]Shared{{20, 8192}, {1, 512}}, Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16, KVBits: 8})
	if want := 1e-12 * 2 * 128 * 8 * (20*8192 + 512); !near(c.Compute, want) || c.Overhead < (9.547+5.795+4.014)*1e-6 {
		t.Errorf("%+v, want %g s of arithmetic", c, want)
	}
	s.NarrowKV.Once, s.NarrowKV.Int8 = true, units.Nanosecond // a token's elements are converted once, however many queries attend to them
	c = s.SharedAttentionCost([]Shared{{20, 8192}, {1, 512}}, Heads{Query: 8, KV: 2, Dim: 128, ElementBits: 16, KVBits: 8})
	if want := 1e-11 * 2 * 128 * 2 * (8192 + 512); !near(c.Compute, want) {
		t.Errorf("%+v, want %g s of arithmetic", c, want)
	}
	// AttAcc's model: of 7 requests' 112 blocks, 108 are the first wave.
	s = loadPreset(t, "a100-paper")
	compute, memory = attAcc{s}.block(&s.Decode.Efficiency, 1, 4096, Heads{Query: 7 * 16, KV: 2, Dim: 128, ElementBits: 16})
	if c := s.SharedAttentionCost([]Shared{{7, 4096}}, h); !near(c.Seconds, 2*(compute+memory)) {
		t.Errorf("%+v, want two waves of %v and %v s", c, compute, memory)
	}
	a, b := s.SharedAttentionCost([]Shared{{7, 4096}}, h), s.SharedAttentionCost([]Shared{{3, 500}}, h)
	sum := Cost{FLOPs: a.FLOPs + b.FLOPs, Executed: a.Executed + b.Executed, Bytes: a.Bytes + b.Bytes, Compute: a.Compute + b.Compute, Memory: a.Memory + b.Memory, Seconds: a.Seconds + b.Seconds}
	if c := s.SharedAttentionCost([]Shared{{7, 4096}, {3, 500}}, h); c != sum {
		t.Errorf("two groups: %+v, want %+v", c, sum)
	}
}

// TestSharedLaws: groups of one equal a batch of as many contexts, bit by bit. One shared read takes no more traffic than one read for each
// request, and no more arithmetic if tiles are equally large with and without splits. More requests take no less time, except in AttAcc's
// model.
func TestSharedLaws(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		h := drawHeads(t)
		if rapid.Bool().Draw(t, "narrow") {
			h.KVBits, h.KVScaleBytes = 8, 4
		}
		groups, ones := make([]Shared, rapid.IntRange(1, 5).Draw(t, "groups")), []Shared{}
		var apart, each DecodeBatch
		for i := range groups {
			g := &groups[i]
			*g = Shared{size(t, "requests", 1, 64), size(t, "tokens", 1, 1<<16)}
			ones = append(ones, Shared{1, g.Tokens})
			apart.Add(g.Tokens)
			for range g.Requests {
				each.Add(g.Tokens)
			}
		}
		attAcc := s.attention().Decode.Model == AttAcc
		oneTile := s.attention().Decode.QueryRows == s.attention().Decode.UnsplitRows
		if attAcc {
			groups, ones, apart = groups[:1], ones[:1], UniformBatch(1, groups[0].Tokens)
		}
		if got, want := s.SharedAttentionCost(ones, h), s.DecodeAttentionCost(apart, h); got.Seconds != want.Seconds || got.Bytes != want.Bytes || !attAcc && got != want {
			t.Fatalf("groups of one %+v\nas contexts %+v", got, want)
		}
		c := s.SharedAttentionCost(groups, h)
		if attAcc {
			each = UniformBatch(groups[0].Requests, groups[0].Tokens)
		}
		if separate := s.DecodeAttentionCost(each, h); c.Bytes > separate.Bytes || oneTile && c.Executed > separate.Executed || !near(c.FLOPs, separate.FLOPs) {
			t.Fatalf("groups %v %+v\neach request %+v", groups, c, separate)
		}
		if attAcc { // blocks of one wave share the read
			return
		}
		groups[0].Requests = max(groups[0].Requests, 2) // the A100's kernel does not split contexts of single rows
		c = s.SharedAttentionCost(groups, h)
		more := slices.Clone(groups)
		more[0].Requests += size(t, "more requests", 1, 64)
		if m := s.SharedAttentionCost(more, h); m.Seconds < c.Seconds*(1-1e-9) {
			t.Fatalf("groups %v take %g s, %v only %g s", groups, c.Seconds, more, m.Seconds)
		}
	})
	s := loadPreset(t, "a100-sxm-80gb")
	if c := s.SharedAttentionCost(nil, Heads{Query: 8, KV: 1, Dim: 128, ElementBits: 16}); c != (Cost{}) {
		t.Errorf("nothing is shared: %+v", c)
	}
}

// TestSharedOfDrafts: a kernel reads a group's shared tokens once for all tokens that its requests verify, which are more rows of its
// tiles.
func TestSharedOfDrafts(t *testing.T) {
	s, m := loadPreset(t, "a100-sxm-80gb"), loadModel(t, "llama-3-70b")
	groups := []Shared{{Requests: 5, Tokens: 3000}, {Requests: 2, Tokens: 700}}
	one := NewModelCost(s, m).SharedCost(groups)
	for k := 1; k <= 4; k++ {
		c := NewModelCost(s, m)
		c.Verify(k)
		got, h := c.SharedCost(groups), c.kinds[0].heads
		h.Query *= k
		if got != s.SharedAttentionCost(groups, h) || got.FLOPs != float64(k)*one.FLOPs {
			t.Errorf("%d tokens: %+v, %+v with one", k, got, one)
		}
		q, _ := h.decodeBytes(7, 0)
		before, _ := c.kinds[0].heads.decodeBytes(7, 0)
		if more := got.Bytes - one.Bytes; math.Abs(more-(q-before)) > 1e-6*one.Bytes {
			t.Errorf("%d tokens: %v bytes more, want %v", k, more, q-before)
		}
	}
}
