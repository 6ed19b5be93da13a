package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"pgregory.net/rapid"
)

// TestBoundBy: if requests wait and the data bus is busy for less than nine tenths, the report names the rule that idles it, and a setting
// that avoids this.
func TestBoundBy(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	lines := func(n int, of func(i int) Request) []Request {
		list := make([]Request, n)
		for i := range list {
			list[i] = of(i)
		}
		return list
	}
	stream := lines(20_100, func(i int) Request { return Request{Address: uint64(i) * 64} })
	const row = 1 << 17 // next row of a bank of one rank
	for _, c := range []struct {
		name, set string
		ranks     int
		requests  []Request
		rule      string // "" if no rule may be named
		meaning   string
		avoided   string
	}{
		{"stream in a bank group", "", 1, stream, "tCCD_L", "follow one of their own bank group", "mapping=rocorababgch"},
		{"stream over bank groups", "mapping=rocorababgch", 1, stream, "", "", ""},
		{"random rows", "", 1, lines(5_000, func(int) Request { return Request{Address: rng.Uint64N(1 << 33)} }), "tFAW", causes[activates], ""},
		{"rows of one bank", "", 1, lines(2_000, func(i int) Request { return Request{Address: uint64(i) * row} }), "tRC", causes[bankRow], ""},
		{"several reads of a row", "", 1, lines(4_000, func(i int) Request { return Request{Address: uint64(i/4)*row + uint64(i%4)*64} }), "tRP", causes[bankRow], "mapping=rocorababgch"},
		{"turns", "write_buffer=8 drain_high=8 read_queue=8 age_bound=100 mapping=rocorababgch", 1, lines(4_000, func(i int) Request {
			return Request{Address: uint64(i) * 64, Write: i%2 > 0}
		}), "tWTR_S", causes[writesFirst], ""},
		{"two ranks by turns", "mapping=rochcobabgra bank_queue=1 read_queue=1 scheduler=fr-fcfs tRTRS=16", 2, stream, "tRTRS", causes[otherRank], "mapping=rochrabacobg"},
		{"short refresh interval", "tREFI=1200", 1, lines(20_000, func(i int) Request { return Request{Address: uint64(i%4)<<13 + uint64(i/4%128)*64} }), "tRFC", causes[refreshes], ""},
		{"requests apart", "", 1, lines(1_000, func(i int) Request { return Request{Clock: int64(i) * 300, Address: uint64(i) * row} }), "", "", ""},
	} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, "ddr4-2400-8gb-x8"), c.ranks
		for _, set := range strings.Fields(c.set) {
			key, value, _ := strings.Cut(set, "=")
			if err := s.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		stats, err := s.Replay(t.Context(), c.requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReport(s, "default", stats, 0)
		if r.Advice, err = s.Advise(t.Context(), r, c.requests); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		r.WriteLines(&text)
		if c.rule == "" {
			if len(r.Bounds) > 0 || r.Advice != nil || strings.Contains(text.String(), "bound by") {
				t.Errorf("%s: %.1f%% busy, bound by %+v, avoided by %+v", c.name, 100*r.BusUtilization, r.Bounds, r.Advice)
			}
			continue
		}
		if len(r.Bounds) == 0 || r.BusUtilization >= 0.9 || r.Bounds[0].Rule != c.rule || r.Bounds[0].Meaning != c.meaning || !strings.Contains(text.String(), "bound by\t"+c.rule) {
			t.Errorf("%s: %.1f%% busy, bound by %+v, want %s", c.name, 100*r.BusUtilization, r.Bounds, c.rule)
		}
		if a := r.Advice; a != nil && !strings.Contains(text.String(), fmt.Sprintf("avoided by\t%s\t%.3f in place of %.3f GB/s, the first %d requests\n", c.avoided, a.GBPerS, a.Before, a.Requests)) {
			t.Errorf("%s: %+v is written as\n%s", c.name, a, text.String())
		}
		if a := r.Advice; (a != nil) != (c.avoided != "") || a != nil && (a.Set != c.avoided || a.GBPerS < 1.05*a.Before || a.Requests != min(len(c.requests), 20_000) || a.Requests == len(c.requests) && a.Before != r.GBPerS) {
			t.Errorf("%s: avoided by %+v, want %s", c.name, a, c.avoided)
		}
	}
}

