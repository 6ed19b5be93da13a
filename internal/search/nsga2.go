package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/l3sim/l3sim/results"
)

// nsga2 is NSGA-II: K. Deb, A. Pratap, S. Agarwal and T. Meyarivan, "A Fast and Elitist
// Multiobjective Genetic Algorithm: NSGA-II", IEEE Transactions on Evolutionary Computation
// 6(2), 2002, with its constraint domination. Unlike there no design is evaluated twice.
func (r *run) nsga2(ctx context.Context) error {
	if err := r.evaluate(ctx, r.batch(r.left(), 1, r.draw)); err != nil {
		return err
	}
	var order []standing
	for i := range r.History {
		order = append(order, standing{at: i})
	}
	r.rank(order)
	for len(order) > 0 && r.left() > 0 {
		var brood [][]float64 // the second child of a pair waits here
		batch := r.batch(r.left(), 50, func() []float64 {
			if len(brood) == 0 {
				brood = r.children(r.tournament(order), r.tournament(order))
			}
			child := brood[0]
			brood = brood[1:]
			return child
		})
		if len(batch) == 0 {
			break
		}
		first := len(r.History)
		if err := r.evaluate(ctx, batch); err != nil {
			return err
		}
		for i := range batch {
			order = append(order, standing{at: first + i})
		}
		r.rank(order)
		order = order[:min(len(order), r.options.Population)]
	}
	for _, s := range order {
		r.Last = append(r.Last, s.at)
	}
	return nil
}

// standing is how an individual compares with a population.
type standing struct {
	at       int     // in the history
	rank     int     // of its front, 0 for the best
	crowding float64 // how far the neighbours on its front are
}

// compare orders standings, the better first.
func (s standing) compare(o standing) int {
	return cmp.Or(cmp.Compare(s.rank, o.rank), cmp.Compare(o.crowding, s.crowding), cmp.Compare(s.at, o.at))
}

// rank fills in ranks and crowding, and sorts: first the fronts of those that meet all
// constraints, then the others by their violation.
func (r *run) rank(all []standing) {
	violation := func(s standing) float64 { return r.History[s.at].Violation }
	slices.SortStableFunc(all, func(a, b standing) int { return cmp.Compare(violation(a), violation(b)) })
	feasible := 0
	for feasible < len(all) && violation(all[feasible]) == 0 {
		feasible++
	}
	rank := 0
	for rest := all[:feasible]; len(rest) > 0; rank++ {
		rest = rest[r.front(rest, rank):]
	}
	for i := feasible; i < len(all); i++ {
		if i > feasible && violation(all[i]) > violation(all[i-1]) {
			rank++
		}
		all[i].rank, all[i].crowding = rank, 0
	}
	slices.SortFunc(all, standing.compare)
}

// front moves those that no other dominates to the beginning, gives them the rank and
// their crowding, and returns their number.
func (r *run) front(rest []standing, rank int) int {
	goals := r.problem.Goals
	costs := make([]float64, 0, goals*len(rest))
	for _, s := range rest {
		costs = append(costs, r.History[s.at].Costs...)
	}
	n := 0
	for i, on := range results.NonDominated(costs, goals) {
		if on {
			rest[n], rest[i] = rest[i], rest[n]
			rest[n].rank, rest[n].crowding = rank, 0
			n++
		}
	}
	on := rest[:n]
	for g := range goals {
		cost := func(i int) float64 { return r.History[on[i].at].Costs[g] }
		slices.SortFunc(on, func(a, b standing) int {
			return cmp.Or(cmp.Compare(r.History[a.at].Costs[g], r.History[b.at].Costs[g]), cmp.Compare(a.at, b.at))
		})
		width := cost(n-1) - cost(0)
		on[0].crowding, on[n-1].crowding = math.Inf(1), math.Inf(1)
		for i := 1; i < n-1 && width > 0; i++ {
			on[i].crowding += (cost(i+1) - cost(i-1)) / width
		}
	}
	return n
}

// tournament returns the genes of the better of two of a population.
func (r *run) tournament(order []standing) []float64 {
	a, b := order[r.random.IntN(len(order))], order[r.random.IntN(len(order))]
	if b.compare(a) < 0 {
		a = b
	}
	return r.History[a.at].Genes
}
