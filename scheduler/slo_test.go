package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// TestAttains: a request attains its targets if none of its latencies exceeds its target. For its own gaps, the percentile by
// nearest rank from above counts.
func TestAttains(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	attained := 0
	for range 20_000 {
		tokens := 1 + r.IntN(400)
		arrival := units.Duration(r.IntN(100))
		first := arrival + units.Duration(r.IntN(1000))
		var gaps []units.Duration
		finish := first
		for range tokens - 1 {
			g := units.Duration(1 + r.IntN(4))
			if r.IntN(60) == 0 {
				g = 50
			}
			gaps, finish = append(gaps, g), finish+g
		}
		some := func(n int) units.Duration { return units.Duration(r.IntN(2) * (1 + r.IntN(n))) }
		s := SLO{TTFT: some(1500), TBT: some(6), TPOT: some(8), E2E: some(3000), TBTPercentile: Percentiles[r.IntN(4)]}
		slow := 0
		for _, g := range gaps {
			if s.TBT > 0 && g > s.TBT {
				slow++
			}
		}
		slices.Sort(gaps)
		late := false
		want := (s.TTFT == 0 || first-arrival <= s.TTFT) && (s.E2E == 0 || finish-arrival <= s.E2E)
		if n := len(gaps); n > 0 {
			if s.TPOT > 0 && finish-first > s.TPOT*units.Duration(n) {
				want = false
			}
			allowed := n * (100 - s.TBTPercentile) / 100
			if s.TBT > 0 && gaps[n-1-allowed] > s.TBT {
				want, late = false, true
			}
		}
		if got := s.Attains(arrival, first, finish, tokens, int64(slow)); got != want {
			t.Fatalf("%+v: arrival %v, first %v, finish %v, %d tokens, %d slow: got %v", s, arrival, first, finish, tokens, slow, got)
		}
		if got := s.Slow(tokens, int64(slow)); got != late {
			t.Fatalf("%+v: %d tokens, %d slow: its gaps are too long: %v", s, tokens, slow, got)
		}
		if want {
			attained++
		}
	}
	if attained < 2000 || attained > 18_000 {
		t.Errorf("%d of 20000 attain: nothing is tested", attained)
	}
}

// TestTargetsChecked: targets are times of at most a day, and percentiles those that results have.
func TestTargetsChecked(t *testing.T) {
	ok := SLO{TBTPercentile: 99, Attainment: 0.99}
	if err := input.Validate(&ok); err != nil || ok.Given() {
		t.Errorf("%v, given %v", err, ok.Given())
	}
	for want, change := range map[string]func(*SLO){
		"tbt_percentile": func(s *SLO) { s.TBTPercentile = 98 },
		"attainment":     func(s *SLO) { s.Attainment = 1.1 },
		"tpot":           func(s *SLO) { s.TPOT = -1 },
		"p95.e2e":        func(s *SLO) { s.P95.E2E = 86401 * units.Second },
		"p50.ttft":       func(s *SLO) { s.P50.TTFT = -1 },
	} {
		s := ok
		change(&s)
		faults := input.Faults(&s)
		if len(faults) != 1 || faults[0].Key != want {
			t.Errorf("%s: %v", want, faults)
		}
	}
	// Each target is of at most a day, and all that are not are named in order.
	const day = 86_400_000_000_000_000 // picoseconds
	for p, of := range map[string]func(s *SLO) *Tail{
		"": nil, "p50.": func(s *SLO) *Tail { return &s.P50 }, "p90.": func(s *SLO) *Tail { return &s.P90 }, "p95.": func(s *SLO) *Tail { return &s.P95 }, "p99.": func(s *SLO) *Tail { return &s.P99 },
	} {
		for value, bad := range map[units.Duration]bool{-1: true, 0: false, 1: false, day: false, day + 1: true} {
			s := ok
			if p == "" {
				s.TTFT, s.TBT, s.TPOT, s.E2E = value, value, value, value
			} else {
				*of(&s) = Tail{value, value, value, value}
			}
			faults := input.Faults(&s)
			if !bad && len(faults) > 0 || bad && (len(faults) != 4 || faults[0].Key != p+"ttft" || faults[1].Key != p+"tbt" || faults[2].Key != p+"tpot" || faults[3].Key != p+"e2e") {
				t.Errorf("%s of %d ps: %v", p, value, faults)
			}
		}
	}
	for _, p := range []func(*SLO){func(s *SLO) { s.E2E = 1 }, func(s *SLO) { s.P99.TBT = 1 }, func(s *SLO) { s.P50.TPOT = 1 }} {
		s := ok
		if p(&s); !s.Given() {
			t.Errorf("%+v: a target is given", s)
		}
	}
}

// TestDefaultsOfTargets: without settings there are no targets: all are 0s, for each request and every percentile. In the section [serving], only
// the router, the handling of requests beyond a context, and the overlap of drafts have other defaults than off.
func TestDefaultsOfTargets(t *testing.T) {
	var file struct {
		Serving ServingSpec `toml:"serving"`
		SLO     SLO         `toml:"slo"`
	}
	meta, err := input.DecodeTOML("defaults", ServingDefaults, &file)
	if err != nil || len(meta.Undecoded()) > 0 {
		t.Fatal(err, meta.Undecoded())
	}
	if want := (SLO{TBTPercentile: 99, Attainment: 0.99}); file.SLO != want || file.SLO.Given() {
		t.Errorf("targets %+v, want %+v", file.SLO, want)
	}
	for _, p := range []string{"", "p50.", "p90.", "p95.", "p99."} {
		for _, of := range []string{"ttft", "tbt", "tpot", "e2e"} {
			if key := "slo." + p + of; !meta.IsDefined(strings.Split(key, ".")...) {
				t.Errorf("no default of %s", key)
			}
		}
	}
	if want := (ServingSpec{Router: RouteRoundRobin, BeyondContext: BeyondWarn, Prefill: PrefillHere, VerifiedTokens: 1, VerifiedOverlap: 0.65}); file.Serving != want {
		t.Errorf("serving %+v, want %+v", file.Serving, want)
	}
}
