package dataflow

// waveHistory is the states at the starts of the latest layers.
type waveHistory struct {
	keys  [pastStates]Time // of the states: states with different keys differ
	state [pastStates]waveState
	count int
	over  bool // a repeat has been found and used
}

// waveState is all that determines the future when a sub-batch starts a layer.
type waveState struct {
	at, linkFree, upFree, gpuFree, sent Time
	waits                               waveWaits
	layer, first                        int       // layer; lane of offset 0 in it
	cost                                *waveCost // of the layer
	freeAt                              []Time
	other                               subWave // the other sub-batch
}

// newWaveHistory reserves the states of waves over a number of lanes.
func newWaveHistory(lanes int) waveHistory {
	var h waveHistory
	for i := range h.state {
		h.state[i].freeAt, h.state[i].other.due = make([]Time, lanes), make([]Time, lanes)
	}
	return h
}

func (h *waveHistory) reset() { h.count, h.over = 0, false }

// skipRepeats compares the state when sub-batch s starts a layer with those of the layers before. If it equals the
// state n layers before, the last n layers repeat, and jump skips to the last layer that certainly repeats. Only the
// layer starts of one sub-batch are recorded: those of sub-batch 0, or of 1 if 0 is empty.
func (l *lockstep) skipRepeats(s int) {
	h := &l.past
	if h.over || s == 1 && l.sub[0].layer >= 0 {
		return
	}
	i := uint(h.count) % pastStates
	now := &h.state[i]
	key := l.save(now, s)
	h.keys[i] = key
	h.count++
	for at := h.count - 2; at >= 0 && at > h.count-1-pastStates; at-- {
		then := &h.state[uint(at)%pastStates]
		if h.keys[uint(at)%pastStates] == key && l.alike(then, now) && l.jump(s, at, now.at-then.at) {
			return
		}
	}
}

// jump skips sub-batch s to the start of a later layer, as near to the last as possible. The states repeat from
// number from on, with a period that took took. The last layer's block has its own time, so the jump ends before
// either sub-batch requests it. It also ends before either begins a layer whose kind differs from the kind one
// period earlier. It reports false if a longer period may still skip more.
func (l *lockstep) jump(s, from int, took Time) bool {
	h, now := &l.past, l.sub[s].layer
	period := h.count - 1 - from
	ours, theirs := l.differs(s, period), l.total
	if l.sub[1-s].at != never {
		theirs = l.differs(1-s, period)
	}
	h.over = min(ours, theirs) == l.total
	for layer := min(ours, l.total-1); layer > now && (h.over || layer-now >= pastStates); layer-- {
		ahead := layer - now
		then := &h.state[(from+ahead%period)%pastStates]
		if l.beforeLast(then, layer, theirs) {
			more := l.waits
			more.add(&h.state[from%pastStates].waits, -1)
			l.waits = then.waits
			l.waits.add(&more, Time(ahead/period+1))
			l.load(then, s, layer, Time(ahead/period+1)*took)
			h.count = 0
			return true
		}
	}
	return h.over
}

// differs returns the first layer after that of a sub-batch whose kind differs from that of a period before, or the number
// of layers.
func (l *lockstep) differs(s, period int) int {
	runs, i, back := l.costs[s].runs, l.sub[s].run, 0
	next := l.sub[s].layer + 1
	for next < l.total {
		for next >= runs[i].until {
			i++
		}
		for next-period >= runs[back].until {
			back++
		}
		if runs[i].kind != runs[back].kind {
			break
		}
		next = min(runs[i].until, runs[back].until+period)
	}
	return next
}

// beforeLast says, for a state moved to the start of a layer, that the other sub-batch has neither begun the differing layer nor
// requested the block of its last one.
func (l *lockstep) beforeLast(w *waveState, layer, differs int) bool {
	other := w.other.layer + layer - w.layer
	return w.other.at == never || other < differs && (other < l.total-1 || other == l.total-1 && (w.other.attention || w.other.waits))
}

