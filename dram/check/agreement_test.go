package check

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// drawTimings draws a part whose timings are all different, so that rules cannot be confused.
func drawTimings(t *rapid.T, s *dram.Spec) {
	for _, p := range s.Parameters() {
		if err := s.Set(p.Term, strconv.Itoa(rapid.IntRange(1, 60).Draw(t, p.Term))); err != nil {
			t.Fatal(err)
		}
	}
	s.TRRDL, s.TCCDS = max(s.TRRDL, s.TRRDS), max(s.TCCDS, s.BurstClocks())
	s.TCCDL, s.TRC = max(s.TCCDL, s.TCCDS), max(s.TRC, s.TRAS, s.TRRDL)
	s.TWTRL = max(s.TWTRL, s.TWTRS)
	s.TREFI = s.TRFC + 2*s.LongestAccess() + 1000
}

// TestStateAndCheckerAgree: for every pair of commands of every standard, at any places, the checker accepts the second at the earliest
// clock of State and the command buses, and rejects it one step before. The checker looks rules up in the history; State has them compiled.
func TestStateAndCheckerAgree(t *testing.T) {
	for _, standard := range dram.Standards() {
		agreeOnAll(t, part(t, standard.PartNames()[0]))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := *part(t, ddr43200)
		drawTimings(t, &s)
		if errs := input.Faults(&s); len(errs) > 0 {
			t.Skip(errs[0])
		}
		agreeOnAll(t, &s)
	})
}

// places returns addresses for a command; the first one is for the first command of a pair.
func places(s *dram.Spec, cmd dram.Command) []dram.Address {
	list := []dram.Address{at(0, 0, 0, 7, 0), at(0, 0, 1, 7, 0), at(0, int32(s.BankGroups)-1, 0, 7, 0), at(0, int32(s.BankGroups/2), 0, 7, 0)}
	for rank := range int32(2 * s.Rules().PseudoChannels) {
		list = append(list, at(rank, 0, 0, 7, 0))
	}
	for i := range list {
		switch s.Rules().Action(cmd).Span {
		case dram.WholeRank, dram.WholeChannel:
			list[i].BankGroup, list[i].Bank = -1, -1
		case dram.SameBanks:
			list[i].BankGroup = -1
		}
	}
	return list
}

// pairs checks pairs of commands, one after another and far apart.
type pairs struct {
	state    *dram.State
	checkers [2]*Checker // with shared buses, with private ones
	clock    int64
}

func agreeOnAll(t helper, s *dram.Spec) {
	ranks := 2 * s.Rules().PseudoChannels
	p := &pairs{state: dram.NewState(s, ranks), checkers: [2]*Checker{NewChecker(s, ranks, false), NewChecker(s, ranks, true)}}
	for _, first := range s.Rules().Commands() {
		for _, second := range s.Rules().Commands() {
			for _, b := range places(s, second) {
				p.agree(t, first, second, places(s, first)[0], b)
			}
		}
	}
}

// found returns what the checker finds if second follows first after the given steps.
func (p *pairs) found(first, second dram.Command, a, b dram.Address, steps int64, private int) []Violation {
	const apart = 1 << 22 // more than any rule, and a multiple of the steps of a clock
	p.clock += apart
	c := p.checkers[private]
	c.found = c.found[:0]
	c.Check(Record{p.clock, first, a})
	c.Check(Record{p.clock + steps, second, b})
	return slices.DeleteFunc(c.found, func(v Violation) bool {
		state := slices.Contains([]string{ruleState, ruleRow, rulePower, ruleDataClock, ruleDebt, rulePullIn}, v.Rule)
		// An ACTA alone violates the rules of activations.
		return state || v.First == v.Second && v.Second.Command == dram.ACTA && v.Rule == "tRRD_S" || v.Rule == "tFAW" && (first == dram.ACTA || second == dram.ACTA)
	})
}

func (p *pairs) agree(t helper, first, second dram.Command, a, b dram.Address) {
	s := p.state.Spec()
	// With private buses, commands of buffers go on each rank's own bus.
	own := func(c dram.Command) bool { return c == dram.RDRES || c == dram.WRBUF }
	private := 0
	buses := dram.CommandBuses{Standard: s.Rules()}
	if own(first) || own(second) {
		private = 1
	}
	if private == 0 || a.Rank == b.Rank {
		buses.Take(first, 0)
	}
	p.state.Reset()
	p.state.Issue(first, a, 0)
	earliest := buses.Earliest(second, p.state.Earliest(second, b))
	if found := p.found(first, second, a, b, earliest, private); len(found) > 0 {
		t.Fatal(fmt.Sprintf("%s: %v %v, %v %v: %d steps by the state, the checker finds %+v", s.Name, first, a, second, b, earliest, found))
	}
	if earliest == 0 {
		return
	}
	early := p.found(first, second, a, b, earliest-1, private)
	for _, v := range early {
		if v.Allowed || v.Required > 0 && v.Actual >= v.Required {
			t.Fatal(fmt.Sprintf("%s: %v %v, %v %v: found %+v", s.Name, first, a, second, b, v))
		}
	}
	if len(early) == 0 {
		t.Fatal(fmt.Sprintf("%s: %v %v, %v %v: the checker accepts %d steps, the state asks for %d", s.Name, first, a, second, b, earliest-1, earliest))
	}
}
