package search

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/results"
)

// Hypervolume returns the volume that points dominate up to a reference: of one to three
// costs each, all to be minimised. Points that are not better than the reference in every
// cost add nothing. (E. Zitzler and L. Thiele, "Multiobjective Optimization Using
// Evolutionary Algorithms - A Comparative Case Study", PPSN V, 1998.)
func Hypervolume(points [][]float64, reference []float64) float64 {
	last := len(reference) - 1
	var inside [][]float64
	for _, p := range points {
		if better(p, reference) {
			inside = append(inside, p)
		}
	}
	// Slices of the last cost: each is dominated by what comes before it.
	slices.SortStableFunc(inside, func(a, b []float64) int { return cmp.Compare(a[last], b[last]) })
	if last == 0 {
		if len(inside) == 0 {
			return 0
		}
		return reference[0] - inside[0][0]
	}
	volume, area := 0.0, 0.0
	best := reference[0]   // of two costs: a slice is as wide as the best first cost
	var stairs [][]float64 // of three: those before and in a slice that are the best of their first two
	for i, p := range inside {
		if last == 1 {
			best = min(best, p[0])
			area = reference[0] - best
		} else {
			stairs = append(slices.DeleteFunc(stairs, func(q []float64) bool { return p[0] <= q[0] && p[1] <= q[1] }), p)
			area = Hypervolume(stairs, reference[:last])
		}
		next := reference[last]
		if i+1 < len(inside) {
			next = inside[i+1][last]
		}
		volume += float64(area * (next - p[last]))
	}
	return volume
}

// better says that a point is better than the reference in every cost.
func better(p, reference []float64) bool {
	for i, r := range reference {
		if p[i] >= r {
			return false
		}
	}
	return true
}

// Front returns the costs of the individuals that meet all constraints and that no other feasible
// individual dominates, in their order.
func Front(history []Individual, goals int) [][]float64 {
	var points [][]float64
	var costs []float64
	for _, one := range history {
		if one.Violation == 0 {
			points = append(points, one.Costs)
			costs = append(costs, one.Costs...)
		}
	}
	on := results.NonDominated(costs, goals)
	n := 0
	for i, p := range points {
		if on[i] {
			points[n] = p
			n++
		}
	}
	return points[:n]
}
