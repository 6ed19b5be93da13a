package system

import (
	"slices"

	"github.com/l3sim/l3sim/sim"
)

// waveHistory is the states at the starts of the latest layers.
type waveHistory struct {
	state [pastStates][]sim.Time
	at    [pastStates]sim.Time
	count int
	over  bool // a repeat has been found and used
}

func newWaveHistory(ranksets int) waveHistory {
	var h waveHistory
	for i := range h.state {
		h.state[i] = make([]sim.Time, 3+2*ranksets)
	}
	return h
}

func (h *waveHistory) reset() { h.count, h.over = 0, false }

// skipRepeats jumps over layers as the pipeline's does, when sub-batch s starts
// one. The state is so small that it also is the way to where the jump ends, which
// is any layer after the repeat: as late as no block of a last layer has begun.
func (w *waves) skipRepeats(s int) {
	sub, h := &w.sub[s], &w.past
	if h.over || s == 1 && w.sub[0].layer >= 0 {
		return
	}
	i := h.count % pastStates
	w.save(h.state[i], s)
	h.at[i] = sub.at
	h.count++
	for period := 1; period <= min(h.count, pastStates)-1; period++ {
		// What differs most often, when the other sub-batch's offset 0 or its block
		// ends, is compared first.
		then, first := h.state[(h.count-1-period)%pastStates], 3+len(w.freeAt)
		if then[first] != h.state[i][first] || !slices.Equal(then, h.state[i]) {
			continue
		}
		h.over = true
		for layer := w.costs.layers - 1; layer > sub.layer; layer-- {
			ahead := layer - sub.layer
			end := (h.count - 1 - period + ahead%period) % pastStates
			if state := h.state[end]; w.beforeLast(state, layer) {
				periods := sim.Time(ahead/period + 1)
				from := [2]int{w.sub[0].layer, w.sub[1].layer}
				w.load(state, s, layer, h.at[end]+periods*(sub.at-h.at[(h.count-1-period)%pastStates]))
				if w.check != nil {
					w.check.jumped(w, s, [2]int{w.sub[0].layer - from[0], w.sub[1].layer - from[1]})
				}
				return
			}
		}
		return
	}
}

// beforeLast says whether in a state at the start of a layer the block of the
// other sub-batch's last layer has not been requested.
func (w *waves) beforeLast(state []sim.Time, layer int) bool {
	other, attention := layer+int(state[0]>>1), state[0]&1 == 1
	return other < w.costs.layers-1 || other == w.costs.layers-1 && attention
}

// save writes all that the future depends on when sub-batch s starts a layer:
// where the other sub-batch is, what the links and ranksets do, relative to the
// time and the layer's numbering of ranksets. Of times that only bound the future
// from below it keeps what is above the bound.
func (w *waves) save(state []sim.Time, s int) {
	sub, other := &w.sub[s], &w.sub[1-s]
	eligible := sub.at + w.costs.latency
	ranksets := len(w.freeAt)
	free, due := state[3:3+ranksets], state[3+ranksets:]
	state[1] = max(w.linkFree-eligible, 0)
	q := w.first(sub.layer)
	for i := range free {
		free[i] = max(w.freeAt[q]-eligible, 0)
		if q++; q == ranksets {
			q = 0
		}
	}
	results := sub.at // no result comes up before
	clear(due)
	switch {
	case other.at == never:
		state[0] = -1 << 1
	case other.attention:
		state[0] = sim.Time(other.layer-sub.layer)<<1 | 1
		for i, at := range other.due {
			due[i] = -never
			if at > w.sent {
				due[i] = at - sub.at
				results = min(results, at)
			}
		}
	default:
		state[0] = sim.Time(other.layer-sub.layer) << 1
		due[0] = other.at - sub.at
	}
	state[2] = max(w.upFree-results-w.costs.upLatency, 0)
}

// load sets the state to a saved one, for sub-batch s to start a layer at now.
func (w *waves) load(state []sim.Time, s, layer int, now sim.Time) {
	sub, other := &w.sub[s], &w.sub[1-s]
	sub.layer, sub.at = layer, now
	eligible := now + w.costs.latency
	ranksets := len(w.freeAt)
	free, due := state[3:3+ranksets], state[3+ranksets:]
	w.linkFree = eligible + state[1]
	q := w.first(layer)
	for _, after := range free {
		w.freeAt[q] = eligible + after
		if q++; q == ranksets {
			q = 0
		}
	}
	results := now
	w.sent = now
	switch {
	case other.at == never:
	case state[0]&1 == 1:
		other.layer, other.attention, other.at = layer+int(state[0]>>1), true, 0
		for _, after := range due {
			if after != -never {
				results = min(results, now+after)
			}
		}
		w.sent = results - 1
		for i, after := range due {
			other.due[i] = w.sent
			if after != -never {
				other.due[i] = now + after
				other.at = max(other.at, now+after)
			}
		}
	default:
		other.layer, other.attention, other.at = layer+int(state[0]>>1), false, now+due[0]
		w.gpuFree = other.at
		for i := range other.due {
			other.due[i] = now
		}
	}
	w.upFree = results + w.costs.upLatency + state[2]
}

// first returns the rankset of offset 0 in a layer.
func (w *waves) first(layer int) int {
	if !w.costs.rotate {
		return 0
	}
	return layer % len(w.freeAt)
}
