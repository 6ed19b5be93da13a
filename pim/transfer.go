package pim

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Transfer is the key-value cache of successive tokens of one head on its way
// into a rank: what the prefill of a request sends (L3, section 5.1). The host
// writes row by row, keys before values, each row column by column over all
// banks, so that bursts follow each other at tCCD_S.
type Transfer struct {
	Geometry Geometry
	FirstRow int32 // of the head
	Tokens   int   // from token 0 on
}

// Bursts returns the bursts of the transfer: keys and values.
func (t *Transfer) Bursts() int64 { return 2 * int64(t.Tokens) * int64(t.Geometry.TokenBursts) }

// hostWriter issues a transfer's commands on a rank whose banks are closed.
// Like a memory controller it activates banks ahead of the writes.
type hostWriter struct {
	state *dram.State
	issue func(cmd dram.Command, a dram.Address, clock int64)
	now   int64 // clock of the latest command
}

// at issues a command at its first legal clock.
func (h *hostWriter) at(cmd dram.Command, a dram.Address) {
	h.now = max(h.now+1, h.state.Earliest(cmd, a))
	h.state.Issue(cmd, a, h.now)
	h.issue(cmd, a, h.now)
}

// write issues the whole transfer and returns the clock at which the banks are
// precharged.
func (h *hostWriter) write(t *Transfer) int64 {
	g := &t.Geometry
	for first := 0; first < t.Tokens; first += g.RowTokens {
		tokens := min(g.RowTokens, t.Tokens-first)
		row := t.FirstRow + g.KeyRow(first)
		h.row(g, row, tokens, func(column, ordinal int) int { return column/g.TokenBursts*g.ChunkTokens + ordinal })
		h.row(g, row+1, tokens, func(column, ordinal int) int { return column*g.ColumnTokens + ordinal/g.TokenBursts })
	}
	return h.state.Earliest(dram.REF, allBankAddress)
}

// row writes one row; token tells which token of the row a burst belongs to.
func (h *hostWriter) row(g *Geometry, row int32, tokens int, token func(column, ordinal int) int) {
	columns := (tokens + g.ChunkTokens - 1) / g.ChunkTokens * g.TokenBursts
	opened := 0
	for column := range columns {
		for ordinal := range g.Banks {
			if token(column, ordinal) >= tokens {
				continue
			}
			a := dram.Address{Row: row, Column: int32(column)}
			a.BankGroup, a.Bank = g.Bank(ordinal)
			opened = h.open(g, row, opened, ordinal, a)
			h.at(dram.WR, a)
		}
	}
	h.at(dram.PREA, allBankAddress)
}

// open activates banks up to ordinal, and further ones as long as their
// activation does not hold up the write at a. It returns the number of open banks.
func (h *hostWriter) open(g *Geometry, row int32, opened, ordinal int, a dram.Address) int {
	for opened < g.Banks {
		next := dram.Address{Row: row, Column: -1}
		next.BankGroup, next.Bank = g.Bank(opened)
		write := max(h.now+1, h.state.Earliest(dram.WR, a))
		if opened > ordinal && max(h.now+1, h.state.Earliest(dram.ACT, next)) >= write {
			break
		}
		h.at(dram.ACT, next)
		opened++
	}
	return opened
}

// receiver interrupts a run by a transfer.
type receiver struct {
	transfer *Transfer
	from     int64 // clock from which the transfer waits
	start    int64 // first command of the transfer
	end      int64 // banks precharged after it
}

// Receive lets the next run give way to a transfer, which waits from a clock on
// for the next boundary (Spec.TransferBoundary).
func (m *Machine) Receive(t *Transfer, from int64) {
	m.receiver = receiver{transfer: t, from: from}
}

