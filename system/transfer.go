package system

import "github.com/l3sim/l3sim/sim"

// transfer is one task of the down link: a group's decode vectors, or the keys
// and values of a sub-batch's prompt tokens that go to one rankset.
type transfer struct {
	eligible    sim.Time // its data can start: request time + link latency
	layer       int32
	pieces      int32 // left, the current one included
	group, rank int16
	prompt      bool // prompt keys and values
}

// fifo is a queue of transfers that reuses its memory.
type fifo struct {
	items []transfer
	head  int
}

func (f *fifo) push(t transfer) {
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	f.items = append(f.items, t)
}

func (f *fifo) empty() bool      { return f.head == len(f.items) }
func (f *fifo) first() *transfer { return &f.items[f.head] }
func (f *fifo) rest() []transfer { return f.items[f.head:] }
func (f *fifo) reset()           { f.items, f.head = f.items[:0], 0 }

// piece takes one piece of the first transfer, and the transfer with its last.
func (f *fifo) piece() transfer {
	t := f.items[f.head]
	if t.pieces == 1 {
		f.head++
	} else {
		f.items[f.head].pieces--
	}
	return t
}

// downLink is the PCIe links from the GPUs to the memory. The links of a
// replica's GPUs carry equal shares of every transfer and are one resource.
// Decode vectors go before prompts: attention waits for the former, nothing in
// the layer for the latter (L3, section 5.1).
type downLink struct {
	busy            bool
	current         transfer
	end             sim.Time
	decode, prompts fifo
}

func (d *downLink) reset() {
	d.busy = false
	d.decode.reset()
	d.prompts.reset()
}

// next returns when the idle link can start the next piece.
func (d *downLink) next(now sim.Time) sim.Time {
	at := never
	if !d.decode.empty() {
		at = max(now, d.decode.first().eligible)
	}
	if !d.prompts.empty() {
		at = min(at, max(now, d.prompts.first().eligible))
	}
	return at
}

// writer is the memory controllers' buffers, if they have any: they collect
// pieces from the links and write them to the ranksets at the channels' rate.
type writer struct {
	busy    bool
	current transfer
	end     sim.Time
	queue   fifo
}

func (w *writer) reset() {
	w.busy = false
	w.queue.reset()
}

// upLink is the PCIe links from the memory to the GPUs, which serve results in
// the order in which attention ends: their times are known then. It is busy, or
// will be, within [begin, end).
type upLink struct{ begin, end sim.Time }

// sendUp returns the span in which results that are ready now go up.
func (p *pipeline) sendUp(c *groupCost) (begin, end sim.Time) {
	u := &p.up
	begin = max(u.end, p.now+p.costs.upLatency)
	if p.costs.halfDuplex {
		begin = max(begin, p.writingUntil())
	}
	if begin > u.end {
		u.begin = begin
	}
	u.end = begin + c.up
	p.work.pcieUp += c.up
	p.work.channel += c.upBus
	p.work.requestsUp += int64(c.requests)
	p.work.tasks++
	return begin, u.end
}

// writingUntil returns the end of the data that the channels carry down.
func (p *pipeline) writingUntil() sim.Time {
	switch {
	case p.writer.busy:
		return p.writer.end
	case p.down.busy && !p.costs.buffered:
		return p.down.end
	}
	return p.now
}

// transfer returns a transfer of group (s, offset) in its current layer.
func (p *pipeline) transfer(s, offset, pieces int) transfer {
	layer := p.sub[s].layer
	return transfer{
		eligible: p.now + p.costs.latency, layer: int32(layer), pieces: int32(pieces),
		group: int16(s*len(p.ranks) + offset), rank: int16(p.rankOf(offset, layer)),
	}
}

// queuePrompts queues the keys and values of the prompt tokens of sub-batch s in
// its layer and returns the number of transfers.
func (p *pipeline) queuePrompts(s int) int {
	n := 0
	groups := p.costs.sub[s].groups
	for offset := range groups {
		if groups[offset].promptTokens > 0 {
			t := p.transfer(s, offset, groups[offset].prompt.pieces)
			t.prompt = true
			p.down.prompts.push(t)
			n++
		}
	}
	return n
}

// wakeDown sets when the down link, if it is idle, can start its next piece.
func (p *pipeline) wakeDown() {
	if !p.down.busy {
		p.set(dueDown, p.down.next(p.now))
	}
}

