package dataflow

import "math/bits"

// lockstep runs iterations of one shape by a recurrence instead of events: every
// operation of a layer goes down a link to a lane, computes there, and comes up a FIFO,
// and when all have, one operation on another FIFO ends the layer. It takes two steps a
// layer of a sub-batch where events take one for every transfer, lane and result. Layers
// may be of several kinds, which differ in their lanes and times.
//
// A wave is the transfers of a sub-batch's layer. What makes it one step is that
// nothing of it depends on what happens while it lasts:
//
//   - the link serves waves whole, in the order in which their layers start;
//   - a sub-batch's lanes have all ended before its next wave starts, so that a
//     transfer finds at most one operation on its lane, one of the other sub-batch,
//     whose transfer came before;
//   - that operation's end is known, since only transfers delay it, and is final
//     after this one, because this one's own operation, and so the next wave of its
//     sub-batch, waits for it.
//
// When a wave has been sent, the ends on all its lanes are known unless a wave of the
// other sub-batch delays them. Whichever comes first is next: the last lane of a
// sub-batch ends, which no wave delays any more, or the layer's last operation does,
// and a wave starts. Where an operation runs beside the lanes on the last one's FIFO, from the
// layer's start on, a third step comes between: the last one becomes ready and takes its turn.
type lockstep struct {
	shape
	sub [2]subWave
	// freeAt is when each lane can compute after its latest transfer.
	freeAt           []Time
	linkFree, upFree Time // when the links have done all that was sent so far
	gpuFree          Time
	sent             Time // the results of lanes that ended by then have been sent up
	idle             Time // since when all lanes are idle; earlier waits are counted
	waits            waveWaits
	ended            []laneEnd
	past             waveHistory
	steps, layers    int64 // of the iteration, without skipped ones
}

// subWave is the state of a sub-batch.
type subWave struct {
	layer     int       // of its latest wave; -1 before the first
	run       int       // index in subCost.runs of the layer's run; before the first layer that of the first
	cost      *waveCost // of the layer; before the first layer that of the first
	first     int       // lane of offset 0 in the layer
	attention bool
	waits     bool   // its lanes have ended, but its operation on the GPU is not ready
	own       bool   // the operation beside the lanes ends last, after the results
	at        Time   // time of its next step: its last lane ends, what it waits for ends, or its operation on the GPU ends; never after the last
	beside    Time   // end of the operation beside the lanes
	due       []Time // end of each operation, by lane counted from the layer's first; in the past for none
	results   Time   // when the latest results have come up
	slowest   int    // offset of the lane that sent the latest results
	down      []Time // end of the transfer to each lane; 0 if the operation there was queued behind another
	gap       gap    // of the GPU, before the latest operation that ends a layer
}

// waveWaits accumulates Waits.
type waveWaits struct {
	up, lanes, uneven, down    Time // the GPU's waits, for each
	idle, idleDown, idleWithUp Time // lanes' waits: for anything; for transfers; for results, together with the GPU
}

func (w *waveWaits) add(o *waveWaits, times Time) {
	w.up += times * o.up
	w.lanes += times * o.lanes
	w.uneven += times * o.uneven
	w.down += times * o.down
	w.idle += times * o.idle
	w.idleDown += times * o.idleDown
	w.idleWithUp += times * o.idleWithUp
}

// laneEnd is an operation on a lane that has ended.
type laneEnd struct {
	at, up    Time // up is the time of its results on the links
	s, offset int  // sub-batch and rankset offset
}

// newLockstep returns a lockstep over a number of lanes.
func newLockstep(lanes int) lockstep {
	l := lockstep{freeAt: make([]Time, lanes), ended: make([]laneEnd, 0, 2*lanes), past: newWaveHistory(lanes)}
	for s := range l.sub {
		l.sub[s].due, l.sub[s].down = make([]Time, lanes), make([]Time, lanes)
		l.costs[s].kinds = []waveCost{{lanes: make([]laneCost, lanes)}}
	}
	return l
}

// run executes a fitting iteration that starts at start, and returns its end.
func (l *lockstep) run(e *Engine, start Time) Time {
	l.begin(start)
	for l.step() {
	}
	l.idleTo(l.gpuFree)
	l.report(e)
	return l.gpuFree
}

// begin starts the operations before the first layers.
func (l *lockstep) begin(start Time) {
	l.steps, l.layers = 0, 0
	l.linkFree, l.upFree, l.gpuFree, l.sent, l.idle, l.waits = start, start, start, start, start, waveWaits{}
	for q := range l.freeAt {
		l.freeAt[q] = start
	}
	l.past.reset()
	for s := range l.sub {
		sub := &l.sub[s]
		sub.first = l.first(-1)
		sub.layer, sub.attention, sub.waits, sub.at, sub.beside, sub.gap = -1, false, false, never, start, gap{}
		sub.run, sub.cost = 0, &l.costs[s].kinds[:1][0]
		for i := range sub.due {
			sub.due[i] = start
		}
		if l.costs[s].active {
			l.gpuFree += l.costs[s].entry
			sub.at = l.gpuFree
		}
	}
}

