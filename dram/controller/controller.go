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
	Write   bool
	// Partial says that a write changes a part of its burst only: with ECC the burst is read first.
	Partial bool
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

	skipIdle        bool // idle refresh periods pass at once; a log needs each
	banksPerRank    int
	groupShift      int // log2 of the banks of a bank group
	places          []place
	scheduler       *scheduler
	closedPage      bool
	acts, actSteps  int64 // see activations
	steps           int64 // of a clock; the controller counts steps, requests and results clocks
	ageBound        int64
	dataEnds        [dram.WRA + 1]int64 // from a column command to the end of its data
	holdSteps       int64               // see batch
	fullGroups      int                 // bank groups that fill the data bus
	headStart       int64               // see scheduler
	simpleBus       bool                // the command bus takes any command at any step
	commandBuses    dram.CommandBuses
	commandBusCount int
	pseudoPrecharge bool // PREA closes all ranks of a pseudo-channel
	hasSync         bool
	sync            dram.Command // starts the data clock
	synced          choice       // column access whose data clock is being started
	syncedAt        int64

	requests []Request
	next     int // next request to accept
	head     entry
	decoded  bool // head is requests[next]

	held         [kinds]entryQueue // the read queue and the write buffer
	movable      [kinds]int        // entries of these whose bank's queue has room
	filters      [kinds]filter
	banks        []bankQueue
	queued       int   // entries of all bank queues
	queuedInRank []int // entries of the bank queues of each rank
	chain        []waiting
	freeChain    int32
	draining     int  // writes still to move before reads move again
	stuck        bool // no entry can move until a queue changes
	ready        int64
	lastServed   int
	buses        []bus
	busOf        []int // by rank
	nextBus      int   // whose turn is first
	now          int64

	endStep    int64
	waitsFor   [needs][]wait // by bank
	ranks      []rankNeeds
	openBanks  []uint64 // by rank: banks that hold a row open
	refresh    refreshState
	power      powerState
	management managementState
	check      *checkBits // nil without ECC
	stats      Stats
}

