package results

import (
	"fmt"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// SLO is the latency targets of Goodput, in milliseconds.
type SLO struct {
	TTFT Target `json:"ttft"`
	TBT  Target `json:"tbt"` // bounds the percentile TBTPercentile of a request's own gaps
	TPOT Target `json:"tpot"`
	E2E  Target `json:"e2e"`
	// TBTPercentile is the percentile of a request's own gaps that TBT bounds.
	TBTPercentile int `json:"tbt_percentile"`
	// P50 to P99 are targets of a run: percentiles over all requests, for TBT over all tokens. Empty ones are left out.
	P50 Tail `json:"p50,omitzero"`
	P90 Tail `json:"p90,omitzero"`
	P95 Tail `json:"p95,omitzero"`
	P99 Tail `json:"p99,omitzero"`
}

// Tail is the targets of one percentile, in milliseconds.
type Tail struct {
	TTFT Target `json:"ttft"`
	TBT  Target `json:"tbt"`
	TPOT Target `json:"tpot"`
	E2E  Target `json:"e2e"`
}

// NewSLO returns the targets of a configuration.
func NewSLO(s *scheduler.SLO) SLO {
	ms := func(d units.Duration) Target { return Target(1e3 * d.Seconds()) }
	tail := func(t scheduler.Tail) Tail { return Tail{ms(t.TTFT), ms(t.TBT), ms(t.TPOT), ms(t.E2E)} }
	return SLO{ms(s.TTFT), ms(s.TBT), ms(s.TPOT), ms(s.E2E), s.TBTPercentile, tail(s.P50), tail(s.P90), tail(s.P95), tail(s.P99)}
}

// target is a target as people read it, and the latency that it bounds.
type target struct {
	name    string
	limit   Target
	reached float64
}

// tails returns the targets of percentiles over a run, with the run's values.
func (s *SLO) tails(ttft, tbt, tpot, e2e *Latency) (all []target) {
	for _, p := range []struct {
		name string
		t    *Tail
		of   func(*Latency) float64
	}{
		{"p50", &s.P50, func(l *Latency) float64 { return l.P50 }}, {"p90", &s.P90, func(l *Latency) float64 { return l.P90 }},
		{"p95", &s.P95, func(l *Latency) float64 { return l.P95 }}, {"p99", &s.P99, func(l *Latency) float64 { return l.P99 }},
	} {
		for _, t := range []target{
			{"TTFT " + p.name, p.t.TTFT, p.of(ttft)}, {"TBT " + p.name + " of all tokens", p.t.TBT, p.of(tbt)},
			{"TPOT " + p.name, p.t.TPOT, p.of(tpot)}, {"E2E " + p.name, p.t.E2E, p.of(e2e)},
		} {
			if t.limit > 0 {
				all = append(all, t)
			}
		}
	}
	return all
}

// Missed returns the targets of percentiles that the run's latencies miss.
func (s *SLO) Missed(ttft, tbt, tpot, e2e *Latency) (missed []string) {
	for _, t := range s.tails(ttft, tbt, tpot, e2e) {
		if t.reached > float64(t.limit) {
			missed = append(missed, fmt.Sprintf("%s is %.4g ms, above its target of %.4g ms", t.name, t.reached, t.limit))
		}
	}
	return missed
}

// Each returns the targets of each request in text: "TTFT 2000 ms".
func (s *SLO) Each() (all []string) {
	tbt := "TBT"
	if s.TBTPercentile != 99 {
		tbt = fmt.Sprint("TBT p", s.TBTPercentile)
	}
	for _, t := range []target{{"TTFT", s.TTFT, 0}, {tbt, s.TBT, 0}, {"TPOT", s.TPOT, 0}, {"E2E", s.E2E, 0}} {
		if t.limit > 0 {
			all = append(all, fmt.Sprintf("%s %g ms", t.name, t.limit))
		}
	}
	return all
}

// Tails returns the targets of a run in text: "TTFT p90 2000 ms".
func (s *SLO) Tails() (all []string) {
	for _, t := range s.tails(&Latency{}, &Latency{}, &Latency{}, &Latency{}) {
		all = append(all, fmt.Sprintf("%s %g ms", t.name, t.limit))
	}
	return all
}

// Any says whether there is a target.
func (s *SLO) Any() bool { return len(s.Each())+len(s.Tails()) > 0 }