// TestAdviceSkipsWhatIsInvalid: a write buffer below drain_idle is invalid, so the next setting is tried.
func TestAdviceSkipsWhatIsInvalid(t *testing.T) {
	s := setup(t, "default")
	s.Ranks = 1
	for key, value := range map[string]string{"write_buffer": "200", "drain_idle": "150"} {
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	list := s.settings(writesFirst)
	if len(list) != 2 || !strings.HasPrefix(list[0], "write_buffer=128 ") {
		t.Fatal(list)
	}
	a, err := s.Advise(t.Context(), &Report{Bounds: []boundReport{{Wait: Wait{cause: writesFirst}}}}, streamOf(2000, 64))
	if err != nil || a == nil || a.Set != list[1] || a.Requests != 2000 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestStreamFollowsItsGroup: in a stream through rows of one bank at a time, every access except the first after an activation or a refresh
// follows one of its own bank group.
func TestStreamFollowsItsGroup(t *testing.T) {
	s := setup(t, "default")
	s.Ranks, s.Policy.ReadQueue = 1, 1
	stats, err := s.Replay(t.Context(), streamOf(128, 64), nil)
	if err != nil {
		t.Fatal(err)
	}
	late := int64(s.Spec.TCCDL - s.Spec.BurstClocks())
	want := Wait{Rule: "tCCD_L", Accesses: 127, Clocks: 127 * late}
	if i := slices.IndexFunc(stats.Waits, func(w Wait) bool { return w.Rule == "tCCD_L" }); i < 0 || stats.Waits[i] != want {
		t.Errorf("waits %+v, want %+v", stats.Waits, want)
	}
}

// streamOf returns n reads at a constant distance.
func streamOf(n, bytes int) []Request {
	list := make([]Request, n)
	for i := range list {
		list[i].Address = uint64(i * bytes)
	}
	return list
}

// TestWaitsFollowFromTheLog recomputes what each access waited for from the log and every rule of the standard. The log does not tell since
// when a row was wanted, so for waits for rows only the sum is compared.
func TestWaitsFollowFromTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, "default")
		standard := rapid.SampledFrom(dram.Standards()).Draw(t, "standard")
		s.Spec = part(t, standard.PartNames()[0])
		s.Ranks = standard.PseudoChannels * rapid.IntRange(1, 2).Draw(t, "ranks")
		if len(standard.Refreshes) > 1 && rapid.Bool().Draw(t, "by bank") {
			s.Policy.Refresh = "bank"
		}
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		s.Policy.Scheduler = rapid.SampledFrom([]string{"batch", "fr-fcfs", "round-robin"}).Draw(t, "scheduler")
		if err := s.Validate(); err != nil {
			return // bank refreshes leave no time
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		span, writes := uint64(1)<<rapid.IntRange(10, 30).Draw(t, "span"), rapid.IntRange(0, 2).Draw(t, "writes")
		requests := make([]Request, 400)
		for i := range requests {
			requests[i] = Request{Address: rng.Uint64N(span), Write: rng.IntN(4) < writes}
		}
		stats, records := replayLog(t, s, requests)
		want, rows := waitsOfLog(s.Spec, s.Ranks, records)
		got, gotRows := map[string]int64{}, int64(0)
		opens := []cause{rowOpens, bankRow, activates, refreshes, wakes}
		for _, k := range stats.Waits {
			if slices.Contains(opens, k.cause) {
				gotRows += k.Clocks
			} else {
				got[k.Rule] += k.Clocks
			}
		}
		clocks := func(steps int64) int64 { return (steps + s.Spec.BusSteps(1) - 1) / s.Spec.BusSteps(1) }
		for rule, steps := range want {
			if d := got[rule] - clocks(steps); d < 0 || d > 4 { // a few causes with one name, each rounded up
				t.Fatalf("%s: %s %d clocks, from the log %d steps", s.Spec.Name, rule, got[rule], steps)
			}
			delete(got, rule)
		}
		if d := gotRows - clocks(rows); len(got) > 0 || d < 0 || d > 8 {
			t.Fatalf("%s: rows %d clocks, from the log %d steps; without any in the log: %v", s.Spec.Name, gotRows, rows, got)
		}
	})
}

