package system

import "github.com/l3sim/l3sim/sim"

// groupCheck follows the attention of a group that a wave has sent.
type groupCheck struct {
	since sim.Time // computes since then
	done  sim.Time // and has computed for so long before
}

// sending is a group's vectors on their way down, as the wave found things.
type sending struct {
	s, offset, q int      // sub-batch, rankset offset and rankset
	met          int      // offset of the other sub-batch's group on that rankset
	eligible     sim.Time // QKV generation and latency have passed
	free         sim.Time // the rankset had no transfer any more
	until        sim.Time // the other sub-batch's group was to end
}

// begin forgets the iteration before; the entries have the GPU from start on.
func (c *checker) begin(w *waves, start sim.Time) {
	c.gpuEnd, c.downEnd, c.upEnd, c.layers = w.gpuFree, start, start, [2]int{}
	c.under = [2]int{}
}

// sent checks a group whose vectors went down.
func (c *checker) sent(w *waves, t sending) {
	s, offset, q, met, until := t.s, t.offset, t.q, t.met, t.until
	sub, other := &w.sub[s], &w.sub[1-s]
	g := &w.costs.sub[s].groups[offset]
	begin, end := w.linkFree-g.decode.last, w.linkFree
	ready := max(t.eligible, c.downEnd)
	if begin < ready {
		c.fail(LawExclusive, begin, "the down link starts sub-batch %d, layer %d, offset %d, there at %v, before it is free at %v",
			s, sub.layer, offset, t.eligible, c.downEnd)
	}
	resume, late := w.freeAt[q], other.due[met]-until
	switch stop := resume - late; {
	case late == 0 && until <= max(ready, t.free):
		if begin > max(ready, t.free)+g.decode.open {
			c.fail(LawIdle, begin, "the down link idles while sub-batch %d, layer %d, offset %d, waits", s, sub.layer, offset)
		}
	case late == 0 && until > begin, late != 0 && (stop < ready || stop > begin || resume < end):
		c.fail(LawExclusive, begin, "rankset %d receives in %v to %v and computes until %v and from %v", q, begin, end, min(stop, until), resume)
	case late != 0:
		o := &c.groups[1-s][met]
		o.done += max(stop-o.since, 0)
		o.since = resume
	}
	start := sub.due[offset] - g.compute
	switch ready := max(resume, other.due[met]); {
	case start < end:
		c.fail(LawCausality, start, "attention of sub-batch %d, layer %d, offset %d, starts before its vectors at %v", s, sub.layer, offset, end)
	case start < ready:
		c.fail(LawExclusive, start, "rankset %d starts sub-batch %d, layer %d, offset %d, before it is free at %v", q, s, sub.layer, offset, ready)
	case start > ready:
		c.fail(LawIdle, start, "rankset %d idles from %v while sub-batch %d, layer %d, offset %d, waits", q, ready, s, sub.layer, offset)
	}
	c.groups[s][offset] = groupCheck{since: start}
	c.under[s]++
	c.downEnd = end
}

// came checks a group that has ended and whose results have come up.
func (c *checker) came(w *waves, e *groupEnd) {
	g := &c.groups[e.s][e.offset]
	compute := w.costs.sub[e.s].groups[e.offset].compute
	if computed := g.done + e.at - g.since; computed != compute {
		c.fail(LawTraffic, e.at, "attention of sub-batch %d, layer %d, offset %d, computed for %v of %v",
			e.s, w.sub[e.s].layer, e.offset, computed, compute)
	}
	begin, ready := w.upFree-e.up, e.at+w.costs.upLatency
	switch {
	case begin < ready:
		c.fail(LawCausality, begin, "results of sub-batch %d, layer %d, offset %d, go up before they are there", e.s, w.sub[e.s].layer, e.offset)
	case begin < c.upEnd:
		c.fail(LawExclusive, begin, "the up link starts sub-batch %d, layer %d, offset %d, before it is free at %v",
			e.s, w.sub[e.s].layer, e.offset, c.upEnd)
	case begin > max(ready, c.upEnd):
		c.fail(LawIdle, begin, "the up link idles while sub-batch %d, layer %d, offset %d, waits", e.s, w.sub[e.s].layer, e.offset)
	}
	c.upEnd = w.upFree
	c.under[e.s]--
}

// blocked checks a block that has got the GPU until end.
func (c *checker) blocked(w *waves, s int, begin, end sim.Time) {
	sub := &w.sub[s]
	switch {
	case c.under[s] != 0 || begin < sub.results:
		c.fail(LawCausality, begin, "the block of sub-batch %d, layer %d, starts without %d groups, results are there at %v",
			s, sub.layer, c.under[s], sub.results)
	case begin < c.gpuEnd:
		c.fail(LawExclusive, begin, "the GPU starts the block of sub-batch %d, layer %d, before it is free at %v", s, sub.layer, c.gpuEnd)
	case begin > max(sub.results, c.gpuEnd):
		c.fail(LawIdle, begin, "the GPU idles while the block of sub-batch %d, layer %d, waits", s, sub.layer)
	}
	c.gpuEnd = end
}

// jumped follows a jump over layers by which sub-batch s starts a layer now, and
// which skips layers of both. Groups under way have computed what they do not
// compute from now on.
func (c *checker) jumped(w *waves, s int, skipped [2]int) {
	now, other := w.sub[s].at, &w.sub[1-s]
	c.gpuEnd, c.downEnd, c.upEnd = w.gpuFree, w.linkFree, w.upFree
	for i := range skipped {
		c.layers[i] += skipped[i]
	}
	c.under[1-s] = 0
	if !other.attention {
		return
	}
	groups := w.costs.sub[1-s].groups
	for i, due := range other.due {
		if due > w.sent {
			c.under[1-s]++
		}
		c.groups[1-s][i] = groupCheck{now, groups[i].compute - (due - now)}
	}
}

// finished checks that an iteration has run all its layers.
func (c *checker) finished(w *waves) {
	for s := range w.costs.sub {
		if w.costs.sub[s].active && c.layers[s] != w.costs.layers {
			c.fail(LawTraffic, w.gpuFree, "sub-batch %d ran %d layers of %d", s, c.layers[s], w.costs.layers)
		}
	}
}