// stepDown ends the piece in transfer, if one is, and starts the next that can.
func (p *pipeline) stepDown() {
	d := &p.down
	if d.busy {
		d.busy = false
		if p.costs.buffered {
			p.writer.queue.push(d.current)
			p.startWriter()
		} else {
			p.delivered(&d.current)
		}
		if next := d.next(p.now); next > p.now {
			p.set(dueDown, next)
			return
		}
	}
	if d.decode.empty() || d.decode.first().eligible > p.now {
		d.current = d.prompts.piece()
	} else {
		d.current = d.decode.piece()
	}
	d.busy = true
	c := p.shipment(&d.current)
	length := c.link
	if d.current.pieces == 1 {
		length = c.last
		p.work.channel += c.data
	}
	begin := p.now
	if p.costs.buffered {
		d.end = begin + length
	} else {
		begin, d.end = p.claim(&d.current, length)
	}
	p.set(dueDown, d.end)
	p.work.pcieDown += length
	p.work.tasks++
	if p.check != nil {
		p.check.down(p, begin, d.end)
	}
	if p.spans != nil {
		p.spans.down(p, begin, d.end)
	}
}

// shipment returns the cost of a transfer.
func (p *pipeline) shipment(t *transfer) *shipment {
	if t.prompt {
		return &p.costs.groups[t.group].prompt
	}
	return &p.costs.groups[t.group].decode
}

// startWriter writes the next collected piece, if there is one and the writer is
// idle.
func (p *pipeline) startWriter() {
	w := &p.writer
	if w.busy || w.queue.empty() {
		return
	}
	w.current = w.queue.items[w.queue.head]
	w.queue.head++
	c := p.shipment(&w.current)
	length := c.bus
	if w.current.pieces == 1 {
		length = c.end
	}
	w.busy = true
	_, w.end = p.claim(&w.current, length)
	p.set(dueWriter, w.end)
}

// written ends the piece that the writer writes.
func (p *pipeline) written() {
	p.writer.busy = false
	p.set(dueWriter, never)
	p.delivered(&p.writer.current)
	p.startWriter()
}

// delivered handles a piece that has reached its rankset; the last of a group's
// decode vectors has its attention start, or wait for the rankset.
func (p *pipeline) delivered(t *transfer) {
	if t.pieces > 1 {
		return
	}
	if t.prompt {
		p.work.promptTokens += int64(p.costs.groups[t.group].promptTokens)
		if s, _ := p.split(int32(t.group)); !p.costs.asyncPrefill {
			p.sub[s].prompts--
			p.sub[s].resultsAt = max(p.sub[s].resultsAt, p.now)
			p.awaitBlock(s)
		}
		return
	}
	p.work.requestsDown += int64(p.costs.groups[t.group].requests)
	if p.check != nil {
		p.check.arrived(p, t)
	}
	q := int(t.rank)
	r := &p.ranks[q]
	if r.running != none || r.nWaiting > 0 {
		r.waiting[r.nWaiting] = int32(t.group)
		r.nWaiting++
		return
	}
	p.startAttention(q, int32(t.group), max(p.now, r.freeAt))
}

// claim stops the receiving rankset at its next boundary, gives the span of the
// data, and lets the rankset resume (L3, section 5.1: only this rankset stops
// computing). Without concurrent communication and computation, all ranksets
// stop.
func (p *pipeline) claim(t *transfer, length sim.Time) (begin, end sim.Time) {
	c, s := p.costs, p.shipment(t)
	first, last := int(t.rank), int(t.rank)+1
	if !c.concurrent {
		first, last = 0, len(p.ranks)
	}
	for q := first; q < last; q++ {
		begin = max(begin, p.leave(q))
	}
	begin += s.open
	if c.halfDuplex && begin < p.up.end && begin+length > p.up.begin {
		begin = p.up.end
	}
	end = begin + length
	for q := first; q < last; q++ {
		r := &p.ranks[q]
		r.freeAt = end + s.close
		if r.stop != never {
			if r.active {
				r.freeAt += c.reactivate
			}
			p.due[q] += r.freeAt - r.stop
			if p.check != nil {
				p.check.interrupt(p, q, r.stop, r.freeAt)
			}
			if p.spans != nil {
				p.spans.interrupt(q, r.stop, r.freeAt)
			}
		}
		if p.check != nil {
			p.check.claimed(p, q, begin, end)
		}
	}
	return begin, end
}

// leave returns when rankset q has left its work: at its running group's next
// boundary, which it keeps in its state, or never where nothing is interrupted.
// A group that has not begun has no row active to leave.
func (p *pipeline) leave(q int) sim.Time {
	r := &p.ranks[q]
	left := max(p.now, r.freeAt)
	r.stop = never
	if r.running == none {
		return left
	}
	remaining := p.due[q] - left
	g := &p.costs.groups[r.running]
	r.active = remaining < g.compute
	if !r.active {
		r.stop = left
		return left
	}
	wait := p.costs.boundaryWait(g, g.compute-remaining)
	if wait >= remaining {
		return left + remaining
	}
	r.stop = left + wait
	return r.stop + p.costs.vacate
}
