package predict

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// TestPoints compares the window with a plain list of distinct points.
func TestPoints(t *testing.T) {
	type point struct {
		a, b, n int
		y       float64
	}
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
		p := newPoints(capacity)
		var model []point // oldest first
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			a, b := rapid.IntRange(0, 2).Draw(t, "a"), rapid.IntRange(0, 2).Draw(t, "b")
			y := float64(rapid.IntRange(1, 3).Draw(t, "time"))
			at := -1
			for i := range model {
				if model[i].a == a && model[i].b == b {
					at = i
				}
			}
			changed := p.add(a, b, y)
			if at < 0 {
				model = append(model, point{a: a, b: b, n: 1, y: y})
				model = model[max(0, len(model)-capacity):]
				if !changed {
					t.Fatal("a new point changes nothing")
				}
				continue
			}
			m := &model[at]
			m.n++
			before := m.y
			m.y += (y - m.y) / float64(min(m.n, 8))
			if changed != (m.y != before) {
				t.Fatalf("from %v to %v, changed = %v", before, m.y, changed)
			}
		}
		if len(p.y) != len(model) || len(p.index) != len(model) {
			t.Fatalf("%d points, %d in the index, want %d", len(p.y), len(p.index), len(model))
		}
		for _, m := range model {
			i, ok := p.index[[2]int32{int32(m.a), int32(m.b)}]
			if !ok || p.y[i] != m.y || p.x[2*i] != float64(m.a) || p.x[2*i+1] != float64(m.b) {
				t.Fatalf("point %+v is lost", m)
			}
		}
	})
}

// TestAverage: the first measurements have equal weights, so their mean is the arithmetic one;
// later ones follow a change.
func TestAverage(t *testing.T) {
	p := newPoints(4)
	for i := range 8 {
		p.add(1, 1, float64(i))
	}
	const want = 3.5 // of 0 to 7
	if math.Abs(p.y[0]-want) > 1e-12 {
		t.Errorf("mean %v, want %v", p.y[0], want)
	}
	for range 100 {
		p.add(1, 1, 50)
	}
	if math.Abs(p.y[0]-50) > 1e-3 {
		t.Errorf("after a change to 50 the point says %v", p.y[0])
	}
}

func fittedForest(t *testing.T, work func(a, b float64) float64, cost func(a, b int) float64, as, bs []int) *latencyForest {
	t.Helper()
	m := newLatencyForest(&scheduler.PredictorSpec{Window: 4096, RefitEvery: 1 << 20, Trees: 8, MaxDepth: 12, MinLeaf: 1}, 1, work)
	for _, a := range as {
		for _, b := range bs {
			m.observe(a, b, cost(a, b))
		}
	}
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBeyondRange: above the data, the time at the edge grows with the work; below it stays
// constant.
func TestBeyondRange(t *testing.T) {
	flat := func(int, int) float64 { return 100 }
	m := fittedForest(t, tokenWork, flat, []int{10, 50}, []int{0, 30})
	for _, c := range []struct {
		a, b int
		want float64
	}{
		{10, 0, 100}, {50, 30, 100}, {20, 7, 100}, {1, 0, 100},
		{100, 30, 100 * 130.0 / 80}, {50, 110, 200}, {100, 60, 200}, {100, 0, 200}, {1, 60, 100 * 61.0 / 31},
	} {
		if got := m.predict(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("at %d, %d: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
	m = fittedForest(t, attentionWork, flat, []int{16, 512}, []int{0, 1024})
	for _, c := range []struct {
		a, b int
		want float64
	}{
		{512, 1024, 100},
		{1024, 0, 100 * (1024 * 1025.0) / (512 * 513)},
		{512, 4096, 100 * (4096 + 256.5) / (1024 + 256.5)},
	} {
		if got := m.predict(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("attention at %d, %d: got %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestBeyondIsUpperBound: for a constant cost plus one proportional to the work, the extrapolation
// is an upper bound.
func TestBeyondIsUpperBound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		constant, rate := rapid.Float64Range(0, 1e3).Draw(r, "constant"), rapid.Float64Range(0.01, 10).Draw(r, "rate")
		cost := func(a, b int) float64 { return constant + rate*attentionWork(float64(a), float64(b)) }
		m := fittedForest(t, attentionWork, cost, []int{100}, []int{1000}) // a single point is exact
		a, b := rapid.IntRange(1, 1000).Draw(r, "chunk"), rapid.IntRange(0, 10_000).Draw(r, "finished")
		if a >= 100 && b >= 1000 || a <= 100 && b <= 1000 {
			if got, want := m.predict(a, b), cost(a, b); got < want*(1-1e-12) {
				r.Fatalf("%v at %d, %d is below %v", got, a, b, want)
			}
		}
	})
}

// TestFitSchedule: a model is refitted after a number of changes, when its data has doubled, and at
// once when an observation is more than an eighth outside its range. Repeats that change nothing
// never cause a fit.
func TestFitSchedule(t *testing.T) {
	spec := &scheduler.PredictorSpec{Window: 1000, RefitEvery: 3, Trees: 4, MaxDepth: 8, MinLeaf: 1}
	m := newLatencyForest(spec, 1, tokenWork)
	due := func() bool { return m.when.due(len(m.data.y)) }
	fit := func() {
		if err := m.fit(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		m.observe(800+2*i, 0, float64(i))
	}
	fit()
	for i := range 100 {
		if m.observe(800+2*i, 0, float64(i)); due() {
			t.Fatal("due after measuring what was known")
		}
	}
	for i, want := range []bool{false, false, true} {
		if m.observe(901+2*i, 0, 5); due() != want {
			t.Fatalf("after %d changes due = %v", i+1, !want)
		}
	}
	fit()
	if m.observe(1122, 0, 5); due() { // 998·9/8 = 1122.75
		t.Error("due beyond the range by less than an eighth")
	}
	if m.observe(1123, 0, 5); !due() {
		t.Error("not due beyond the range by more than an eighth")
	}
	fit()
	if _, high := m.forest.Range(0); high != 1123 {
		t.Errorf("the forest's range ends at %v, want 1123", high)
	}
	small := newLatencyForest(&scheduler.PredictorSpec{Window: 100, RefitEvery: 1000, Trees: 1, MaxDepth: 8, MinLeaf: 1}, 1, tokenWork)
	small.observe(10, 10, 1)
	small.observe(20, 10, 1)
	if err := small.fit(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true} {
		if small.observe(11+i, 10, 1); small.when.due(len(small.data.y)) != want {
			t.Errorf("with %d rows after a fit to 2: due = %v", 3+i, !want)
		}
	}
}

// TestQuarterOrAll: a refit within the forest's range keeps three quarters of its trees.
func TestQuarterOrAll(t *testing.T) {
	m := newLatencyForest(&scheduler.PredictorSpec{Window: 2, RefitEvery: 1, Trees: 4, MaxDepth: 0, MinLeaf: 1}, 1, tokenWork)
	refit := func() float64 {
		if err := m.fit(); err != nil {
			t.Fatal(err)
		}
		return m.predict(10, 10)
	}
	m.observe(10, 10, 8)
	refit()
	for range 1000 {
		m.observe(10, 10, 16)
	}
	if got := refit(); math.Abs(got-10) > 1e-6 {
		t.Errorf("after one refit %v, want 10: one tree of four at 16", got)
	}
	m.observe(10, 11, 16)
	if got := refit(); math.Abs(got-16) > 1e-6 {
		t.Errorf("beyond the range all trees are replaced: got %v, want 16", got)
	}
}
