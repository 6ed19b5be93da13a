package machine

import (
	"github.com/l3sim/l3sim/pim"
	"testing"
)

// A rank-level unit is bound by the rank's data bus: 32 clocks a token at d = 128, eight times the
// bank PUs' four, plus a little to close rows.
func TestRankPU(t *testing.T) {
	spec := pim.Default()
	spec.ProcessingUnit = pim.RankLevelUnit
	for _, context := range []int{512, 8192} {
		got, m := runHead(t, spec, fp16Head, context, false)
		least := int64(32 * context)
		if got < least || got > least+least/50+200 {
			t.Errorf("%d tokens: %d clocks, want %d and at most 2%% more", context, got, least)
		}
		if c := m.Counters; c.ops[OpReadKey] != int64(4*context) || c.ops[OpReadValue] != int64(4*context) {
			t.Errorf("%d tokens: %d key and %d value bursts, want %d each", context, c.ops[OpReadKey], c.ops[OpReadValue], 4*context)
		}
		// A burst takes tCCD_S, 4 clocks, and the unit waits for nothing else within a row.
		if p := &m.Counters.phases; p.Score+p.Context-p.Stall != int64(4*8*context) || p.Stall < 0 || p.total() != got {
			t.Errorf("%d tokens: scores of %d clocks, contexts of %d, with %d of stalls; %d of %d clocks in all", context, p.Score, p.Context, p.Stall, p.total(), got)
		}
	}
}

// A rank-level unit reads a head's values only after the softmax of its last keys.
func TestRankPUWaitsForTheSoftmax(t *testing.T) {
	spec := pim.Default()
	spec.ProcessingUnit = pim.RankLevelUnit
	var clocks [2]int64
	for i := range clocks {
		spec.SoftmaxLatency = 1000 * (i + 1)
		clocks[i], _ = runHead(t, spec, fp16Head, 100, false)
	}
	if clocks[1]-clocks[0] != 1000 {
		t.Errorf("%d clocks, and %d with a softmax of 1,000 clocks more", clocks[0], clocks[1])
	}
}
