package machine

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
)

// Transfer moves the keys and values of successive tokens of one head between the host and a rank's banks. The prefill of a request writes
// them (L3, section 5.1); a host that swaps the request out reads them back. The host proceeds row by row, keys before values, and within a
// row column by column over all banks, so that bursts follow each other at tCCD_S. It opens each row, moves its data and closes it.
type Transfer struct {
	Geometry pim.Geometry
	FirstRow int32 // of the head
	First    int   // the first token
	Tokens   int
	// ReadBack moves data to the host. It passes the re-layout unit, so the host receives it Exchange.Delay clocks later.
	ReadBack bool
}

// Bursts returns the bursts of the transfer: keys and values.
func (t *Transfer) Bursts() int64 {
	bursts := t.Geometry.KeyBursts
	if !t.Geometry.InKey {
		bursts += t.Geometry.ValueBursts
	}
	return int64(t.Tokens) * int64(bursts)
}

// HostHead is the Head of a transfer's instructions, which belong to no head of the program.
const HostHead = -1

// burstOrder iterates over the bursts of the tokens [from, to) of one row, in the order in which the host moves them.
type burstOrder struct {
	geometry   *pim.Geometry
	kv         pim.KV
	from, to   int   // tokens of the row
	column     int32 // of the next burst
	end        int32 // after the last column
	ordinal    int   // of the bank of the next burst
	token      int   // token of the row that the current burst belongs to
	burst      int   // index of the burst in the token's vector
	bank       int   // ordinal of the current burst's bank
	bankColumn int32 // its column
}

// newBurstOrder iterates from token from up to, excluding, to.
func newBurstOrder(g *pim.Geometry, kv pim.KV, from, to int) burstOrder {
	o := burstOrder{geometry: g, kv: kv, from: from, to: to}
	if kv == pim.Key || g.InKey {
		o.column, o.end = g.KeyColumn(from), g.KeyColumn(to-1)+int32(g.KeyBursts)
	} else {
		o.column, o.end = g.ValueColumn(from), g.ValueColumn(to-1)+1
	}
	return o
}

