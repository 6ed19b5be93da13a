package controller

import "github.com/l3sim/l3sim/dram"

// need is what a bank's queue waits for.
type need uint8

const (
	needActivate need = iota
	needPrecharge
	needRead
	needWrite
	needs
)

// needCommands are the commands whose constraints bound each need. A column
// access with auto-precharge has those of the one without.
var needCommands = [needs]dram.Command{dram.ACT, dram.PRE, dram.RD, dram.WR}

// needState is the banks that wait for one need.
type needState struct {
	banks []uint64 // by rank
	ages  []int64  // by bank over all ranks: when the request that it is for was accepted
	// wake is a clock before which no bank is ready whose rank accepts commands: constraints
	// only ever move on.
	wake int64
}

// newNeedStates returns the empty needs of a channel.
func newNeedStates(spec *dram.Spec, ranks int) (list [needs]needState) {
	for n := range list {
		list[n] = needState{banks: make([]uint64, ranks), ages: make([]int64, ranks*spec.Banks())}
	}
	return list
}

// updateNeeds finds what bank waits for: the command that its oldest request
// needs, and the oldest read and write that hit the open row. It returns the
// first clock at which one of them may issue.
func (c *controller) updateNeeds(bank int) int64 {
	b := &c.banks[bank]
	place := &c.places[bank]
	rank, bit := int(place.Rank), place.bit
	for n := range c.needs {
		c.needs[n].banks[rank] &^= bit
	}
	b.read, b.write = -1, -1
	if len(b.entries) == 0 {
		return forever
	}
	row := c.rows[bank]
	if row < 0 {
		return c.addNeed(needActivate, rank, bank, 0)
	}
	for i := range b.entries {
		e := &b.entries[i]
		if e.row != row {
			continue
		}
		if e.write {
			if b.write < 0 {
				b.write = int32(i)
			}
		} else if b.read < 0 {
			b.read = int32(i)
		}
	}
	first := int64(forever)
	limited := int(b.hits) >= c.policy.RowHitLimit
	if b.entries[0].row != row && (limited || b.read < 0 && b.write < 0) {
		first = c.addNeed(needPrecharge, rank, bank, 0)
		if limited && !c.roundRobin {
			return first // nothing may put the close off further
		}
	}
	if b.read >= 0 {
		first = min(first, c.addNeed(needRead, rank, bank, b.read))
	}
	if b.write >= 0 {
		first = min(first, c.addNeed(needWrite, rank, bank, b.write))
	}
	return first
}

// addNeed notes that bank waits for n, for entry i of its queue, and returns
// the first clock at which n may issue.
func (c *controller) addNeed(n need, rank, bank int, i int32) int64 {
	state, at := &c.needs[n], c.earliest(n, bank)
	state.banks[rank] |= c.places[bank].bit
	state.wake = min(state.wake, at)
	state.ages[bank] = c.banks[bank].entries[i].accepted
	return at
}

// earliest returns the first clock at which the constraints allow what the bank
// needs.
func (c *controller) earliest(n need, bank int) int64 {
	cmd := needCommands[n]
	return max(c.rankNodes[c.places[bank].Rank][cmd], c.groupNodes[bank>>c.groupShift][cmd], c.bankNodes[bank][cmd])
}
