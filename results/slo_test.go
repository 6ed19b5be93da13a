package results

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestMissed: each target of a percentile is compared with that percentile of that latency, and no
// other.
func TestMissed(t *testing.T) {
	latency := func(base float64) *Latency {
		return &Latency{P50: base + 1, P90: base + 2, P95: base + 3, P99: base + 4, Max: base + 9}
	}
	ttft, tbt, tpot, e2e := latency(10), latency(20), latency(30), latency(40)
	kinds := []struct {
		name string
		base float64
		of   func(*scheduler.Tail) *units.Duration
	}{
		{"TTFT p", 10, func(t *scheduler.Tail) *units.Duration { return &t.TTFT }}, {"TBT p", 20, func(t *scheduler.Tail) *units.Duration { return &t.TBT }},
		{"TPOT p", 30, func(t *scheduler.Tail) *units.Duration { return &t.TPOT }}, {"E2E p", 40, func(t *scheduler.Tail) *units.Duration { return &t.E2E }},
	}
	for i, p := range []string{"50", "90", "95", "99"} {
		for _, k := range kinds {
			s := scheduler.SLO{TBTPercentile: 90}
			tail := []*scheduler.Tail{&s.P50, &s.P90, &s.P95, &s.P99}[i]
			for d, want := range map[float64]int{0: 0, -0.001: 1} {
				*k.of(tail) = units.Duration((k.base + float64(i+1) + d) * 1e9)
				slo := NewSLO(&s)
				missed := slo.Missed(ttft, tbt, tpot, e2e)
				if len(missed) != want || want == 1 && !strings.HasPrefix(missed[0], k.name+p) {
					t.Errorf("%s%s%+g: %q", k.name, p, d, missed)
				}
				if tails := slo.Tails(); len(tails) != 1 || !strings.HasPrefix(tails[0], k.name+p) {
					t.Errorf("%q", tails)
				}
			}
		}
	}
	s := NewSLO(&scheduler.SLO{TTFT: 2 * units.Second, TBT: units.Second / 10, TPOT: 1e9, E2E: units.Second, TBTPercentile: 90})
	if got := strings.Join(s.Each(), ", "); got != "TTFT 2000 ms, TBT p90 100 ms, TPOT 1 ms, E2E 1000 ms" {
		t.Error(got)
	}
}
