package system

import "github.com/l3sim/l3sim/sim"

// waves runs the layers of an iteration that only decodes, a recurrence instead
// of events: it takes two steps a layer of a sub-batch where the pipeline takes
// one for every transfer, attention, result and kernel.
//
// A wave is the decode vectors of a sub-batch's layer, a transfer a group. What
// makes it one step is that nothing of it depends on what happens while it lasts:
//
//   - the down link serves waves whole, in the order in which their layers start;
//   - a sub-batch's groups have all ended before its next wave starts, so that a
//     transfer finds at most one group on its rankset, one of the other sub-batch,
//     whose vectors came before;
//   - that group's end is known, since only transfers delay it, and is final
//     after this one, because this one's own group, and so the next wave of its
//     sub-batch, waits for it.
//
// When a wave has been sent, the ends of all its groups are known unless a wave
// of the other sub-batch delays them. Whichever comes first is next: the last
// group of a sub-batch ends, which no wave delays any more, or a block on the GPU
// does, and a wave starts.
//
// With prompts, buffers, half-duplex channels or without concurrent communication
// more is in flight at once, and the pipeline runs the iteration by its events.
type waves struct {
	costs *iterationCosts
	sub   [2]subWave
	// freeAt is when each rankset can compute again after its latest transfer.
	freeAt           []sim.Time
	linkFree, upFree sim.Time // when the links have done all that was sent so far
	gpuFree          sim.Time
	sent             sim.Time // the results of groups that ended up to then have been sent up
	ended            []groupEnd
	past             waveHistory
	steps, layers    int64    // of the iteration, without those skipped
	check            *checker // nil without checks
}

// subWave is where a sub-batch is.
type subWave struct {
	layer     int // of its latest wave; -1 before the first
	attention bool
	at        sim.Time   // its last group ends, or where not in attention its task on the GPU; never after the last
	due       []sim.Time // end of each group, by rankset offset; the past for one without requests
	results   sim.Time   // the latest have come up
}

// groupEnd is a group that has ended.
type groupEnd struct {
	at, up    sim.Time // up: of its results on the links
	s, offset int      // sub-batch and rankset offset
}

func newWaves(ranksets int) waves {
	w := waves{freeAt: make([]sim.Time, ranksets), ended: make([]groupEnd, 0, 2*ranksets), past: newWaveHistory(ranksets)}
	for s := range w.sub {
		w.sub[s].due = make([]sim.Time, ranksets)
	}
	return w
}

// apply says whether the recurrence holds for an iteration. Times of zero would
// have tasks end at one instant in an order that it does not keep.
func (w *waves) apply(c *iterationCosts) bool {
	if !c.concurrent || c.buffered || c.halfDuplex {
		return false
	}
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		if sub.prefillAttention > 0 || min(sub.entry, sub.block, sub.exit) == 0 {
			return false
		}
		decodes := false
		for i := range sub.groups {
			g := &sub.groups[i]
			if g.promptTokens > 0 || g.requests > 0 && (g.up == 0 || g.compute == 0) {
				return false
			}
			decodes = decodes || g.requests > 0
		}
		if !decodes {
			return false
		}
	}
	return true
}

// run executes an iteration that starts at start and returns its end.
func (w *waves) run(c *iterationCosts, start sim.Time) sim.Time {
	w.begin(c, start)
	for w.step() {
	}
	if w.check != nil {
		w.check.finished(w)
	}
	return w.gpuFree
}

// begin requests the entries of an iteration that starts at start.
func (w *waves) begin(c *iterationCosts, start sim.Time) {
	w.costs, w.steps, w.layers = c, 0, 0
	w.linkFree, w.upFree, w.gpuFree, w.sent = start, start, start, start
	for q := range w.freeAt {
		w.freeAt[q] = start
	}
	w.past.reset()
	for s := range w.sub {
		sub := &w.sub[s]
		sub.layer, sub.attention, sub.at = -1, false, never
		for i := range sub.due {
			sub.due[i] = start
		}
		if s < len(c.sub) && c.sub[s].active {
			w.gpuFree += c.sub[s].entry
			sub.at = w.gpuFree
		}
	}
	if w.check != nil {
		w.check.begin(w, start)
	}
}

// next returns the sub-batch that takes the next step.
func (w *waves) next() int {
	if w.sub[1].at < w.sub[0].at {
		return 1
	}
	return 0
}

// step takes the next step of either sub-batch; it reports false when both have
// ended.
func (w *waves) step() bool {
	s := w.next()
	next := &w.sub[s]
	if next.at == never {
		return false
	}
	w.steps++
	if next.attention {
		w.finish(next.at)
	} else {
		w.start(s)
	}
	return true
}