// save writes the state when sub-batch s starts a layer, and returns its key: the sum of the times until the
// other sub-batch's next step and its lanes' ends.
func (l *lockstep) save(w *waveState, s int) (key Time) {
	sub, other := &l.sub[s], &l.sub[1-s]
	w.at, w.linkFree, w.upFree, w.gpuFree, w.sent = sub.at, l.linkFree, l.upFree, l.gpuFree, l.sent
	w.layer, w.first, w.cost = sub.layer, sub.first, sub.cost
	w.other.layer, w.other.cost = other.layer, other.cost
	w.other.attention, w.other.waits, w.other.own = other.attention, other.waits, other.own
	w.other.at, w.other.beside, w.other.gap, w.waits = other.at, other.beside, other.gap, l.waits
	if other.at != never {
		key = other.at - sub.at
	}
	for i, due := range other.due {
		w.freeAt[i], w.other.due[i] = l.freeAt[i], due
		key += max(due-sub.at, 0)
	}
	return key
}

// alike reports whether two states of equal keys have the same future. A time in the past, or before anything can use it, counts
// as the first time at which it can matter.
func (l *lockstep) alike(a, b *waveState) bool {
	by := b.at - a.at
	same := func(x, y, bound Time) bool { return max(x, bound)+by == max(y, bound+by) }
	x, y := &a.other, &b.other
	if a.cost != b.cost || x.at != never && x.cost != y.cost {
		return false
	}
	if !same(a.linkFree, b.linkFree, a.at+l.latency) || !same(a.gpuFree, b.gpuFree, a.at) || !same(x.beside, y.beside, a.at) ||
		x.attention != y.attention || x.waits != y.waits || x.own != y.own || x.at != never && y.layer-x.layer != b.layer-a.layer {
		return false
	}
	results := a.at // no result comes up earlier
	for i, due := range x.due {
		if !x.attention {
			break
		}
		if due > a.sent {
			results = min(results, due)
		}
		if due+by != y.due[i] && (due > a.sent || y.due[i] > b.sent) {
			return false
		}
	}
	p, q := a.first, b.first
	for range a.freeAt {
		if !same(a.freeAt[p], b.freeAt[q], a.at+l.latency) {
			return false
		}
		if p++; p == len(a.freeAt) {
			p = 0
		}
		if q++; q == len(b.freeAt) {
			q = 0
		}
	}
	return same(a.upFree, b.upFree, results+l.resultsAt)
}

// load restores a saved state, for sub-batch s to start a layer by later.
func (l *lockstep) load(w *waveState, s, layer int, by Time) {
	sub, other := &l.sub[s], &l.sub[1-s]
	n := len(l.freeAt)
	l.enter(s, layer)
	sub.at, sub.first = w.at+by, l.first(layer)
	l.linkFree, l.upFree, l.gpuFree, l.sent, l.idle = w.linkFree+by, w.upFree+by, w.gpuFree+by, w.sent+by, sub.at
	for i := range n {
		l.freeAt[(sub.first+i)%n] = w.freeAt[(w.first+i)%n] + by
		other.due[i] = w.other.due[i] + by
	}
	if other.at == never {
		return
	}
	l.enter(1-s, w.other.layer+layer-w.layer)
	other.first = l.first(other.layer)
	other.attention, other.waits, other.own = w.other.attention, w.other.waits, w.other.own
	other.at, other.beside = w.other.at+by, w.other.beside+by
	other.gap = gap{free: w.other.gap.free + by, until: w.other.gap.until + by}
	// When earlier transfers ended does not matter. Operations queued behind others have not been interrupted.
	for i := range other.down {
		g := &other.cost.lanes[i]
		other.down[i] = other.due[i] - g.close - g.compute
	}
}

// first returns the lane of offset 0 in a layer; -1 stands before the first layer.
func (l *lockstep) first(layer int) int {
	if !l.spec.Rotates {
		return 0
	}
	return (layer + len(l.freeAt)) % len(l.freeAt)
}