// next returns the sub-batch that takes the next step.
func (l *lockstep) next() int {
	if l.sub[1].at < l.sub[0].at || l.besides && l.sub[1].at == l.sub[0].at && l.sub[1].rank() < l.sub[0].rank() {
		return 1
	}
	return 0
}

// rank is the order of steps at one instant, as in the events.
func (s *subWave) rank() int {
	switch {
	case s.attention:
		return 0
	case s.waits && !s.own:
		return 1
	case s.waits:
		return 2
	}
	return 3
}

// step takes the next step of either sub-batch; it reports false when both have ended.
func (l *lockstep) step() bool {
	s := l.next()
	next := &l.sub[s]
	if next.at == never {
		return false
	}
	l.steps++
	switch {
	case next.attention:
		l.finish(next.at)
	case next.waits:
		next.waits = false
		l.last(s, next.at)
	default:
		l.start(s)
	}
	return true
}

// finish sends up the results of all lanes that end by at, in the order of their ends. If the last
// lane of a sub-batch is among them, it runs the sub-batch's block.
func (l *lockstep) finish(at Time) {
	if !l.sendLast(at) {
		l.sendUp(at)
	}
	l.sent = at
	for s := range l.sub {
		sub := &l.sub[s]
		if !sub.attention || sub.at > at {
			continue
		}
		sub.attention = false
		if !l.besides {
			l.last(s, sub.results)
			continue
		}
		sub.waits, sub.own, sub.at = true, sub.beside >= sub.results, max(sub.results, sub.beside)
	}
	l.lanesEnded(at)
}

// sendLast sends up the results of the lane that ends at at, if all earlier results are certainly up by
// then: no other lane has ended within the time that the results of all lanes take, and the link up is
// free early enough. Otherwise it does nothing and returns false.
func (l *lockstep) sendLast(at Time) bool {
	if l.upFree+l.upAll > at+l.resultsAt {
		return false
	}
	var n, last uint64 // number of lanes that have ended in that time; offset of the only one
	sender := 0
	for s := range l.sub {
		if !l.sub[s].attention {
			continue
		}
		if n == 0 {
			sender = s
		}
		for offset, due := range l.sub[s].due { // without a branch, which could not be predicted
			_, in := bits.Sub64(uint64(at-due), uint64(l.upAll), 0) // later ends wrap to large numbers
			n += in
			last += uint64(offset) & -in
		}
	}
	if n > 1 {
		return false
	}
	l.upFree = at + l.resultsAt + l.sub[sender].cost.lanes[last].up
	l.sub[sender].results, l.sub[sender].slowest = l.upFree, int(last)
	return true
}

// sendUp sends up the results of all lanes that end by at, in the order of their ends.
func (l *lockstep) sendUp(at Time) {
	ended := l.ended[:0]
	for s := range l.sub {
		if !l.sub[s].attention {
			continue
		}
		lanes := l.sub[s].cost.lanes
		for offset, due := range l.sub[s].due {
			if due <= l.sent || due > at {
				continue
			}
			i := len(ended)
			ended = ended[:i+1]
			for ; i > 0 && ended[i-1].at > due; i-- {
				ended[i] = ended[i-1]
			}
			ended[i] = laneEnd{due, lanes[offset].up, s, offset}
		}
	}
	for i := range ended {
		e := &ended[i]
		l.upFree = max(l.upFree, e.at+l.resultsAt) + e.up
		l.sub[e.s].results, l.sub[e.s].slowest = l.upFree, e.offset
	}
}

// last runs the last operation of a layer of a sub-batch, which becomes ready at ready.
func (l *lockstep) last(s int, ready Time) {
	block := l.sub[s].cost.block
	if l.sub[s].layer == l.total-1 {
		block = l.costs[s].exit
	}
	if ready > l.gpuFree {
		l.waited(s, ready)
	}
	l.gpuFree = max(l.gpuFree, ready) + block
	l.sub[s].at = l.gpuFree
}

// start starts the next layer of sub-batch s, whose QKV generation has ended: its wave goes down.
func (l *lockstep) start(s int) {
	sub := &l.sub[s]
	if sub.layer++; sub.layer == l.total {
		sub.at = never
		return
	}
	l.enter(s, sub.layer)
	if l.spec.Rotates {
		if sub.first++; sub.first == len(l.freeAt) {
			sub.first = 0
		}
	}
	if !l.sub[1-s].attention {
		l.idleTo(sub.at)
	}
	l.skipRepeats(s)
	l.layers++
	began := sub.at
	eligible := sub.at + l.latency
	if beside := sub.cost.beside; beside > 0 {
		l.gpuFree = max(l.gpuFree, sub.at) + beside
		sub.beside = l.gpuFree
	}
	sub.attention = true
	l.send(s, eligible)
	if !l.sub[1-s].attention {
		l.sending(s, began)
	}
}

