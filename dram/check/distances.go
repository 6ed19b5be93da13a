package check

import (
	"github.com/l3sim/l3sim/dram"
)

// checkDistances compares r with the latest command of each kind at each level for which the standard has a rule. It reports one rule for
// each earlier kind: at each level the loosest broken rule, since it is the most specific, and among levels the rule broken by the most
// steps. met is the command whose burst overlaps r's, if any; then the rank switch is not reported in addition.
func (c *Checker) checkDistances(r Record, met *Record) {
	rows := c.rows[r.Command]
	for from := range dram.Command(dram.Commands) {
		worst, none := Violation{}, true
		for scope := dram.SameBank; scope <= dram.SameChannel; scope++ {
			if c.privateBuses && scope > dram.SameRank {
				break
			}
			broken := Violation{}
			for i := range rows {
				row := &rows[i]
				if row.Command != from || row.Scope != scope {
					continue
				}
				first := c.latest(r, from, scope)
				gap := r.Clock - first.Clock
				if first.Clock == never || gap >= int64(row.Clocks) || broken.Rule != "" && int64(row.Clocks) >= broken.Required ||
					scope == dram.OtherRank && (met != nil && *met == first || c.overtakes(first, r, int64(row.Clocks))) {
					continue
				}
				broken = Violation{Rule: row.Rule, First: first, Second: r, Required: int64(row.Clocks), Actual: gap}
			}
			if broken.Rule != "" && (none || broken.Required-broken.Actual > worst.Required-worst.Actual) {
				worst, none = broken, false
			}
		}
		if !none {
			c.found = append(c.found, worst)
		}
	}
}

// overtakes reports whether the burst of r, a later command to another rank, ends before the burst of first begins, with at least the gap
// between them that a rule of the given steps requires.
func (c *Checker) overtakes(first, r Record, steps int64) bool {
	data := func(c dram.Command) bool { return c.IsRead() || c.IsWrite() }
	if !data(first.Command) || !data(r.Command) {
		return false
	}
	burst := c.spec.BusSteps(c.spec.BurstClocks())
	end := r.Clock + c.spec.DataEnd(r.Command)
	gap := steps - c.spec.DataEnd(first.Command) + c.spec.DataEnd(r.Command) - burst
	return end+gap <= first.Clock+c.spec.DataEnd(first.Command)-burst
}

func (c *Checker) latest(r Record, cmd dram.Command, scope dram.Scope) Record {
	best := Record{Clock: never}
	newer := func(o *Record) {
		if o.Clock > best.Clock {
			best = *o
		}
	}
	ranks := c.spannedRanks(r)
	switch scope {
	case dram.SameBank, dram.SameBankGroup:
		for i := range ranks {
			for bank := range c.banks(r) {
				if scope == dram.SameBank {
					newer(&ranks[i].banks[bank][cmd])
				} else {
					newer(&ranks[i].groups[bank/c.spec.BanksPerGroup][cmd])
				}
			}
		}
	case dram.SameRank:
		for i := range ranks {
			newer(&ranks[i].rank[cmd])
		}
	case dram.OtherRank:
		first := int(r.Address.Rank) / c.ranksEach * c.ranksEach
		for i := first; i < first+c.ranksEach; i++ {
			if i != int(r.Address.Rank) {
				newer(&c.ranks[i].rank[cmd])
			}
		}
	case dram.SamePseudoChannel:
		newer(&c.pseudo[int(r.Address.Rank)/c.ranksEach][cmd])
	case dram.SameChannel:
		newer(&c.channel[cmd])
	}
	return best
}

// windowHistory has the latest commands of one kind that a rule counts, by rank, by pseudo-channel or for the whole channel.
type windowHistory struct {
	dram.Constraint
	rings map[int][]Record // the latest, oldest first
}

// place returns the index of the commands that the rule counts together with r.
func (w *windowHistory) place(c *Checker, r Record) int {
	switch w.Scope {
	case dram.SameRank:
		return int(r.Address.Rank)
	case dram.SamePseudoChannel:
		return int(r.Address.Rank) / c.ranksEach
	}
	return 0
}

// checkWindows checks rules that allow a number of commands in an interval, such as four activations in tFAW. A command that opens rows in
// all banks of a rank counts as one activation of each.
func (c *Checker) checkWindows(r Record) {
	action := c.standard.Action(r.Command)
	times := 1
	counted := r.Command
	if action.Leaves == dram.Open && action.Span >= dram.WholeRank {
		counted, times = dram.ACT, c.spec.Banks()
		for _, row := range c.rows[dram.ACT] {
			if row.Command == dram.ACT && row.Scope == dram.SameRank {
				c.found = append(c.found, Violation{row.Rule, false, r, r, int64(row.Clocks), 0, r.Command.String() + " activates all banks at once"})
			}
		}
	}
	for _, w := range c.windows {
		place := w.place(c, r)
		reported := false
		for range times {
			ring := w.rings[place]
			if w.Next == counted && len(ring) == w.Window && r.Clock-ring[0].Clock < int64(w.Clocks) && !reported {
				reported = true
				c.found = append(c.found, Violation{w.Rule, false, ring[0], r, int64(w.Clocks), r.Clock - ring[0].Clock, "one more than the window holds"})
			}
			if w.Command == counted {
				if len(ring) == w.Window {
					ring = ring[1:]
				}
				w.rings[place] = append(ring, r)
			}
		}
	}
}
