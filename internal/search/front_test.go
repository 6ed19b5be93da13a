package search

import (
	"context"
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/lab/deep"
)

// on returns the problem of a function of n reals.
func on(n, goals int, costs func(x []float64) []float64) *Problem {
	return &Problem{Variables: make([]Variable, n), Goals: goals,
		Evaluate: func(_ context.Context, batch [][]float64) ([]Score, error) {
			scores := make([]Score, len(batch))
			for i, x := range batch {
				scores[i].Costs = costs(x)
			}
			return scores, nil
		}}
}

// zdt returns a problem of E. Zitzler, K. Deb and L. Thiele, "Comparison of Multiobjective
// Evolutionary Algorithms: Empirical Results", Evolutionary Computation 8(2), 2000, with 30
// variables: its second goal is g times shape(first goal, g), and g is 1 on the front.
func zdt(shape func(f, g float64) float64) *Problem {
	return on(30, 2, func(x []float64) []float64 {
		sum := 0.0
		for _, v := range x[1:] {
			sum += v
		}
		g := 1 + 9*sum/29
		return []float64{x[0], g * shape(x[0], g)}
	})
}

func zdt1(f, g float64) float64 { return 1 - math.Sqrt(f/g) }
func zdt2(f, g float64) float64 { return 1 - (f/g)*(f/g) }
func zdt3(f, g float64) float64 { return 1 - math.Sqrt(f/g) - f/g*math.Sin(10*math.Pi*f) }

// below returns the area that a front of two costs dominates up to 1.1, 1.1, by its
// definition: for each first cost the least second one so far.
func below(shape func(f, g float64) float64) float64 {
	const steps = 1_000_000
	area, least := 0.0, 1.1
	for i := range steps {
		least = min(least, shape((float64(i)+0.5)/steps, 1))
		area += (1.1 - least) / steps
	}
	return area + 0.1*(1.1-least)
}

// costs returns the costs of a result's last population.
func costs(r *Result) [][]float64 {
	var all [][]float64
	for _, i := range r.Last {
		all = append(all, r.History[i].Costs)
	}
	return all
}

// TestFronts: with 25,000 evaluations a population of 100 covers 98.5% of the hypervolume
// of ZDT1 to ZDT3.
func TestFronts(t *testing.T) {
	if third := below(zdt1); math.Abs(third-(1.21-1.0/3)) > 1e-6 { // the integral of 1 - sqrt(x)
		t.Fatalf("ZDT1's front dominates %g", third)
	}
	if third := below(zdt2); math.Abs(third-(1.21-2.0/3)) > 1e-6 {
		t.Fatalf("ZDT2's front dominates %g", third)
	}
	for name, shape := range map[string]func(f, g float64) float64{"ZDT1": zdt1, "ZDT2": zdt2, "ZDT3": zdt3} {
		for seed := range uint64(deep.Of(1, 1, 10)) {
			r, err := Run(t.Context(), zdt(shape), Options{NSGA2, 100, 25_000, seed})
			if err != nil || len(r.History) != 25_000 || len(r.Last) != 100 {
				t.Fatalf("%s: %v, %d evaluations, %d at last", name, err, len(r.History), len(r.Last))
			}
			share := Hypervolume(costs(r), []float64{1.1, 1.1}) / below(shape)
			t.Logf("%s, seed %d: %.4f", name, seed, share)
			if share < 0.985 || share > 1 {
				t.Errorf("%s, seed %d: %.4f of the true hypervolume", name, seed, share)
			}
		}
	}
}

// dtlz2 is of K. Deb, L. Thiele, M. Laumanns and E. Zitzler, "Scalable Multi-Objective
// Optimization Test Problems", CEC 2002: its front is the unit sphere where all goals are
// positive. It has 10 variables beside those of the position on the sphere.
func dtlz2(goals int) *Problem {
	return on(goals+9, goals, func(x []float64) []float64 {
		g := 0.0
		for _, v := range x[goals-1:] {
			g += (v - 0.5) * (v - 0.5)
		}
		f := make([]float64, goals)
		for i := range f {
			f[i] = 1 + g
			for _, v := range x[:goals-1-i] {
				f[i] *= math.Cos(v * math.Pi / 2)
			}
			if i > 0 {
				f[i] *= math.Sin(x[goals-1-i] * math.Pi / 2)
			}
		}
		return f
	})
}

// TestSphere: the same of DTLZ2. A hundred points cannot cover a sphere of three goals, and
// NSGA-II spreads them unevenly there (K. Deb and H. Jain, "An Evolutionary Many-Objective
// Optimization Algorithm Using Reference-Point-Based Nondominated Sorting Approach, Part I",
// IEEE Transactions on Evolutionary Computation 18(4), 2014): ten seeds gave 0.840 to 0.873 of
// the last population, 0.972 to 0.976 of all points.
func TestSphere(t *testing.T) {
	for goals, whole := range map[int]float64{2: 1.21 - math.Pi/4, 3: 1.331 - math.Pi/6} {
		reference := []float64{1.1, 1.1, 1.1}[:goals]
		for seed := range uint64(deep.Of(1, 1, 10)) {
			r, err := Run(t.Context(), dtlz2(goals), Options{NSGA2, 100, 25_000, seed})
			if err != nil {
				t.Fatal(err)
			}
			last := Hypervolume(costs(r), reference) / whole
			every := Hypervolume(Front(r.History, goals), reference) / whole
			t.Logf("%d goals, seed %d: %.4f of the last population, %.4f of all", goals, seed, last, every)
			if least := map[int]float64{2: 0.985, 3: 0.8}[goals]; last < least || every < 0.97 || every > 1 {
				t.Errorf("%d goals, seed %d: %.4f of the last population, %.4f of all", goals, seed, last, every)
			}
		}
	}
}

// TestFrontsOfSamples: random and Latin hypercube samples are far from these fronts at the
// same budget. A search that drew at random would pass for NSGA-II otherwise.
func TestFrontsOfSamples(t *testing.T) {
	for _, method := range []string{Random, LatinHypercube} {
		r, err := Run(t.Context(), zdt(zdt1), Options{method, 100, 5_000, 1})
		if err != nil || len(r.History) != 5_000 {
			t.Fatal(err, len(r.History))
		}
		if share := Hypervolume(Front(r.History, 2), []float64{1.1, 1.1}) / below(zdt1); share > 0.1 {
			t.Errorf("%s covers %.4f of ZDT1", method, share)
		}
	}
}
