package results

import (
	"cmp"
	"strings"
)

// Limits says which limits of real servers a design exceeds. Tables for people show Sign after its name, and Legend below.
type Limits struct {
	Boards bool // more DIMMs on a channel than server boards have slots at that rate
	Slot   bool // a DIMM that attends draws more than its slot supplies (energy.dimm_limit)
}

const (
	boardsSign   = "†"
	boardsLegend = "† more DIMMs on a channel than boards of servers have slots at that rate"
	slotSign     = "‡"
	slotLegend   = "‡ a DIMM draws more than its slot supplies ('l3sim config explain pim.power_limit')"
)

// Limits returns the limits that a run's design exceeds.
func (s *Summary) Limits() Limits {
	s = cmp.Or(s, &Summary{})
	return Limits{Boards: s.BeyondBoards, Slot: s.EnergyReport.DIMM > s.EnergyReport.DIMMLimit}
}

// Or returns the limits that either design exceeds.
func (l Limits) Or(other Limits) Limits {
	return Limits{Boards: l.Boards || other.Boards, Slot: l.Slot || other.Slot}
}

// And returns the limits that both designs exceed.
func (l Limits) And(other Limits) Limits {
	return Limits{Boards: l.Boards && other.Boards, Slot: l.Slot && other.Slot}
}

// Without returns the limits that other does not have.
func (l Limits) Without(other Limits) Limits {
	return Limits{Boards: l.Boards && !other.Boards, Slot: l.Slot && !other.Slot}
}

// Sign returns the suffix of the design's name: a space and a sign for each limit, "" for none.
func (l Limits) Sign() string { return l.join(" ", "", boardsSign, slotSign) }

// Legend explains the signs, one per line without a final line end; "" for none.
func (l Limits) Legend() string { return l.join("", "\n", boardsLegend, slotLegend) }

func (l Limits) join(before, between, boards, slot string) string {
	var texts []string
	if l.Boards {
		texts = append(texts, boards)
	}
	if l.Slot {
		texts = append(texts, slot)
	}
	if len(texts) == 0 {
		return ""
	}
	return before + strings.Join(texts, between)
}
