package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// refreshState keeps the refreshes of all ranks of a channel: one REF a rank
// falls due every tREFI, the ranks staggered by tREFI over their number. A
// rank's debt is the REFs fallen due less those issued.
type refreshState struct {
	interval  int64
	postpone  int
	pullIn    int
	margin    int64  // clocks in which a forced rank surely has begun its REF
	forced    uint64 // ranks that accept no other command until they are refreshed
	idleRanks bool   // idle ranks refresh before they must
	nextDue   int64
	ranks     []rankRefresh
	closeAll  bool
	patience  int64 // clocks without work after which a rank counts as idle
}

// rankRefresh is the refresh of one rank.
type rankRefresh struct {
	due  int64 // clock at which the next REF falls due
	debt int
	idle int64 // clock of the last command for a request
}

func newRefreshState(spec *dram.Spec, policy *Policy, ranks int) refreshState {
	r := refreshState{
		interval: int64(spec.TREFI), postpone: policy.RefreshPostpone, pullIn: policy.RefreshPullIn,
		// At worst every bank has just been written and is closed one by one, and
		// all other ranks refresh first.
		margin: int64((spec.TRC + spec.WriteRecovery() + spec.Banks() + spec.TRP) * ranks),
		ranks:  make([]rankRefresh, ranks), closeAll: policy.RefreshClose == "all", patience: int64(spec.TRC),
	}
	r.idleRanks = r.postpone > 0 || r.pullIn > 0
	for i := range r.ranks {
		r.ranks[i].due = int64(spec.TREFI/ranks) * int64(i+1)
	}
	r.nextDue = r.nextEvent()
	return r
}

// nextEvent returns the next clock at which fallDue has something to do.
func (r *refreshState) nextEvent() int64 {
	next := int64(forever)
	for i := range r.ranks {
		k := &r.ranks[i]
		next = min(next, k.due)
		if k.debt == dram.MaxRefreshDebt && r.forced>>i&1 == 0 {
			next = min(next, k.due-r.margin)
		}
	}
	return next
}

// fallDue counts what falls due until t and forces the ranks that may owe no
// more. It returns the next clock at which it must be called.
func (r *refreshState) fallDue(t int64) int64 {
	if t < r.nextDue {
		return r.nextDue
	}
	for i := range r.ranks {
		k := &r.ranks[i]
		for k.due <= t {
			k.debt++
			k.due += r.interval
		}
		r.force(i, t)
	}
	r.nextDue = r.nextEvent()
	return r.nextDue
}

// force decides whether rank i must refresh now. The debt never exceeds
// dram.MaxRefreshDebt, so at that debt a REF issues before the next one falls due.
func (r *refreshState) force(i int, t int64) {
	k := &r.ranks[i]
	if k.debt > r.postpone || k.debt == dram.MaxRefreshDebt && k.due-r.margin <= t {
		r.forced |= 1 << i
	} else {
		r.forced &^= 1 << i
	}
}

// idleFrom notes that rank i has lost its last queued request.
func (r *refreshState) idleFrom(i int, t int64) { r.ranks[i].idle = t }

// forcedRefresh brings the forced ranks towards their REF; if nothing can issue
// at t it returns the clock at which something can.
func (c *controller) forcedRefresh(t int64) (issued bool, wake int64) {
	wake = forever
	for m := c.refresh.forced; m != 0; m &= m - 1 {
		rank := bits.TrailingZeros64(m)
		at := c.tryRefresh(rank, t)
		if at <= t {
			return true, forever
		}
		wake = min(wake, at)
	}
	return false, wake
}

// idleRefresh refreshes a rank that owes REFs, or may pull one in, and has had
// no work for a while.
func (c *controller) idleRefresh(t int64) (issued bool, wake int64) {
	wake = forever
	for rank := range c.refresh.ranks {
		k := &c.refresh.ranks[rank]
		if c.queuedInRank[rank] > 0 || c.refresh.forced>>rank&1 != 0 || k.debt <= -c.refresh.pullIn {
			continue
		}
		if from := k.idle + c.refresh.patience; from > t {
			wake = min(wake, from)
			continue
		}
		at := c.tryRefresh(rank, t)
		if at <= t {
			return true, forever
		}
		wake = min(wake, at)
	}
	return false, wake
}

// tryRefresh issues the next command of a rank's refresh if it can at t, and
// returns the clock at which it could, at most t if it did.
func (c *controller) tryRefresh(rank int, t int64) int64 {
	a := dram.Address{Rank: int32(rank), BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if c.openBanks[rank] != 0 {
		if !c.refresh.closeAll {
			return c.closeEach(rank, t)
		}
		at := c.state.Earliest(dram.PREA, a)
		if at <= t {
			c.issue(dram.PREA, a, t)
			c.closed(rank, c.openBanks[rank])
		}
		return at
	}
	at := c.state.Earliest(dram.REF, a)
	if at <= t {
		c.issue(dram.REF, a, t)
		c.refresh.ranks[rank].debt--
		c.refresh.force(rank, t)
		c.refresh.nextDue = c.refresh.nextEvent()
		c.rescan(rank) // it joins the others again
	}
	return at
}

// closeEach precharges the first bank of rank that can be at t, and returns the
// clock at which one could.
func (c *controller) closeEach(rank int, t int64) int64 {
	first := int64(forever)
	for m := c.openBanks[rank]; m != 0; m &= m - 1 {
		bank := rank*c.banksPerRank + bits.TrailingZeros64(m)
		at := c.earliest(needPrecharge, bank)
		if at <= t {
			c.issue(dram.PRE, c.places[bank].Address, t)
			c.closed(rank, m&-m)
			return at
		}
		first = min(first, at)
	}
	return first
}

// closed updates the banks of rank that a refresh has precharged.
func (c *controller) closed(rank int, banks uint64) {
	c.openBanks[rank] &^= banks
	for m := banks; m != 0; m &= m - 1 {
		c.updateNeeds(rank*c.banksPerRank + bits.TrailingZeros64(m))
	}
}
