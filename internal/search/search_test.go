package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// dominates is constraint domination by definition.
func dominates(a, b Individual) bool {
	if a.Violation > 0 || b.Violation > 0 {
		return a.Violation < b.Violation
	}
	better := false
	for i := range a.Costs {
		if a.Costs[i] > b.Costs[i] {
			return false
		}
		better = better || a.Costs[i] < b.Costs[i]
	}
	return better
}

// TestRank: ranks are those of peeling fronts by the definition of constraint domination,
// and the crowding of a front's interior is the sum of its neighbours' distances.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		goals := rapid.IntRange(1, 3).Draw(t, "goals")
		r := &run{problem: &Problem{Goals: goals}}
		var all []standing
		for i := range rapid.IntRange(1, 40).Draw(t, "individuals") {
			one := Individual{Score: Score{Violation: rapid.SampledFrom([]float64{0, 0, 0, 1, 2.5, math.Inf(1)}).Draw(t, "violation")}}
			if !math.IsInf(one.Violation, 1) {
				for range goals {
					one.Costs = append(one.Costs, float64(rapid.IntRange(0, 5).Draw(t, "cost")))
				}
			}
			r.History = append(r.History, one)
			all = append(all, standing{at: i})
		}
		r.rank(all)
		want := make([]int, len(all))
		for i := range want {
			want[i] = -1
		}
		for rank, left := 0, len(all); left > 0; rank++ {
			var front []int
			for i := range want {
				if want[i] < 0 && !slices.ContainsFunc(all, func(s standing) bool { return want[s.at] < 0 && dominates(r.History[s.at], r.History[i]) }) {
					front = append(front, i)
				}
			}
			for _, i := range front {
				want[i] = rank
			}
			left -= len(front)
		}
		for i, s := range all {
			if s.rank != want[s.at] {
				t.Fatalf("%+v has rank %d, not %d", r.History[s.at], s.rank, want[s.at])
			}
			if i > 0 && all[i-1].rank == s.rank && all[i-1].crowding < s.crowding {
				t.Fatalf("%+v is before %+v", all[i-1], s)
			}
		}
	})
}

// TestCrowding is of a front written out.
func TestCrowding(t *testing.T) {
	r := &run{problem: &Problem{Goals: 2}}
	var all []standing
	for i, c := range [][]float64{{0, 10}, {1, 7}, {4, 5}, {10, 0}} {
		r.History = append(r.History, Individual{Score: Score{Costs: c}})
		all = append(all, standing{at: i})
	}
	r.rank(all)
	want := map[int]float64{0: math.Inf(1), 1: 0.4 + 0.5, 2: 0.9 + 0.7, 3: math.Inf(1)}
	for _, s := range all {
		if s.rank != 0 || math.Abs(s.crowding-want[s.at]) > 1e-12 && s.crowding != want[s.at] {
			t.Errorf("%v has %+v, not %g", r.History[s.at].Costs, s, want[s.at])
		}
	}
}

// TestHypervolume compares with counting the cells of a grid that some point dominates.
func TestHypervolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		goals := rapid.IntRange(1, 3).Draw(t, "goals")
		const side = 6
		var points [][]float64
		for range rapid.IntRange(0, 12).Draw(t, "points") {
			var p []float64
			for range goals {
				p = append(p, float64(rapid.IntRange(0, side+1).Draw(t, "cost")))
			}
			points = append(points, p)
		}
		count, cells := 0, int(math.Pow(side, float64(goals)))
		for c := range cells {
			cell := []float64{float64(c % side), float64(c / side % side), float64(c / side / side)}[:goals]
			if slices.ContainsFunc(points, func(p []float64) bool {
				for g := range p {
					if p[g] > cell[g] {
						return false
					}
				}
				return true
			}) {
				count++
			}
		}
		if got := Hypervolume(points, []float64{side, side, side}[:goals]); got != float64(count) {
			t.Fatalf("%v: %g, not %d", points, got, count)
		}
	})
}

// mixed draws a problem with reals, levels and categories, a constraint and designs that are
// none. Its key is the levels, and a tenth of a real.
func mixed(t *rapid.T) (*Problem, func(genes []float64) string) {
	p := &Problem{Goals: 2}
	for range rapid.IntRange(1, 5).Draw(t, "variables") {
		var v Variable
		for n := rapid.IntRange(0, 6).Draw(t, "levels"); len(v.Levels) < n; {
			v.Levels = append(v.Levels, (float64(len(v.Levels))+0.5)/float64(n))
		}
		v.Categorical = v.Levels != nil && rapid.Bool().Draw(t, "categorical")
		p.Variables = append(p.Variables, v)
	}
	p.Key = func(genes []float64) string {
		key := ""
		for i, g := range genes {
			if p.Variables[i].Levels == nil {
				g = math.Floor(g * 10)
			}
			key += fmt.Sprintf("%g,", g)
		}
		if genes[0] > 0.9 {
			return ""
		}
		return key
	}
	p.Evaluate = func(_ context.Context, batch [][]float64) ([]Score, error) {
		var scores []Score
		for _, x := range batch {
			sum, alternate := 0.0, 0.0
			for i, g := range x {
				sum += g
				alternate += math.Abs(g - float64(i%2))
			}
			s := Score{Costs: []float64{sum, alternate}, Violation: max(0, 0.2-x[len(x)-1])}
			if sum > 4 {
				s = Score{Violation: math.Inf(1)}
			}
			scores = append(scores, s)
		}
		return scores, nil
	}
	return p, p.Key
}

