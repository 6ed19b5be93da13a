package dataflow

import (
	"slices"
)

// waveHistory is the states at the starts of the latest layers.
type waveHistory struct {
	state [pastStates][]Time
	at    [pastStates]Time
	count int
	over  bool // a repeat has been found and used
}

// newWaveHistory reserves the states of waves for that many lanes.
func newWaveHistory(lanes int) waveHistory {
	var h waveHistory
	for i := range h.state {
		h.state[i] = make([]Time, 3+2*lanes+besideState)
	}
	return h
}

// besideState is what a state has more where operations run beside lanes: how long the GPU is
// taken, and when what the other sub-batch's last operation waits for ends.
const besideState = 2

func (h *waveHistory) reset() { h.count, h.over = 0, false }

// skipRepeats jumps over layers as the engine's does, when sub-batch s starts
// one. The state is so small that it also is the way to where the jump ends, which
// is any layer after the repeat: as late as no block of a last layer has begun.
func (l *lockstep) skipRepeats(s int) {
	sub, h := &l.sub[s], &l.past
	if h.over || s == 1 && l.sub[0].layer >= 0 {
		return
	}
	i := h.count % pastStates
	l.save(h.state[i], s)
	l.saveBeside(h.state[i], s)
	h.at[i] = sub.at
	h.count++
	for period := 1; period <= min(h.count, pastStates)-1; period++ {
		// What differs most often, when the other sub-batch's offset 0 or its block
		// ends, is compared first.
		then, first := h.state[(h.count-1-period)%pastStates], 3+len(l.freeAt)
		if then[first] != h.state[i][first] || !slices.Equal(then, h.state[i]) {
			continue
		}
		h.over = true
		for layer := l.total - 1; layer > sub.layer; layer-- {
			ahead := layer - sub.layer
			end := (h.count - 1 - period + ahead%period) % pastStates
			if state := h.state[end]; l.beforeLast(state, layer) {
				periods := Time(ahead/period + 1)
				now := h.at[end] + periods*(sub.at-h.at[(h.count-1-period)%pastStates])
				l.load(state, s, layer, now)
				l.loadBeside(state, s, now)
				return
			}
		}
		return
	}
}

// beforeLast says whether in a state at the start of a layer the block of the
// other sub-batch's last layer has not been requested.
func (l *lockstep) beforeLast(state []Time, layer int) bool {
	other, attention := layer+int(state[0]>>1), state[0]&1 == 1
	return other < l.total-1 || other == l.total-1 && attention
}

// save writes all that the future depends on when sub-batch s starts a layer:
// where the other sub-batch is, what the links and lanes do, relative to the
// time and the layer's numbering of lanes. Of times that only bound the future
// from below it keeps what is above the bound.
func (l *lockstep) save(state []Time, s int) {
	sub, other := &l.sub[s], &l.sub[1-s]
	eligible := sub.at + l.latency
	lanes := len(l.freeAt)
	free, due := state[3:3+lanes], state[3+lanes:3+2*lanes]
	state[1] = max(l.linkFree-eligible, 0)
	q := l.first(sub.layer)
	for i := range free {
		free[i] = max(l.freeAt[q]-eligible, 0)
		if q++; q == lanes {
			q = 0
		}
	}
	results := sub.at // no result comes up before
	clear(due)
	switch {
	case other.at == never:
		state[0] = -1 << 1
	case other.attention || other.waits:
		state[0] = Time(other.layer-sub.layer)<<1 | 1
		for i, at := range other.due {
			due[i] = -never
			if at > l.sent {
				due[i] = at - sub.at
				results = min(results, at)
			}
		}
	default:
		state[0] = Time(other.layer-sub.layer) << 1
		due[0] = other.at - sub.at
	}
	state[2] = max(l.upFree-results-l.resultsAt, 0)
}

// saveBeside adds what the future depends on where operations run beside lanes. Of the other
// sub-batch's it is where the GPU is taken by it, or over.
func (l *lockstep) saveBeside(state []Time, s int) {
	if !l.besides {
		return
	}
	now, other := l.sub[s].at, &l.sub[1-s]
	state = state[len(state)-besideState:]
	state[0], state[1] = max(l.gpuFree-now, 0), 0
	if other.waits { // and whether this end is its own
		state[1] = 2*(other.at-now) + 1
		if other.own {
			state[1]++
		}
	}
}

// loadBeside sets what saveBeside saved.
func (l *lockstep) loadBeside(state []Time, s int, now Time) {
	if !l.besides {
		return
	}
	other := &l.sub[1-s]
	state = state[len(state)-besideState:]
	l.gpuFree = now + state[0]
	other.beside, other.waits = l.gpuFree, state[1] > 0
	if other.waits {
		other.attention, other.at, other.own = false, now+(state[1]-1)/2, state[1]%2 == 0
	}
}

// load sets the state to a saved one, for sub-batch s to start a layer at now.
func (l *lockstep) load(state []Time, s, layer int, now Time) {
	sub, other := &l.sub[s], &l.sub[1-s]
	sub.layer, sub.at = layer, now
	eligible := now + l.latency
	lanes := len(l.freeAt)
	free, due := state[3:3+lanes], state[3+lanes:3+2*lanes]
	l.linkFree = eligible + state[1]
	q := l.first(layer)
	for _, after := range free {
		l.freeAt[q] = eligible + after
		if q++; q == lanes {
			q = 0
		}
	}
	results := now
	l.sent = now
	switch {
	case other.at == never:
	case state[0]&1 == 1:
		other.layer, other.attention, other.at = layer+int(state[0]>>1), true, 0
		for _, after := range due {
			if after != -never {
				results = min(results, now+after)
			}
		}
		l.sent = results - 1
		for i, after := range due {
			other.due[i] = l.sent
			if after != -never {
				other.due[i] = now + after
				other.at = max(other.at, now+after)
			}
		}
	default:
		other.layer, other.attention, other.at = layer+int(state[0]>>1), false, now+due[0]
		l.gpuFree = other.at
		for i := range other.due {
			other.due[i] = now
		}
	}
	l.upFree = results + l.resultsAt + state[2]
}

// first returns the rankset of offset 0 in a layer.
func (l *lockstep) first(layer int) int {
	if !l.spec.Rotates {
		return 0
	}
	return layer % len(l.freeAt)
}
