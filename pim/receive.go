package pim

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// receiver interrupts a run by a transfer.
type receiver struct {
	transfer *transfer
	from     int64 // clock from which the transfer waits
	start    int64 // first command of the transfer
	end      int64 // banks precharged after it
}

// receive lets the next run give way to a transfer, which waits from a clock on
// for the next boundary (Spec.TransferBoundary).
func (m *machine) receive(t *transfer, from int64) {
	m.receiver = receiver{transfer: t, from: from}
}

// gaveWay lets the transfer in if it waits and the bank sequencer, about to issue at clock, stands at a boundary.
func (m *machine) gaveWay(clock int64) bool {
	r := &m.receiver
	in := m.queues[bankSequencer].front()
	if clock < r.from || !m.atBoundary(in) {
		return false
	}
	h := hostStream{state: m.state, refresh: &m.refresh, lengths: &m.lengths, now: m.now, free: m.free, observe: m.hostCommand}
	open := in.boundary == noBoundary
	if open {
		h.command(allBanks(dram.PREA, opPrecharge, -1, -1))
	}
	r.start = h.free
	r.end, _ = h.move(r.transfer)
	r.transfer = nil
	if open {
		span := m.program.boundarySpan(in, false)
		h.payRefreshes(span, span)
		m.reactivate(&h, in.row)
	}
	m.refresh.checked = false // the transfer took time
	m.now, m.free = h.now, h.free
	return true
}

// hostCommand counts and passes on a command of a transfer.
func (m *machine) hostCommand(clock int64, in *instruction) {
	m.counters.commands[in.command]++
	if m.observe == nil {
		return
	}
	cmd, a := in.command, in.address()
	if cmd == dram.REF {
		in = nil
	}
	m.observe(clock, cmd, a, in)
}

// atBoundary reports whether a transfer may interrupt before the instruction.
func (m *machine) atBoundary(in *instruction) bool {
	switch {
	case in.boundary == headBoundary:
		return true
	case m.spec.TransferBoundary == BoundaryHead:
		return false
	case in.boundary == rowBoundary:
		return true
	case m.spec.TransferBoundary == BoundaryRow || in.query != 0:
		return false
	}
	g := &m.program.geometry
	return in.op == opScore && in.burst == 0 || in.op == opContext && int(in.token)%g.ChunkTokens == 0
}

// reactivate opens the row that a transfer within it closed.
func (m *machine) reactivate(h *hostStream, row int32) {
	if m.program.simultaneous {
		h.command(allBanks(dram.ACTA, opActivate, row, -1))
		return
	}
	g := &m.program.geometry
	for b := range g.Banks {
		h.command(bankCommand(g, dram.ACT, opActivate, b, row, -1))
	}
}

// TransferMeasurement is what a transfer costs the rank that receives it, and the channel.
type TransferMeasurement struct {
	WaitClocks  int64   // from the request to the first command, at the boundary
	WriteClocks int64   // from there to banks precharged
	BusShare    float64 // of WriteClocks in which data moved
	LostClocks  int64   // by which the receiving rank's heads were done later
	// ComputeShare is the part of all ranks' computing that remains while the channel transfers: the other ranks have
	// command and data buses of their own and do not stop.
	ComputeShare float64
}

// MeasureTransfer runs heads of context tokens on a rank and interrupts them at clock from by a transfer of tokens tokens of
// another head, on a channel of ranks ranks.
func MeasureTransfer(spec *Spec, d *dram.Spec, shape HeadShape, ranks, context, tokens int, from int64) (*TransferMeasurement, error) {
	if ranks < 1 || tokens < 1 || from < 0 {
		return nil, &input.Error{Key: "tokens", Value: fmt.Sprint(tokens), Expected: "at least one token and one rank"}
	}
	b, err := newTableBuilder(spec, d, shape)
	if err != nil {
		return nil, err
	}
	b.machine.repeats.on = false
	h := headRun{context: context, appends: true}
	heads := []headRun{h, h, h}
	undisturbed := b.ends(heads...)[len(heads)-1]
	first := int32(b.program.geometry.Rows(context))
	t := &transfer{geometry: b.program.geometry, firstRow: first, tokens: tokens}
	b.machine.receive(t, from)
	end := b.ends(heads...)[len(heads)-1]
	r := b.machine.receiver
	if r.end == 0 {
		return nil, &input.Error{Key: "from", Value: fmt.Sprint(from), Expected: fmt.Sprintf("a clock before the last boundary of %d", undisturbed)}
	}
	m := &TransferMeasurement{WaitClocks: r.start - from, WriteClocks: r.end - r.start, LostClocks: end - undisturbed}
	m.BusShare = float64(t.bursts()*int64(d.BurstClocks())) / float64(m.WriteClocks)
	m.ComputeShare = 1 - float64(m.LostClocks)/(float64(ranks)*float64(m.WriteClocks))
	return m, nil
}