// gaveWay lets the transfer in if it waits and the bank sequencer, about to
// issue at clock, stands at a boundary.
func (m *Machine) gaveWay(clock int64) bool {
	r := &m.receiver
	in := m.queues[BankSequencer].front()
	if clock < r.from || !m.atBoundary(in) {
		return false
	}
	h := hostWriter{state: m.state, now: m.now, issue: func(cmd dram.Command, a dram.Address, clock int64) {
		m.counters.Commands[cmd]++
		if m.observer != nil {
			m.observer.Command(clock, cmd, a, nil)
		}
	}}
	open := in.Boundary == NoBoundary
	if open {
		h.at(dram.PREA, allBankAddress)
	}
	r.start = h.now + 1
	r.end = h.write(r.transfer)
	r.transfer = nil
	if open {
		m.reactivate(&h, in.Row)
	}
	m.now = h.now
	m.firm = [sequencers]bool{}
	return true
}

// atBoundary reports whether a transfer may interrupt before the instruction.
func (m *Machine) atBoundary(in *Instruction) bool {
	switch {
	case in.Boundary == HeadBoundary:
		return true
	case m.spec.TransferBoundary == BoundaryHead:
		return false
	case in.Boundary == RowBoundary:
		return true
	case m.spec.TransferBoundary == BoundaryRow || in.Query != 0:
		return false
	}
	g := &m.program.Geometry
	return in.Op == OpScore && in.Burst == 0 || in.Op == OpContext && int(in.Token)%g.ChunkTokens == 0
}

// reactivate opens the row that a transfer within it closed.
func (m *Machine) reactivate(h *hostWriter, row int32) {
	a := dram.Address{BankGroup: -1, Bank: -1, Row: row, Column: -1}
	if m.program.simultaneous {
		h.at(dram.ACTA, a)
		return
	}
	for b := range m.program.Geometry.Banks {
		a.BankGroup, a.Bank = m.program.Geometry.Bank(b)
		h.at(dram.ACT, a)
	}
}

// TransferMeasurement is what a transfer costs the rank that receives it, and
// the channel.
type TransferMeasurement struct {
	WaitClocks  int64   // from the request to the first command, at the boundary
	WriteClocks int64   // from there to banks precharged
	BusShare    float64 // of WriteClocks in which data moved
	LostClocks  int64   // by which the receiving rank's heads were done later
	// ComputeShare is the part of all ranks' computing that remains while the
	// channel transfers: the other ranks have command and data buses of their own and
	// do not stop.
	ComputeShare float64
}

// MeasureTransfer runs heads of context tokens on a rank and interrupts them at
// clock from by a transfer of tokens tokens of another head, on a channel of
// ranks ranks.
func MeasureTransfer(spec *Spec, d *dram.Spec, shape HeadShape, ranks, context, tokens int, from int64) (*TransferMeasurement, error) {
	if ranks < 1 || tokens < 1 || from < 0 {
		return nil, &input.InputError{Key: "tokens", Value: fmt.Sprint(tokens), Expected: "at least one token and one rank"}
	}
	b, err := newTableBuilder(spec, d, shape)
	if err != nil {
		return nil, err
	}
	b.machine.SkipRepetitions(false)
	h := Head{Context: context, Append: true}
	heads := []Head{h, h, h}
	undisturbed := b.ends(heads...)[len(heads)-1]
	first := int32(b.program.Geometry.Rows(context))
	t := &Transfer{Geometry: b.program.Geometry, FirstRow: first, Tokens: tokens}
	b.machine.Receive(t, from)
	end := b.ends(heads...)[len(heads)-1]
	r := b.machine.receiver
	if r.end == 0 {
		return nil, &input.InputError{Key: "from", Value: fmt.Sprint(from), Expected: fmt.Sprintf("a clock before the last boundary of %d", undisturbed)}
	}
	m := &TransferMeasurement{WaitClocks: r.start - from, WriteClocks: r.end - r.start, LostClocks: end - undisturbed}
	m.BusShare = float64(t.Bursts()*int64(d.BurstClocks())) / float64(m.WriteClocks)
	m.ComputeShare = 1 - float64(m.LostClocks)/(float64(ranks)*float64(m.WriteClocks))
	return m, nil
}
