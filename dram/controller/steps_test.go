package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// drawSteps returns a part of a shipped standard in which each command takes a drawn 1 to 3 steps of its bus. If clocked is set and the
// standard has no data clock, CAS, on the last bus, starts one, which accesses keep running.
func drawSteps(t *rapid.T, base *dram.Standard, clocked bool) *dram.Spec {
	extra := ""
	if _, has := base.DataClockCommand(); clocked && !has {
		a := dram.Action{Span: dram.WholeRank, AnyStep: rapid.Bool().Draw(t, "any step")}
		steps := rapid.IntRange(1, 16).Draw(t, "CAS") // a refresh may become due in these
		extra = commandRow(dram.CAS, base.Buses[len(base.Buses)-1], steps, a)
		extra += fmt.Sprintf("]\ndata_clock = \"CAS | CL + burst + %d\"\n", rapid.IntRange(0, 20).Draw(t, "clock runs on"))
	}
	return withSteps(t, base, extra, func(c dram.Command) int { return rapid.IntRange(1, 3).Draw(t, c.String()) })
}

// commandRow returns the row of a command in a standard's table.
func commandRow(c dram.Command, bus string, steps int, a dram.Action) string {
	extra := ""
	if a.Second > 0 {
		extra = fmt.Sprintf("| and 1 within %d", a.Second)
	} else if a.AnyStep {
		extra = "| any step"
	}
	return fmt.Sprintf("  \"%v | %s | %d | %v | %v | %v %s\",\n", c, bus, steps, a.Span, a.Needs, a.Leaves, extra)
}

// withSteps returns a part of a standard whose commands take other numbers of steps; more is appended to the table of commands.
func withSteps(t helper, base *dram.Standard, more string, steps func(dram.Command) int) *dram.Spec {
	var table strings.Builder
	fmt.Fprintf(&table, "standard = \"drawn\"\nbase = %q\n", base.Name)
	fmt.Fprint(&table, "commands = [\n")
	for _, c := range base.Commands() {
		a := base.Action(c)
		table.WriteString(commandRow(c, base.Buses[a.Bus], steps(c), a))
	}
	table.WriteString(cmp.Or(more, "]\n"))
	s, err := dram.ReadStandard("drawn.toml", strings.NewReader(table.String()))
	if err != nil {
		t.Fatal(err, table.String())
	}
	spec, err := s.Part(s.PartNames()[len(s.PartNames())-1])
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestLogsOfAnySteps: whatever steps a standard's commands take, with a data clock or without, the checker accepts the controller's log.
func TestLogsOfAnySteps(t *testing.T) {
	check := func(t *rapid.T) {
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
	}
	rapid.Check(t, check)
	deep.Seeds(t, 20, check)
}

// TestRefreshRoundsLeaveTime: a bank whose refresh is due serves requests until its turn, after the other banks of the round. With these
// steps of GDDR6's commands and this short tREFI, some banks always have a refresh due.
func TestRefreshRoundsLeaveTime(t *testing.T) {
	s := setup(t, "dramsim3")
	all := dram.Standards()
	s.Spec = withSteps(t, all[slices.IndexFunc(all, func(x *dram.Standard) bool { return x.Name == "gddr6" })], "", func(c dram.Command) int {
		switch c {
		case dram.PRE, dram.PDE, dram.SRX:
			return 3
		case dram.RD, dram.RDA, dram.WR, dram.WRA:
			return 2
		}
		return 1
	})
	s.Ranks = s.Spec.Rules().PseudoChannels
	s.Policy.Refresh, s.Policy.RefreshPostpone, s.Policy.Page, s.Policy.PowerDown = "bank", 0, "closed", "timeout"
	s.Spec.TREFI = s.Spec.TRFC + 20*s.Spec.LongestAccess()
	rng, clock := rand.New(rand.NewPCG(0x9c4dfd, 1)), int64(0)
	requests := make([]Request, 300)
	for i := range requests {
		clock += rng.Int64N(16)
		if i%100 == 99 {
			clock += int64(s.Spec.TREFI)
		}
		requests[i] = Request{Clock: clock, Address: rng.Uint64N(1<<13) &^ 63, Write: rng.IntN(3) == 0}
	}
	to, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	c := newController(s.Spec, s.Policy, to, s.Ranks, nil)
	c.front.requests = requests
	end, waits := s.Spec.BusSteps(int(clock)+10*s.Spec.TREFI), false
	for at := int64(0); !c.finished(); at = c.tick(at) {
		if at > end {
			t.Fatalf("%d requests wait at step %d", c.queues.entries, at)
		}
		blocked := make([]uint64, s.Ranks)
		for _, i := range c.refresh.forced {
			k := &c.refresh.units[i]
			if waits = waits || c.refresh.aheadOfRound(k); !c.refresh.aheadOfRound(k) {
				blocked[k.first] |= k.banks
			}
		}
		for rank := range blocked {
			if got := c.sched.ranks[rank].forced; got != blocked[rank] {
				t.Fatalf("at step %d rank %d keeps requests from banks %b, those that must refresh now are %b", at, rank, got, blocked[rank])
			}
		}
	}
	if !waits {
		t.Error("no bank whose refresh is due waits for others of its round")
	}
}
