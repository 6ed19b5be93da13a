package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// plainDecode is a GPU of 100 SMs and 1 TB/s whose decode attention has round numbers.
func plainDecode(t *testing.T) *Spec {
	s := *loadPreset(t, "h200-sxm")
	s.SMs, s.MemoryBandwidth, s.Peak16 = 100, 1e12, 100e12
	s.Decode = DecodeSpec{
		Model: AttentionFlash, Efficiency: Efficiency{Compute: 0.5, Memory: 0.8, Overhead: 2 * units.Microsecond},
		QueryRows: 16, UnsplitRows: 64, BlocksPerSM: 2, SplitTarget: 3, SplitLimit: 4, SplitKeys: 100, MaxSplits: 64, SplitMinGroup: 1, Split: SplitFixed, UnequalTarget: 3, UnequalBandwidth: 20e9,
		BlockStartup: 10 * units.Microsecond, FillTime: 4 * units.Microsecond, GroupOverhead: 30 * units.Microsecond,
		MergeOverhead: 7 * units.Microsecond, MergePart: units.Microsecond, BlockBandwidth: 10e9,
	}
	return &s
}

// TestDecodeParts: contexts are split until every SM has three blocks. A part has at least 100 tokens, a context at most 64 parts. From
// four items on every SM, or if groups are too small, nothing is split.
func TestDecodeParts(t *testing.T) {
	d := plainDecode(t).Decode
	for _, c := range []struct {
		items, keys, want float64
		group             int
	}{
		{10, 10_000, 30, 1}, {10, 500, 5, 1}, {10, 50, 1, 1}, {1, 1e6, 64, 1}, {200, 10_000, 1.5, 1}, {300, 10_000, 1, 1},
		{399, 10_000, 1, 1}, {400, 10_000, 1, 1}, {10, 10_000, 30, 4},
	} {
		if got, _ := d.parts(100, c.items, c.keys, 1e-9, c.group); !near(got, c.want) {
			t.Errorf("%+v: %g parts", c, got)
		}
	}
	d.SplitMinGroup, d.SplitTarget = 2, 8
	for group, want := range map[int]float64{1: 1, 2: 4} {
		if got, _ := d.parts(100, 200, 1e4, 1e-9, group); got != want {
			t.Errorf("groups of %d: %g parts, want %g", group, got, want)
		}
	}
	if got, _ := d.parts(100, 400, 1e4, 1e-9, 2); got != 1 { // by the target it would be two
		t.Errorf("at the limit: %g parts", got)
	}
}

// TestDecodeForm: each part of the cost by hand.
func TestDecodeForm(t *testing.T) {
	s := plainDecode(t)
	us := func(v float64) float64 { return v * 1e-6 }
	row := 2. * 128 * 2
	for _, c := range []struct {
		name                      string
		requests, context         int
		query, kv                 int
		parts, rows, overhead, at float64 // µs of overhead; tokens that the longest block reads
	}{
		// 300 blocks on 200 slots: 15 µs of startup, all SMs fill, 30 parts merge.
		{"split", 1, 10_000, 10, 10, 30, 16, 2 + 15 + 4 + 7 + 30, 10_000. / 30},
		// 5 parts of minimum length, 50 blocks: a quarter of startup and of filling.
		{"few tokens", 1, 500, 10, 10, 5, 16, 2 + 2.5 + 1 + 7 + 5, 100},
		{"groups", 2, 500, 40, 10, 5, 16, 2 + 5 + 2 + 7 + 5 + 30, 100},
		{"groups of 17", 1, 500, 170, 10, 5, 32, 2 + 2.5 + 1 + 7 + 5, 100},
		{"not split", 60, 5000, 10, 10, 1, 64, 2 + 30 + 4, 5000},
	} {
		h := Heads{Query: c.query, KV: c.kv, Dim: 128, ElementBits: 16}
		got := s.DecodeAttentionCost(UniformBatch(c.requests, c.context), h)
		tokens := float64(c.requests * c.context)
		bytes := row * (tokens*float64(c.kv) + float64(c.requests*c.query))
		executed := 4 * 128 * c.rows * float64(c.kv) * tokens
		for part, v := range map[string][2]float64{
			"bytes": {got.Bytes, bytes}, "executed": {got.Executed, executed}, "FLOPs": {got.FLOPs, 4 * 128 * float64(c.query) * tokens},
			"memory": {got.Memory, bytes / 0.8e12}, "compute": {got.Compute, executed / 50e12}, "latency": {got.Latency, c.at * row / 10e9},
			"overhead": {got.Overhead, us(c.overhead)}, "seconds": {got.Seconds, us(c.overhead) + max(bytes/0.8e12, executed/50e12, c.at*row/10e9)},
		} {
			if !near(v[0], v[1]) {
				t.Errorf("%s, %s: %g, want %g", c.name, part, v[0], v[1])
			}
		}
	}
	// The longest context of a batch is split like a mean one, and read separately.
	var b DecodeBatch
	for _, context := range []int{100, 100, 100, 39_700} {
		b.Add(context)
	}
	got := s.DecodeAttentionCost(b, Heads{Query: 10, KV: 10, Dim: 128, ElementBits: 16})
	if want := 39_700 / 7.5 * row / 10e9; !near(got.Latency, want) {
		t.Errorf("longest context: %g s, want %g", got.Latency, want)
	}
}

