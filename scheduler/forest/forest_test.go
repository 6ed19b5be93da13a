package forest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// standard is a forest as the latency predictors grow it.
var standard = Spec{Trees: 32, MaxDepth: 12, MinLeaf: 2}

// surface returns n rows of a step in the first feature, a slope in the second
// and their product.
func surface(n int, seed uint64) (x, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	for range n {
		a, b := float64(rng.IntN(4096)), float64(rng.IntN(4096))
		x = append(x, a, b)
		y = append(y, truth(a, b))
	}
	return x, y
}

func truth(a, b float64) float64 { return 100*math.Floor(a/1024) + b/10 + a*b/65536 + 50 }

func fit(t testing.TB, spec Spec, x, y []float64, seed uint64, workers int) *Forest {
	t.Helper()
	f, err := Fit(spec, x, y, seed, workers)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRecoversSteps: on a piecewise constant function with enough data, the
// forest is exact away from the steps.
func TestRecoversSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	step := func(a, b float64) float64 {
		switch {
		case a < 0.5:
			return 1
		case b < 0.25:
			return 2
		}
		return 7
	}
	var x, y []float64
	for range 2000 {
		a, b := rng.Float64(), rng.Float64()
		x, y = append(x, a, b), append(y, step(a, b))
	}
	f := fit(t, standard, x, y, 1, 0)
	for a := 0.05; a < 1; a += 0.1 {
		for b := 0.05; b < 1; b += 0.1 {
			if math.Abs(a-0.5) < 0.03 || math.Abs(b-0.25) < 0.03 {
				continue
			}
			if got := f.Predict([]float64{a, b}); math.Abs(got-step(a, b)) > 1e-12 {
				t.Errorf("at %.2f, %.2f: got %v, want %v", a, b, got, step(a, b))
			}
		}
	}
}

// TestUnseen: on unseen rows of a smooth surface with steps, the forest's error is at most 2%, and
// the out-of-bag error is within a factor of it.
func TestUnseen(t *testing.T) {
	x, y := surface(1024, 1)
	f := fit(t, standard, x, y, 1, 0)
	unseen, want := surface(2000, 2)
	relative := 0.0
	for i, w := range want {
		relative += math.Abs(f.Predict(unseen[2*i:2*i+2])-w) / w / float64(len(want))
	}
	if relative > 0.02 {
		t.Errorf("relative error %.4f on unseen rows, want at most 0.02", relative)
	}
}

// TestBootstrapOnlyOneRow: the only data is a single row.
func TestBootstrapOnlyOneRow(t *testing.T) {
	f := fit(t, standard, []float64{1, 2}, []float64{5}, 1, 0)
	if got := f.Predict([]float64{9, 9}); got != 5 {
		t.Errorf("got %v, want 5", got)
	}
}

type rows2 struct{ x, y []float64 }

func drawRows(t *rapid.T) rows2 {
	var r rows2
	for range rapid.IntRange(1, 60).Draw(t, "rows") {
		r.x = append(r.x, float64(rapid.IntRange(0, 20).Draw(t, "x0")), float64(rapid.IntRange(0, 20).Draw(t, "x1")))
		r.y = append(r.y, rapid.Float64Range(-1e6, 1e6).Draw(t, "y"))
	}
	return r
}

func drawSpec(t *rapid.T) Spec {
	return Spec{
		Trees: rapid.IntRange(1, 9).Draw(t, "trees"), MaxDepth: rapid.IntRange(0, 10).Draw(t, "depth"),
		MinLeaf: rapid.IntRange(1, 5).Draw(t, "leaf"),
	}
}

