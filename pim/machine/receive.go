package machine

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// receiver interrupts a run by a transfer.
type receiver struct {
	transfer *Transfer
	from     int64 // clock from which the transfer waits
	start    int64 // first command of the transfer
	End      int64 // banks precharged after it
}

// Receive lets the next run give way to a transfer, which waits from a clock on
// for the next boundary (Spec.TransferBoundary).
func (m *Machine) Receive(t *Transfer, from int64) {
	m.Receiver = receiver{transfer: t, from: from}
}

// gaveWay lets the transfer in if it waits and the bank sequencer, about to issue at clock, stands at a boundary.
func (m *Machine) gaveWay(clock int64) bool {
	r := &m.Receiver
	in := m.queues[BankSequencer].front()
	if clock < r.from || !m.atBoundary(in) {
		return false
	}
	h := hostStream{state: m.state, Refresh: &m.Refresh, lengths: &m.lengths, now: m.now, free: m.free, Observe: m.hostCommand}
	open := in.boundary == noBoundary
	if open {
		h.command(AllBanks(dram.PREA, OpPrecharge, -1, -1))
	}
	r.start = h.free
	r.End, _ = h.Move(r.transfer)
	r.transfer = nil
	if open {
		span := m.program.boundarySpan(in, false)
		h.payRefreshes(span, span)
		m.reactivate(&h, in.Row)
	}
	m.Refresh.checked = false // the transfer took time
	m.now, m.free = h.now, h.free
	return true
}

// hostCommand counts and passes on a command of a transfer.
func (m *Machine) hostCommand(clock int64, in *Instruction) {
	m.Counters.Commands[in.Command]++
	if m.Observe == nil {
		return
	}
	cmd, a := in.Command, in.Address()
	if cmd == dram.REF {
		in = nil
	}
	m.Observe(clock, cmd, a, in)
}

// atBoundary reports whether a transfer may interrupt before the instruction.
func (m *Machine) atBoundary(in *Instruction) bool {
	switch {
	case in.boundary == headBoundary:
		return true
	case m.Spec.TransferBoundary == pim.BoundaryHead:
		return false
	case in.boundary == rowBoundary:
		return true
	case m.Spec.TransferBoundary == pim.BoundaryRow || in.Query != 0:
		return false
	}
	g := &m.program.Geometry
	return in.Op == OpScore && in.Burst == 0 || in.Op == OpContext && int(in.Token)%g.ChunkTokens == 0
}

// reactivate opens the row that a transfer within it closed.
func (m *Machine) reactivate(h *hostStream, row int32) {
	if m.program.simultaneous {
		h.command(AllBanks(dram.ACTA, OpActivate, row, -1))
		return
	}
	g := &m.program.Geometry
	for b := range g.Banks {
		h.command(bankCommand(g, dram.ACT, OpActivate, b, row, -1))
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
func MeasureTransfer(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, ranks, context, tokens int, from int64) (*TransferMeasurement, error) {
	if ranks < 1 || tokens < 1 || from < 0 {
		return nil, &input.Error{Key: "tokens", Value: fmt.Sprint(tokens), Expected: "at least one token and one rank"}
	}
	b, err := NewRunner(spec, d, shape)
	if err != nil {
		return nil, err
	}
	b.Machine.Repeats.On = false
	h := Head{Context: context, Appends: true}
	heads := []Head{h, h, h}
	undisturbed := b.Ends(heads...)[len(heads)-1]
	first := int32(b.Program.Geometry.Rows(context))
	t := &Transfer{Geometry: b.Program.Geometry, FirstRow: first, Tokens: tokens}
	b.Machine.Receive(t, from)
	end := b.Ends(heads...)[len(heads)-1]
	r := b.Machine.Receiver
	if r.End == 0 {
		return nil, &input.Error{Key: "from", Value: fmt.Sprint(from), Expected: fmt.Sprintf("a clock before the last boundary of %d", undisturbed)}
	}
	m := &TransferMeasurement{WaitClocks: r.start - from, WriteClocks: r.End - r.start, LostClocks: end - undisturbed}
	m.BusShare = float64(t.Bursts()*int64(d.BurstClocks())) / float64(m.WriteClocks)
	m.ComputeShare = 1 - float64(m.LostClocks)/(float64(ranks)*float64(m.WriteClocks))
	return m, nil
}
