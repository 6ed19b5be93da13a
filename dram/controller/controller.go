package controller

import (
	"context"
	"errors"
	"math"
	"math/bits"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
)

// Request is one access: one burst (64 B in DDR4) at a byte address, offered
// to the controller from Clock on.
type Request struct {
	Clock   int64
	Address uint64
	Tag     int64 // the caller's; it comes back with the completion
	Write   bool
}

// forever is a clock that is never reached.
const forever = math.MaxInt64

// controller is the memory controller of one channel. It is a pipeline of three
// stages, each of which moves at most one request or command a clock: requests
// are accepted into the read queue or the write buffer, from there into the
// queue of their bank, and from there commands issue.
//
// Work is done by events: Run visits only clocks at which something can happen.
type controller struct {
	spec                             *dram.Spec
	policy                           *Policy
	mapping                          *Mapping
	state                            *dram.State
	rankNodes, groupNodes, bankNodes []dram.Node // of state
	rows                             []int32     // of state
	energy                           *dram.EnergyMeter
	log                              *check.LogWriter // may be nil

	skipIdle     bool // idle refresh periods pass at once; a log needs each
	banksPerRank int
	groupShift   int // log2 of the banks of a bank group
	places       []place
	scheduler    *scheduler
	closedPage   bool

	requests []Request
	next     int   // next request to accept
	arrived  int64 // clock of the last of requests
	closing  bool  // no more requests will come than are there
	wake     int64 // next clock at which something can happen
	done     func(Completion)
	underway []Request // by number, with done
	freeIDs  []int32
	ends     []ending
	head     entry
	decoded  bool // head is requests[next]

	reads, writes entryQueue
	full          []bool // by bank: its queue has no room
	pendingReads  filter
	pendingWrites filter
	banks         []bankQueue
	queued        int   // entries of all bank queues
	queuedInRank  []int // the same by rank
	chain         []waiting
	freeChain     int32
	draining      int  // writes still to move before reads move again
	stuck         bool // no entry can move until a queue changes
	ready         int64
	lastServed    int
	bus           bus
	now           int64

	needs     [needs]needState
	openBanks []uint64 // by rank: banks that hold a row open
	refresh   refreshState
	stats     Stats
}

// newController returns the idle controller of one channel of ranks ranks. The
// mapping may cover several channels; the requests of Run must be this one's.
// The command log may be nil.
func newController(spec *dram.Spec, policy *Policy, mapping *Mapping, ranks int, log *check.LogWriter) *controller {
	c := &controller{
		spec: spec, policy: policy, mapping: mapping, log: log, skipIdle: log == nil,
		state: dram.NewState(spec, ranks, dram.ACT, dram.PRE, dram.PREA, dram.RD, dram.WR, dram.REF), energy: dram.NewEnergyMeter(spec, ranks),
		banksPerRank: spec.Banks(), groupShift: bits.TrailingZeros(uint(spec.BanksPerGroup)), scheduler: findScheduler(policy.Scheduler), closedPage: policy.Page == "closed",
		reads: newEntryQueue(policy.ReadQueue), writes: newEntryQueue(policy.WriteBuffer),
		banks: make([]bankQueue, ranks*spec.Banks()), queuedInRank: make([]int, ranks),
		freeChain: -1, lastServed: -1,
		openBanks: make([]uint64, ranks), full: make([]bool, ranks*spec.Banks()), places: places(spec, ranks),
	}
	for i := range c.banks {
		c.banks[i] = bankQueue{newEntryQueue(policy.BankQueue), candidates{-1, -1}, 0}
	}
	c.rankNodes, c.groupNodes, c.bankNodes = c.state.Nodes()
	c.rows = c.state.Rows()
	c.needs = newNeedStates(spec, ranks)
	c.refresh = newRefreshState(spec, policy, ranks)
	return c
}

