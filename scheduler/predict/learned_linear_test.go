package predict

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// TestLineRecoversPlane fits points of a plane whose features differ in size as contexts and
// requests do, and predicts elsewhere.
func TestLineRecoversPlane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slope := [pimFeatures]float64{
			rapid.Float64Range(0, 1e6).Draw(t, "a context token"), rapid.Float64Range(0, 1e9).Draw(t, "a request"),
			rapid.Float64Range(0, 1e7).Draw(t, "a prompt token"),
		}
		constant := rapid.Float64Range(0, 1e9).Draw(t, "constant")
		plane := func(x [pimFeatures]float64) float64 {
			return constant + slope[0]*x[0] + slope[1]*x[1] + slope[2]*x[2]
		}
		m := newLatencyLine(&scheduler.PredictorSpec{Window: 64, RefitEvery: 1})
		for i := range 40 {
			x := [pimFeatures]float64{float64(100_000 + 7919*i%50_021), float64(20 + i*i%13), float64(i % 5 * 512)}
			m.observe(pimRow{x: x, y: plane(x)})
		}
		if err := m.fit(); err != nil {
			t.Fatal(err)
		}
		largest := plane([pimFeatures]float64{150_000, 33, 2048}) // rounding is relative to the data
		for _, x := range [][pimFeatures]float64{{1, 1, 0}, {2e6, 300, 16}, {50_000, 3, 8192}} {
			if got, want := m.predict(x), plane(x); math.Abs(got-want) > 1e-9*(want+largest) {
				t.Fatalf("at %v: got %v, want %v", x, got, want)
			}
		}
	})
}

// TestLineByHand: y = 1, 2, 2 at x = 0, 1, 2 has the least-squares line 7/6 + x/2. Features that
// never change have no slope.
func TestLineByHand(t *testing.T) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 8, RefitEvery: 1})
	for i, y := range []float64{1, 2, 2} {
		m.observe(pimRow{x: [pimFeatures]float64{float64(i), 4, 0}, y: y})
	}
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []float64{0, 1, 10} {
		if got, want := m.predict([pimFeatures]float64{x, 4, 0}), 7.0/6+x/2; math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: got %v, want %v", x, got, want)
		}
	}
	if m.slope[1] != 0 || m.slope[2] != 0 {
		t.Errorf("slopes %v of constant features", m.slope)
	}
	if got := m.predict([pimFeatures]float64{-100, 4, 0}); got != 0 {
		t.Errorf("a time of %v, want 0 at least", got)
	}
}

// TestLineSharesEffects: the third feature is the sum of two others, each 0 or 2, and y is the first of these. The solution of least norm in standard
// deviations (1, 1 and √2) is 3/4, -1/4 and √2/4, so the slopes are 3/4, -1/4 and 1/4. A second fit has the range of its own rows.
func TestLineSharesEffects(t *testing.T) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 8, RefitEvery: 1})
	for _, at := range []float64{1, 11, 1} { // features of 1 and 3, or of 11 and 13
		for _, x := range [][2]float64{{2, 0}, {0, 0}, {0, 2}, {2, 2}} {
			m.observe(pimRow{x: [pimFeatures]float64{at + x[0], at + x[1], 2*at + x[0] + x[1]}, y: x[0]})
		}
		if err := m.fit(); err != nil {
			t.Fatal(err)
		}
		for j, want := range []float64{0.75, -0.25, 0.25} {
			if math.Abs(m.slope[j]-want) > 1e-12 {
				t.Errorf("features from %v: slopes %v", at, m.slope)
			}
		}
		if low, high := [pimFeatures]float64{at, at, 2 * at}, [pimFeatures]float64{at + 2, at + 2, 2*at + 4}; m.low != low || m.high != high {
			t.Errorf("fitted from %v to %v, by hand from %v to %v", m.low, m.high, low, high)
		}
	}
}

// TestLineOneRow: a single observation is the constant.
func TestLineOneRow(t *testing.T) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 8, RefitEvery: 1})
	m.observe(pimRow{x: [pimFeatures]float64{5, 1, 0}, y: 33})
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	if got := m.predict([pimFeatures]float64{50, 2, 9}); got != 33 {
		t.Errorf("got %v, want 33", got)
	}
}

// TestMovingPromptsAreKept: the learned cost of moving a prompt survives any number of iterations
// without one.
func TestMovingPromptsAreKept(t *testing.T) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 16, RefitEvery: 1})
	observe := func(context, moved float64) {
		m.observe(pimRow{x: [pimFeatures]float64{context, 4, moved}, y: 3*context + 5*moved})
	}
	for i := range 10 {
		observe(float64(100+i), float64(16*i+16))
	}
	for i := range 1000 {
		observe(float64(200+i), 0)
	}
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	if m.size() != 16 {
		t.Errorf("%d rows in a window of 16", m.size())
	}
	if got := m.predict([pimFeatures]float64{2000, 4, 1000}); math.Abs(got-11000) > 1e-6 {
		t.Errorf("got %v, want 11000", got)
	}
}

// TestLineForgets: after a window of later rows, the earlier ones are gone. A row out of their
// range is remembered until the next fit.
func TestLineForgets(t *testing.T) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 16, RefitEvery: 1})
	for i := range 24 {
		slope := 3.0
		if i >= 16 {
			slope = 5
		}
		x := float64(100 + i)
		m.observe(pimRow{x: [pimFeatures]float64{x, 4, 0}, y: slope * x})
	}
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	if got := m.predict([pimFeatures]float64{1000, 4, 0}); math.Abs(got-5000) > 1e-6 {
		t.Errorf("got %v, want 5000", got)
	}
	for _, x := range []float64{1e6, 120} {
		if m.observe(pimRow{x: [pimFeatures]float64{x, 4, 0}}); !m.when.beyond {
			t.Errorf("%v: a context of 1e6 is not beyond those of 116 to 123", x)
		}
	}
}

// TestLineOfOnePlace: if no feature ever changed, the prediction is the mean, whatever the rounding
// of the features' means.
func TestLineOfOnePlace(t *testing.T) {
	for n := 2; n < 50; n++ {
		m := newLatencyLine(&scheduler.PredictorSpec{Window: 128, RefitEvery: 1})
		sum := 0.0
		for i := range n {
			y := float64(1000 + i*i%7)
			sum += y
			m.observe(pimRow{x: [pimFeatures]float64{123_457, 37, 0}, y: y})
		}
		if err := m.fit(); err != nil {
			t.Fatal(err)
		}
		if got, want := m.predict([pimFeatures]float64{1e6, 300, 512}), sum/float64(n); math.Abs(got-want) > 1e-6 {
			t.Errorf("%d rows: got %v, want %v", n, got, want)
		}
	}
}

func BenchmarkLineFit(b *testing.B) {
	m := newLatencyLine(&scheduler.PredictorSpec{Window: 1024, RefitEvery: 1})
	for i := range 2000 {
		m.observe(pimRow{x: [pimFeatures]float64{float64(i * 37), float64(i % 29), float64(i % 2 * i)}, y: float64(i * i % 1013)})
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := m.fit(); err != nil {
			b.Fatal(err)
		}
	}
}