// finish sends up the results of all groups that end up to at, in the order of
// their ends, and runs the block of a sub-batch whose last group is among them.
func (w *waves) finish(at sim.Time) {
	ended := w.ended[:0]
	for s := range w.sub {
		if !w.sub[s].attention {
			continue
		}
		groups := w.costs.sub[s].groups
		for offset, due := range w.sub[s].due {
			if due <= w.sent || due > at {
				continue
			}
			i := len(ended)
			ended = ended[:i+1]
			for ; i > 0 && ended[i-1].at > due; i-- {
				ended[i] = ended[i-1]
			}
			ended[i] = groupEnd{due, groups[offset].up, s, offset}
		}
	}
	for i := range ended {
		e := &ended[i]
		w.upFree = max(w.upFree, e.at+w.costs.upLatency) + e.up
		w.sub[e.s].results = w.upFree
		if w.check != nil {
			w.check.came(w, e)
		}
	}
	w.sent = at
	for s := range w.sub {
		sub := &w.sub[s]
		if !sub.attention || sub.at > at {
			continue
		}
		block := w.costs.sub[s].block
		if sub.layer == w.costs.layers-1 {
			block = w.costs.sub[s].exit
		}
		w.gpuFree = max(w.gpuFree, sub.results) + block
		if w.check != nil {
			w.check.blocked(w, s, w.gpuFree-block, w.gpuFree)
		}
		sub.attention, sub.at = false, w.gpuFree
	}
}

// start starts the next layer of sub-batch s, whose QKV generation has ended:
// its wave goes down.
func (w *waves) start(s int) {
	sub, other := &w.sub[s], &w.sub[1-s]
	if sub.layer++; sub.layer == w.costs.layers {
		sub.at = never
		return
	}
	w.skipRepeats(s)
	w.layers++
	if w.check != nil {
		w.check.layers[s]++
	}
	eligible := sub.at + w.costs.latency
	sub.attention, sub.at = true, 0
	// The rankset of offset 0, and the offset of the other sub-batch's group there.
	q, met := w.first(sub.layer), 0
	ranksets := len(w.freeAt)
	if w.costs.rotate {
		if met = (sub.layer - other.layer) % ranksets; met < 0 {
			met += ranksets
		}
	}
	groups := w.costs.sub[s].groups
	for offset := range groups {
		if g := &groups[offset]; g.requests > 0 {
			free, until := w.freeAt[q], other.due[met]
			left := max(w.linkFree, eligible, free)
			if until > left {
				w.interrupt(other, &w.costs.sub[1-s].groups[met], q, met, left, &g.decode)
			} else {
				w.linkFree = left + g.decode.open + g.decode.last
				w.freeAt[q] = w.linkFree + g.decode.close
			}
			due := max(w.freeAt[q], other.due[met]) + g.compute
			sub.due[offset] = due
			sub.at = max(sub.at, due)
			if w.check != nil {
				w.check.sent(w, sending{s, offset, q, met, eligible, free, until})
			}
		}
		if q++; q == ranksets {
			q = 0
		}
		if met++; met == ranksets {
			met = 0
		}
	}
}

// interrupt sends a transfer t to rankset q, which computes
// group g, the one of the other sub-batch with the given offset, and can leave
// it from left on: the same as the pipeline's leave and claim.
func (w *waves) interrupt(other *subWave, g *groupCost, q, offset int, left sim.Time, t *shipment) {
	c := w.costs
	remaining := other.due[offset] - left
	if remaining >= g.compute { // it has not begun: there is no row to close or to open again
		w.linkFree = left + t.open + t.last
		w.freeAt[q] = w.linkFree + t.close
		other.due[offset] += w.freeAt[q] - left
		other.at = max(other.at, other.due[offset])
		return
	}
	wait := c.boundaryWait(g, g.compute-remaining)
	if wait >= remaining { // it ends first
		w.linkFree = left + remaining + t.open + t.last
		w.freeAt[q] = w.linkFree + t.close
		return
	}
	stop := left + wait
	w.linkFree = stop + c.vacate + t.open + t.last
	w.freeAt[q] = w.linkFree + t.close + c.reactivate
	other.due[offset] += w.freeAt[q] - stop
	other.at = max(other.at, other.due[offset])
}

// decodeWork returns what the resources do in an iteration without prompts.
func (c *iterationCosts) decodeWork() work {
	var w, layer work // in the iteration, in a layer
	for s := range c.sub {
		sub := &c.sub[s]
		if !sub.active {
			continue
		}
		w.gpu += sub.entry + sub.exit - sub.block
		w.tasks++
		layer.gpu += sub.block
		layer.tasks++
		for i := range sub.groups {
			g := &sub.groups[i]
			if g.requests == 0 {
				continue
			}
			layer.pim += g.compute
			layer.pcieDown += g.decode.last
			layer.pcieUp += g.up
			layer.channel += g.decode.data + g.upBus
			layer.requestsDown += int64(g.requests)
			layer.requestsUp += int64(g.requests)
			layer.tasks += 3 // down, attention, up
		}
	}
	w.add(&layer, int64(c.layers))
	return w
}
