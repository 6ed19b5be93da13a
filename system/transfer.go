package system

import "github.com/l3sim/l3sim/sim"

// transfer is one task of the down link: a group's decode vectors, or the KV of
// a sub-batch's prompt tokens that go to one rankset.
type transfer struct {
	group    int32
	layer    int32
	eligible sim.Time // its data can start: request time + link latency
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
func (f *fifo) take() transfer   { f.head++; return f.items[f.head-1] }
func (f *fifo) reset()           { f.items, f.head = f.items[:0], 0 }

// downLink is the PCIe links from the GPUs to the memory. The links of a
// replica's GPUs carry equal shares of every transfer and are one resource.
// Decode vectors go before prompt KV: attention waits for the former, nothing
// in the layer for the latter (L3, section 5.1).
type downLink struct {
	busy            bool
	prefill         bool // what is in transfer
	current         transfer
	end             sim.Time
	decode, prompts fifo
}

func (d *downLink) reset() {
	d.busy = false
	d.decode.reset()
	d.prompts.reset()
}

// next returns when the link's next event is due: the end of the transfer in
// progress, or the start of the next.
func (d *downLink) next(now sim.Time) sim.Time {
	if d.busy {
		return d.end
	}
	at := never
	if !d.decode.empty() {
		at = max(now, d.decode.first().eligible)
	}
	if !d.prompts.empty() {
		at = min(at, max(now, d.prompts.first().eligible))
	}
	return at
}

func (d *downLink) queueDecode(g int32, layer int, eligible sim.Time) {
	d.decode.push(transfer{g, int32(layer), eligible})
}

// queuePrefillTransfers queues the KV of the prompt tokens of sub-batch s in its
// layer, which goes down while the block runs.
func (p *pipeline) queuePrefillTransfers(s int) {
	for offset := range p.costs.sub[s].groups {
		if p.costs.sub[s].groups[offset].prefill > 0 {
			p.down.prompts.push(transfer{p.group(s, offset), int32(p.sub[s].layer), p.now + p.costs.latency})
		}
	}
}

// stepDown ends the transfer in progress, if one is, or starts the next.
func (p *pipeline) stepDown() {
	d := &p.down
	if !d.busy {
		d.prefill = d.decode.empty() || d.decode.first().eligible > p.now
		if d.prefill {
			d.current = d.prompts.take()
		} else {
			d.current = d.decode.take()
		}
		p.claim()
		return
	}
	d.busy = false
	if d.prefill {
		return
	}
	g := d.current.group
	q := p.rankOf(g, int(d.current.layer))
	r := &p.ranks[q]
	if r.running >= 0 || r.nWaiting > 0 {
		r.waiting[r.nWaiting] = g
		r.nWaiting++
		return
	}
	p.startAttention(q, g, max(p.now, r.freeAt))
}

// claim starts the current transfer: it stops the receiving rankset at its next
// boundary, moves the data at the pace of the PCIe links, and lets the rankset
// resume (L3, section 5.1; only this rankset stops computing).
func (p *pipeline) claim() {
	d, c := &p.down, p.costs
	g := d.current.group
	q := p.rankOf(g, int(d.current.layer))
	r, cost := &p.ranks[q], p.groupCost(g)
	length, bus := cost.down, cost.downChannel
	if d.prefill {
		length, bus = cost.prefill, cost.prefillChannel
	}
	stop := max(p.now, r.freeAt) // when the rankset leaves what it does
	begin := stop + c.open
	interrupted := false
	if r.running >= 0 {
		elapsed := p.groupCost(r.running).compute - (r.finish - stop)
		stop = min(stop+p.groupCost(r.running).boundaryWait(elapsed, c.step), r.finish)
		interrupted = stop < r.finish
		begin = stop + c.open
		if interrupted {
			begin += c.vacate
		}
	}
	d.busy, d.end = true, begin+length
	r.freeAt = d.end + c.close
	if interrupted {
		r.freeAt += c.reactivate
		r.finish += r.freeAt - stop
	}
	p.work.pcieDown += length
	p.work.channel += bus
	p.work.tasks++
	if p.spans != nil {
		p.recordTransfer(begin, d.end)
		if interrupted {
			p.spans.interrupt(q, stop, r.freeAt)
		}
	}
}

// recordTransfer leaves the span of the current transfer.
func (p *pipeline) recordTransfer(begin, end sim.Time) {
	t := &p.down.current
	name := "decode q, k, v"
	if p.down.prefill {
		name = "prefill k, v"
	}
	p.spans.add(resourceDown, int(t.group)/len(p.ranks), int(t.layer), name, int(t.group)%len(p.ranks), begin, end)
}
