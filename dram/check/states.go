package check

import (
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// rankHistory is the state of one rank as the rules need it.
type rankHistory struct {
	rank       history
	groups     []history
	banks      []history
	rows       []int32 // open row by bank, or -1
	refreshes  []int64 // by bank
	activated  []int   // activations by bank, minus what refreshes subtract
	indebted   bool
	down       dram.Command // PDE or SRE while in power-down or self-refresh, else 0
	since      int64        // step at which that state began
	refreshed  int64        // steps spent in self-refresh
	extra      int64        // exits from self-refresh; each allows one more REF before the next
	clockUntil int64        // step until which the data clock runs
}

func newRankHistory(spec *dram.Spec) rankHistory {
	r := rankHistory{rank: newHistory(), refreshes: make([]int64, spec.Banks()), activated: make([]int, spec.Banks()), clockUntil: never}
	for range spec.BankGroups {
		r.groups = append(r.groups, newHistory())
	}
	for range spec.Banks() {
		r.banks = append(r.banks, newHistory())
		r.rows = append(r.rows, -1)
	}
	return r
}

// power tracks the rank's power-down and self-refresh.
func (k *rankHistory) power(r Record) {
	switch r.Command {
	case dram.PDE, dram.SRE:
		k.down, k.since = r.Command, r.Clock
	case dram.SRX:
		if k.down == dram.SRE {
			k.refreshed += r.Clock - k.since
			k.extra++
		}
		k.down = 0
	case dram.PDX:
		k.down = 0
	}
}

// checkPower checks that in power-down and self-refresh only the exit issues, and that exits issue only there.
func (c *Checker) checkPower(rank *rankHistory, r Record) {
	left := map[dram.Command]dram.Command{dram.PDX: dram.PDE, dram.SRX: dram.SRE}[r.Command]
	switch {
	case left != 0 && rank.down != left:
		c.report(rulePower, r, fmt.Sprintf("the rank is not where %v leads", left))
	case left == 0 && rank.down != 0:
		c.found = append(c.found, Violation{Rule: rulePower, First: rank.rank[rank.down], Second: r, Detail: "the rank takes no command"})
	}
	if c.spec.DataClockKeeps(r.Command) > 0 && (r.Command.IsRead() || r.Command.IsWrite()) && r.Clock > rank.clockUntil {
		c.report(ruleDataClock, r, "the data clock does not run")
	}
}

func (c *Checker) spannedRanks(r Record) []rankHistory {
	rank := int(r.Address.Rank)
	if span := c.standard.Action(r.Command).Span; span == dram.WholeChannel || span == dram.SameBanksAll {
		first := rank / c.ranksEach * c.ranksEach
		return c.ranks[first : first+c.ranksEach]
	}
	return c.ranks[rank : rank+1]
}

// checkState checks that the command matches the state of its banks, and reports the first bank with a mismatch.
func (c *Checker) checkState(r Record) {
	ranks := c.spannedRanks(r)
	for i := range ranks {
		if c.checkRankState(&ranks[i], r) {
			return
		}
	}
}

func (c *Checker) checkRankState(rank *rankHistory, r Record) bool {
	needs := c.standard.Action(r.Command).Needs
	for bank := range c.banks(r) {
		row := rank.rows[bank]
		broken := Violation{Rule: ruleState, First: Record{Clock: -1}, Second: r}
		place := func(has string) string {
			return fmt.Sprintf("bank %d of bank group %d has %s row open", bank%c.spec.BanksPerGroup, bank/c.spec.BanksPerGroup, has)
		}
		switch {
		case needs == dram.Open && row < 0:
			broken.Detail = place("no")
		case needs == dram.Closed && row >= 0:
			broken.First, broken.Detail = c.opener(rank, bank), place("a")
		case needs == dram.Open && r.Address.Row >= 0 && r.Address.Row != row:
			broken.Rule, broken.First, broken.Detail = ruleRow, c.opener(rank, bank), fmt.Sprintf("row %d is open", row)
		default:
			continue
		}
		c.found = append(c.found, broken)
		return true
	}
	return false
}

// opener returns the command that opened a bank's row.
func (c *Checker) opener(rank *rankHistory, bank int) Record {
	latest := Record{Clock: never}
	for _, cmd := range c.standard.Commands() {
		r := rank.banks[bank][cmd]
		if c.standard.Action(cmd).Span >= dram.WholeRank {
			r = rank.rank[cmd]
		}
		if c.standard.Action(cmd).Leaves == dram.Open && r.Clock > latest.Clock {
			latest = r
		}
	}
	return latest
}

// debtLimit returns the step from which the rank owes more refreshes than allowed.
func (k *rankHistory) debtLimit(s *dram.Standard, spec *dram.Spec) int64 {
	if k.down == dram.SRE {
		return math.MaxInt64
	}
	return (slices.Min(k.refreshes)+int64(s.Postpone)+1)*spec.BusSteps(spec.TREFI) + k.refreshed
}

// checkDebt finds ranks whose postponed refreshes exceed the standard's limit, counted from clock 0 for each bank. A rank owes as much as
// its least refreshed bank.
func (c *Checker) checkDebt(r Record) {
	if r.Clock < c.nextDebt {
		return
	}
	c.nextDebt = math.MaxInt64
	for i := range c.ranks {
		k := &c.ranks[i]
		limit := k.debtLimit(c.standard, c.spec)
		late := r.Clock >= limit
		if late && !k.indebted {
			owed := (r.Clock-k.refreshed)/c.spec.BusSteps(c.spec.TREFI) - slices.Min(k.refreshes)
			c.report(ruleDebt, r, fmt.Sprintf("rank %d owes %d REFs, at most %d may be postponed", i, owed, c.standard.Postpone))
		}
		k.indebted = late
		if !late {
			c.nextDebt = min(c.nextDebt, limit)
		}
	}
}

// countRefresh counts a refresh for its banks. No bank may pull in too many.
func (c *Checker) countRefresh(ranks []rankHistory, r Record) {
	for i := range ranks {
		k := &ranks[i]
		if r.Command == dram.SRX {
			c.awaitDebt(k, r.Clock)
		}
		if !slices.ContainsFunc(c.standard.Refreshes, func(f dram.Refresh) bool { return f.Command == r.Command }) {
			continue
		}
		var most int64
		for bank := range c.banks(r) {
			k.refreshes[bank]++
			most = max(most, k.refreshes[bank])
		}
		due := (r.Clock-k.refreshed)/c.spec.BusSteps(c.spec.TREFI) + 1
		if ahead := most - due - k.extra; ahead > int64(c.standard.PullIn) {
			c.report(rulePullIn, r, fmt.Sprintf("%d REFs ahead, at most %d may be pulled in", ahead, c.standard.PullIn))
		}
		c.awaitDebt(k, r.Clock)
	}
}

// awaitDebt sets the step at which the rank is checked next after a refresh. A rank that has caught up and falls behind again is another
// violation.
func (c *Checker) awaitDebt(k *rankHistory, clock int64) {
	limit := k.debtLimit(c.standard, c.spec)
	k.indebted = k.indebted && clock >= limit
	c.nextDebt = min(c.nextDebt, limit)
}

// checkManagement counts the activations of banks that need refresh management. An RFM, like a refresh, needs its banks closed and leaves
// them closed; self-refresh clears the counts.
func (c *Checker) checkManagement(r Record) {
	most, less := c.managed[0], c.managed[1]
	if most == 0 {
		return
	}
	action := c.standard.Action(r.Command)
	ranks := c.spannedRanks(r)
	for i := range ranks {
		for bank := range c.banks(r) {
			n := &ranks[i].activated[bank]
			switch {
			case action.Leaves == dram.Open:
				if *n++; *n > most {
					c.report(ruleManagement, r, fmt.Sprintf("%d activations of the bank, at most %d without RFM", *n, most))
				}
			case r.Command == dram.SRE:
				*n = 0
			case action.Needs == dram.Closed:
				*n = max(0, *n-less)
			}
		}
	}
}
