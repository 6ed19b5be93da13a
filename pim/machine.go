package pim

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// machine issues a program on one rank, command by command, against the timing rules of package dram. Its three sequencers
// run each in program order and share the command bus: each clock goes to the sequencer whose next instruction can issue
// first; at a tie the bank sequencer goes before the result sequencer and that one before the buffer sequencer, unless the
// instruction yields.
//
// Clocks count from 0, at which all banks are closed.
type machine struct {
	spec    *Spec
	device  *dram.Spec
	state   *dram.State
	program *program

	queues  [sequencers]queue
	latency [ops][sequencers]int64     // from an instruction of the sequencer to one that waits for it
	longest int64                      // of these
	issued  [sequencers]uint32         // instructions
	clocks  [sequencers][history]int64 // issue clocks of the latest ones
	now     int64                      // clock of the latest command; -1 before the first
	free    int64                      // first clock at which the command bus is free
	scratch []instruction              // the program's latest instructions

	lengths [dram.Commands]int64 // clocks that each command takes on its bus

	steps   int   // of the program's multipliers over one read
	reading int64 // clock from which they take the next one

	refresh  refreshManager
	repeats  repeats
	counters counters
	heads    headClock
	open     openBanks
	ends     []int64 // clock at which each head was done
	observe  observe // may be nil
	receiver receiver

	interrupt func() error // ends a run early once it returns an error; asked now and then, may be nil
	polls     uint
}

// observe sees every command of a run in the order of its clocks. A nil instruction is a REF. Those of a transfer have head
// -1, and opReadKey and opReadValue where they go back to the host.
type observe func(clock int64, cmd dram.Command, a dram.Address, in *instruction)

// history is the number of issue clocks remembered for each sequencer. What
// issued earlier has taken effect, since no latency is longer (newMachine).
const history = 1 << 12

// runAhead is the number of instructions that the program is generated ahead of an idle sequencer.
const runAhead = 12

// programCommands are the commands of programs, transfers and the refresh manager.
var programCommands = []dram.Command{dram.ACT, dram.ACTA, dram.PRE, dram.PREA, dram.RD, dram.WR, dram.REF, dram.MACA, dram.RDRES, dram.WRBUF}

// newMachine returns a machine for programs of spec on d. Latencies beyond 4,096 clocks are an input.Error.
func newMachine(spec *Spec, d *dram.Spec) (*machine, error) {
	m := &machine{spec: spec, device: d, state: dram.NewState(d, 1, programCommands...), lengths: commandLengths(d), steps: 1}
	m.setLatencies()
	if m.longest > history {
		return nil, &input.Error{Key: "softmax_latency", Value: fmt.Sprint(spec.SoftmaxLatency),
			Expected: fmt.Sprintf("a path of at most %d clocks from command to use", history)}
	}
	m.refresh.init(spec, d)
	for i := range m.queues {
		m.queues[i].init(64)
	}
	return m, nil
}

// commandLengths returns the clocks that each command takes on its bus: one in DDR4, two in DDR5 where it has an address.
func commandLengths(d *dram.Spec) (lengths [dram.Commands]int64) {
	for c := range lengths {
		lengths[c] = int64(d.Rules().Action(dram.Command(c)).Steps)
	}
	return lengths
}

// setLatencies says how long after the instruction that it waits for an operation may issue.
func (m *machine) setLatencies() {
	d, burst := m.device, m.device.BurstClocks()
	further := int64((m.steps - 1) * d.TCCDL) // from a read's first elements to its last
	for _, op := range []operation{opScore, opContext} {
		m.latency[op][resultSequencer] = 1
		m.latency[op][bufferSequencer] = int64(d.CWL + burst)
	}
	m.latency[opReadPartials][bankSequencer] = int64(m.spec.MACLatency) + further
	m.latency[opReadContext][bankSequencer] = int64(m.spec.MACLatency) + further
	m.latency[opLoadWeights][bankSequencer] = 1 + further
	m.latency[opLoadWeights][resultSequencer] = int64(d.CL + burst + m.spec.SoftmaxLatency)
	m.latency[opReadValue][resultSequencer] = int64(m.spec.SoftmaxLatency)
	// q follows the newest key and value down the channel: after the append's
	// precharge, like the attention's first activation.
	m.latency[opLoadQuery][bankSequencer] = int64(d.TRP)
	m.latency[opLoadQuery][resultSequencer] = int64(d.CL + burst + m.spec.MACLatency)
	m.longest = 0
	for _, row := range m.latency {
		m.longest = max(m.longest, slices.Max(row[:]))
	}
}

// run issues the program from clock 0 and returns the clock at which its last
// head is done: banks precharged and results on their way out of the rank.
func (m *machine) run(p *program) int64 {
	m.reset(p)
	for {
		if m.starved() {
			if m.interrupted() {
				break
			}
			m.fill()
		}
		s, clock := m.next()
		if clock == blocked {
			break
		}
		if m.receiver.transfer != nil && s == bankSequencer && m.refresh.pending == 0 && m.gaveWay(clock) {
			continue
		}
		m.issue(s, clock)
	}
	if len(m.ends) == 0 {
		return 0
	}
	end := m.ends[len(m.ends)-1]
	m.counters.phases.Drain = end - m.heads.lastRead - m.heads.columnGap - m.repeats.skipped
	return end
}

// interrupted asks once in 8,192 times that the program is short of
// instructions, which is once in some 65,536 commands or more.
func (m *machine) interrupted() bool {
	if m.polls++; m.polls%(1<<13) != 0 || m.interrupt == nil {
		return false
	}
	return m.interrupt() != nil
}

