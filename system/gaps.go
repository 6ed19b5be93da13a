package system

import (
	"math"
	"slices"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// never is the time of what is not due.
const never = units.Duration(math.MaxInt64)

// gaps measures the times between tokens of a replica.
//
// Nearly all requests that decode got their latest token at the end of the latest
// decode step, so that a step adds one gap, many times. The others have a time of
// their own: their prompt has just ended, they lost their memory, or they sit steps
// out. Requests that sit out cost nothing until they take part again.
//
// A gap is a stall where the request left the decoding ones in it: it lost its memory,
// moved between GPUs and host, or sat out steps that others took.
type gaps struct {
	decode  results.Distribution // that are no stalls
	stalls  results.Distribution
	step    units.Duration   // end of the latest decode step
	latest  []units.Duration // of each request: its latest token, never where that is the step's
	stalled []bool           // of each request: it has left since its latest token
	own     []int32          // requests that take part in the next step with a time of their own
}

func newGaps(requests int) gaps {
	return gaps{latest: slices.Repeat([]units.Duration{never}, requests), stalled: make([]bool, requests)}
}

// enter has a request decode from now on, after the token that its prompt emitted.
func (g *gaps) enter(request int32, now units.Duration) {
	g.latest[request] = now
	g.own = append(g.own, request)
}

// leave notes that a decoding request loses its memory, or sits steps out.
func (g *gaps) leave(request int32) {
	g.stalled[request] = true
	if g.latest[request] == never {
		g.latest[request] = g.step
		return
	}
	g.own = slices.DeleteFunc(g.own, func(r int32) bool { return r == request })
}

// rejoin has a request that sat steps out take part again.
func (g *gaps) rejoin(request int32) { g.own = append(g.own, request) }

// left says whether a request that is not decoding has emitted tokens before it
// lost its memory.
func (g *gaps) left(request int32) bool { return g.latest[request] != never }

// resume adds the gap of a request with a time of its own, which has a token now: at
// the end of a step, or of the second prefill of one that lost its memory.
func (g *gaps) resume(request int32, now units.Duration) {
	d := &g.decode
	if g.stalled[request] {
		d = &g.stalls
	}
	d.Add(int64(now-g.latest[request]), 1)
	g.latest[request], g.stalled[request] = never, false
}

// decoded adds the gaps of a step in which n requests emitted a token now.
func (g *gaps) decoded(now units.Duration, n int) {
	if n == 0 {
		return
	}
	for _, request := range g.own {
		g.resume(request, now)
	}
	g.decode.Add(int64(now-g.step), int64(n-len(g.own)))
	g.own, g.step = g.own[:0], now
}