// TestLaws: predictions lie within the targets, the forest is the mean of one
// tree after another, and neither workers nor the order of rows matter.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, spec, seed := drawRows(t), drawSpec(t), rapid.Uint64().Draw(t, "seed")
		f, err := Fit(spec, r.x, r.y, seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		var x, y []float64 // the rows in another order
		for _, i := range rapid.Permutation(index(len(r.y))).Draw(t, "order") {
			x, y = append(x, r.x[2*i:2*i+2]...), append(y, r.y[i])
		}
		g, err := Fit(spec, x, y, seed, rapid.IntRange(2, 5).Draw(t, "workers"))
		if err != nil {
			t.Fatal(err)
		}
		least, most := slices.Min(r.y), slices.Max(r.y)
		at := []float64{rapid.Float64Range(-5, 25).Draw(t, "at0"), rapid.Float64Range(-5, 25).Draw(t, "at1")}
		got, sum := f.Predict(at), 0.0
		for i := range f.trees {
			sum += f.trees[i].predict(at)
		}
		if slack := 1e-12 * max(-least, most); got < least-slack || got > most+slack {
			t.Fatalf("%v is outside of the targets %v to %v", got, least, most)
		}
		if want := sum / float64(spec.Trees); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v, tree by tree %v", got, want)
		}
		if other := g.Predict(at); other != got {
			t.Fatalf("%v, with other workers and row order %v", got, other)
		}
		for j := range 2 {
			low, high := f.Range(j)
			for i := range r.y {
				if v := r.x[2*i+j]; v < low || v > high {
					t.Fatalf("feature %d: %v outside of %v to %v", j, v, low, high)
				}
			}
		}
	})
}

func index(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// TestSeed: another seed gives another forest.
func TestSeed(t *testing.T) {
	x, y := surface(200, 1)
	a, b := fit(t, standard, x, y, 1, 0), fit(t, standard, x, y, 2, 0)
	if at := []float64{1000, 1000}; a.Predict(at) == b.Predict(at) {
		t.Error("the seed changes nothing")
	}
}

// TestRefit: Refit replaces the oldest trees. New trees answer from the new data, the others from
// the old.
func TestRefit(t *testing.T) {
	spec := Spec{Trees: 4, MaxDepth: 3, MinLeaf: 1}
	f := fit(t, spec, []float64{0, 10}, []float64{1, 1}, 1, 2)
	for i, want := range []float64{1.5, 2, 2.5, 3, 3} {
		if err := f.Refit([]float64{5, 20}, []float64{3, 3}, 1); err != nil {
			t.Fatal(err)
		}
		if got := f.Predict([]float64{4}); got != want {
			t.Errorf("after %d: got %v, want %v", i+1, got, want)
		}
	}
	if low, high := f.Range(0); low != 5 || high != 20 {
		t.Errorf("range %v to %v, want 5 to 20", low, high)
	}
	if err := f.Refit([]float64{0, 8}, []float64{7, 7}, 9); err != nil {
		t.Fatal(err)
	}
	if got := f.Predict([]float64{4}); got != 7 || len(f.trees) != 4 {
		t.Errorf("all replaced: %d trees, got %v, want 4 and 7", len(f.trees), got)
	}
	// Old trees know 0 to 8, the new one 6 to 20; their common range is 6 to 8.
	if err := f.Refit([]float64{6, 20}, []float64{3, 3}, 1); err != nil {
		t.Fatal(err)
	}
	if low, high := f.Range(0); low != 6 || high != 8 {
		t.Errorf("range %v to %v, want 6 to 8", low, high)
	}
	if err := f.Refit([]float64{1, 2, 3, 4}, []float64{1, 2}, 1); err == nil || f.Predict([]float64{7}) != 6 {
		t.Errorf("a refit with two features: error %v, then %v, want an error and 6", err, f.Predict([]float64{7}))
	}
}

// TestRefitIsFit: replacing all trees is the same as a fit, except for the trees' numbers.
func TestRefitIsFit(t *testing.T) {
	x, y := surface(100, 1)
	z, w := surface(100, 2)
	spec := Spec{Trees: 3, MaxDepth: 8, MinLeaf: 1}
	f := fit(t, spec, x, y, 7, 1)
	for range 3 {
		if err := f.Refit(z, w, 1); err != nil {
			t.Fatal(err)
		}
	}
	g := fit(t, spec, x, y, 7, 3)
	if err := g.Refit(z, w, 3); err != nil {
		t.Fatal(err)
	}
	for i := range w {
		if a, b := f.Predict(z[2*i:2*i+2]), g.Predict(z[2*i:2*i+2]); a != b {
			t.Fatalf("one tree at a time %v, all at once %v", a, b)
		}
	}
}

func TestBadData(t *testing.T) {
	good := Spec{Trees: 1, MaxDepth: 1, MinLeaf: 1}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		spec Spec
		x, y []float64
	}{
		"no rows":         {good, nil, nil},
		"no features":     {good, nil, []float64{1}},
		"ragged":          {good, []float64{1, 2, 3}, []float64{1, 2}},
		"NaN feature":     {good, []float64{nan}, []float64{1}},
		"infinite target": {good, []float64{1}, []float64{inf}},
		"no trees":        {Spec{MinLeaf: 1}, []float64{1}, []float64{1}},
		"negative depth":  {Spec{Trees: 1, MaxDepth: -1, MinLeaf: 1}, []float64{1}, []float64{1}},
		"empty leaves":    {Spec{Trees: 1}, []float64{1}, []float64{1}},
	} {
		if f, err := Fit(c.spec, c.x, c.y, 1, 1); err == nil || f != nil {
			t.Errorf("%s: fitted %v, error %v", name, f, err)
		}
	}
}