// TestDecodeTail: unsplit contexts run in waves of 200 blocks; the last wave takes at least as long as one of its blocks.
func TestDecodeTail(t *testing.T) {
	s := plainDecode(t)
	d := &s.Decode
	d.SplitLimit, d.WaveQuantization, d.UnsplitRows, d.BlockBandwidth = 1, true, 16, 4e9
	h := Heads{Query: 10, KV: 10, Dim: 128, ElementBits: 16}
	bytes := func(requests float64) float64 { return 512. * 10 * (requests*1000 + requests) }
	for requests, want := range map[int]float64{
		15: bytes(15) / 0.8e12,                           // no full wave
		20: bytes(20) / 0.8e12,                           // one full wave
		30: bytes(30)/0.8e12*2/3 + 1000*512/4e9,          // half a wave at the rate of its blocks
		39: bytes(39)/0.8e12*20/39 + 1000*512/4e9,        // nearly a whole wave: still slower than sharing
		60: bytes(60) / 0.8e12, 100: bytes(100) / 0.8e12, // full waves
	} {
		if got := s.DecodeAttentionCost(UniformBatch(requests, 1000), h); !near(got.Memory, want) {
			t.Errorf("%d requests: %g s, want %g", requests, got.Memory, want)
		}
	}
}

// TestUnequalForm: the overhead that unequal contexts add, by hand: four contexts with a mean of 400 tokens, the longest 1,000.
func TestUnequalForm(t *testing.T) {
	s := plainDecode(t)
	d := &s.Decode
	d.UnequalTime, d.UnequalShare, d.UnequalBandwidth = 8*units.Microsecond, 0.1, 20e9
	h := Heads{Query: 10, KV: 10, Dim: 128, ElementBits: 16}
	equal, b := s.DecodeAttentionCost(UniformBatch(4, 400), h), DecodeBatch{Requests: 4, Tokens: 1600, Longest: 1000}
	// Four parts of a mean context on 160 of 200 slots. Fixed splits aim at 300 blocks for 40 items: 7.5 parts of the longest. Balanced
	// ones stop when another part costs more than it saves, √(1,000 tokens of 51.2 ns / 1 µs a part).
	added, pay := 0.6*(0.8*8e-6+0.1*max(equal.Memory, equal.Compute)), math.Sqrt(1000*512/10e9/1e-6)
	for split, want := range map[Split][2]float64{SplitFixed: {added + 600/7.5*512/20e9, 7.5}, SplitBalanced: {added, pay}} {
		d.Split = split
		got := s.DecodeAttentionCost(b, h)
		if merged := (want[1] - 4) * 1e-6; !near(got.Overhead-equal.Overhead, want[0]+merged) || !near(got.Latency, 1000/want[1]*512/10e9) {
			t.Errorf("%s: %g s more than equal ones, latency %g, want %g, %g", split, got.Overhead-equal.Overhead, got.Latency, want[0]+merged, 1000/want[1]*512/10e9)
		}
	}
	// From split_limit on, a fixed split also has one part of the longest.
	d.Split, d.SplitLimit = SplitFixed, 40/float64(s.SMs)
	if got := s.DecodeAttentionCost(b, h); !near(got.Latency, 1000*512/10e9) {
		t.Errorf("at the limit: latency %g s", got.Latency)
	}
	d.SplitLimit *= 1.01
	if got := s.DecodeAttentionCost(b, h); !near(got.Latency, 1000/7.5*512/10e9) {
		t.Errorf("below the limit: latency %g s", got.Latency)
	}
	// A kernel that does not split such groups reads the longest in one part, whatever its target.
	d.SplitMinGroup = 2
	if got := s.DecodeAttentionCost(b, h); !near(got.Latency, 1000*512/10e9) {
		t.Errorf("not split: latency %g s", got.Latency)
	}
}

// TestMergeFades: if contexts have one or two parts, a share of them is merged, so that no size suddenly gets faster where splitting ends.
func TestMergeFades(t *testing.T) {
	s := plainDecode(t)
	s.Decode.BlockStartup, s.Decode.FillTime, s.Decode.MergePart = 0, 0, 0
	h := Heads{Query: 1, KV: 1, Dim: 128, ElementBits: 16}
	for requests, want := range map[int]float64{100: 2 + 7, 200: 2 + 3.5, 240: 2 + 7*0.25, 300: 2, 350: 2} {
		if got := s.DecodeAttentionCost(UniformBatch(requests, 10_000), h).Overhead * 1e6; !near(got, want) {
			t.Errorf("%d requests: %g us, want %g", requests, got, want)
		}
	}
}

// TestStreamTime: with fixed splits, contexts take additional time until they stream, in proportion to their KV heads' share of the blocks,
// and at most as long as memory takes for them.
func TestStreamTime(t *testing.T) {
	s := plainDecode(t)
	s.Decode.SplitLimit = 0 // one block each; the GPU holds 200
	for _, c := range []struct {
		requests, context int
		split             Split
		want              float64
	}{
		{300, 5000, SplitFixed, 40e-6}, {100, 5000, SplitFixed, 20e-6}, {300, 5000, SplitBalanced, 0},
		{300, 10, SplitFixed, 300 * (10*512 + 512) / 0.8e12}, // keys, values, queries and outputs
	} {
		s.Decode.Split = c.split
		b, h := UniformBatch(c.requests, c.context), Heads{Query: 1, KV: 1, Dim: 128, ElementBits: 16}
		s.Decode.StreamTime = 0
		without := s.DecodeAttentionCost(b, h).Seconds
		s.Decode.StreamTime = 40 * units.Microsecond
		if more := s.DecodeAttentionCost(b, h).Seconds - without; !near(more, c.want) && math.Abs(more-c.want) > 1e-15 {
			t.Errorf("%+v: %g s", c, more)
		}
	}
}
