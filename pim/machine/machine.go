package machine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// Machine issues a program on one rank, command by command, under the timing rules of package dram. Its three sequencers each run in
// program order and share the command bus. Each clock goes to the sequencer whose next instruction can issue first. At a tie, the priority
// is bank, result, buffer sequencer, unless the instruction yields.
//
// Clocks count from 0, when all banks are closed.
type Machine struct {
	Spec    *pim.Spec
	Device  *dram.Spec
	state   *dram.State
	program *Program

	issuing

	lengths [dram.Commands]int64 // clocks of each command on its bus

	multipliers

	Refresh  refreshManager
	Repeats  repeats
	Counters counters
	heads    headClock
	open     openBanks
	ends     []int64 // end of each head, in clocks
	Observe  observe // may be nil
	Receiver receiver

	interrupt func() error // called now and then; an error ends the run; may be nil
	polls     uint
}

// issuing has the waiting instructions, and the clocks of those that have issued.
type issuing struct {
	queues  [sequencers]queue
	Latency [ops][sequencers]int64     // clocks from an instruction of the sequencer to one that waits for it
	longest int64                      // largest entry of Latency
	issued  [sequencers]uint32         // number of instructions
	clocks  [sequencers][history]int64 // issue clocks of the latest instructions
	now     int64                      // clock of the latest command; -1 before the first
	free    int64                      // first clock at which the command bus is free
	scratch []Instruction              // the program's latest instructions
}

// multipliers are the state of the program's multipliers.
type multipliers struct {
	multiplierPasses int   // of the program, for one read
	reading          int64 // clock from which they accept the next read
}

// observe is called for every command of a run in the order of clocks. A nil instruction is a REF. Commands of a transfer have head -1, and
// OpReadKey and OpReadValue if data are read back to the host.
type observe func(clock int64, cmd dram.Command, a dram.Address, in *Instruction)

// history is the number of issue clocks kept for each sequencer. Earlier instructions have taken effect, since NewMachine refuses longer
// latencies.
const history = 1 << 12

// runAhead is the number of instructions that are generated ahead of an idle sequencer.
const runAhead = 12

// programCommands are the commands of programs, transfers and the refresh manager.
var programCommands = []dram.Command{dram.ACT, dram.ACTA, dram.PRE, dram.PREA, dram.RD, dram.WR, dram.REF, dram.MACA, dram.RDRES, dram.WRBUF}

// NewMachine returns a machine for programs of spec on d. Latencies beyond 4,096 clocks are an input.Error.
func NewMachine(spec *pim.Spec, d *dram.Spec) (*Machine, error) {
	if err := cmp.Or(input.Validate(spec), input.Validate(d)); err != nil {
		return nil, err
	}
	m := &Machine{Spec: spec, Device: d, state: dram.NewState(d, 1, programCommands...), lengths: commandLengths(d), multipliers: multipliers{multiplierPasses: 1}}
	m.setLatencies()
	if m.longest > history {
		return nil, &input.Error{Key: "softmax_latency", Value: fmt.Sprint(spec.SoftmaxLatency),
			Expected: fmt.Sprintf("a path of at most %d clocks from command to use", history)}
	}
	m.Refresh.Init(spec, d)
	for i := range m.queues {
		m.queues[i].init(64)
	}
	return m, nil
}

// commandLengths returns the clocks of each command on its bus: one in DDR4; in DDR5, two for commands with an address.
func commandLengths(d *dram.Spec) (lengths [dram.Commands]int64) {
	for c := range lengths {
		lengths[c] = int64(d.Rules().Action(dram.Command(c)).Steps)
	}
	return lengths
}

// setLatencies sets how long an operation must wait after the instruction that it depends on.
func (m *Machine) setLatencies() {
	d, burst := m.Device, m.Device.BurstClocks()
	further := int64((m.multiplierPasses - 1) * d.TCCDL) // from a read's first elements to its last
	for _, op := range []Operation{OpScore, OpContext} {
		m.Latency[op][ResultSequencer] = 1
		m.Latency[op][BufferSequencer] = int64(d.CWL + burst)
	}
	m.Latency[OpReadPartials][BankSequencer] = int64(m.Spec.MACLatency) + further
	m.Latency[OpReadContext][BankSequencer] = int64(m.Spec.MACLatency) + further
	m.Latency[OpLoadWeights][BankSequencer] = 1 + further
	m.Latency[OpLoadWeights][ResultSequencer] = int64(d.CL + burst + m.Spec.SoftmaxLatency)
	m.Latency[OpReadValue][ResultSequencer] = int64(m.Spec.SoftmaxLatency)
	// q follows the newest key and value on the channel, so it arrives after the append's precharge, like the attention's first activation.
	m.Latency[OpLoadQuery][BankSequencer] = int64(d.TRP)
	m.Latency[OpLoadQuery][ResultSequencer] = int64(d.CL + burst + m.Spec.MACLatency)
	m.longest = 0
	for _, row := range m.Latency {
		m.longest = max(m.longest, slices.Max(row[:]))
	}
}

// Run issues the program from clock 0 and returns the clock at which its last head ends: banks are precharged and results are on their way
// out of the rank.
func (m *Machine) Run(p *Program) int64 {
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
		if m.Receiver.transfer != nil && s == BankSequencer && m.Refresh.pending == 0 && m.gaveWay(clock) {
			continue
		}
		m.issue(s, clock)
	}
	if len(m.ends) == 0 {
		return 0
	}
	end := m.ends[len(m.ends)-1]
	m.Counters.phases.Drain = end - m.heads.lastRead - m.heads.columnGap - m.Repeats.skipped
	return end
}

