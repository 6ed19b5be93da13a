package search

import (
	"slices"

	"github.com/l3sim/l3sim/units/portable"
)

// The probability of crossover and its distribution index are those of NSGA-II's paper for
// reals (section IV), whose index of mutation is 20. Ours takes larger steps: budgets here are
// hundreds of points and not 25,000, and ZDT1 to ZDT3 come out no worse. A variable mutates
// with a probability of one over their number.
const (
	crossoverProbability = 0.9
	crossoverIndex       = 20
	mutationIndex        = 5
)

// children returns two children of two parents.
func (r *run) children(a, b []float64) [][]float64 {
	pair := [][]float64{slices.Clone(a), slices.Clone(b)}
	if r.random.Float64() < crossoverProbability {
		for i, v := range r.problem.Variables {
			if r.random.Float64() < 0.5 {
				r.cross(v, &pair[0][i], &pair[1][i])
			}
		}
	}
	for _, child := range pair {
		for i, v := range r.problem.Variables {
			if r.random.Float64()*float64(len(child)) < 1 {
				r.mutate(v, &child[i])
			}
		}
	}
	return pair
}

// cross is simulated binary crossover within bounds (K. Deb and R. B. Agrawal, "Simulated
// Binary Crossover for Continuous Search Space", Complex Systems 9, 1995). Categories are
// swapped.
func (r *run) cross(v Variable, a, b *float64) {
	if v.Categorical {
		*a, *b = *b, *a
		return
	}
	low, high := min(*a, *b), max(*a, *b)
	if high-low < 1e-14 {
		return
	}
	u := float64(r.random.Float64())
	spread := func(room float64) float64 { // room: from the nearer parent to the bound
		const power = 1.0 / (crossoverIndex + 1)
		beta := 1 + 2*room/(high-low)
		alpha := 2 - portable.Pow(beta, -(crossoverIndex+1))
		if u*alpha <= 1 {
			return portable.Pow(u*alpha, power)
		}
		return portable.Pow(1/(2-float64(u*alpha)), power)
	}
	down := clamp((low + high - float64(spread(low)*(high-low))) / 2)
	up := clamp((low + high + float64(spread(1-high)*(high-low))) / 2)
	if r.random.Float64() < 0.5 {
		down, up = up, down
	}
	*a, *b = down, up
}

// mutate is polynomial mutation within bounds (K. Deb and S. Agrawal, "A Niched-Penalty
// Approach for Constraint Handling in Genetic Algorithms", ICANNGA 1999). A mutated level
// is always another one: the next in that direction at least, or any other category.
func (r *run) mutate(v Variable, gene *float64) {
	n := len(v.Levels)
	if n == 1 {
		return
	}
	if v.Categorical {
		*gene = v.Levels[(v.nearest(*gene)+1+r.random.IntN(n-1))%n]
		return
	}
	const power = 1.0 / (mutationIndex + 1)
	u, x := float64(r.random.Float64()), *gene
	down := u < 0.5
	room := x // up to the bound on the other side
	if down {
		room = 1 - x
	} else {
		u = 1 - u
	}
	moved := 1 - portable.Pow(float64(2*u)+float64((1-float64(2*u))*portable.Pow(room, mutationIndex+1)), power)
	if down {
		moved = -moved
	}
	*gene = clamp(x + moved)
	if n == 0 {
		return
	}
	if before := v.nearest(x); v.nearest(*gene) == before {
		step := 1
		if down && before > 0 || before == n-1 {
			step = -1
		}
		*gene = v.Levels[before+step]
	}
}

// clamp moves a gene into its bounds.
func clamp(x float64) float64 { return max(0, min(1, x)) }
