package hbm

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Run is what the attention of a load took.
type Run struct {
	Clocks   int64 // of CK, from the first command to the last one, both counted
	Commands [dram.Commands]int64
}

// window is the entries of a lane's queue (AttAcc's 32 and one).
const window = 33

// lane is one stream of commands: a pseudo-channel, or both where each command acts on both.
type lane struct {
	rank    int32 // first of its ranks in the state
	program []instruction
	next    int // of the program, not yet in the queue
	queue   []instruction
	row     int32 // that is open or being opened
	opened  int   // banks that have it open
	due     int64 // step of the next refresh
	refresh int   // REFs to issue
	issued  int64
}

// machine issues programs on one channel. Its scheduler is AttAcc's: each lane has a queue that is filled in order; each clock the
// first entry goes whose command may issue, and beside it one of the other bus, if it then is the first that may. Steps are the standard's,
// counted from one clock on, as AttAcc counts.
type machine struct {
	spec    Spec
	part    *dram.Spec
	state   *dram.State
	buses   dram.CommandBuses
	lanes   []lane
	each    bool // rows are opened bank by bank
	now     int64
	run     Run
	observe func(step int64, cmd dram.Command, a dram.Address)
}

// never is later than any step.
const never = math.MaxInt64

// Measure issues the load command by command. Observe, which may be nil, sees the commands in the order of their steps (clocks by AttAcc's rules,
// halves of one by JEDEC's).
func Measure(spec Spec, load Load, observe func(step int64, cmd dram.Command, a dram.Address)) (Run, error) {
	part, err := spec.Part()
	if err != nil {
		return Run{}, err
	}
	if err := load.check(); err != nil {
		return Run{}, err
	}
	return newMachine(spec, part, observe).measure(load.program(spec.Rules)), nil
}

// check has the rules of a load.
func (l Load) check() error {
	if err := input.Validate(l.Shape); err != nil {
		return err
	}
	if l.Context < 1 || l.Context > maxContext {
		return &input.Error{Key: "context", Value: fmt.Sprint(l.Context), Expected: fmt.Sprintf("1 to %d tokens", maxContext)}
	}
	if l.Heads < 1 || l.OfStack < l.Heads || l.Heads != ceil(l.OfStack, Channels) {
		return &input.Error{Key: "heads", Value: fmt.Sprint(l.OfStack), Expected: "at least one head on a stack"}
	}
	if rows := l.Heads * ceil(ceil(l.Context, ways)*l.columns(), rowColumns); rows > valueRow {
		return &input.Error{Key: "heads", Value: fmt.Sprint(l.OfStack), Expected: fmt.Sprintf(
			"keys of %d tokens in %d rows of each bank, half of them: they take %d", l.Context, valueRow, rows)}
	}
	return nil
}

func newMachine(spec Spec, part *dram.Spec, observe func(int64, dram.Command, dram.Address)) *machine {
	m := &machine{spec: spec, part: part, each: spec.Rules == JEDEC, observe: observe}
	m.lanes = make([]lane, spec.lanes())
	m.state = dram.NewState(part, ranks*len(m.lanes))
	m.buses.Standard = part.Rules()
	return m
}

// measure runs a program from the first clock.
func (m *machine) measure(program []instruction) Run {
	clock := m.part.Steps(1)
	m.now, m.run = clock, Run{}
	for i := range m.lanes {
		m.lanes[i] = lane{rank: int32(i * ranks), program: program, row: -1, due: never, queue: make([]instruction, 0, window)}
		if !m.spec.NoRefresh {
			m.lanes[i].due = m.part.Steps(m.part.TREFI)
		}
	}
	for {
		soonest, left, first := int64(never), false, m.leader()
		for i := range m.lanes {
			l := &m.lanes[(first+i)%len(m.lanes)]
			at := m.step(l)
			soonest = min(soonest, at)
			left = left || l.left()
		}
		if !left || soonest == never {
			return m.run
		}
		m.now = max(m.now+1, soonest)
	}
}

// leader returns the lane that has issued the fewest commands: it goes first.
func (m *machine) leader() int {
	first := 0
	for i := range m.lanes {
		if m.lanes[i].issued < m.lanes[first].issued {
			first = i
		}
	}
	return first
}

// left reports whether the lane has anything to issue.
func (l *lane) left() bool { return len(l.queue) > 0 || l.next < len(l.program) || l.refresh > 0 }