// interrupted calls interrupt once in 8,192 refills of the program, which is once in 65,536 commands or more.
func (m *Machine) interrupted() bool {
	if m.polls++; m.polls%(1<<13) != 0 || m.interrupt == nil {
		return false
	}
	return m.interrupt() != nil
}

// reset returns to clock 0.
func (m *Machine) reset(p *Program) {
	m.program, m.reading = p, 0
	if m.multiplierPasses != p.multiplierPasses {
		m.multiplierPasses = p.multiplierPasses
		m.setLatencies()
	}
	m.state.Reset()
	for i := range m.queues {
		m.queues[i].reset()
	}
	m.issued, m.now, m.free, m.Counters, m.ends = [sequencers]uint32{}, -1, 0, counters{}, m.ends[:0]
	m.Refresh.reset()
	m.Repeats.reset()
	m.open = openBanks{}
	m.heads.reset(p, m.Device)
}

// fill generates instructions until no sequencer waits for one that does not exist yet, or enough are ahead.
func (m *Machine) fill() {
	for m.starved() {
		if m.Repeats.On {
			m.skip()
		}
		m.scratch = m.program.Next(m.scratch[:0])
		for i := range m.scratch {
			m.queues[m.scratch[i].sequencer].push(&m.scratch[i])
		}
	}
}

// starved reports whether a sequencer is idle and few instructions are ahead.
func (m *Machine) starved() bool {
	b, r, w := m.queues[BankSequencer].len(), m.queues[ResultSequencer].len(), m.queues[BufferSequencer].len()
	if m.program.RankLevel && (r >= runAhead || m.program.streamed > 0) { // a pass has begun, so its reads must follow
		return r < runAhead
	}
	return (b == 0 || r == 0 || w == 0) && b < runAhead && m.program.stage != stageEnd
}

// next returns the sequencer that issues next, and its clock.
func (m *Machine) next() (Sequencer, int64) {
	best, clock := BankSequencer, m.ready(BankSequencer)
	if t := m.ready(ResultSequencer); t <= clock && (t < clock || m.bankYields()) {
		best, clock = ResultSequencer, t
	}
	if t := m.ready(BufferSequencer); t <= clock && (t < clock || best == BankSequencer && m.bankYields()) {
		best, clock = BufferSequencer, t
	}
	return best, clock
}

// bankYields reports whether the bank sequencer's next command yields.
func (m *Machine) bankYields() bool {
	q := &m.queues[BankSequencer]
	return q.len() > 0 && m.Refresh.pending == 0 && q.front().yield
}

const blocked = int64(1) << 62 // the clock of an instruction whose issue cannot be determined yet

// ready returns the first clock at which the sequencer's next instruction can issue given all issued ones, or blocked while it waits for
// one that has not issued.
func (m *Machine) ready(s Sequencer) int64 {
	q := &m.queues[s]
	if q.len() == 0 {
		return blocked
	}
	if m.Refresh.On && s == BankSequencer && m.Refresh.due(m) {
		return m.refreshReady()
	}
	if !q.checked {
		if !m.checkWaits(q) {
			return blocked
		}
	}
	in := q.front()
	t := max(q.operands, m.free)
	if in.Op.multiplies() {
		t = max(t, m.reading)
	}
	return max(t, m.state.Earliest(in.Command, in.Address()))
}

// checkWaits computes the clock at which the operands of the sequencer's next instruction are ready, and returns false while one of them
// has not issued.
func (m *Machine) checkWaits(q *queue) bool {
	in := q.front()
	if in.wait == ([sequencers]uint32{}) {
		q.operands, q.checked = 0, true
		return true
	}
	latency := &m.Latency[in.Op]
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

func (m *Machine) issue(s Sequencer, clock int64) {
	if s == BankSequencer && m.Refresh.pending > 0 {
		m.issueRefresh(clock)
		return
	}
	q := &m.queues[s]
	in := q.front()
	a := in.Address()
	m.state.Issue(in.Command, a, clock)
	m.clocks[s][m.issued[s]&(history-1)] = clock
	m.issued[s]++
	if in.Op.multiplies() {
		m.reading = clock + m.period(in)
	}
	m.take(in.Command, clock)
	m.count(in, clock)
	if m.Observe != nil {
		m.Observe(clock, in.Command, a, in)
	}
	if s == BankSequencer {
		m.Refresh.checked = false
	}
	q.pop()
}

func (m *Machine) take(cmd dram.Command, clock int64) {
	m.now, m.free = clock, clock+m.lengths[cmd]
}

// period returns the clocks for which the multipliers are busy with one read.
func (m *Machine) period(in *Instruction) int64 {
	if in.Command == dram.RD {
		return int64(m.multiplierPasses * m.Device.TCCDS)
	}
	return int64(m.multiplierPasses * m.Device.TCCDL)
}

// queue is a ring of one sequencer's instructions.
type queue struct {
	ring       []Instruction
	head, tail int
	checked    bool  // operands is valid for the front
	operands   int64 // clock at which the front's operands are ready
}

func (q *queue) init(size int) { q.ring = make([]Instruction, size) }

func (q *queue) reset() {
	q.head, q.tail, q.checked = 0, 0, false
}

func (q *queue) len() int { return q.tail - q.head }

func (q *queue) front() *Instruction { return &q.ring[q.head&(len(q.ring)-1)] }

// push copies an instruction to the end; the ring grows, always to a power of two.
func (q *queue) push(in *Instruction) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.ring[q.tail&(len(q.ring)-1)] = *in
	q.tail++
}

// pop drops the front, and invalidates operands.
func (q *queue) pop() {
	q.head++
	q.checked = false
}

func (q *queue) grow() {
	ring := make([]Instruction, 2*len(q.ring))
	for i := q.head; i < q.tail; i++ {
		ring[i&(len(ring)-1)] = q.ring[i&(len(q.ring)-1)]
	}
	q.ring = ring
}
