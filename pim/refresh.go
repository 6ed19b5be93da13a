package pim

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// refreshManager is the rank PU's (L3, section 4.4): it owes one REF every tREFI. It pays where all banks are closed anyway:
// between two heads or two rows. At each of these boundaries it issues the REFs that keep the debt within the limit until
// the next boundary. Before a head it counts as if the head had no row boundaries, so that it interrupts a head only where
// it must.
type refreshManager struct {
	on       bool
	limit    int64 // REFs that may be owed
	ahead    int64 // REFs that may be issued ahead of time; only a row longer than tREFI times the limit needs any
	interval int64 // tREFI

	done    int64 // REFs issued
	pending int64 // REFs to issue before the bank sequencer's next instruction
	checked bool  // pending has been decided for that instruction
	maxDebt int64
}

func (r *refreshManager) init(spec *Spec, d *dram.Spec) {
	rules := d.Rules()
	r.limit, r.interval = int64(min(spec.PostponedRefreshes, rules.Postpone)), int64(d.TREFI)
	r.ahead = int64(rules.PullIn)
}

func (r *refreshManager) reset() {
	r.done, r.pending, r.checked, r.maxDebt = 0, 0, false, 0
}

// due decides, once for each boundary, how many REFs go before the bank
// sequencer's next instruction, and reports whether any is left.
func (r *refreshManager) due(m *machine) bool {
	if r.checked {
		return r.pending > 0
	}
	r.checked = true
	in := m.queues[bankSequencer].front()
	if in.boundary == noBoundary {
		return false
	}
	at := max(m.free, m.state.Earliest(dram.REF, allBankAddress))
	r.pending = r.toPay(at, r.owed(at), m.program.boundarySpan(in, false), m.program.boundarySpan(in, true))
	return r.pending > 0
}

// owed returns the REFs owed at clock.
func (r *refreshManager) owed(clock int64) int64 { return clock/r.interval - r.done }

// pay counts a REF that issues at clock.
func (r *refreshManager) pay(clock int64) {
	r.maxDebt = max(r.maxDebt, r.owed(clock))
	r.done++
}

// toPay returns the REFs to issue at clock so that the debt keeps within the limit
// over the next row, and where one payment can achieve it over the whole head.
func (r *refreshManager) toPay(clock, owed, row, head int64) int64 {
	over := func(span int64) int64 { return owed + (clock%r.interval+span)/r.interval - r.limit }
	if n := over(head); n <= owed {
		return max(n, 0)
	}
	return max(min(over(row), owed+r.ahead), 0) // fewer where some are ahead already
}

// allBankAddress is the address of commands to the whole rank.
var allBankAddress = dram.Address{BankGroup: -1, Bank: -1, Row: -1, Column: -1}

// refreshReady returns a bound of the clock of the next REF: after the results
// that are ready to be read out, since nothing else may issue within tRFC.
func (m *machine) refreshReady() int64 {
	if t := m.ready(resultSequencer); t < blocked {
		return t + 1
	}
	return max(m.free, m.state.Earliest(dram.REF, allBankAddress))
}

// issueRefresh issues one REF.
func (m *machine) issueRefresh(clock int64) {
	m.refresh.pay(clock)
	m.state.Issue(dram.REF, allBankAddress, clock)
	m.refresh.pending--
	m.take(dram.REF, clock)
	m.counters.commands[dram.REF]++
	if m.observe != nil {
		m.observe(clock, dram.REF, allBankAddress, nil)
	}
}

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
		h.command(g.bankCommand(dram.ACT, opActivate, b, row, -1))
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
