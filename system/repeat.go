package system

import (
	"slices"

	"github.com/l3sim/l3sim/sim"
)

// pastStates is how many layers back a repeat is looked for: the longest period
// that is found.
const pastStates = 16

// snapshot is the state of all resources at the start of a layer, relative to
// the time, the layer and the numbering of ranksets then.
type snapshot struct {
	state []int64
	at    sim.Time
	work  work
}

// history is the latest snapshots of an iteration.
type history struct {
	ring  [pastStates]snapshot
	count int
	over  bool // a repeat has been found and used
}

func (h *history) reset() { h.count, h.over = 0, false }

// skipRepeats jumps over layers. A request's layer l+1 lies one rankset further
// than its layer l (L3, section 5.1), so with the ranksets numbered from the
// layer's first, every layer of an iteration has the same work, and the state at
// a layer's start determines all that follows until the last layer. If it equals
// the state n layers earlier, the n layers between repeat until then, and
// multiples of them are added without running them. The result is the same to
// the picosecond; the switch that runs every layer is exact.
func (p *pipeline) skipRepeats(s int) {
	if p.exact || p.past.over || s != p.reference() {
		return
	}
	h := &p.past
	now := &h.ring[h.count%pastStates]
	now.state = p.appendState(now.state[:0])
	now.at, now.work = p.now, p.work
	h.count++
	for back := 1; back <= min(h.count, pastStates)-1; back++ {
		then := &h.ring[(h.count-1-back)%pastStates]
		if slices.Equal(then.state, now.state) {
			p.jump(back, then)
			h.over = true
			return
		}
	}
}

// reference returns the sub-batch whose layers are counted.
func (p *pipeline) reference() int {
	if p.sub[0].active {
		return 0
	}
	return 1
}

// jump repeats the last period layers as often as no sub-batch gets to its last
// layer, whose block is another.
func (p *pipeline) jump(period int, then *snapshot) {
	latest := 0
	for s := range p.sub {
		if p.sub[s].active {
			latest = max(latest, p.sub[s].layer)
		}
	}
	times := (p.costs.layers - 2 - latest) / period
	if times <= 0 {
		return
	}
	done := p.work.since(&then.work)
	p.work.add(&done, int64(times))
	p.shift(sim.Time(times)*(p.now-then.at), times*period)
}

// shift moves the whole state on by a time and a number of layers.
func (p *pipeline) shift(by sim.Time, layers int) {
	p.now += by
	p.gpu.Shift(by)
	p.up.begin += by
	p.up.end += by
	for s := range p.sub {
		if p.sub[s].active {
			p.sub[s].layer += layers
			p.sub[s].resultsAt += by
		}
	}
	for q := range p.ranks {
		p.ranks[q].freeAt += by
	}
	for i := range p.due {
		if p.due[i] != never {
			p.due[i] += by
		}
	}
	turn := 0
	if p.costs.rotate {
		turn = layers % len(p.ranks)
		rotate(p.ranks, turn)
		rotate(p.due[:len(p.ranks)], turn)
	}
	if p.check != nil {
		p.check.shift(by, layers, turn)
	}
	move := func(t *transfer) {
		t.eligible += by
		t.layer += int32(layers)
		t.rank = int16((int(t.rank) + turn) % len(p.ranks))
	}
	p.down.end += by
	move(&p.down.current)
	p.writer.end += by
	move(&p.writer.current)
	for _, f := range [...]*fifo{&p.down.decode, &p.down.prompts, &p.writer.queue} {
		for i := range f.rest() {
			move(&f.rest()[i])
		}
	}
}

// rotate moves element i to i + n, around the end.
func rotate[T any](r []T, n int) {
	slices.Reverse(r)
	slices.Reverse(r[:n])
	slices.Reverse(r[n:])
}

// appendState appends all that the future depends on. Times that lie in the past
// and only bound the future from below are written as now. The rankset of a
// transfer follows from its group and layer.
func (p *pipeline) appendState(b []int64) []int64 {
	first := p.sub[p.reference()].layer
	since := func(t sim.Time) int64 { return int64(max(t-p.now, 0)) }
	for s := range p.sub {
		sub := &p.sub[s]
		if sub.active {
			b = append(b, int64(sub.layer-first)<<32|int64(sub.outstanding)<<16|int64(sub.prompts)<<2|
				flags(sub.prefillDone, p.due[len(p.ranks)+dueResults+s] != never), since(sub.resultsAt))
		}
	}
	b = p.gpu.AppendState(b, p.now)
	b = append(b, since(p.up.begin), since(p.up.end))
	b = append(b, flags(p.down.busy, p.writer.busy))
	if p.down.busy {
		b = append(p.down.current.appendState(b, p.now, first), since(p.down.end))
	}
	if p.writer.busy {
		b = append(p.writer.current.appendState(b, p.now, first), since(p.writer.end))
	}
	for _, f := range [...]*fifo{&p.down.decode, &p.down.prompts, &p.writer.queue} {
		b = append(b, int64(len(f.rest())))
		for i := range f.rest() {
			b = f.rest()[i].appendState(b, p.now, first)
		}
	}
	q := 0
	if p.costs.rotate {
		q = first % len(p.ranks)
	}
	for range p.ranks {
		r := &p.ranks[q]
		b = append(b, int64(r.running)<<32|int64(r.nWaiting), since(r.freeAt))
		if r.running != none {
			b = append(b, since(p.due[q]))
		}
		for i := range r.nWaiting {
			b = append(b, int64(r.waiting[i]))
		}
		if q++; q == len(p.ranks) {
			q = 0
		}
	}
	return b
}

// appendState appends a transfer, its layer counted from first.
func (t *transfer) appendState(b []int64, now sim.Time, first int) []int64 {
	return append(b, int64(t.group)<<32|int64(t.pieces)<<1|flags(t.prompt),
		int64(int(t.layer)-first), int64(max(t.eligible-now, 0)))
}

// flags packs booleans.
func flags(bits ...bool) int64 {
	var v int64
	for i, bit := range bits {
		if bit {
			v |= 1 << i
		}
	}
	return v
}
