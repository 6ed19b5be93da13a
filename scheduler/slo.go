package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// SLO is the section [slo]: targets of latency. A request attains them if none of its latencies exceeds its target. Percentiles over
// all requests or tokens are targets of a whole run.
type SLO struct {
	TTFT units.Duration `toml:"ttft"` // target of the time to the first token; 0s: none
	TBT  units.Duration `toml:"tbt"`  // target of the percentile tbt_percentile of a request's times between tokens; 0s: none
	TPOT units.Duration `toml:"tpot"` // target of a request's mean time between tokens; 0s: none
	E2E  units.Duration `toml:"e2e"`  // target of the time from arrival to last token; 0s: none
	// TBTPercentile is which percentile of a request's own times between tokens TBT bounds: 50, 90, 95 or 99.
	TBTPercentile int `toml:"tbt_percentile"`
	// Attainment is the share of requests that must attain the targets.
	Attainment float64 `toml:"attainment"`
	P50        Tail    `toml:"p50"` // targets of medians over all requests, of TBT over all tokens
	P90        Tail    `toml:"p90"` // targets of 90th percentiles over all requests, of TBT over all tokens
	P95        Tail    `toml:"p95"` // targets of 95th percentiles over all requests, of TBT over all tokens
	P99        Tail    `toml:"p99"` // targets of 99th percentiles over all requests, of TBT over all tokens
}

// Tail is the targets of one percentile over all requests that are served.
type Tail struct {
	TTFT units.Duration `toml:"ttft"` // target of this percentile of the time to the first token, over all requests; 0s: none
	TBT  units.Duration `toml:"tbt"`  // target of this percentile of the times between tokens, over all tokens; 0s: none
	TPOT units.Duration `toml:"tpot"` // target of this percentile of a request's mean time between tokens, over all requests; 0s: none
	E2E  units.Duration `toml:"e2e"`  // target of this percentile of the time from arrival to last token, over all requests; 0s: none
}

// Given says whether there is a target.
func (s *SLO) Given() bool {
	none := SLO{TBTPercentile: s.TBTPercentile, Attainment: s.Attainment}
	return *s != none
}

// Attains says whether a request attains its targets. Its last token comes at finish, and slow of the gaps between its tokens exceed
// TBT.
func (s *SLO) Attains(arrival, first, finish units.Duration, tokens int, slow int64) bool {
	within := func(d, target units.Duration) bool { return target == 0 || d <= target }
	gaps := units.Duration(tokens - 1)
	mean := (finish - first + gaps - 1) / max(gaps, 1) // rounded up: within a target if the exact mean is
	return within(first-arrival, s.TTFT) && within(finish-arrival, s.E2E) && within(mean, s.TPOT) && !s.Slow(tokens, slow)
}

// Slow says whether a request misses its TBT target: more gaps between its tokens exceed it than the percentile
// allows.
func (s *SLO) Slow(tokens int, slow int64) bool {
	return slow > int64(tokens-1)*int64(100-s.TBTPercentile)/100
}

// Check has the rules of the section [slo].
func (s *SLO) Check(c *input.Check) {
	own := Tail{s.TTFT, s.TBT, s.TPOT, s.E2E}
	own.Check(c)
	c.That(slices.Contains(Percentiles, s.TBTPercentile), "tbt_percentile", s.TBTPercentile, "50, 90, 95 or 99")
	c.Share("attainment", s.Attainment)
	for i, t := range []*Tail{&s.P50, &s.P90, &s.P95, &s.P99} {
		c.In(fmt.Sprint("p", Percentiles[i]), t)
	}
}

// Percentiles are those that targets may bound, in the order of SLO's fields.
var Percentiles = []int{50, 90, 95, 99}

// Check has the rules of a table of targets.
func (t *Tail) Check(c *input.Check) {
	const day = 86400 * units.Second
	for _, target := range []struct {
		name string
		of   units.Duration
	}{{"ttft", t.TTFT}, {"tbt", t.TBT}, {"tpot", t.TPOT}, {"e2e", t.E2E}} {
		c.That(target.of >= 0 && target.of <= day, target.name, target.of, "0s (no target) to 86400s")
	}
}

// sloDefaults is the section [slo] below all presets.
var sloDefaults = `
[slo]
ttft = "0s"         # no target; --slo ttft=TIME
tbt = "0s"          # no target; --slo tbt=TIME
tpot = "0s"         # no target; --slo tpot=TIME
e2e = "0s"          # no target; --slo e2e=TIME
tbt_percentile = 99 # our choice: of a request's own times between tokens, which --slo tbt.p90=TIME sets with the target; the rate of 'l3sim capacity'
attainment = 0.99   # our choice: the share of requests that must meet the targets; the rate of 'l3sim capacity'
` + noTails()

// noTails returns the sections of percentile targets, with no target set.
func noTails() (sections string) {
	for _, p := range []string{"p50", "p90", "p95", "p99"} {
		sections += strings.ReplaceAll(`
[slo.pN]
ttft = "0s" # no target; --slo ttft.pN=TIME
tbt = "0s"  # no target; --slo tbt.pN.tokens=TIME
tpot = "0s" # no target; --slo tpot.pN=TIME
e2e = "0s"  # no target; --slo e2e.pN=TIME
`, "pN", p)
	}
	return sections
}
