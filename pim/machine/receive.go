package machine

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// receiver interrupts a run for a transfer.
type receiver struct {
	transfer *Transfer
	from     int64 // clock from which the transfer waits
	start    int64 // clock of its first command
	End      int64 // clock at which banks are precharged after it
}

// Receive makes the next run give way to a transfer, which waits from clock from for the next boundary (Spec.TransferBoundary).
func (m *Machine) Receive(t *Transfer, from int64) {
	m.Receiver = receiver{transfer: t, from: from}
}

// gaveWay lets a waiting transfer in, if the bank sequencer's instruction, about to issue at clock, is at a boundary.
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

// hostCommand counts a command of a transfer and passes it on.
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

// reactivate reopens the row that a transfer within it closed.
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

// TransferMeasurement is the cost of a transfer for the rank that receives it, and for the channel.
type TransferMeasurement struct {
	WaitClocks  int64   // from the request to the first command, at the boundary
	WriteClocks int64   // from that command to banks precharged
	BusShare    float64 // share of WriteClocks in which data moved
	LostClocks  int64   // delay of the receiving rank's heads
	// ComputeShare is the share of all ranks' computing that continues while the channel transfers: the other ranks have their own command
	// and data buses and do not stop.
	ComputeShare float64
}

// MeasureTransfer runs heads of context tokens on a rank of a channel with ranks ranks. At clock from, it interrupts them by a transfer of
// another head's tokens.
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
