package pim

import (
	"github.com/l3sim/l3sim/dram"
)

// transfer moves the keys and values of successive tokens of one head between the host and a rank's banks. The prefill of a
// request sends them down (L3, section 5.1); a host that swaps the request out reads them back. The host goes row by row,
// keys before values, and within a row column by column over all banks, so that bursts follow each other at tCCD_S. Each row
// is opened, moved and closed.
type transfer struct {
	geometry Geometry
	firstRow int32 // of the head
	first    int   // the first token
	tokens   int
	// readBack moves them to the host. What is read passes the re-layout unit, so
	// that the host has it Exchange.Delay clocks later.
	readBack bool
}

// bursts returns the bursts of the transfer: keys and values.
func (t *transfer) bursts() int64 { return 2 * int64(t.tokens) * int64(t.geometry.TokenBursts) }

// hostHead is the Head of a transfer's instructions, which belong to no head of a program.
const hostHead = -1

// burstOrder goes over the bursts of the tokens [from, to) of one row, in the order in which the host moves them.
type burstOrder struct {
	geometry   *Geometry
	kv         KV
	from, to   int   // tokens of the row
	column     int32 // of the next burst
	end        int32 // behind the last column
	ordinal    int   // of the bank of the next burst
	token      int   // of the row, of the current burst
	burst      int   // of the token's vector
	bank       int   // ordinal of the current burst's bank
	bankColumn int32 // its column
}

// newBurstOrder walks the bursts of tokens from to to, column by column, as the transfer sends them.
func newBurstOrder(g *Geometry, kv KV, from, to int) burstOrder {
	o := burstOrder{geometry: g, kv: kv, from: from, to: to}
	if kv == Key {
		o.column, o.end = g.keyColumn(from), g.keyColumn(to-1)+int32(g.TokenBursts)
	} else {
		o.column, o.end = g.valueColumn(from), g.valueColumn(to-1)+1
	}
	return o
}

// next moves on to the next burst; false at the end.
func (o *burstOrder) next() bool {
	for o.column < o.end {
		o.bank, o.bankColumn = o.ordinal, o.column
		o.token, o.burst = o.geometry.rowToken(o.kv, o.bank, o.bankColumn)
		if o.ordinal++; o.ordinal == o.geometry.Banks {
			o.ordinal = 0
			o.column++
		}
		if o.token >= o.from && o.token < o.to {
			return true
		}
	}
	return false
}

// newHostStream returns a stream on an idle rank that does not refresh.
func newHostStream(d *dram.Spec) *hostStream {
	lengths := commandLengths(d)
	return &hostStream{state: dram.NewState(d, 1, programCommands...), refresh: &refreshManager{}, lengths: &lengths, now: -1}
}

// closed returns the first clock at which a row may be opened once all banks have been closed. In DDR5 only the
// second clock of an ACT counts: it begins a clock before a REF.
func (h *hostStream) closed() int64 {
	return h.state.Earliest(dram.REF, allBankAddress) + h.lengths[dram.REF] - h.lengths[dram.ACT]
}

// restart returns to clock 0.
func (h *hostStream) restart() {
	h.state.Reset()
	h.now, h.free = -1, 0
}

// hostStream issues a host's commands on a rank whose banks are closed, each at its first legal clock. Like a memory
// controller it activates banks ahead of the bursts. Before each row, while the banks are closed, it lets the rank refresh.
type hostStream struct {
	state   *dram.State
	refresh *refreshManager
	observe func(clock int64, in *instruction) // sees every command; may be nil
	lengths *[dram.Commands]int64              // clocks that each command takes on its bus
	now     int64                              // clock of the latest command
	free    int64                              // first clock at which the command bus is free
	in      instruction                        // the latest
	opened  uint64                             // banks of the current row that are open, by ordinal
}

// move issues the whole transfer. It returns the clock from which rows may
// be opened again, and the clock behind the last beat on the host's side.
func (h *hostStream) move(t *transfer) (closed, last int64) {
	g, end := &t.geometry, t.first+t.tokens
	span := hostRowSpan(g, h.state.Spec())
	for first := t.first; first < end; {
		from := first % g.RowTokens
		to := min(g.RowTokens, from+end-first)
		rows := int64(g.Rows(from + end - first))
		h.payRefreshes(span, rows*span)
		h.row(t, Key, first-from, from, to)
		h.payRefreshes(span, (rows-1)*span)
		last = h.row(t, Value, first-from, from, to)
		first += to - from
	}
	return h.closed(), last
}