// enter moves a sub-batch to a layer; layers only increase.
func (l *lockstep) enter(s, layer int) {
	sub, c := &l.sub[s], &l.costs[s]
	for layer >= c.runs[sub.run].until {
		sub.run++
	}
	sub.layer, sub.cost = layer, &c.kinds[c.runs[sub.run].kind]
}

// send sends the wave of sub-batch s down the link.
//
// A transfer that interrupts an operation delays it by the same time at any boundary. The boundary only affects when
// the link becomes free. Only later transfers of the same wave need that time, because the next wave starts after the
// interrupted operation has ended. If a transfer interrupts even with the longest wait for a boundary, send therefore
// computes no boundary. After such transfers the link is free by latest; settle returns the exact time for a transfer
// whose lane is free or nearly free.
func (l *lockstep) send(s int, eligible Time) {
	sub, other := &l.sub[s], &l.sub[1-s]
	lanes := sub.cost.lanes
	n := len(lanes)
	freeAt, due, down, met, theirs := l.freeAt[:n], sub.due[:n], sub.down[:n], other.due[:n], other.cost.lanes[:n]
	// The lane of offset 0, and the offset of the other sub-batch's operation there.
	q, m := sub.first, sub.first-other.first
	if m < 0 {
		m += n
	}
	link := max(l.linkFree, eligible)
	latest, unsettled := link, -1 // offset of the first transfer that link does not include
	vacate, stopped := l.spec.Vacate, l.spec.Vacate+l.spec.Reactivate
	end, theirEnd := Time(0), other.at
	for offset := range lanes {
		if g := &lanes[offset]; g.active {
			left, until, sent := max(latest, freeAt[q]), met[m], Time(0)
			if h := &theirs[m]; until-left > l.longestWait && until-h.compute < link {
				if unsettled < 0 {
					unsettled = offset
				}
				latest = left + l.longestWait + vacate + g.sent
				until += stopped + g.sent + g.close
				met[m] = until
				theirEnd = max(theirEnd, until)
			} else {
				if unsettled >= 0 {
					link, unsettled = l.settle(s, unsettled, offset, link), -1
					left = max(link, freeAt[q])
				}
				if until <= left {
					link = left + g.sent
					until, sent = link+g.close, link
					freeAt[q] = until
				} else {
					link, until = l.interrupt(other, h, q, m, left, g)
					theirEnd = max(theirEnd, met[m])
					if until == link+g.close { // otherwise it is behind the other sub-batch's
						sent = link
					}
				}
				latest = link
			}
			due[offset], down[offset] = until+g.compute, sent
			end = max(end, until+g.compute)
		}
		if q++; q == n {
			q = 0
		}
		if m++; m == n {
			m = 0
		}
	}
	l.linkFree = link
	sub.at, other.at = end, theirEnd
}

// settle returns when the link has sent the transfers of sub-batch s to the offsets [from, to), all of
// which interrupt an operation that is due later now. For the first, the link is free at link.
func (l *lockstep) settle(s, from, to int, link Time) Time {
	sub, other := &l.sub[s], &l.sub[1-s]
	n := len(l.freeAt)
	q := sub.first + from
	m := q - other.first + n
	for ; from < to; from++ {
		if q >= n {
			q -= n
		}
		for m >= n {
			m -= n
		}
		if g, h := &sub.cost.lanes[from], &other.cost.lanes[m]; g.active {
			left := max(link, l.freeAt[q])
			begun := other.due[m] - (l.spec.Vacate + g.sent + g.close + l.spec.Reactivate) - h.compute
			link = left + l.spec.Boundaries.wait(h.parts, left-begun) + l.spec.Vacate + g.sent
		}
		q++
		m++
	}
	return link
}

// interrupt sends transfer t to lane q and returns when the link is free, and the lane for t's
// operation. The lane runs g, the operation of the other sub-batch at the given offset, and can
// leave it from left on. It is the same as the engine's leave and claim.
func (l *lockstep) interrupt(other *subWave, g *laneCost, q, offset int, left Time, t *laneCost) (link, until Time) {
	remaining := other.due[offset] - left
	if remaining >= g.compute { // not begun: there is no row to close or to open again
		link = left + t.sent
		l.freeAt[q] = link + t.close
		other.due[offset] += l.freeAt[q] - left
		return link, other.due[offset]
	}
	wait := l.spec.Boundaries.wait(g.parts, g.compute-remaining)
	if wait >= remaining { // it ends before the boundary
		link = left + remaining + t.sent
		l.freeAt[q] = link + t.close
		return link, l.freeAt[q]
	}
	stop := left + wait
	link = stop + l.spec.Vacate + t.sent
	l.freeAt[q] = link + t.close + l.spec.Reactivate
	other.due[offset] += l.freeAt[q] - stop
	return link, other.due[offset]
}
