package system

import (
	"math"
	"slices"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

const never = units.Duration(math.MaxInt64) // the time of a token that has not been emitted

// gaps measures the times between tokens of a replica.
//
// Nearly all decoding requests got their latest token at the end of the latest decode step, so a
// step adds one gap many times. The others have a time of their own: their prompt has just ended,
// they were preempted, or they sit out steps. Requests that sit out cost nothing until they take
// part again.
//
// A gap is a stall if the request stopped decoding in it: it was preempted, moved between GPUs and
// host, or sat out steps that others took.
type gaps struct {
	decode  results.Distribution // gaps that are no stalls
	stalls  results.Distribution
	step    units.Duration   // end of the latest decode step
	latest  []units.Duration // by request: time of its latest token; never if that is the end of the step
	stalled []bool           // by request: it has stopped decoding since its latest token
	own     []int32          // requests of the next step that have a time of their own

	// Gaps that end in a part of the run are also counted there; nil for none.
	measure  *Window
	measured results.Distribution
	diary    *diary // records all gaps; nil for none

	// With a target, gaps above it are counted by request. A step's gap is counted once for all
	// requests that share it.
	target    units.Duration // 0: none
	slowSteps int64          // steps so far whose gap exceeds it
	slow      []int64        // by request: its gaps above it, less slowSteps while it shares the steps' gaps
}

// newGaps returns gaps of a number of requests. With a target it also counts each request's gaps above it.
func newGaps(requests int, target units.Duration) gaps {
	g := gaps{latest: slices.Repeat([]units.Duration{never}, requests), stalled: make([]bool, requests), target: target}
	if target > 0 {
		g.slow = make([]int64, requests)
	}
	return g
}

// extend adds a request.
func (g *gaps) extend() {
	g.latest, g.stalled = append(g.latest, never), append(g.stalled, false)
	if g.target > 0 {
		g.slow = append(g.slow, 0)
	}
}

// slowOf returns the number of gaps above the target of a request that has emitted its last token,
// with its prompt or in a step.
func (g *gaps) slowOf(request int32, prompt bool) int64 {
	if g.target == 0 {
		return 0
	}
	if !prompt {
		g.share(request, 1)
	}
	return g.slow[request]
}

// enter makes a request decode from now on, after the token that its prompt emitted.
func (g *gaps) enter(request int32, now units.Duration) {
	g.latest[request] = now
	g.own = append(g.own, request)
}

// leave records that a decoding request is preempted or sits out steps.
func (g *gaps) leave(request int32) {
	g.stalled[request] = true
	if g.latest[request] == never {
		g.latest[request] = g.step
		g.share(request, 1)
		return
	}
	g.own = slices.DeleteFunc(g.own, func(r int32) bool { return r == request })
}

// rejoin makes a request that sat out steps take part again.
func (g *gaps) rejoin(request int32) { g.own = append(g.own, request) }

// left says whether a request that does not decode had emitted tokens before it was preempted.
func (g *gaps) left(request int32) bool { return g.latest[request] != never }

// resume adds the gap of a request with a time of its own that gets a token now: at the end of a
// step, or of its second prefill after a preemption.
func (g *gaps) resume(request int32, now units.Duration) {
	d := &g.decode
	if g.stalled[request] {
		d = &g.stalls
	}
	gap := now - g.latest[request]
	d.Add(int64(gap), 1)
	g.count(now, gap, 1)
	g.latest[request], g.stalled[request] = never, false
	if g.target > 0 && gap > g.target {
		g.slow[request]++
	}
}

// share makes a request share the steps' gaps from now on (-1), or no longer (1).
func (g *gaps) share(request int32, sign int64) {
	if g.target > 0 {
		g.slow[request] += sign * g.slowSteps
	}
}

// decoded adds the gaps of a step in which n requests emit a token now, and drafted accepted drafts at the same time.
func (g *gaps) decoded(now units.Duration, n, drafted int) {
	if n == 0 {
		return
	}
	if g.target > 0 && now-g.step > g.target {
		g.slowSteps++
	}
	for _, request := range g.own {
		g.resume(request, now)
		g.share(request, -1)
	}
	g.decode.Add(int64(now-g.step), int64(n-len(g.own)))
	g.count(now, now-g.step, n-len(g.own))
	g.own, g.step = g.own[:0], now
	g.decode.Add(0, int64(drafted))
	g.count(now, 0, drafted)
}

// count adds n gaps that end now to the diary and to the measured window, if there are any.
func (g *gaps) count(now, gap units.Duration, n int) {
	if g.diary != nil && n > 0 {
		g.diary.gaps = append(g.diary.gaps, keptGap{now, gap, n})
	}
	if g.measure != nil && now >= g.measure.From && now <= g.measure.To {
		g.measured.Add(int64(gap), int64(n))
	}
}
