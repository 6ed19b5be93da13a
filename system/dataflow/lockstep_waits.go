package dataflow

// waited adds up the GPU's waits until the last operation of a layer of sub-batch s is ready, in three parts: for
// the transfer to the slowest lane, for that lane, and then for results on their way up.
func (l *lockstep) waited(s int, ready Time) {
	sub, w := &l.sub[s], &l.waits
	free := l.gpuFree
	sub.gap = gap{free: free, until: ready}
	ended := max(free, sub.due[sub.slowest])
	w.up += ready - ended
	if ended == free {
		return
	}
	sent, c := max(free, sub.down[sub.slowest]), sub.cost
	w.lanes += ended - sent
	w.uneven += min(ended-sent, max(0, c.lanes[sub.slowest].compute-c.mean))
	w.down += sent - free
}

// idleTo adds up the time until now in which no lane has an operation and no layer is on its way to the
// lanes.
func (l *lockstep) idleTo(now Time) {
	l.waits.idle += now - l.idle
	for s := range l.sub {
		g := &l.sub[s].gap
		l.waits.idleWithUp += max(0, min(now, g.until)-max(l.idle, g.free))
	}
	l.idle = now
}

// sending adds up the lanes' wait, from from on, for the first transfer of sub-batch s's wave.
func (l *lockstep) sending(s int, from Time) {
	if to := l.sub[s].down[l.sub[s].cost.first]; to > from {
		l.waits.idle += to - from
		l.waits.idleDown += to - from
	}
}

// lanesEnded records that lanes have ended at a time. Lanes of a wave that is still to come wait for
// it.
func (l *lockstep) lanesEnded(at Time) {
	switch {
	case l.sub[0].attention:
		l.sending(0, at)
	case l.sub[1].attention:
		l.sending(1, at)
	default:
		l.idle = at
	}
}

// report writes the waits of the iteration.
func (l *lockstep) report(e *Engine) {
	w, to, reason := &l.waits, &e.waits, func(r int8) uint8 { return e.resources[r].Reason }
	*to = Waits{Uneven: w.uneven}
	to.Main[reason(l.up)] += w.up
	to.Main[reason(l.onLanes)] += w.lanes
	to.Main[reason(l.link)] += w.down
	if l.onLanes == e.device {
		to.Device[reason(l.gpu)] += w.idle - w.idleDown - w.idleWithUp
		to.Device[reason(l.link)] += w.idleDown
		to.Device[reason(l.up)] += w.idleWithUp
	}
}