// row moves the keys or the values of the tokens [from, to) of the row that begins
// with token base. It returns the clock behind the last beat on the host's side.
func (h *hostStream) row(t *transfer, kv KV, base, from, to int) int64 {
	g, d := &t.geometry, h.state.Spec()
	row := t.firstRow + g.keyRow(base) + int32(kv)
	cmd, op, latency := dram.WR, opAppendKey+operation(kv), d.CWL
	if t.readBack {
		x, _ := NewExchange(g.elementBits, d) // a geometry's widths are valid
		cmd, op, latency = dram.RD, opReadKey+operation(kv), d.CL+x.Delay()
	}
	h.opened = 0
	bursts := newBurstOrder(g, kv, from, to)
	ahead := bursts
	closed := h.nextClosed(&ahead)
	for bursts.next() {
		in := bankCommand(g, cmd, op, bursts.bank, row, bursts.bankColumn)
		in.token, in.burst = int32(base+bursts.token), uint8(bursts.burst)
		for closed {
			open := bankCommand(g, dram.ACT, opActivate, ahead.bank, row, -1)
			if h.opened>>bursts.bank&1 != 0 && h.earliest(&open) > h.earliest(&in) {
				break // it would hold up the burst
			}
			h.command(open)
			h.opened |= 1 << ahead.bank
			closed = h.nextClosed(&ahead)
		}
		h.command(in)
	}
	last := h.now + int64(latency+d.BurstClocks())
	h.command(allBanks(dram.PREA, opPrecharge, -1, -1))
	return last
}

// nextClosed moves on to the next burst whose bank has not been opened.
func (h *hostStream) nextClosed(o *burstOrder) bool {
	for o.next() {
		if h.opened>>o.bank&1 == 0 {
			return true
		}
	}
	return false
}

// earliest returns the first legal clock of an instruction.
func (h *hostStream) earliest(in *instruction) int64 {
	return max(h.free, h.state.Earliest(in.command, in.address()))
}

// command issues an instruction at its first legal clock.
func (h *hostStream) command(in instruction) {
	in.head = hostHead
	h.in = in
	h.now = h.earliest(&in)
	h.free = h.now + h.lengths[in.command]
	h.state.Issue(in.command, in.address(), h.now)
	if h.observe != nil {
		h.observe(h.now, &h.in)
	}
}

// payRefreshes issues, while all banks are closed, the REFs that keep the debt within the limit for the next span clocks,
// and for whole clocks where that can be achieved at once.
func (h *hostStream) payRefreshes(span, whole int64) {
	if !h.refresh.on {
		return
	}
	at := func() int64 { return max(h.free, h.state.Earliest(dram.REF, allBankAddress)) }
	for n := h.refresh.toPay(at(), h.refresh.owed(at()), span, whole); n > 0; n-- {
		h.refresh.pay(at())
		h.command(allBanks(dram.REF, opPrecharge, -1, -1))
	}
}

// columnGap returns the clocks between two reads, or two writes, of one bank group, whichever is more.
func columnGap(d *dram.Spec) (clocks int) {
	for _, c := range d.Constraints() {
		if c.Scope == dram.SameBankGroup && c.Command == c.Next && (c.Command == dram.RD || c.Command == dram.WR) {
			clocks = max(clocks, c.Clocks)
		}
	}
	return clocks
}

// hostRowSpan returns a bound of the clocks in which the host moves a row: all its
// bursts, one bank group after another, and opening and closing it.
func hostRowSpan(g *Geometry, d *dram.Spec) int64 {
	each := max(d.TCCDS, (columnGap(d)+g.bankGroups-1)/g.bankGroups)
	bursts := g.rowBursts * g.Banks * each
	return int64(bursts+max(d.CL, d.CWL)+d.BurstClocks()+d.TRCD+d.TWR+d.TRP+d.TRC) + activationSpan(d, false)
}

// rowClocks runs n tokens of a row from token from on.
func (h *hostStream) rowClocks(g *Geometry, kv KV, from, n int) int64 {
	h.restart()
	h.row(&transfer{geometry: *g}, kv, 0, from, from+n)
	return h.closed()
}

// rowBackClocks reads a whole row of tokens back, until all banks are precharged and the host has the last beat.
func (h *hostStream) rowBackClocks(g *Geometry, kv KV) int64 {
	h.restart()
	last := h.row(&transfer{geometry: *g, readBack: true}, kv, 0, 0, g.RowTokens)
	return max(last, h.closed())
}

// every returns the clocks between two bursts of a command for the whole rank.
func (h *hostStream) every(cmd dram.Command) int64 {
	h.restart()
	h.command(allBanks(cmd, opLoadQuery, -1, -1))
	first := h.now
	h.command(allBanks(cmd, opLoadQuery, -1, -1))
	return h.now - first
}
