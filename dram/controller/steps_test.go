package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// drawSteps returns a part of a standard that ships, each of whose commands takes 1 to 3 steps of its bus, drawn. Where clocked
// is set and it has no data clock, CAS starts one on the last of its buses, from which on accesses keep it.
func drawSteps(t *rapid.T, base *dram.Standard, clocked bool) *dram.Spec {
	var table strings.Builder
	fmt.Fprintf(&table, "standard = \"drawn\"\nbase = %q\n", base.Name)
	rows := ""
	row := func(c dram.Command, bus string, span dram.Span, a dram.Action) {
		extra := ""
		if a.Second > 0 {
			extra = fmt.Sprintf("| and 1 within %d", a.Second)
		} else if a.AnyStep {
			extra = "| any step"
		}
		most := 3
		if c == dram.CAS { // in which a refresh may fall due
			most = 16
		}
		steps := rapid.IntRange(1, most).Draw(t, c.String())
		rows += fmt.Sprintf("  \"%v | %s | %d | %v | %v | %v %s\",\n", c, bus, steps, span, a.Needs, a.Leaves, extra)
	}
	for _, c := range base.Commands() {
		a := base.Action(c)
		row(c, base.Buses[a.Bus], a.Span, a)
	}
	if _, has := base.DataClockCommand(); clocked && !has {
		row(dram.CAS, base.Buses[len(base.Buses)-1], dram.WholeRank, dram.Action{AnyStep: rapid.Bool().Draw(t, "any step")})
		fmt.Fprintf(&table, "data_clock = \"CAS | CL + burst + %d\"\n", rapid.IntRange(0, 20).Draw(t, "clock runs on"))
	}
	fmt.Fprintf(&table, "commands = [\n%s]\n", rows)
	s, err := dram.ReadStandard("drawn.toml", strings.NewReader(table.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, table.String())
	}
	spec, err := s.Part(s.PartNames()[len(s.PartNames())-1])
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestLogsOfAnySteps: whatever steps the commands of a standard take, with a data clock or without, the controller's own log
// passes the checker.
func TestLogsOfAnySteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		s.Spec = drawSteps(t, dram.Standards()[rapid.IntRange(0, len(dram.Standards())-1).Draw(t, "standard")], rapid.Bool().Draw(t, "clocked"))
		s.Ranks = s.Spec.Rules().PseudoChannels * rapid.IntRange(1, 2).Draw(t, "ranks")
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		s.Policy.PowerDown = rapid.SampledFrom([]string{"off", "timeout"}).Draw(t, "power-down")
		s.Policy.RefreshPostpone = rapid.IntRange(0, 1).Draw(t, "postponed")
		if len(s.Spec.Rules().Refreshes) > 1 {
			s.Policy.Refresh = rapid.SampledFrom([]string{"all", "bank"}).Draw(t, "refresh")
		}
		if rapid.Bool().Draw(t, "frequent refreshes") {
			s.Spec.TREFI = s.Spec.TRFC + 20*s.Spec.LongestAccess()
		}
		if err := input.Validate(s); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rows, gap := rapid.Uint64Range(1, 64).Draw(t, "rows"), rapid.IntRange(1, 60).Draw(t, "gap")
		requests := make([]Request, 300)
		clock := int64(0)
		for i := range requests {
			clock += rng.Int64N(int64(gap))
			if i%100 == 99 {
				clock += int64(s.Spec.TREFI) // refreshes meet traffic, and an idle channel
			}
			requests[i] = Request{Clock: clock, Address: rng.Uint64N(rows<<13) &^ 63, Write: rng.IntN(3) == 0}
		}
		_, records := replayLog(t, s, requests)
		if v := checkRecords(s.Spec, s.Ranks, records); len(v) > 0 {
			t.Fatalf("%d violations, the first: %+v", len(v), v[0])
		}
	})
}