func TestPredictAllocatesNothing(t *testing.T) {
	x, y := surface(500, 1)
	f := fit(t, standard, x, y, 1, 0)
	at := []float64{100, 200}
	if n := testing.AllocsPerRun(100, func() { at[0] += f.Predict(at) * 1e-9 }); n != 0 {
		t.Errorf("%v allocations a prediction", n)
	}
}

func BenchmarkPredict(b *testing.B) {
	x, y := surface(1024, 1)
	f := fit(b, standard, x, y, 1, 0)
	unseen, _ := surface(1024, 2)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		f.Predict(unseen[2*i : 2*i+2])
		i = (i + 1) % 1024
	}
}

func BenchmarkFit(b *testing.B) {
	x, y := surface(1024, 1)
	b.ReportAllocs()
	for b.Loop() {
		fit(b, standard, x, y, 1, 1)
	}
}

func BenchmarkRefitQuarter(b *testing.B) {
	x, y := surface(1024, 1)
	f := fit(b, standard, x, y, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Refit(x, y, 8); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNotFinite: features that are not finite still get an answer within the targets.
func TestNotFinite(t *testing.T) {
	x, y := surface(200, 1)
	f := fit(t, standard, x, y, 1, 0)
	least, most := slices.Min(y), slices.Max(y)
	for _, v := range []float64{math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324} {
		if got := f.Predict([]float64{v, v}); got < least || got > most {
			t.Errorf("at %v: %v is outside of the targets %v to %v", v, got, least, most)
		}
	}
	if got, want := f.Predict([]float64{math.Inf(1), math.Inf(1)}), f.Predict([]float64{1e9, 1e9}); got != want {
		t.Errorf("at infinity %v, far out %v", got, want)
	}
}

// TestRefitErrors: Refit refuses the rows that Fit refuses. The forest then stays the same to the last bit, and still
// works.
func TestRefitErrors(t *testing.T) {
	x, y := surface(200, 1)
	f := fit(t, standard, x, y, 1, 1)
	want := f.Predict([]float64{1000, 2000})
	for name, rows := range map[string][2][]float64{
		"no rows":                {nil, nil},
		"a value that is NaN":    {{1, 2, 3, 4}, {1, math.NaN()}},
		"an infinite feature":    {{1, 2, math.Inf(1), 4}, {1, 2}},
		"rows of unequal length": {{1, 2, 3}, {1, 2}},
		"rows without features":  {nil, {1, 2}},
		"a third feature":        {{1, 2, 3, 4, 5, 6}, {1, 2}},
	} {
		if err := f.Refit(rows[0], rows[1], 8); err == nil {
			t.Errorf("%s: no error", name)
		}
		if got := f.Predict([]float64{1000, 2000}); got != want {
			t.Errorf("%s: the forest predicts %v, before %v", name, got, want)
		}
	}
	for i := range y {
		y[i] += 1000
	}
	if err := f.Refit(x, y, standard.Trees); err != nil {
		t.Fatal(err)
	}
	if got := f.Predict([]float64{1000, 2000}); math.Abs(got-want-1000) > 0.2*want+50 {
		t.Errorf("after rows 1,000 higher the forest predicts %v, before %v", got, want)
	}
}