// waitsOfLog returns, for each rule, the steps by which it delayed accesses, and the accesses that waited for a row or a refresh.
func waitsOfLog(spec *dram.Spec, ranks int, records []check.Record) (byRule map[string]int64, rows int64) {
	table, constraints := spec.Rules(), spec.Constraints()
	each := ranks / table.PseudoChannels
	byRule = map[string]int64{}
	ends := make([]int64, table.PseudoChannels)
	slices.SortStableFunc(constraints, func(a, b dram.Constraint) int { return cmp.Compare(a.Scope, b.Scope) })
	for i, r := range records {
		if !r.Command.IsRead() && !r.Command.IsWrite() {
			continue
		}
		bus := int(r.Address.Rank) / each
		end := r.Clock + spec.DataEnd(r.Command)
		idle := end - spec.BusSteps(spec.BurstClocks()) - ends[bus]
		ends[bus] = end
		if idle <= 0 {
			continue
		}
		plain := dram.RD // commands with auto-precharge have the rules of those without
		if r.Command.IsWrite() {
			plain = dram.WR
		}
		step, rule := int64(0), dram.Constraint{}
		for _, c := range constraints {
			if c.Next != plain || c.Window > 1 {
				continue
			}
			for _, before := range records[:i] {
				if before.Command == c.Command && meet(spec, each, c.Scope, before, r.Address) && before.Clock+int64(c.Clocks) > step {
					step, rule = before.Clock+int64(c.Clocks), c
				}
			}
		}
		late := step - max(r.Clock-idle, 0)
		switch of := causeOf(table, rule); {
		case rule.Rule == "" || late <= 0:
		case of == rowOpens || of == refreshes || of == wakes:
			rows += late
		default:
			byRule[rule.Rule] += late
		}
	}
	return byRule, rows
}

// meet reports whether, under a rule of this scope, a command affects one to a bank at b.
func meet(spec *dram.Spec, each int, scope dram.Scope, r check.Record, b dram.Address) bool {
	a := r.Address
	switch scope {
	case dram.SameBank, dram.SameBankGroup:
		if a.Rank != b.Rank || a.Bank < 0 {
			return false
		}
		if spec.Rules().Action(r.Command).Span == dram.OneBank {
			return a.BankGroup == b.BankGroup && (scope == dram.SameBankGroup || a.Bank == b.Bank)
		}
		bank, stride, end := spec.Spanned(r.Command, a)
		for ; bank < end; bank += stride {
			if bank/spec.BanksPerGroup == int(b.BankGroup) && (scope == dram.SameBankGroup || bank%spec.BanksPerGroup == int(b.Bank)) {
				return true
			}
		}
		return false
	case dram.SameRank:
		return a.Rank == b.Rank
	case dram.OtherRank:
		return a.Rank != b.Rank && int(a.Rank)/each == int(b.Rank)/each
	}
	return int(a.Rank)/each == int(b.Rank)/each
}

// TestWaitsAreNamedOnce: rules with one name and one meaning are one line of a report, in the order in which they first occur; a rule
// between other commands has its own.
func TestWaitsAreNamedOnce(t *testing.T) {
	w := &waits{channel: &channel{spec: part(t, ddr43200)}}
	first := dram.Constraint{Rule: "tCCD_L", Command: dram.RD, Next: dram.RD, Scope: dram.SameBankGroup}
	second := dram.Constraint{Rule: "tRC", Command: dram.ACT, Next: dram.ACT, Scope: dram.SameBank}
	third := dram.Constraint{Rule: "tCCD_L", Command: dram.WR, Next: dram.RD, Scope: dram.SameBankGroup}
	for i, c := range []struct {
		row  dram.Constraint
		want int16
	}{{first, 0}, {first, 0}, {second, 1}, {first, 0}, {third, 2}, {second, 1}, {third, 2}} {
		if got := w.number(c.row); got != c.want {
			t.Errorf("call %d: %s is number %d, want %d", i, c.row.Rule, got, c.want)
		}
	}
	if len(w.list) != 3 || w.list[0].Rule != "tCCD_L" || w.list[0].cause != ownGroup || w.list[1].Rule != "tRC" || w.list[1].cause != bankRow || w.list[2].cause != writesFirst {
		t.Errorf("%+v", w.list)
	}
}

// TestCommandsOfSeveralRanks: a command of a whole pseudo-channel is the latest one of all its ranks and of no others; one of a rank, of
// that rank alone.
func TestCommandsOfSeveralRanks(t *testing.T) {
	for pseudo, want := range map[int][2][]int{1: {{0, 1, 2, 3}, {3}}, 2: {{2, 3}, {3}}} {
		table, err := dram.ReadStandard("t", strings.NewReader(fmt.Sprintf("standard = 'mine'\nbase = 'ddr4'\npseudo_channels = %d\n", pseudo)))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := table.Part("mine-3200-8gb-x8")
		if err != nil {
			t.Fatal(err)
		}
		for i, span := range []dram.Span{dram.WholeChannel, dram.WholeRank} {
			w := &waits{channel: &channel{spec: spec}, ranks: newLastSteps(4)}
			w.spans[dram.REF] = span
			w.several(dram.REF, dram.Address{Rank: 3, BankGroup: -1, Bank: -1}, 2, 77)
			var got []int
			for rank := range w.ranks {
				if w.ranks[rank][2] == 77 {
					got = append(got, rank)
				}
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("%d pseudo-channels, span %d: ranks %v, want %v", pseudo, span, got, want[i])
			}
		}
	}
}