// errNoProgress is a defect of the controller: requests wait, and nothing will
// ever happen.
var errNoProgress = errors.New("memory controller: requests wait but no command will become ready")

// ticksPerCheck is how often Run looks whether it was cancelled.
const ticksPerCheck = 1 << 16

// run offers the requests in order, at most one a clock, and returns what
// happened when the last one's data is over. A controller runs once.
func (c *controller) run(ctx context.Context, requests []Request) (*Stats, error) {
	for i, r := range requests {
		if r.Clock < 0 || r.Clock > dram.MaxClock || i > 0 && r.Clock < requests[i-1].Clock {
			return nil, input.Errorf("request %d at clock %d: clocks lie in 0 to %d and do not go backwards", i+1, r.Clock, int64(dram.MaxClock))
		}
	}
	c.requests, c.closing = requests, true
	c.stats.expect(requests)
	ticks := 0
	for t := int64(0); ; {
		if ticks++; ticks%ticksPerCheck == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := c.tick(t)
		if c.finished() {
			break
		}
		if next == forever {
			return nil, errNoProgress
		}
		t = next
		if c.skipIdle {
			t += c.skipIdlePeriods(t)
		}
	}
	return c.result(), nil
}

// result returns what has happened so far.
func (c *controller) result() *Stats {
	c.stats.Energy = c.energy.Energy(c.stats.EndClock)
	return &c.stats
}

// finished reports whether no request is left.
func (c *controller) finished() bool {
	return c.next == len(c.requests) && c.queued == 0 && len(c.reads.entries) == 0 && len(c.writes.entries) == 0
}

// tick runs clock t and returns the next clock at which something can happen.
func (c *controller) tick(t int64) int64 {
	c.now = t
	ends := int64(forever)
	if len(c.ends) > 0 {
		ends = c.deliver(t)
	}
	forced := c.refresh.forced
	refreshWake := c.refresh.fallDue(t)
	if c.refresh.forced != forced {
		c.ready = min(c.ready, t) // what waited for the rank's oldest request may go on
	}
	issued := false
	if c.refresh.forced != 0 {
		var wake int64
		if issued, wake = c.forcedRefresh(t); wake < refreshWake {
			refreshWake = wake
		}
	}
	if !issued && t >= c.ready {
		issued = c.schedule(t)
	}
	if !issued && c.refresh.idleRanks {
		var wake int64
		if issued, wake = c.idleRefresh(t); wake < refreshWake {
			refreshWake = wake
		}
	}
	moved := c.transfer(t)
	accepted := c.accept(t)
	if issued {
		c.ready = t + 1
	}
	if moved || accepted || issued {
		return t + 1
	}
	return min(max(c.ready, t+1), refreshWake, c.arrival(t), ends)
}

// arrival returns the clock of the next request to come, forever if it has
// come and waits for a queue.
func (c *controller) arrival(t int64) int64 {
	if c.next < len(c.requests) && c.requests[c.next].Clock > t {
		return c.requests[c.next].Clock
	}
	return forever
}

// place is where a bank lies, found by its index over all ranks.
type place struct {
	dram.Address
	bit uint64 // of the bank among those of its rank
}

// places returns the places of all banks.
func places(spec *dram.Spec, ranks int) []place {
	list := make([]place, ranks*spec.Banks())
	for i := range list {
		bank := i % spec.Banks()
		list[i] = place{dram.Address{Rank: int32(i / spec.Banks()), BankGroup: int32(bank / spec.BanksPerGroup),
			Bank: int32(bank % spec.BanksPerGroup), Row: -1, Column: -1}, 1 << bank}
	}
	return list
}

// issue records a command everywhere.
func (c *controller) issue(cmd dram.Command, a dram.Address, t int64) {
	c.state.Issue(cmd, a, t)
	c.energy.Record(cmd, a, t)
	c.stats.commands[cmd]++
	if c.log != nil {
		c.log.Write(t, cmd, a)
	}
}