// TestRun: every method keeps to levels and bounds, evaluates no design twice and none that
// is none, spends its budget or all there is, and does the same again.
func TestRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, key := mixed(t)
		designs := 1
		for _, v := range p.Variables {
			if n := len(v.Levels); n > 0 {
				designs *= n
			} else {
				designs *= 10
			}
		}
		o := Options{
			rapid.SampledFrom(Methods()).Draw(t, "method"), 2 * rapid.IntRange(2, 6).Draw(t, "half"),
			rapid.IntRange(1, 60).Draw(t, "evaluations"), rapid.Uint64().Draw(t, "seed"),
		}
		r, err := Run(context.Background(), p, o)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, one := range r.History {
			k := key(one.Genes)
			if k == "" || seen[k] {
				t.Fatalf("%q is no new design", k)
			}
			seen[k] = true
			for i, v := range p.Variables {
				if g := one.Genes[i]; g < 0 || g > 1 || v.Levels != nil && !slices.Contains(v.Levels, g) {
					t.Fatalf("gene %g of %v", g, v.Levels)
				}
			}
		}
		// A tenth of the designs at most are none or so rare that draws miss them.
		if n := len(r.History); n > o.Evaluations || n < min(o.Evaluations, designs/2) {
			t.Fatalf("%d evaluations of %d, with %d designs", n, o.Evaluations, designs)
		}
		again, err := Run(context.Background(), p, o)
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatal("the second run differs", err)
		}
	})
}

// TestConstraint: a search that begins where nothing meets the constraint finds what does.
func TestConstraint(t *testing.T) {
	p := on(12, 2, func(x []float64) []float64 { return []float64{x[0], 1 - x[0]} })
	inner := p.Evaluate
	p.Evaluate = func(ctx context.Context, batch [][]float64) ([]Score, error) {
		scores, err := inner(ctx, batch)
		for i, x := range batch {
			for _, v := range x[1:] {
				scores[i].Violation += max(0, v-0.15)
			}
		}
		return scores, err
	}
	r, err := Run(t.Context(), p, Options{NSGA2, 40, 4_000, 1})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(r.History[:40], func(i Individual) bool { return i.Violation == 0 }) {
		t.Fatal("the first population already has one")
	}
	for _, i := range r.Last {
		if r.History[i].Violation > 0 {
			t.Fatalf("%+v is among the last", r.History[i])
		}
	}
}

// TestEvaluateFails: the error of an evaluation ends the search.
func TestEvaluateFails(t *testing.T) {
	for _, method := range append(Methods(), "tabu") {
		p := &Problem{Variables: make([]Variable, 2), Goals: 2,
			Evaluate: func(context.Context, [][]float64) ([]Score, error) { return nil, context.Canceled }}
		if r, err := Run(t.Context(), p, Options{method, 4, 20, 1}); err == nil || len(r.History) > 0 {
			t.Errorf("%s: %v, %d", method, err, len(r.History))
		}
	}
}

// TestNoDesigns: a space without any design is searched without an evaluation.
func TestNoDesigns(t *testing.T) {
	for _, method := range Methods() {
		p := on(2, 2, nil)
		p.Key = func([]float64) string { return "" }
		if r, err := Run(t.Context(), p, Options{method, 4, 20, 1}); err != nil || len(r.History) > 0 {
			t.Errorf("%s: %v, %d", method, err, len(r.History))
		}
	}
}

// TestNearest is by definition, ends included.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Variable{Levels: rapid.SliceOfNDistinct(rapid.Float64Range(0, 1), 1, 8, rapid.ID[float64]).Draw(t, "levels")}
		slices.Sort(v.Levels)
		gene := rapid.Float64Range(0, 1).Draw(t, "gene")
		at := v.nearest(gene)
		for _, level := range v.Levels {
			if math.Abs(level-gene) < math.Abs(v.Levels[at]-gene) {
				t.Fatalf("%g of %v: %g is nearer than %g", gene, v.Levels, level, v.Levels[at])
			}
		}
	})
}

// TestMutate: a level always becomes another one, every other category is as likely, and a real
// stays in its bounds.
func TestMutate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &run{random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		levels := []float64{0.1, 0.3, 0.5, 0.7, 0.9}[:rapid.IntRange(2, 5).Draw(t, "levels")]
		at := rapid.IntRange(0, len(levels)-1).Draw(t, "at")
		count := map[float64]int{}
		for range 400 {
			gene := levels[at]
			r.mutate(Variable{Levels: levels, Categorical: true}, &gene)
			count[gene]++
			ordered := levels[at]
			r.mutate(Variable{Levels: levels}, &ordered)
			v := Variable{Levels: levels}
			if v.nearest(ordered) == at {
				t.Fatalf("level %d of %v stays", at, levels)
			}
			x := rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "real")
			if r.mutate(Variable{}, &x); x < 0 || x > 1 {
				t.Fatalf("a real becomes %g", x)
			}
		}
		for i, level := range levels {
			if want := 400 / (len(levels) - 1); i == at && count[level] > 0 || i != at && (count[level] < want*2/3 || count[level] > want*4/3+1) {
				t.Fatalf("from category %d of %v: %v", at, levels, count)
			}
		}
	})
}
