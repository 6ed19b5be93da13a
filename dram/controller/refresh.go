package controller

import (
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// refreshState manages the refreshes of a channel by units. A unit is the set of banks that one command refreshes: all of a rank, all of a
// pseudo-channel, the same bank of every bank group, one bank or a pair. A refresh of each unit falls due every tREFI, staggered evenly
// over the units. A unit's debt is the number of refreshes that have fallen due minus those issued.
//
// Units that are only some banks of a rank refresh in rounds: each of them once before any a second time, as devices count (JESD209-4 and
// JESD79-5, from memory), in any order within the round. A bank without requests may thus go before a busy one (Chang et al., "Improving
// DRAM Performance by Parallelizing Refreshes with Accesses", HPCA 2014).
type refreshState struct {
	command   dram.Command
	interval  int64
	postpone  int
	pullIn    int
	most      int   // largest allowed debt
	margin    int64 // steps within which a forced unit is sure to begin its refresh
	forced    []int // units that accept no other command until refreshed, in order
	idleUnits bool  // idle units refresh before they are forced to
	nextDue   int64
	units     []refreshUnit
	unitOf    []int       // unit by bank over all ranks
	rounds    []round     // by rank
	ranks     []rankNeeds // in which the banks of forced units are blocked
	closeAll  bool
	patience  int64 // steps without work after which a unit counts as idle
}

// refreshUnit is the refresh of the banks of one command.
type refreshUnit struct {
	span
	due            int64 // step at which the next refresh falls due
	debt           int
	idle           int64 // step of the last command for a request
	done           int64 // refreshes issued
	forced         bool
	selfRefreshing bool // its ranks are in self-refresh: no refresh falls due
	// extra means that one additional refresh must issue before the next self-refresh, since leaving the last one may have cut an internal
	// refresh short (JESD79-4C, "Self-Refresh Operation").
	extra bool
}

// round counts refreshes of a rank: its units, those refreshed in the current round (gone), and complete rounds (over).
type round struct{ units, gone, over int64 }

// span is the set of banks that a command acts on.
type span struct {
	address    dram.Address
	first, end int    // ranks
	banks      uint64 // of each of them
	whole      bool   // all banks of these ranks
}

// spansOf returns the banks of each command in a set that together covers all ranks once, and the index of the command by bank over all
// ranks.
func spansOf(spec *dram.Spec, cmd dram.Command, ranks int) (spans []span, of []int) {
	table, banks := spec.Rules(), spec.Banks()
	kind := table.Action(cmd).Span
	of = slices.Repeat([]int{-1}, ranks*banks)
	for i := range of {
		if of[i] >= 0 {
			continue
		}
		rank, bank := i/banks, i%banks
		k := span{address: dram.Address{Rank: int32(rank), BankGroup: -1, Bank: -1, Row: -1, Column: -1}, first: rank, end: rank + 1, whole: kind >= dram.WholeRank}
		if kind == dram.WholeChannel {
			k.end = rank + ranks/table.PseudoChannels
		}
		if !k.whole {
			k.address.BankGroup, k.address.Bank = int32(bank/spec.BanksPerGroup), int32(bank%spec.BanksPerGroup)
		}
		first, stride, end := spec.Spanned(cmd, k.address)
		for b := first; b < end; b += stride {
			k.banks |= 1 << b
			for rank := k.first; rank < k.end; rank++ {
				of[rank*banks+b] = len(spans)
			}
		}
		if kind == dram.SameBanks {
			k.address.BankGroup = -1
		}
		spans = append(spans, k)
	}
	return spans, of
}

// newRefreshState spreads the first refreshes of the units evenly over tREFI.
func newRefreshState(spec *dram.Spec, policy *Policy, of []rankNeeds) refreshState {
	table, ranks := spec.Rules(), len(of)
	r := refreshState{
		command: table.Refreshes[0].Command, postpone: policy.RefreshPostpone, pullIn: policy.RefreshPullIn, most: table.Postpone,
		interval: spec.BusSteps(spec.TREFI), patience: spec.BusSteps(spec.TRC), closeAll: policy.RefreshClose == "all",
		// In the worst case every bank has just been written and is closed one by one, and all other ranks refresh first.
		margin: spec.BusSteps((spec.TRC + spec.WriteRecovery() + spec.Banks() + spec.TRP) * ranks),
		ranks:  of, rounds: make([]round, ranks),
	}
	if policy.Refresh == "bank" {
		r.command = table.Refreshes[1].Command
	}
	r.idleUnits = r.postpone > 0 || r.pullIn > 0
	spans, unitOf := spansOf(spec, r.command, ranks)
	r.unitOf = unitOf
	for i, k := range spans {
		r.units = append(r.units, refreshUnit{span: k, due: spec.BusSteps(spec.TREFI/len(spans)) * int64(i+1)})
		r.rounds[k.first].units++
	}
	return r
}

// event returns the next step at which fallDue must handle unit k.
func (r *refreshState) event(k *refreshUnit) int64 {
	switch {
	case k.selfRefreshing:
		return forever
	case k.debt == r.most && !k.forced:
		return k.due - r.margin
	}
	return k.due
}

// fallDue counts the refreshes that fall due until t, and forces units at the largest debt. It returns the next step at which it must be
// called.
func (r *refreshState) fallDue(t int64) int64 {
	if t < r.nextDue {
		return r.nextDue
	}
	r.nextDue = forever
	for i := range r.units {
		k := &r.units[i]
		at := r.event(k)
		if at <= t {
			for k.due <= t {
				k.debt++
				k.due += r.interval
			}
			if r.mustRefresh(k, t) != k.forced {
				r.force(i)
			}
			at = r.event(k)
		}
		r.nextDue = min(r.nextDue, at)
	}
	return r.nextDue
}

// mustRefresh reports whether a unit must refresh now. The debt never exceeds the standard's limit: at the limit, a refresh issues before
// the next one falls due.
func (r *refreshState) mustRefresh(k *refreshUnit, t int64) bool {
	return k.debt > r.postpone || k.debt == r.most && k.due-r.margin <= t
}

// force starts or ends the forced refresh of unit i.
func (r *refreshState) force(i int) {
	k := &r.units[i]
	k.forced = !k.forced
	at, _ := slices.BinarySearch(r.forced, i)
	if k.forced {
		r.forced = slices.Insert(r.forced, at, i)
	} else {
		r.forced = slices.Delete(r.forced, at, at+1)
	}
	r.block(k)
}

// block computes the banks of a unit's ranks that must refresh first. A forced unit that waits for others of its round serves requests
// meanwhile. Otherwise, if each refresh falls due during the previous round, it would never serve any.
func (r *refreshState) block(k *refreshUnit) {
	for rank := k.first; rank < k.end; rank++ {
		of := &r.ranks[rank]
		of.forced = 0
		for _, i := range r.forced {
			if f := &r.units[i]; f.first <= rank && rank < f.end && !r.aheadOfRound(f) {
				of.forced |= f.banks
			}
		}
		of.block()
	}
}

// idleBank records that a bank's last queued request has left.
func (r *refreshState) idleBank(bank int, t int64) {
	if k := &r.units[r.unitOf[bank]]; !k.whole {
		k.idle = t
	}
}

// aheadOfRound reports whether a unit must wait for other units of its rank.
func (r *refreshState) aheadOfRound(k *refreshUnit) bool {
	return !k.whole && k.done > r.rounds[k.first].over
}

// refreshed counts a refresh of a unit.
func (r *refreshState) refreshed(k *refreshUnit) {
	k.done++
	if k.whole {
		return
	}
	if n := &r.rounds[k.first]; n.gone+1 < n.units {
		n.gone++
	} else {
		n.gone, n.over = 0, n.over+1
	}
	r.block(k)
}

// forcedRefresh issues the next command for a forced unit. If none can issue at t, next is the step at which one can.
func (c *controller) forcedRefresh(t int64) (issued bool, next int64) {
	return firstOf(len(c.refresh.forced), t, func(i int) int64 {
		i = c.refresh.forced[i]
		if c.refresh.aheadOfRound(&c.refresh.units[i]) {
			return forever // it waits for others of its round
		}
		return c.tryRefresh(i, t)
	})
}

// idleRefresh refreshes a unit that owes refreshes, or may pull one in, and has been idle for a while.
func (c *controller) idleRefresh(t int64) (issued bool, next int64) {
	return firstOf(len(c.refresh.units), t, func(i int) int64 {
		k := &c.refresh.units[i]
		if k.forced || k.selfRefreshing || k.debt <= -c.refresh.pullIn || c.refresh.aheadOfRound(k) || c.queuedIn(&k.span) {
			return forever
		}
		if from := k.idle + c.refresh.patience; from > t && (k.whole || k.debt <= 0) { // a single bank that owes a refresh takes the chance at once
			return from
		}
		return c.tryRefresh(i, t)
	})
}

// queuedIn reports whether a request is queued for the ranks of a span.
func (c *controller) queuedIn(k *span) bool {
	for rank := k.first; rank < k.end; rank++ {
		if k.whole && c.queues.inRank[rank] > 0 {
			return true
		}
		for m := k.banks; m != 0 && !k.whole; m &= m - 1 {
			if len(c.queues.banks[rank*c.channel.banksPerRank+bits.TrailingZeros64(m)].entries) > 0 {
				return true
			}
		}
	}
	return false
}

// tryRefresh issues the next command of a unit's refresh if it can at t. It returns the first step at which it can, at most t if it did.
func (c *controller) tryRefresh(i int, t int64) int64 {
	k := &c.refresh.units[i]
	if at, done := c.awakeAndClosed(&k.span, t); !done {
		return at
	}
	at := c.rest(c.refresh.command, &k.span, c.management.less, t)
	if at <= t {
		c.refresh.refreshed(k)
		if k.extra && k.debt <= -c.refresh.pullIn {
			k.extra = false
		} else {
			k.debt--
		}
		if c.refresh.mustRefresh(k, t) != k.forced {
			c.refresh.force(i)
		}
	}
	return at
}

// rest issues the refresh or RFM of a span, whose banks are all closed, if it can at t, and lowers the banks' activation counts by less. It
// returns the first step at which it can.
func (c *controller) rest(cmd dram.Command, k *span, less int, t int64) int64 {
	at := c.channel.earliestOf(cmd, k.address, t)
	if at > t {
		return at
	}
	c.issue(cmd, k.address, t)
	c.takeOff(k, less)
	for rank := k.first; rank < k.end; rank++ {
		c.sched.rescan(rank) // its banks can be chosen again
	}
	if !k.whole {
		c.closed(k.first, k.banks) // their own constraints have changed
	}
	return at
}

// awakeAndClosed takes the ranks of a span out of power-down and precharges its banks. done reports that nothing is left to do; else at is
// the step at which the next command could issue, at most t if it did.
func (c *controller) awakeAndClosed(k *span, t int64) (at int64, done bool) {
	for rank := k.first; rank < k.end && c.power.on; rank++ {
		if u := &c.power.units[c.power.unitOf[rank*c.channel.banksPerRank]]; u.down != awake {
			return c.leave(u, t), false
		}
	}
	return c.closeRows(k, t)
}

// closeRows precharges one bank or all banks of a span if any is open, and can at t. closed reports that none is open; else at is the step
// at which one could be precharged, at most t if it was.
func (c *controller) closeRows(k *span, t int64) (at int64, closed bool) {
	for rank := k.first; rank < k.end; rank++ {
		open := c.channel.openBanks[rank] & k.banks
		if open == 0 {
			continue
		}
		if !c.refresh.closeAll || !k.whole {
			return c.closeEach(rank, open, t), false
		}
		a := k.address
		a.Rank = int32(rank)
		at := c.channel.earliestOf(dram.PREA, a, t)
		if at <= t {
			c.issue(dram.PREA, a, t)
			for r := range c.channel.openBanks {
				if r == rank || c.channel.pseudoPrecharge && r >= k.first && r < k.end {
					c.closed(r, c.channel.openBanks[r])
				}
			}
		}
		return at, false
	}
	return t, true
}

// closeEach precharges the first open bank of rank that it can at t, and returns the first step at which it can.
func (c *controller) closeEach(rank int, open uint64, t int64) int64 {
	first := int64(forever)
	for m := open; m != 0; m &= m - 1 {
		bank := rank*c.channel.banksPerRank + bits.TrailingZeros64(m)
		at := c.channel.gate(dram.PRE, max(t, c.channel.earliest(needPrecharge, bank)))
		if at <= t {
			c.issue(dram.PRE, c.channel.places[bank].Address, t)
			c.closed(rank, m&-m)
			return at
		}
		first = min(first, at)
	}
	return first
}

// closed updates the state of a rank's banks that were precharged for a refresh.
func (c *controller) closed(rank int, banks uint64) {
	c.channel.openBanks[rank] &^= banks
	for m := banks; m != 0; m &= m - 1 {
		c.sched.updateNeeds(rank*c.channel.banksPerRank + bits.TrailingZeros64(m))
	}
}