// reset returns to clock 0.
func (m *machine) reset(p *program) {
	m.program, m.reading = p, 0
	if m.steps != p.steps {
		m.steps = p.steps
		m.setLatencies()
	}
	m.state.Reset()
	for i := range m.queues {
		m.queues[i].reset()
	}
	m.issued, m.now, m.free, m.counters, m.ends = [sequencers]uint32{}, -1, 0, counters{}, m.ends[:0]
	m.refresh.reset()
	m.repeats.reset()
	m.open = openBanks{}
	m.heads.reset(p, m.device)
}

// fill generates instructions until no sequencer waits for one that has not been generated, or enough are ahead.
func (m *machine) fill() {
	for m.starved() {
		if m.repeats.on {
			m.skip()
		}
		m.scratch = m.program.next(m.scratch[:0])
		for i := range m.scratch {
			m.queues[m.scratch[i].sequencer].push(&m.scratch[i])
		}
	}
}

// starved reports whether a sequencer is idle and the program not far ahead.
func (m *machine) starved() bool {
	b, r, w := m.queues[bankSequencer].len(), m.queues[resultSequencer].len(), m.queues[bufferSequencer].len()
	if m.program.rankLevel && (r >= runAhead || m.program.streamed > 0) { // a pass has been begun: its reads are due
		return r < runAhead
	}
	return (b == 0 || r == 0 || w == 0) && b < runAhead && m.program.stage != stageEnd
}

// next returns the sequencer that issues next, and the clock.
func (m *machine) next() (sequencer, int64) {
	best, clock := bankSequencer, m.ready(bankSequencer)
	if t := m.ready(resultSequencer); t <= clock && (t < clock || m.bankYields()) {
		best, clock = resultSequencer, t
	}
	if t := m.ready(bufferSequencer); t <= clock && (t < clock || best == bankSequencer && m.bankYields()) {
		best, clock = bufferSequencer, t
	}
	return best, clock
}

// bankYields reports whether the bank sequencer's next command yields.
func (m *machine) bankYields() bool {
	q := &m.queues[bankSequencer]
	return q.len() > 0 && m.refresh.pending == 0 && q.front().yield
}

// blocked is the clock of what cannot be said to issue yet.
const blocked = int64(1) << 62

// ready returns the first clock at which the sequencer's next instruction can issue, given all that has issued, or blocked
// while it waits for an instruction that has not.
func (m *machine) ready(s sequencer) int64 {
	q := &m.queues[s]
	if q.len() == 0 {
		return blocked
	}
	if m.refresh.on && s == bankSequencer && m.refresh.due(m) {
		return m.refreshReady()
	}
	if !q.checked {
		if !m.checkWaits(q) {
			return blocked
		}
	}
	in := q.front()
	t := max(q.operands, m.free)
	if in.op.multiplies() {
		t = max(t, m.reading)
	}
	return max(t, m.state.Earliest(in.command, in.address()))
}

// checkWaits finds the clock at which the operands of the sequencer's next
// instruction are ready; false while one of them has not been issued.
func (m *machine) checkWaits(q *queue) bool {
	in := q.front()
	if in.wait == ([sequencers]uint32{}) {
		q.operands, q.checked = 0, true
		return true
	}
	latency := &m.latency[in.op]
	t := int64(0)
	for o, w := range in.wait {
		if w == 0 {
			continue
		}
		behind := m.issued[o] - w
		if int32(behind) < 0 {
			return false
		}
		if behind < history {
			t = max(t, m.clocks[o][(w-1)&(history-1)]+latency[o])
		}
	}
	q.operands, q.checked = t, true
	return true
}

// issue issues the sequencer's next instruction.
func (m *machine) issue(s sequencer, clock int64) {
	if s == bankSequencer && m.refresh.pending > 0 {
		m.issueRefresh(clock)
		return
	}
	q := &m.queues[s]
	in := q.front()
	a := in.address()
	m.state.Issue(in.command, a, clock)
	m.clocks[s][m.issued[s]&(history-1)] = clock
	m.issued[s]++
	if in.op.multiplies() {
		m.reading = clock + m.period(in)
	}
	m.take(in.command, clock)
	m.count(in, clock)
	if m.observe != nil {
		m.observe(clock, in.command, a, in)
	}
	if s == bankSequencer {
		m.refresh.checked = false
	}
	q.pop()
}

// take gives the command bus to a command.
func (m *machine) take(cmd dram.Command, clock int64) {
	m.now, m.free = clock, clock+m.lengths[cmd]
}

// period returns the clocks that the multipliers are busy with one read.
func (m *machine) period(in *instruction) int64 {
	if in.command == dram.RD {
		return int64(m.steps * m.device.TCCDS)
	}
	return int64(m.steps * m.device.TCCDL)
}

// queue is a ring of instructions of one sequencer.
type queue struct {
	ring       []instruction
	head, tail int
	checked    bool  // operands holds for the front
	operands   int64 // clock at which the front's operands are ready
}

func (q *queue) init(size int) { q.ring = make([]instruction, size) }

func (q *queue) reset() {
	q.head, q.tail, q.checked = 0, 0, false
}

func (q *queue) len() int { return q.tail - q.head }

func (q *queue) front() *instruction { return &q.ring[q.head&(len(q.ring)-1)] }

// push copies an instruction to the end; the ring grows, always to a power of two.
func (q *queue) push(in *instruction) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.ring[q.tail&(len(q.ring)-1)] = *in
	q.tail++
}

// pop drops the front: what was checked of it does not hold for the next one.
func (q *queue) pop() {
	q.head++
	q.checked = false
}

// grow doubles the ring.
func (q *queue) grow() {
	ring := make([]instruction, 2*len(q.ring))
	for i := q.head; i < q.tail; i++ {
		ring[i&(len(ring)-1)] = q.ring[i&(len(q.ring)-1)]
	}
	q.ring = ring
}
