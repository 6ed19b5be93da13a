package hbm

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Run is the result of simulating the attention of a load.
type Run struct {
	Clocks   int64 // of CK, from the first to the last command, inclusive
	Commands [dram.Commands]int64
}

const window = 33 // entries of a lane's queue (AttAcc's 32 and one)

// lane is one stream of commands: a pseudo-channel, or both if each command acts on both.
type lane struct {
	rank    int32 // its first rank in the state
	program []instruction
	next    int // next instruction of the program to enter the queue
	queue   []instruction
	sets    []set // sets of banks that open and close together
	open    int   // number of sets that a PREA would close
	due     int64 // step of the next refresh
	refresh int   // REFs left to issue
	issued  int64
}

// set is a set of banks that read together.
type set struct {
	row     int32 // the row that is open or opening
	opened  int   // number of banks with it open; 1 if one command opens them all
	closing bool  // closing, bank by bank
}

// machine issues programs on one channel. Its scheduler is AttAcc's: each lane has a queue that is filled in order. In each clock, the
// first entry whose command may issue does, and possibly a second one on the other bus, if it is then the first that may. Steps are the
// standard's, counted from 1 on, as AttAcc does.
type machine struct {
	spec  Spec
	part  *dram.Spec
	state *dram.State
	buses dram.CommandBuses
	lanes []lane
	layout
	late    [ranks * groups * banks]int64 // PREs under AttAcc's rules, see send
	each    int                           // number of banks in a set that open one by one; 1 if one command opens all
	now     int64
	run     Run
	observe func(step int64, cmd dram.Command, a dram.Address)
}

const never = math.MaxInt64 // later than any step

// Measure issues the load command by command. observe, which may be nil, is called for the commands in the order of their steps (clocks
// under AttAcc's rules, half clocks under JEDEC's).
func Measure(spec Spec, load Load, observe func(step int64, cmd dram.Command, a dram.Address)) (Run, error) {
	part, err := spec.Part()
	if err != nil {
		return Run{}, err
	}
	if err := load.check(spec.Level); err != nil {
		return Run{}, err
	}
	return newMachine(spec, part, observe).measure(load.program(spec)), nil
}

func (l Load) check(level Level) error {
	y, err := level.layout()
	if err != nil {
		return err
	}
	if err := input.Validate(l.Shape); err != nil {
		return err
	}
	if l.Context < 1 || l.Context > maxContext {
		return &input.Error{Key: "context", Value: fmt.Sprint(l.Context), Expected: fmt.Sprintf("1 to %d tokens", maxContext)}
	}
	if l.Heads < 1 || l.OfStack < l.Heads || l.Heads != ceil(l.OfStack, Channels) {
		return &input.Error{Key: "heads", Value: fmt.Sprint(l.OfStack), Expected: "at least one head on a stack"}
	}
	if rows := l.Heads * y.rows(l.Shape, l.Context); rows > valueRow {
		what := "keys"
		if l.ValueWidth() > l.HeadDim {
			what = "values"
		}
		return &input.Error{Key: "heads", Value: fmt.Sprint(l.OfStack), Expected: fmt.Sprintf(
			"%s of %d tokens in %d rows of each bank, half of them: they take %d", what, l.Context, valueRow, rows)}
	}
	return nil
}

// newMachine returns a machine for one channel. Under JEDEC's rules, the banks of a set are activated one by one.
func newMachine(spec Spec, part *dram.Spec, observe func(int64, dram.Command, dram.Address)) *machine {
	m := &machine{spec: spec, part: part, layout: layouts[spec.Level], each: 1, observe: observe}
	if spec.Rules == JEDEC {
		m.each = ranks * groups * banks / m.sets
	}
	m.lanes = make([]lane, spec.lanes())
	m.state = dram.NewState(part, ranks*len(m.lanes))
	m.buses.Standard = part.Rules()
	return m
}

// measure runs a program from the first clock.
func (m *machine) measure(program []instruction) Run {
	clock := m.part.BusSteps(1)
	m.now, m.run = clock, Run{}
	for i := range m.lanes {
		m.lanes[i] = lane{rank: int32(i * ranks), program: program, sets: make([]set, m.sets), due: never, queue: make([]instruction, 0, window)}
		if !m.spec.NoRefresh {
			m.lanes[i].due = m.part.BusSteps(m.part.TREFI)
		}
	}
	for {
		soonest, left, first := int64(never), false, m.leader()
		for i := range m.lanes {
			l := &m.lanes[(first+i)%len(m.lanes)]
			at := m.step(l)
			soonest = min(soonest, at)
			left = left || len(l.queue) > 0 || l.next < len(l.program) || l.refresh > 0
		}
		if !left || soonest == never {
			return m.run
		}
		m.now = max(m.now+1, soonest)
	}
}