// newController returns the idle controller of one channel of ranks ranks. The
// mapping may cover several channels; the requests of Run must be this one's.
// The command log may be nil.
func newController(spec *dram.Spec, policy *Policy, mapping *Mapping, ranks int, log *check.LogWriter) *controller {
	c := &controller{
		spec: spec, policy: policy, mapping: mapping, log: log, skipIdle: log == nil,
		state: dram.NewState(spec, ranks, asked(spec, policy)...), energy: dram.NewEnergyMeter(spec, ranks),
		banksPerRank: spec.Banks(), groupShift: bits.TrailingZeros(uint(spec.BanksPerGroup)), scheduler: findScheduler(policy.Scheduler), closedPage: policy.Page == "closed",
		held:  [kinds]entryQueue{newEntryQueue(policy.ReadQueue), newEntryQueue(policy.WriteBuffer)},
		banks: make([]bankQueue, ranks*spec.Banks()), queuedInRank: make([]int, ranks),
		freeChain: -1, lastServed: -1, steps: spec.Steps(1), ageBound: spec.Steps(policy.AgeBound), holdSteps: spec.Steps(spec.TCCDL),
		simpleBus: simpleBuses(spec, policy), commandBuses: dram.CommandBuses{Standard: spec.Rules()}, synced: nothing, buses: newBuses(spec, ranks),
		pseudoPrecharge: spec.Rules().Action(dram.PREA).Span == dram.WholeChannel,
		openBanks:       make([]uint64, ranks), places: places(spec, ranks),
	}
	for i := range c.banks {
		c.banks[i] = bankQueue{entryQueue: newEntryQueue(policy.BankQueue), first: [kinds]int32{-1, -1}}
	}
	c.rankNodes, c.groupNodes, c.bankNodes = c.state.Nodes()
	c.rows = c.state.Rows()
	for i, b := range c.buses {
		for range b.end - b.first {
			c.busOf = append(c.busOf, i)
		}
	}
	c.commandBusCount = len(spec.Rules().Buses)
	for n := range c.waitsFor {
		c.waitsFor[n] = make([]wait, len(c.banks))
	}
	c.ranks = make([]rankNeeds, ranks)
	c.stats.Ranks, c.stats.Banks = make([]RankStats, ranks), make([]BankStats, ranks*spec.Banks())
	c.refresh = newRefreshState(spec, policy, c.ranks)
	c.check = newCheckBits(spec, ranks*spec.Banks())
	c.power = newPowerState(spec, policy, ranks)
	if c.management = newManagementState(spec, policy, ranks); c.management.most > 0 {
		c.refresh.margin += spec.Steps(spec.TRFC * ranks) // an RFM may be under way
	}
	c.refresh.margin += c.power.wakes
	c.acts, c.actSteps = activations(spec)
	c.headStart = spec.Steps(c.scheduler.headStart)
	for cmd := dram.RD; cmd <= dram.WRA; cmd++ {
		c.dataEnds[cmd] = spec.DataEnd(cmd)
	}
	c.fullGroups = (spec.TCCDL + spec.BurstClocks() - 1) / spec.BurstClocks()
	c.sync, c.hasSync = spec.Rules().DataClockCommand()
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
	c.requests = requests
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

// result returns what has happened.
func (c *controller) result() *Stats {
	c.stats.EndClock = c.clocks(c.endStep)
	for i := range c.stats.Banks {
		c.stats.RowHits += c.stats.Banks[i].RowHits
	}
	c.stats.Energy = c.energy.Energy(c.endStep)
	for rank := range c.ranks {
		of := &c.stats.Ranks[rank]
		for state, steps := range c.energy.Standby(rank, c.endStep) {
			of.Standby[state] = steps / c.steps
		}
		of.OpenBanks = c.energy.OpenBanks(rank, c.endStep) / c.steps
		entries := c.energy.Entries(rank)
		of.PowerDowns, of.SelfRefreshes = entries[dram.ActivePowerDown]+entries[dram.PrechargedPowerDown], entries[dram.SelfRefresh]
	}
	return &c.stats
}

// clocks returns steps in clocks, a clock that has begun as a whole one.
func (c *controller) clocks(steps int64) int64 {
	if c.steps == 1 {
		return steps
	}
	return (steps + c.steps - 1) / c.steps
}

// finished reports whether no request is left.
func (c *controller) finished() bool {
	return c.next == len(c.requests) && c.queued == 0 && c.synced.age == forever && len(c.held[needRead].entries)+len(c.held[needWrite].entries) == 0 && c.check.idle()
}

// tick runs step t, and those after it in which requests only move on between queues. It returns the next step at which something
// can happen.
func (c *controller) tick(t int64) int64 {
	c.now = t
	forced := len(c.refresh.forced)
	refreshWake := c.refresh.fallDue(t)
	if len(c.refresh.forced) != forced {
		c.ready = min(c.ready, t) // a run that waited for one of these banks goes on without
	}
	quiet := c.quiet()
	issued := false
	if quiet && c.simpleBus {
		issued = t >= c.ready && c.schedule(t)
	} else {
		var wake int64
		issued, wake = c.commands(t)
		refreshWake = min(refreshWake, wake)
	}
	moves := c.moveOn(t)
	if quiet = quiet && len(c.management.due) == 0; issued {
		c.ready = c.nextReady(t, quiet)
	}
	for ; moves; moves = c.moveOn(t) {
		if t++; !quiet || t >= c.ready || t >= refreshWake {
			return t
		}
		c.now = t
	}
	return min(max(c.ready, t+1), refreshWake, c.arrival(t))
}

// quiet reports whether no command issues but for requests that are queued: no rank or bank is to refresh, to be managed, to sleep or
// to wake, no data clock has been started and no check bits move.
func (c *controller) quiet() bool {
	return len(c.refresh.forced)+len(c.management.due) == 0 && !c.refresh.idleUnits && !c.power.on && c.check == nil && !c.hasSync
}

// moveOn moves a request into its bank's queue and accepts one, each if it can.
func (c *controller) moveOn(t int64) bool {
	moved := c.transfer(t)
	if c.check != nil {
		return c.acceptChecked(t) || moved
	}
	return c.accept(t) || moved
}

// nextReady returns a step after t, at which a command issued, before which no other can.
func (c *controller) nextReady(t int64, quiet bool) int64 {
	if !quiet {
		return t + 1
	}
	next := int64(forever)
	for i := range c.buses {
		b := &c.buses[i]
		for n := range needs {
			next = min(next, b.wake[n])
		}
	}
	return max(next, t+1)
}

// commands issues what may issue at t: one command, or one on each bus. If none does, wake is the first
// step at which a refresh may go on.
func (c *controller) commands(t int64) (issued bool, wake int64) {
	wake = forever
	if c.synced.age < forever {
		issued = t >= c.syncedAt && c.serveSynced(t)
		if c.synced.age < forever { // nothing may close the row, or the rank, between the start of the data clock and the access
			return false, c.syncedAt
		}
	}
	if c.power.on && !issued {
		issued, wake = c.wakeRanks(t)
	}
	if len(c.refresh.forced) > 0 && !issued {
		var forced int64
		issued, forced = c.forcedRefresh(t)
		wake = min(wake, forced)
	}
	if len(c.management.due) > 0 && !issued {
		var managed int64
		issued, managed = c.manage(t)
		wake = min(wake, managed)
	}
	for range c.commandBusCount {
		if issued && c.simpleBus || t < c.ready || c.synced.age < forever {
			break
		}
		if !c.schedule(t) {
			break
		}
		issued = true
	}
	if !issued && c.refresh.idleUnits {
		var idle int64
		issued, idle = c.idleRefresh(t)
		wake = min(wake, idle)
	}
	if c.power.on && !issued {
		var idle int64
		issued, idle = c.sleepRanks(t)
		wake = min(wake, idle)
	}
	if c.synced.age < forever {
		wake = min(wake, c.syncedAt)
	}
	return issued, wake
}

// serveSynced issues the access whose data clock has been started, and reports whether it has. Where the second half of an ACT
// has the bus, it waits while the clock runs; after that the clock must be started again.
func (c *controller) serveSynced(t int64) bool {
	p := c.synced
	at := c.gate(needCommands[p.need], t)
	if at > t && c.state.ClockRuns(needCommands[p.need], int(c.places[p.bank].Rank), at) {
		c.syncedAt = at
		return false
	}
	c.synced = nothing
	if at <= t {
		c.serve(p, t)
	}
	return at <= t
}

// arrival returns the step of the next request to come, forever if it has
// come and waits for a queue.
func (c *controller) arrival(t int64) int64 {
	if c.next < len(c.requests) && c.requests[c.next].Clock*c.steps > t {
		return c.requests[c.next].Clock * c.steps
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
	if !c.simpleBus {
		c.commandBuses.Take(cmd, t)
	}
	c.energy.Record(cmd, a, t)
	if c.management.most > 0 {
		c.countActivations(cmd, a)
	}
	c.stats.commands[cmd]++
	if c.log != nil {
		c.log.Write(t, cmd, a)
	}
}
