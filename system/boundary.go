package system

import (
	"math"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/sim"
)

// rankClock converts between time and the clocks that a rank computes, between
// which it refreshes at its long-run rate.
type rankClock struct {
	tCK                 sim.Time
	interval, computing int64   // tREFI, and tREFI - tRFC: the clocks of it that compute
	rate                float64 // clocks computed a picosecond
	most                int64   // clocks that take no longer than longestTask
}

func newRankClock(tCK sim.Time, interval, computing int64) rankClock {
	r := rankClock{tCK: tCK, interval: interval, computing: computing, rate: float64(computing) / (float64(interval) * float64(tCK))}
	r.most = min(r.clocks(longestTask)-1, math.MaxInt64/interval-1)
	return r
}

// time returns the time that clocks of computing take, longestTask at most.
func (r *rankClock) time(clocks int64) sim.Time {
	if clocks > r.most {
		return longestTask
	}
	return sim.Time((clocks*r.interval+r.computing-1)/r.computing) * r.tCK
}

// clocks returns the clocks that a rank has computed within t, give or take the
// one in progress.
func (r *rankClock) clocks(t sim.Time) int64 { return int64(float64(t) * r.rate) }

// boundaryWait returns how long a transfer that finds group g at elapsed > 0
// waits until the rankset can be interrupted: at the end of a head, or earlier at
// a multiple of step from the head's start; a step of 0 is none.
//
// The boundary's time counts from the group's start, so that where the rankset
// stops does not depend on when within a clock the transfer came.
func (c *iterationCosts) boundaryWait(g *groupCost, elapsed sim.Time) sim.Time {
	at := c.clock.clocks(elapsed)
	boundary := c.clock.time(c.boundary(g, at))
	if boundary < elapsed { // at is rounded down
		boundary = c.clock.time(c.boundary(g, at+1))
	}
	return max(boundary-elapsed, 0)
}

// boundary returns the first boundary of group g that is not before at, in clocks
// from its start.
func (c *iterationCosts) boundary(g *groupCost, at int64) int64 {
	start := int64(0)
	for _, head := range g.heads {
		end := start + head*int64(c.headsEach)
		if at > end {
			start = end
			continue
		}
		for start+head <= at { // few: a channel has few heads of a layer
			start += head
		}
		end = start + head
		switch {
		case at == start:
			return at
		case c.step == 0:
			return end
		}
		return min(end, start+(at-start+c.step-1)/c.step*c.step)
	}
	return at // within the drain of the last head
}

// boundaryStep returns the distance of the boundaries within a head: a row's
// share of a head that has many, or a chunk's share of a row.
func boundaryStep(t *pim.KernelTable, boundary string, banks int) int64 {
	row := t.RowTokens()
	clocks := (t.Attention(3*row) - t.Attention(2*row)) / 2 // a K row and a V row
	switch boundary {
	case pim.BoundaryRow:
		return clocks
	case pim.BoundaryChunk:
		return max(clocks*int64(banks)/int64(row), 1)
	}
	return 0
}
