package controller

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
)

// managementState counts each bank's activations for devices that need refresh management (RFM). The count may not exceed most; each
// refresh or RFM of the bank subtracts less. A bank at the limit gets an RFM after its row has closed and before it opens another: as late
// as the device allows, since refreshes in between also lower the count.
type managementState struct {
	most, less int // 0: the device needs no RFM
	command    dram.Command
	counts     []int // activations by bank over all ranks, minus what refreshes subtracted
	units      []span
	unitOf     []int // by bank over all ranks
	pending    []int // units that need an RFM, in the order in which they reached the limit
}

// newManagementState returns the units of one RFM: single banks if the policy refreshes single banks and the standard has an RFM for them.
func newManagementState(spec *dram.Spec, policy *Policy, ranks int) (m managementState) {
	if m.most, m.less = spec.Managed(); m.most > 0 {
		m.command, _ = managementCommand(spec.Rules(), policy)
		m.counts = make([]int, ranks*spec.Banks())
		m.units, m.unitOf = spansOf(spec, m.command, ranks)
	}
	return m
}

// managementCommand returns the RFM that a policy uses, and false if the standard has none.
func managementCommand(s *dram.Standard, p *Policy) (dram.Command, bool) {
	list := []dram.Command{dram.RFM, dram.RFMsb, dram.RFMpb}
	if p.Refresh == "bank" {
		list = []dram.Command{dram.RFMsb, dram.RFMpb, dram.RFM}
	}
	for _, c := range list {
		if s.Action(c).Known {
			return c, true
		}
	}
	return 0, false
}

// countActivations updates the counts after a command for requests or one that closes rows.
func (c *controller) countActivations(cmd dram.Command, a dram.Address) {
	m := &c.management
	base := int(a.Rank) * c.channel.banksPerRank
	bank := base + int(a.BankGroup)*c.channel.spec.BanksPerGroup + int(a.Bank)
	switch cmd {
	case dram.ACT:
		m.counts[bank]++
	case dram.PRE, dram.RDA, dram.WRA:
		c.manageIfExhausted(bank)
	case dram.PREA:
		first, end := base, base+c.channel.banksPerRank
		if c.channel.pseudoPrecharge {
			each := len(c.queues.banks) / c.channel.spec.Rules().PseudoChannels
			first = base / each * each
			end = first + each
		}
		for bank := first; bank < end; bank++ {
			c.manageIfExhausted(bank)
		}
	}
}

// manageIfExhausted marks a bank that has closed, if it needs an RFM before it opens again.
func (c *controller) manageIfExhausted(bank int) {
	m := &c.management
	i := m.unitOf[bank]
	if m.counts[bank] < m.most || c.sched.ranks[m.units[i].first].exhausted&m.units[i].banks != 0 {
		return
	}
	m.pending = append(m.pending, i)
	c.setManaged(&m.units[i], true)
}

// setManaged blocks or unblocks a unit's banks for requests, because they need an RFM.
func (c *controller) setManaged(k *span, on bool) {
	for rank := k.first; rank < k.end; rank++ {
		of := &c.sched.ranks[rank]
		if of.exhausted &^= k.banks; on {
			of.exhausted |= k.banks
		}
		of.block()
	}
}

// manage issues the next command towards a pending RFM. If none can issue at t, next is the step at which one can. If both a refresh and an
// RFM could issue, the refresh does: it lowers the counts as much.
func (c *controller) manage(t int64) (issued bool, next int64) {
	return firstOf(len(c.management.pending), t, func(n int) int64 {
		k := &c.management.units[c.management.pending[n]]
		if at, done := c.awakeAndClosed(k, t); !done {
			return at
		}
		return c.rest(c.management.command, k, c.management.less, t)
	})
}

// takeOff lowers the counts of a span's banks, and unblocks units whose banks may all open again.
func (c *controller) takeOff(k *span, less int) {
	m := &c.management
	if m.most == 0 {
		return
	}
	for rank := k.first; rank < k.end; rank++ {
		for b := k.banks; b != 0; b &= b - 1 {
			n := &m.counts[rank*c.channel.banksPerRank+bits.TrailingZeros64(b)]
			*n = max(0, *n-less)
		}
	}
	left := m.pending[:0]
	for _, i := range m.pending {
		if c.exhausted(&m.units[i]) {
			left = append(left, i)
			continue
		}
		c.setManaged(&m.units[i], false)
		for rank := m.units[i].first; rank < m.units[i].end; rank++ {
			c.sched.rescan(rank)
		}
	}
	m.pending = left
}

// exhausted reports whether a bank of a span is at the limit.
func (c *controller) exhausted(k *span) bool {
	for rank := k.first; rank < k.end; rank++ {
		for b := k.banks; b != 0; b &= b - 1 {
			if c.management.counts[rank*c.channel.banksPerRank+bits.TrailingZeros64(b)] >= c.management.most {
				return true
			}
		}
	}
	return false
}

// takeOffAll lowers all counts for a number of refreshes of every bank; no RFM may be pending.
func (c *controller) takeOffAll(refreshes int64) {
	for i, n := range c.management.counts {
		c.management.counts[i] = max(0, n-int(min(refreshes, int64(n)))*c.management.less)
	}
}
