package hbm

import "github.com/l3sim/l3sim/dram"

// choice is the command that a lane would issue next.
type choice struct {
	found   bool
	index   int // of the queue's entry
	command dram.Command
	address dram.Address
	at      int64 // first step at which it may issue
	soonest int64 // first later step at which a command of some entry may issue
}

// choose returns the first entry of the queue whose command may issue, or else the first entry. Behind the first barrier, only commands
// that open and close rows may issue. An entry waits while another entry's row is open in its bank, unless it is the first entry or a read
// of that row. Commands to several banks name the first of them. With own, the column bus must be free. Without it, choose picks the second
// command of a clock, a row command, which does not use the column bus.
func (m *machine) choose(l *lane, own bool) choice {
	if len(l.queue) > 0 && l.queue[0].barrier {
		l.queue = append(l.queue[:0], l.queue[1:]...)
	}
	best := choice{soonest: never}
	behind := false
	var seen [2]uint32 // banks named by reads so far: those that need their row, and those that have it open; later reads of the same bank need the same
	for i := range l.queue {
		in := &l.queue[i]
		behind = behind || in.barrier
		if in.barrier {
			continue
		}
		if in.command == m.mac {
			s, bit := &seen[0], uint32(1)<<in.named()
			if m.hit(l, in) {
				s = &seen[1]
			}
			if *s&bit != 0 {
				continue
			}
			*s |= bit
		}
		cmd, a, last := m.need(l, in)
		if behind && m.isColumn(cmd) {
			continue
		}
		at := m.state.Earliest(cmd, a)
		if cmd == dram.PRE && m.spec.Rules == AttAcc {
			at = max(at, m.late[in.named()])
		}
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
		if at <= m.now && (last && cmd == m.mac || m.hits(l)>>in.named()&1 == 0) {
			c.soonest = best.soonest
			return c
		}
	}
	return best
}

// named returns the index, in its pseudo-channel, of the bank that an instruction names.
func (in *instruction) named() int { return (int(in.rank)*groups+int(in.group))*banks + int(in.bank) }

// hits returns the banks, as bits, whose open row some read names.
func (m *machine) hits(l *lane) (bits uint32) {
	for i := range l.queue {
		in := &l.queue[i]
		if in.barrier || in.command != m.mac {
			continue
		}
		if m.hit(l, in) {
			bits |= 1 << in.named()
		}
	}
	return bits
}

// hit reports whether a read's row is open.
func (m *machine) hit(l *lane, in *instruction) bool {
	s := m.set(l, in)
	return s.opened == m.each && !s.closing && s.row == in.row
}

func (m *machine) set(l *lane, in *instruction) *set {
	switch m.sets {
	case 1:
		return &l.sets[0]
	case banks:
		return &l.sets[in.bank]
	}
	return &l.sets[in.named()]
}

// need returns the command that an entry needs next, and whether it is the entry's own command.
func (m *machine) need(l *lane, in *instruction) (dram.Command, dram.Address, bool) {
	a := dram.Address{Rank: l.rank + int32(in.rank), BankGroup: int32(in.group), Bank: int32(in.bank), Row: -1, Column: -1}
	if in.command != m.mac {
		return in.command, a, true
	}
	if m.sets <= banks {
		a.BankGroup = -1
	}
	if m.sets == 1 {
		a.Bank = -1
	}
	s := m.set(l, in)
	switch {
	case s.opened > 0 && (s.closing || s.row != in.row):
		if m.each > 1 && m.sets > 1 {
			return dram.PRE, m.bank(l, in, s.opened-1), false
		}
		return m.close, a, false
	case s.opened == m.each:
		a.Row, a.Column = in.row, in.column
		return m.mac, a, true
	case m.each > 1:
		a = m.bank(l, in, s.opened)
		a.Row = in.row
		return dram.ACT, a, false
	}
	a.Row = in.row
	return m.open, a, false
}

// bank returns the i-th bank of a read's set: bank groups first, then stacks.
func (m *machine) bank(l *lane, in *instruction, i int) dram.Address {
	return dram.Address{Rank: l.rank + int32(i/groups%ranks), BankGroup: int32(i % groups), Bank: int32(in.bank) + int32(i/(groups*ranks)), Row: -1, Column: -1}
}
