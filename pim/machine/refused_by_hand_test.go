package machine

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// TestLateRefreshes: on DDR4 at most eight REFs may wait, at the end or before.
func TestLateRefreshes(t *testing.T) {
	d := parts.DDR4(t)
	const want = "with 5 query heads the rank came to owe 9 REFs before its banks closed, and ddr4 lets 8 wait; or fewer query heads, or more sets of multipliers (pim.macs_per_read)"
	for _, c := range []struct {
		debt, done, end int64
		late            bool
	}{{8, 0, 800, false}, {9, 0, 800, true}, {0, 0, 900, true}, {0, 1, 999, false}, {0, 0, 0, false}} {
		r := refreshManager{interval: 100, maxDebt: c.debt, done: c.done}
		if err := r.late(c.end, d, 5); (err != nil) != c.late || err != nil && !strings.HasSuffix(err.Error(), ": expected more clocks: "+want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRunnersRefuse: NewRunner refuses an invalid program, part or shape, each with its own error.
func TestRunnersRefuse(t *testing.T) {
	whole := pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}
	latent := pim.HeadShape{HeadDim: 576, ValueDim: 512, Queries: 1, ElementBits: 16, ValueInKey: true}
	for _, c := range []struct {
		change func(s *pim.Spec)
		shape  pim.HeadShape
		want   string
	}{
		{func(*pim.Spec) {}, whole, ""}, {func(*pim.Spec) {}, latent, ""}, {func(s *pim.Spec) { s.MACLatency = 0 }, whole, "mac_latency = 0: "}, {func(*pim.Spec) {}, pim.HeadShape{}, "head_dim = 0: "},
		{func(s *pim.Spec) { s.ProcessingUnit = pim.RankLevelUnit }, latent, `value_in_key = true: expected false with pim.processing_unit = "rank", which reads values by themselves`},
	} {
		s := pim.Default()
		c.change(s)
		if _, err := NewRunner(s, parts.DDR4(t), c.shape); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	bad := *parts.DDR4(t)
	bad.TCK = 0
	if _, err := NewRunner(pim.Default(), &bad, whole); err == nil || !strings.HasPrefix(err.Error(), "tCK = ") {
		t.Errorf("a part without a clock: %v", err)
	}
	if _, err := NewMachine(pim.Default(), &bad); err == nil {
		t.Error("a machine without a clock")
	}
	for context, ok := range map[int]bool{0: false, -1: false, 1: true, 1 << 30: true, 1<<30 + 1: false} {
		if _, err := NewProgram(pim.Default(), parts.DDR4(t), whole, []Head{{Context: context}}); (err == nil) != ok || !ok && !strings.HasSuffix(err.Error(), ": expected 1 to 1073741824 tokens") {
			t.Errorf("%d tokens: %v", context, err)
		}
	}
	b, err := NewRunner(pim.Default(), parts.DDR4(t), whole)
	if err != nil {
		t.Fatal(err)
	}
	if clocks := b.Run(Head{Context: 512}); clocks <= 0 || b.Attention(512) != clocks || b.Measure(Head{Context: 512}) != b.Measure(Head{Context: 512}) {
		t.Errorf("%d clocks, %d of attention", clocks, b.Attention(512))
	}
}
