package forest

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// growAll grows one tree of plain CART: on every row once, without bootstrap.
func growAll(t testing.TB, spec Spec, x, y []float64) tree {
	t.Helper()
	m, err := newMatrix(x, y)
	if err != nil {
		t.Fatal(err)
	}
	return newGrower(&spec, m).grow(once(len(y)))
}

// depth returns the largest number of splits on a path from node i.
func (t *tree) depth(i int32) int {
	n := t.nodes[i]
	if n.left == 0 {
		return 0
	}
	return 1 + max(t.depth(n.left), t.depth(n.left+1))
}

// once returns each of n rows once.
func once(n int) []int32 {
	counts := make([]int32, n)
	for i := range counts {
		counts[i] = 1
	}
	return counts
}

// TestSplitByHand pins the tree of six points. The deviations from the mean 4 are −3 −3 −3 1 4 4,
// so the possible splits reduce the sum of squares by 10.8, 27, 54, 48 and 19.2. The first split is
// at x = 3 and leaves 1 1 1 | 5 8 8. On the right, with mean 7, deviations −2 1 1 give 6 and 1.5,
// so the second split is at x = 4.5.
func TestSplitByHand(t *testing.T) {
	x := []float64{0, 1, 2, 4, 5, 6}
	y := []float64{1, 1, 1, 5, 8, 8}
	tr := growAll(t, Spec{Trees: 1, MaxDepth: 10, MinLeaf: 1}, x, y)
	if len(tr.nodes) != 5 || tr.depth(0) != 2 {
		t.Fatalf("%d nodes of depth %d, want 5 of depth 2", len(tr.nodes), tr.depth(0))
	}
	root, right := tr.nodes[0], tr.nodes[tr.nodes[0].left+1]
	if root.threshold != 3 || right.threshold != 4.5 {
		t.Errorf("split at %v and %v, want 3 and 4.5", root.threshold, right.threshold)
	}
	for at, want := range map[float64]float64{-10: 1, 3: 1, 3.1: 5, 4.5: 5, 4.6: 8, 100: 8, math.Inf(1): 8, math.Inf(-1): 1} {
		if got := tr.predict([]float64{at}); got != want {
			t.Errorf("at %v: got %v, want %v", at, got, want)
		}
	}
}

// TestBestSplit compares the incremental gain with its definition: the decrease of the sum of
// squared deviations, over all features and thresholds.
func TestBestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "rows")
		value := rapid.IntRange(0, 5)
		var x, y []float64
		for range n {
			x = append(x, float64(value.Draw(t, "x0")), float64(value.Draw(t, "x1")))
			y = append(y, float64(value.Draw(t, "y")))
		}
		least := rapid.IntRange(1, 3).Draw(t, "min leaf")
		m, err := newMatrix(x, y)
		if err != nil {
			t.Fatal(err)
		}
		want := 0.0
		for f := range 2 {
			for threshold := 0.5; threshold < 5; threshold++ {
				var left, right []float64
				for i := range n {
					if x[2*i+f] > threshold {
						right = append(right, y[i])
					} else {
						left = append(left, y[i])
					}
				}
				if len(left) >= least && len(right) >= least {
					want = max(want, squares(y)-squares(left)-squares(right))
				}
			}
		}
		g := newGrower(&Spec{Trees: 1, MaxDepth: 0, MinLeaf: least}, m)
		g.grow(once(n))
		sum := 0.0
		for _, v := range y {
			sum += v
		}
		got := g.best(0, n, n, sum/float64(n))
		if math.Abs(got.gain-want) > 1e-9*(1+want) {
			t.Fatalf("gain %v, want %v", got.gain, want)
		}
	})
}

// squares returns the sum of squared deviations from the mean.
func squares(y []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for _, v := range y {
		sum += (v - mean) * (v - mean)
	}
	return sum
}

func TestLimits(t *testing.T) {
	var x, y []float64
	for i := range 64 {
		x, y = append(x, float64(i)), append(y, float64(i*i))
	}
	for _, c := range []struct {
		spec          Spec
		nodes, depth  int
		leastInLeaves int
	}{
		{Spec{Trees: 1, MaxDepth: 0, MinLeaf: 1}, 1, 0, 64},
		{Spec{Trees: 1, MaxDepth: 1, MinLeaf: 1}, 3, 1, 1},
		{Spec{Trees: 1, MaxDepth: 64, MinLeaf: 32}, 3, 1, 32},
		{Spec{Trees: 1, MaxDepth: 64, MinLeaf: 33}, 1, 0, 64},
		{Spec{Trees: 1, MaxDepth: 64, MinLeaf: 1}, 127, -1, 1},
	} {
		tr := growAll(t, c.spec, x, y)
		if len(tr.nodes) != c.nodes || c.depth >= 0 && tr.depth(0) != c.depth {
			t.Errorf("%+v: %d nodes of depth %d, want %d of depth %d", c.spec, len(tr.nodes), tr.depth(0), c.nodes, c.depth)
		}
		inLeaf := map[float64]int{}
		for _, v := range x {
			inLeaf[tr.predict([]float64{v})]++
		}
		for value, n := range inLeaf {
			if n < c.leastInLeaves {
				t.Errorf("%+v: a leaf of %d rows (%v)", c.spec, n, value)
			}
		}
	}
}

// TestMonotoneTransform: a tree uses only the order of a feature's values. An increasing transform
// does not change its predictions of the rows that it was grown on.
func TestMonotoneTransform(t *testing.T) {
	transforms := []func(float64) float64{
		math.Exp, math.Cbrt, func(v float64) float64 { return 1000*v - 7 }, func(v float64) float64 { return v * v * v },
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "rows")
		transform := rapid.SampledFrom(transforms).Draw(t, "transform")
		var x, z, y []float64
		counts := make([]int32, n)
		for i := range n {
			a, b := float64(rapid.IntRange(-9, 9).Draw(t, "x0")), float64(rapid.IntRange(-9, 9).Draw(t, "x1"))
			x, z = append(x, a, b), append(z, transform(a), b)
			y = append(y, rapid.Float64Range(-1e3, 1e3).Draw(t, "y"))
			counts[i] = int32(rapid.IntRange(0, 3).Draw(t, "count"))
		}
		counts[0]++
		spec := &Spec{
			Trees: 1, MaxDepth: rapid.IntRange(0, 8).Draw(t, "depth"), MinLeaf: rapid.IntRange(1, 4).Draw(t, "leaf"),
		}
		grow := func(x []float64) (*matrix, tree) {
			m, err := newMatrix(x, y)
			if err != nil {
				t.Fatal(err)
			}
			return m, newGrower(spec, m).grow(counts)
		}
		mx, tx := grow(x)
		mz, tz := grow(z)
		a, b := make([]float64, 2), make([]float64, 2)
		for i := range n {
			mx.row(i, a)
			mz.row(i, b)
			if p, q := tx.predict(a), tz.predict(b); counts[i] > 0 && p != q {
				t.Fatalf("row %d: %v, transformed %v", i, p, q)
			}
		}
	})
}

func BenchmarkGrow(b *testing.B) {
	x, y := surface(1024, 1)
	m, err := newMatrix(x, y)
	if err != nil {
		b.Fatal(err)
	}
	g := newGrower(&Spec{Trees: 1, MaxDepth: 12, MinLeaf: 2}, m)
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		g.grow(bootstrap(len(y), rng))
	}
}

// row copies the features of row i to x.
func (m *matrix) row(i int, x []float64) {
	for f := range m.columns {
		x[f] = m.columns[f][i]
	}
}