// step lets a lane issue at the current step. It returns the next step at which it might, if nothing else happens before.
func (m *machine) step(l *lane) int64 {
	for len(l.queue) < window && l.next < len(l.program) {
		l.queue = append(l.queue, l.program[l.next])
		l.next++
	}
	if m.now >= l.due {
		l.due += m.part.Steps(m.part.TREFI)
		l.refresh += pseudoChannels / len(m.lanes)
	}
	if l.refresh > 0 && l.opened%(ranks*groups*banks) == 0 { // not while a row is being opened
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
	if d := m.choose(l, false); d.found && max(d.at, m.buses.Earliest(d.command, m.now)) <= m.now && m.isColumn(d.command) != m.isColumn(c.command) {
		m.issue(l, d)
	}
	return m.now + 1
}

func (m *machine) isColumn(c dram.Command) bool { return m.part.Rules().Action(c).Bus == 1 }

// choice is the command that a lane would issue next.
type choice struct {
	found   bool
	index   int // of the queue's entry
	command dram.Command
	address dram.Address
	at      int64 // step from which it may issue
	soonest int64 // first step after this one at which some entry's command may
}

// choose returns the first entry of the queue whose command may issue, or the first of all where none may. Behind the first
// barrier only rows are opened and closed. What concerns the bank of the MACAs waits while some entry has its row open, unless it is the first.
// The column bus counts with own: a second command of a clock is of the other bus anyhow.
func (m *machine) choose(l *lane, own bool) choice {
	if len(l.queue) > 0 && l.queue[0].barrier {
		l.queue = append(l.queue[:0], l.queue[1:]...)
	}
	best := choice{soonest: never}
	hits, behind := l.hits(), false
	for i := range l.queue {
		in := &l.queue[i]
		behind = behind || in.barrier
		if in.barrier {
			continue
		}
		cmd, a, last := m.need(l, in)
		if behind && m.isColumn(cmd) {
			continue
		}
		at := m.state.Earliest(cmd, a)
		if own || !m.isColumn(cmd) {
			at = m.buses.Earliest(cmd, at)
			if at < m.now {
				at = m.buses.Earliest(cmd, m.now)
			}
		}
		c := choice{true, i, cmd, a, at, never}
		if at > m.now {
			best.soonest = min(best.soonest, at)
		}
		if i == 0 {
			c.soonest = best.soonest
			best = c
			if at <= m.now {
				return best
			}
			continue
		}
		if blocked := hits && !(last && cmd == dram.MACA) && in.rank == 0 && in.group == 0 && in.bank == 0; at <= m.now && !blocked {
			c.soonest = best.soonest
			return c
		}
	}
	return best
}

// hits reports whether some entry's row is open.
func (l *lane) hits() bool {
	for i := range l.queue {
		if in := &l.queue[i]; in.command == dram.MACA && !in.barrier && l.opened > 0 && in.row == l.row {
			return true
		}
	}
	return false
}

// need returns the command that an entry needs next, and whether it is the entry's own.
func (m *machine) need(l *lane, in *instruction) (dram.Command, dram.Address, bool) {
	if in.command != dram.MACA {
		return in.command, dram.Address{Rank: l.rank + int32(in.rank), BankGroup: int32(in.group), Bank: int32(in.bank), Row: -1, Column: -1}, true
	}
	all := dram.Address{Rank: l.rank, BankGroup: -1, Bank: -1, Row: in.row, Column: -1}
	switch {
	case l.opened > 0 && l.row != in.row:
		all.Row = -1
		return dram.PREA, all, false
	case l.opened == ranks*groups*banks:
		all.Column = in.column
		return dram.MACA, all, true
	case m.each: // bank groups first, then stacks
		i := int32(l.opened)
		return dram.ACT, dram.Address{Rank: l.rank + i/groups%ranks, BankGroup: i % groups, Bank: i / (groups * ranks), Row: in.row, Column: -1}, false
	}
	return dram.ACTA, all, false
}

// issue issues a choice at the current step.
func (m *machine) issue(l *lane, c choice) {
	in := &l.queue[c.index]
	own := c.command == in.command
	switch c.command {
	case dram.ACT:
		l.row, l.opened = in.row, l.opened+1
	case dram.ACTA:
		l.row, l.opened = in.row, ranks*groups*banks
	case dram.PREA:
		l.opened = 0
	}
	m.send(l, c.command, c.address)
	if own {
		l.queue = append(l.queue[:c.index], l.queue[c.index+1:]...)
	}
}

// send puts a command on its bus.
func (m *machine) send(l *lane, cmd dram.Command, a dram.Address) {
	if cmd != dram.REF || len(m.lanes) > 1 || l.refresh%pseudoChannels != 0 { // REF of the second pseudo-channel delays the first one nothing
		m.state.Issue(cmd, a, m.now)
	}
	m.buses.Take(cmd, m.now)
	l.issued++
	m.run.Commands[cmd]++
	m.run.Clocks = m.now / m.part.Steps(1)
	if m.observe != nil {
		m.observe(m.now, cmd, a)
	}
}

// payRefresh issues what a due refresh needs next, if it may now: the precharge of an open row, then REF. It returns the step at which
// that may go. Where one lane is both pseudo-channels each has a REF, one behind the other.
func (m *machine) payRefresh(l *lane) int64 {
	cmd, a := dram.REF, dram.Address{Rank: l.rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if l.opened > 0 {
		cmd = dram.PREA
	}
	at := m.buses.Earliest(cmd, max(m.now, m.state.Earliest(cmd, a)))
	if at > m.now {
		return at
	}
	if cmd == dram.PREA {
		l.opened = 0
	} else {
		l.refresh--
	}
	m.send(l, cmd, a)
	return m.now + 1
}
