package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/traces"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		l            Limits
		sign, legend string
	}{
		{Limits{}, "", ""},
		{Limits{Boards: true}, " †", boardsLegend},
		{Limits{Slot: true}, " ‡", slotLegend},
		{Limits{Boards: true, Slot: true}, " †‡", boardsLegend + "\n" + slotLegend},
	} {
		if c.l.Sign() != c.sign || c.l.Legend() != c.legend {
			t.Errorf("%+v: %q, %q", c.l, c.l.Sign(), c.l.Legend())
		}
		s := Summary{EnergyReport: EnergyReport{DIMM: 10, DIMMLimit: 10}}
		s.BeyondBoards = c.l.Boards
		if c.l.Slot {
			s.EnergyReport.DIMM = 10.001
		}
		if s.Limits() != c.l || (Limits{}).Or(c.l) != c.l || c.l.Or(Limits{}) != c.l {
			t.Errorf("%+v is %+v", c.l, s.Limits())
		}
	}
}

// TestLimitsOfPairs: each limit alone: neither, both or only the first exceeded.
func TestLimitsOfPairs(t *testing.T) {
	for n := range 16 {
		a, b := Limits{n&1 > 0, n&2 > 0}, Limits{n&4 > 0, n&8 > 0}
		for i, c := range [][2]Limits{
			{a.Or(b), {n&5 > 0, n&10 > 0}}, {a.And(b), {n&5 == 5, n&10 == 10}}, {a.Without(b), {n&5 == 1, n&10 == 2}},
		} {
			if c[0] != c[1] {
				t.Errorf("%+v and %+v, number %d: %+v, by hand %+v", a, b, i, c[0], c[1])
			}
		}
	}
}

// TestPartsOfEnergy: a list of parts comes back in its order.
func TestPartsOfEnergy(t *testing.T) {
	list := make([]float64, EnergyParts)
	for i := range list {
		list[i] = float64(i + 1)
	}
	c := NewEnergyComponents(list)
	if got := c.Parts(); !slices.Equal(got, list) || c.DRAMVPP == 0 || c.Cooling != float64(EnergyParts) {
		t.Errorf("%v, want %v", got, list)
	}
}

// TestTextsAtTheEnds: no summary gives an error and no metrics; a variant follows its system; times beyond all units are milliseconds.
func TestTextsAtTheEnds(t *testing.T) {
	var none *Summary
	var b strings.Builder
	if none.WriteText(&b) == nil || none.WriteJSON(&b) == nil || b.Len() > 0 || len(none.MetricValues()) != len(Metrics()) {
		t.Errorf("%q of no summary", b.String())
	}
	s := Summary{}
	s.System, s.Variant, s.Model, s.GPU, s.BeyondBoards = "l3", "naive", "m", "g", true
	s.Trace.Name = "mine"
	if err := s.WriteText(&b); err != nil || !strings.HasPrefix(b.String(), "l3 (naive) serving m on g, 0 requests of mine, seed 0\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	s.Variant = ""
	b.Reset()
	if err := s.WriteText(&b); err != nil || !strings.HasPrefix(b.String(), "l3 serving m on g") {
		t.Errorf("%v\n%s", err, b.String())
	}
	values, names, found := s.MetricValues(), MetricNames(), false
	for i, name := range names {
		if name == "beyond_boards" {
			found = values[i] == true
		}
	}
	if !found {
		t.Errorf("%v of %v", values, names)
	}
	for ms, want := range map[float64]string{1e301: "1e+301 ms", 999.4: "999 ms", 1.234: "1.23 ms", 12345: "12.3 s", 3600e3: "60 min", 36e6: "10 h", 9e6: "2.5 h"} {
		if got := TimeText(ms); got != want {
			t.Errorf("%v ms are %q, want %q", ms, got, want)
		}
	}
	for requests, want := range map[int]string{1: "", 2: " (place in the queue)"} {
		s := Summary{}
		s.Arrivals.Kind, s.Trace.Requests = traces.ArrivalsAtOnce, requests
		if got := s.queued(); got != want {
			t.Errorf("%d requests: %q", requests, got)
		}
		if s.Arrivals.Kind = traces.ArrivalsPoisson; s.queued() != "" {
			t.Error("requests apart stand in a queue")
		}
	}
}