// leader returns the lane that has issued the fewest commands and therefore goes first.
func (m *machine) leader() int {
	first := 0
	for i := range m.lanes {
		if m.lanes[i].issued < m.lanes[first].issued {
			first = i
		}
	}
	return first
}

// step lets a lane issue at the current step. It returns the next step at which it may, unless another event comes first.
func (m *machine) step(l *lane) int64 {
	for len(l.queue) < window && l.next < len(l.program) {
		l.queue = append(l.queue, l.program[l.next])
		l.next++
	}
	if m.now >= l.due {
		l.due += m.part.BusSteps(m.part.TREFI)
		l.refresh += pseudoChannels / len(m.lanes)
	}
	if l.refresh > 0 && m.still(l) {
		at := min(m.payRefresh(l), l.due)
		c := m.choose(l, true)
		if c.found && m.isColumn(c.command) {
			if c.at <= m.now {
				m.issue(l, c)
				return m.now + 1
			}
			at = min(at, c.at)
		}
		return max(m.now+1, min(at, c.soonest))
	}
	c := m.choose(l, true)
	if !c.found || c.at > m.now {
		return min(c.soonest, l.due)
	}
	m.issue(l, c)
	if m.alone(c.command) {
		return m.now + 1
	}
	if d := m.choose(l, false); d.found && max(d.at, m.buses.Earliest(d.command, m.now)) <= m.now && m.isColumn(d.command) != m.isColumn(c.command) && !m.alone(d.command) {
		m.issue(l, d)
	}
	return m.now + 1
}

// alone reports whether a command excludes others in the same clock: AttAcc's simulator has no bus for PREsb and PRE.
func (m *machine) alone(c dram.Command) bool {
	return m.spec.Rules == AttAcc && (c == dram.PREsb || c == dram.PRE)
}

// still reports whether no row of the lane is opening or closing: a refresh waits for that.
func (m *machine) still(l *lane) bool {
	for i := range l.sets {
		if l.sets[i].opened%m.each != 0 {
			return false
		}
	}
	return true
}

func (m *machine) isColumn(c dram.Command) bool { return m.part.Rules().Action(c).Bus == 1 }

func (m *machine) issue(l *lane, c choice) {
	in := &l.queue[c.index]
	own := c.command == in.command
	if !own {
		m.turn(l, m.set(l, in), c.command, in.row)
	}
	m.send(l, c.command, c.address)
	if own {
		l.queue = append(l.queue[:c.index], l.queue[c.index+1:]...)
	}
}

// turn records that a command opens or closes banks of a set. AttAcc's simulator lets PREsb close only one of its 16 banks, so a refresh
// still needs PREA.
func (m *machine) turn(l *lane, s *set, cmd dram.Command, row int32) {
	switch cmd {
	case dram.PREA:
		l.closeAll()
	case dram.PREsb:
		s.opened = 0
	case dram.PRE:
		s.opened--
		s.closing = s.opened > 0
		if !s.closing {
			l.open--
		}
	default:
		if s.opened == 0 {
			l.open++
		}
		s.row, s.opened = row, s.opened+1
	}
}

func (l *lane) closeAll() {
	clear(l.sets)
	l.open = 0
}

func (m *machine) send(l *lane, cmd dram.Command, a dram.Address) {
	if cmd != dram.REF || len(m.lanes) > 1 || l.refresh%pseudoChannels != 0 { // the second pseudo-channel's REF does not delay the first one
		m.state.Issue(cmd, a, m.now)
	}
	if cmd == dram.MAC { // AttAcc's simulator delays the other pseudo-channel's bank but not PRE in this one
		m.late[(int(a.Rank)%ranks)*banks+int(a.Bank)] = m.now + m.part.BusSteps(m.part.TRTP)
	}
	m.buses.Take(cmd, m.now)
	l.issued++
	m.run.Commands[cmd]++
	m.run.Clocks = m.now / m.part.BusSteps(1)
	if m.observe != nil {
		m.observe(m.now, cmd, a)
	}
}

// payRefresh issues the next command of a due refresh, if it may issue now: first the precharge of an open row, then REF. It returns the
// first step at which the command may issue. If one lane covers both pseudo-channels, each gets its own REF, one after the other.
func (m *machine) payRefresh(l *lane) int64 {
	cmd, a := dram.REF, dram.Address{Rank: l.rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if l.open > 0 {
		cmd = dram.PREA
	}
	at := m.buses.Earliest(cmd, max(m.now, m.state.Earliest(cmd, a)))
	if at > m.now {
		return at
	}
	if cmd == dram.PREA {
		l.closeAll()
	} else {
		l.refresh--
	}
	m.send(l, cmd, a)
	return m.now + 1
}
