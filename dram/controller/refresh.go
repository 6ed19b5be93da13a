package controller

import (
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// refreshState keeps the refreshes of a channel by units, the banks that one command refreshes: a rank's, all of a pseudo-channel's, the same bank of
// every bank group, a bank or a pair. One refresh a unit falls due every tREFI, the units staggered by tREFI over their number. A unit's debt is the
// refreshes fallen due less those issued.
//
// Units of some banks of a rank refresh in rounds: each of them once before any a second time, as devices count (JESD209-4 and
// JESD79-5, from memory), in any order within the round. So a bank without requests may go before a busy one
// (Chang et al., "Improving DRAM Performance by Parallelizing Refreshes with Accesses", HPCA 2014).
type refreshState struct {
	command   dram.Command
	interval  int64
	postpone  int
	pullIn    int
	most      int   // that may be owed
	margin    int64 // steps in which a forced unit surely has begun its refresh
	forced    []int // units that accept no other command until they are refreshed, in order
	idleUnits bool  // idle units refresh before they must
	nextDue   int64
	units     []refreshUnit
	unitOf    []int       // by bank over all ranks: its unit
	rounds    []round     // by rank
	ranks     []rankNeeds // whose banks of forced units are blocked
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
	selfRefreshing bool // its ranks refresh themselves: nothing falls due
	// extra says that one more refresh than falls due must issue before the next self-refresh: leaving the last may have
	// cut one of its own off (JESD79-4C, "Self-Refresh Operation").
	extra bool
}

// round counts refreshes of a rank: its units, how many of them have refreshed in the round under way (gone), and whole rounds (over).
type round struct{ units, gone, over int64 }

// span is the banks that a command of several concerns.
type span struct {
	address    dram.Address
	first, end int    // ranks
	banks      uint64 // of each of them
	whole      bool   // these are all their banks
}

// spansOf returns the banks of each of the commands that together reach all ranks once, and by bank over all ranks which of these it belongs to.
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
		// At worst every bank has just been written and is closed one by one, and all other ranks refresh first.
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

// event returns the next step at which fallDue has something to do for k.
func (r *refreshState) event(k *refreshUnit) int64 {
	switch {
	case k.selfRefreshing:
		return forever
	case k.debt == r.most && !k.forced:
		return k.due - r.margin
	}
	return k.due
}

// fallDue counts what falls due until t and forces the units that may owe no more. It returns the next step at which it must be called.
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

// mustRefresh reports whether a unit must refresh now. The debt never exceeds the standard's
// most, so at that debt a refresh issues before the next one falls due.
func (r *refreshState) mustRefresh(k *refreshUnit, t int64) bool {
	return k.debt > r.postpone || k.debt == r.most && k.due-r.margin <= t
}

// force begins or ends that unit i must refresh.
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

// block finds the banks that must refresh first in the ranks of a unit. A forced unit that waits for others of its round serves requests
// meanwhile: where each refresh falls due while the round before is under way, it would never serve any.
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

// idleBank notes that a bank has lost its last queued request.
func (r *refreshState) idleBank(bank int, t int64) {
	if k := &r.units[r.unitOf[bank]]; !k.whole {
		k.idle = t
	}
}

// aheadOfRound reports whether a unit must wait for others of its rank.
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

// forcedRefresh brings the forced units towards their refresh; if nothing can issue at t it returns the step at which something can.
func (c *controller) forcedRefresh(t int64) (issued bool, next int64) {
	return firstOf(len(c.refresh.forced), t, func(i int) int64 {
		i = c.refresh.forced[i]
		if c.refresh.aheadOfRound(&c.refresh.units[i]) {
			return forever // it follows others of its round
		}
		return c.tryRefresh(i, t)
	})
}

// idleRefresh refreshes a unit that owes refreshes, or may pull one in, and has had no work for a while.
func (c *controller) idleRefresh(t int64) (issued bool, next int64) {
	return firstOf(len(c.refresh.units), t, func(i int) int64 {
		k := &c.refresh.units[i]
		if k.forced || k.selfRefreshing || k.debt <= -c.refresh.pullIn || c.refresh.aheadOfRound(k) || c.queuedIn(&k.span) {
			return forever
		}
		if from := k.idle + c.refresh.patience; from > t && (k.whole || k.debt <= 0) { // a bank that owes one takes its chance
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

// tryRefresh issues the next command of a unit's refresh if it can at t, and returns the step at which it could, at most t if it did.
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

// rest issues the refresh or RFM of a span, all closed, if it can at t, and takes so much off the counts of its banks. It returns the step
// at which it could.
func (c *controller) rest(cmd dram.Command, k *span, less int, t int64) int64 {
	at := c.channel.earliestOf(cmd, k.address, t)
	if at > t {
		return at
	}
	c.issue(cmd, k.address, t)
	c.takeOff(k, less)
	for rank := k.first; rank < k.end; rank++ {
		c.sched.rescan(rank) // it joins the others again
	}
	if !k.whole {
		c.closed(k.first, k.banks) // their own constraints have moved
	}
	return at
}

// awakeAndClosed takes the ranks of a span out of power-down and precharges its banks. It says whether that is done; else at is the step at
// which the next command for it could issue, at most t if it did.
func (c *controller) awakeAndClosed(k *span, t int64) (at int64, done bool) {
	for rank := k.first; rank < k.end && c.power.on; rank++ {
		if u := &c.power.units[c.power.unitOf[rank*c.channel.banksPerRank]]; u.down != awake {
			return c.leave(u, t), false
		}
	}
	return c.closeRows(k, t)
}

// closeRows precharges a bank or all of a span if one is open and can be at t. Closed says that none is open; else at
// is the step at which one could, at most t if it did.
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

// closeEach precharges the first of the open banks of rank that can be at t, and returns the step at which one could.
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

// closed updates the banks of rank that a refresh has precharged.
func (c *controller) closed(rank int, banks uint64) {
	c.channel.openBanks[rank] &^= banks
	for m := banks; m != 0; m &= m - 1 {
		c.sched.updateNeeds(rank*c.channel.banksPerRank + bits.TrailingZeros64(m))
	}
}