// next moves to the next burst, and returns false at the end.
func (o *burstOrder) next() bool {
	for o.column < o.end {
		o.bank, o.bankColumn = o.ordinal, o.column
		o.token, o.burst = o.geometry.RowToken(o.kv, o.bank, o.bankColumn)
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

// NewHostStream returns a stream on an idle rank that does not refresh.
func NewHostStream(d *dram.Spec) *hostStream {
	lengths := commandLengths(d)
	return &hostStream{state: dram.NewState(d, 1, programCommands...), Refresh: &refreshManager{}, lengths: &lengths, now: -1}
}

// closed returns the first clock at which a row may be opened after all banks have been closed. In DDR5 only the second clock of an ACT
// counts, so it may begin one clock earlier than a REF.
func (h *hostStream) closed() int64 {
	return h.state.Earliest(dram.REF, allBankAddress) + h.lengths[dram.REF] - h.lengths[dram.ACT]
}

// restart returns to clock 0.
func (h *hostStream) restart() {
	h.state.Reset()
	h.now, h.free = -1, 0
}

// hostStream issues a host's commands on a rank whose banks are closed, each at its first legal clock. Like a memory controller, it
// activates banks ahead of the bursts. Before each row, while the banks are closed, it lets the rank refresh.
type hostStream struct {
	state   *dram.State
	Refresh *refreshManager
	Observe func(clock int64, in *Instruction) // called for every command; may be nil
	lengths *[dram.Commands]int64              // clocks of each command on its bus
	now     int64                              // clock of the latest command
	free    int64                              // first clock at which the command bus is free
	in      Instruction                        // the latest instruction
	opened  uint64                             // banks of the current row that are open, by ordinal
}

// Move issues the whole transfer. It returns the clock from which rows may be opened again, and the clock after the last beat on the host's
// side.
func (h *hostStream) Move(t *Transfer) (closed, last int64) {
	g, end := &t.Geometry, t.First+t.Tokens
	span := int64(0)
	if h.Refresh.On {
		span = hostRowSpan(g, h.state.Spec())
	}
	for first := t.First; first < end; {
		from := first % g.RowTokens
		to := min(g.RowTokens, from+end-first)
		rows := int64(g.Rows(from + end - first))
		h.payRefreshes(span, rows*span)
		last = h.row(t, pim.Key, first-from, from, to)
		if !g.InKey {
			h.payRefreshes(span, (rows-1)*span)
			last = h.row(t, pim.Value, first-from, from, to)
		}
		first += to - from
	}
	return h.closed(), last
}

// row moves the keys or the values of the tokens [from, to) of the row whose first token is base. It returns the clock after the last beat
// on the host's side.
func (h *hostStream) row(t *Transfer, kv pim.KV, base, from, to int) int64 {
	g, d := &t.Geometry, h.state.Spec()
	row := t.FirstRow + g.KeyRow(base) + int32(kv)
	cmd, op, latency := dram.WR, OpAppendKey+Operation(kv), d.CWL
	if t.ReadBack {
		x, _ := pim.NewExchange(g.ElementBits, d) // on an error nothing is rearranged or delayed
		cmd, op, latency = dram.RD, OpReadKey+Operation(kv), d.CL+x.Delay()
	}
	h.opened = 0
	bursts := newBurstOrder(g, kv, from, to)
	ahead := bursts
	closed := h.nextClosed(&ahead)
	for bursts.next() {
		in := bankCommand(g, cmd, op, bursts.bank, row, bursts.bankColumn)
		in.Token, in.Burst = int32(base+bursts.token), uint8(bursts.burst)
		for closed {
			open := bankCommand(g, dram.ACT, OpActivate, ahead.bank, row, -1)
			if h.opened>>bursts.bank&1 != 0 && h.earliest(&open) > h.earliest(&in) {
				break // it would delay the burst
			}
			h.command(open)
			h.opened |= 1 << ahead.bank
			closed = h.nextClosed(&ahead)
		}
		h.command(in)
	}
	last := h.now + int64(latency+d.BurstClocks())
	h.command(AllBanks(dram.PREA, OpPrecharge, -1, -1))
	return last
}

// nextClosed moves to the next burst whose bank has not been opened.
func (h *hostStream) nextClosed(o *burstOrder) bool {
	for o.next() {
		if h.opened>>o.bank&1 == 0 {
			return true
		}
	}
	return false
}

func (h *hostStream) earliest(in *Instruction) int64 {
	return max(h.free, h.state.Earliest(in.Command, in.Address()))
}

// command issues an instruction at its first legal clock.
func (h *hostStream) command(in Instruction) {
	in.Head = HostHead
	h.in = in
	h.now = h.earliest(&in)
	h.free = h.now + h.lengths[in.Command]
	h.state.Issue(in.Command, in.Address(), h.now)
	if h.Observe != nil {
		h.Observe(h.now, &h.in)
	}
}

// payRefreshes issues, while all banks are closed, the REFs that keep the debt within the limit for the next span clocks and, if one
// payment suffices, for whole clocks.
func (h *hostStream) payRefreshes(span, whole int64) {
	if !h.Refresh.On {
		return
	}
	at := func() int64 { return max(h.free, h.state.Earliest(dram.REF, allBankAddress)) }
	for n := h.Refresh.toPay(at(), h.Refresh.owed(at()), span, whole); n > 0; n-- {
		h.Refresh.pay(at())
		h.command(AllBanks(dram.REF, OpPrecharge, -1, -1))
	}
}

// columnGap returns the larger of the clocks between two reads and between two writes of one bank group.
func columnGap(d *dram.Spec) (clocks int) {
	for _, c := range d.Constraints() {
		if c.Scope == dram.SameBankGroup && c.Command == c.Next && (c.Command == dram.RD || c.Command == dram.WR) {
			clocks = max(clocks, c.Clocks)
		}
	}
	return clocks
}

// hostRowSpan returns a bound on the clocks in which the host moves a row: all its bursts one bank group after another, with opening and
// closing.
func hostRowSpan(g *pim.Geometry, d *dram.Spec) int64 {
	each := max(d.TCCDS, (columnGap(d)+g.BankGroups-1)/g.BankGroups, spacing(d, dram.RD), spacing(d, dram.WR))
	bursts := g.RowBursts * g.Banks * each
	return int64(bursts+max(d.CL, d.CWL)+d.BurstClocks()+d.TRCD+d.TWR+d.TRP+d.TRC) + pim.ActivationSpan(d, false)
}

// RowClocks returns the clocks to write n tokens of a row, from token from on.
func (h *hostStream) RowClocks(g *pim.Geometry, kv pim.KV, from, n int) int64 {
	h.restart()
	h.row(&Transfer{Geometry: *g}, kv, 0, from, from+n)
	return h.closed()
}

// RowBackClocks returns the clocks to read a whole row of tokens back, until all banks are precharged and the host has the last beat.
func (h *hostStream) RowBackClocks(g *pim.Geometry, kv pim.KV) int64 {
	h.restart()
	last := h.row(&Transfer{Geometry: *g, ReadBack: true}, kv, 0, 0, g.RowTokens)
	return max(last, h.closed())
}

// Every returns the clocks between two bursts of a command on the whole rank.
func (h *hostStream) Every(cmd dram.Command) int64 {
	h.restart()
	h.command(AllBanks(cmd, OpLoadQuery, -1, -1))
	first := h.now
	h.command(AllBanks(cmd, OpLoadQuery, -1, -1))
	return h.now - first
}
