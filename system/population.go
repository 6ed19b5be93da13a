package system

import (
	"math"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// population follows the number of requests in a replica over time, as its scheduler counts them:
// those that wait, prefill, decode or are on the host.
type population struct {
	n     int
	since units.Duration
	area  units.Total // requests times picoseconds, from 0 to since
	// quarters is area in each quarter of the arrival time, which is 0 to span.
	span     units.Duration
	quarters [4]units.Total
}

func (p *population) set(now units.Duration, n int) {
	p.area.AddTimes(now-p.since, int64(p.n))
	for p.since < min(now, p.span) && p.n > 0 {
		q := p.quarter(p.since)
		until := min(now, p.bound(q+1))
		p.quarters[q].AddTimes(until-p.since, int64(p.n))
		p.since = until
	}
	p.since, p.n = now, n
}

// bound returns the time at which quarter q of the arrival time begins.
func (p *population) bound(q int) units.Duration {
	return p.span/4*units.Duration(q) + p.span%4*units.Duration(q)/4
}

func (p *population) quarter(t units.Duration) int {
	q := 0
	for p.bound(q+1) <= t {
		q++
	}
	return q
}

// Thresholds of saturation: a share of all requests, and a least number, so that chance does not
// count with few requests: lab/docs/laws-and-metrics.md.
const (
	saturatedShare = 0.02
	leastWaiting   = 10
)

// saturated says whether a node could not keep up with requests that arrive over time. It could not
// if the number in the system grew from the second quarter of the arrival time to the third and on
// to the fourth, in all by at least saturatedShare of the requests that arrive in half of it and
// three times the number's square root; or if saturatedShare of all requests, and at least
// leastWaiting, waited on average; or if saturatedShare of all requests were turned away.
func saturated(replicas []*replica) bool {
	requests, away := 0, 0
	var waited units.Total
	var mean [4]float64
	last := replicas[0].tallied.population.span
	if last == 0 {
		return false
	}
	span := float64(last)
	for _, r := range replicas {
		for q := range mean {
			mean[q] += r.tallied.population.quarters[q].Picoseconds() / (span / 4)
		}
		requests += len(r.out.requests)
		for i := range r.out.requests {
			switch q := &r.out.requests[i]; q.Outcome {
			case results.Served:
				waited.Add(min(q.Start, last) - q.Request.Arrival)
			case results.Expired:
				waited.Add(min(q.Finish, last) - q.Request.Arrival)
				away++
			case results.Refused:
				away++
			}
		}
	}
	share := saturatedShare * float64(requests)
	grown := mean[3] - mean[1]
	grows := mean[1] < mean[2] && mean[2] < mean[3] && grown >= share/2 && grown >= 3*math.Sqrt(mean[1])
	return grows || waited.Picoseconds()/span >= max(share, leastWaiting) || away > 0 && float64(away) >= share
}

func (n *Node) meanImbalance(replicas []*replica) float64 {
	var sum flow.Imbalance
	for _, r := range replicas {
		i := r.assembly.Engine.Ranksets()
		sum.Join(&i)
	}
	return sum.Ratio(n.hw.AttentionDevices())
}
