package check

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// drawTimings draws a part with timings that no two rules share by chance.
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

// TestStateAndCheckerAgree: for every pair of commands, wherever they lie, the
// checker accepts the second at the first clock that State gives, and rejects
// it one clock earlier: two descriptions of one standard.
func TestStateAndCheckerAgree(t *testing.T) {
	places := func(cmd dram.Command) []dram.Address {
		if cmd.AllBank() {
			return []dram.Address{at(0, -1, -1, 7, 0), at(1, -1, -1, 7, 0)}
		}
		return []dram.Address{at(0, 0, 0, 7, 0), at(0, 0, 1, 7, 0), at(0, 1, 0, 7, 0), at(1, 0, 0, 7, 0)}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := *part(t, ddr43200)
		drawTimings(t, &s)
		if errs := input.Faults(&s); len(errs) > 0 {
			t.Skip(errs[0])
		}
		for first := range dram.Command(dram.Commands) {
			for second := range dram.Command(dram.Commands) {
				for _, at := range places(second) {
					a := places(first)[0]
					// Of the buffers' commands each rank has its own bus.
					private := first == dram.RDRES || first == dram.WRBUF || second == dram.RDRES || second == dram.WRBUF
					agree(t, &s, first, second, a, at, private)
				}
			}
		}
	})
}

func agree(t *rapid.T, s *dram.Spec, first, second dram.Command, a, b dram.Address, private bool) {
	const start = 500
	state := dram.NewState(s, 2)
	state.Issue(first, a, start)
	earliest := state.Earliest(second, b)
	timing := func(clock int64) []Violation {
		found := checkRecords(s, 2, private, []Record{{start, first, a}, {clock, second, b}}, ruleState, ruleRow, ruleDebt, rulePullIn)
		// An ACTA breaks its own rules.
		return slices.DeleteFunc(found, func(v Violation) bool {
			return v.First.Clock == v.Second.Clock || v.Rule == "tFAW" && (first == dram.ACTA || second == dram.ACTA) ||
				(first == dram.ACTA) != (second == dram.ACTA) && strings.HasPrefix(v.Rule, "tRRD")
		})
	}
	if found := timing(max(earliest, start+1)); len(found) > 0 {
		t.Fatalf("%v %v, %v %v: %d clocks by the state, the checker finds %+v", first, a, second, b, earliest-start, found)
	}
	// The checker lets a read's burst follow a buffer's write at once.
	slack := int64(0)
	if (first == dram.WRBUF && second.IsRead()) || first.IsWrite() && second == dram.RDRES {
		slack = 2
	}
	if clock := earliest - 1 - slack; clock > start && len(timing(clock)) == 0 {
		t.Fatalf("%v %v, %v %v: the checker accepts %d clocks, the state asks for %d", first, a, second, b, clock-start, earliest-start)
	}
}
