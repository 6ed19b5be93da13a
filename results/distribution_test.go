package results

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// TestDistribution compares with the samples written out and sorted.
func TestDistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, half, other Distribution
		var samples []int64
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		spread := rapid.SampledFrom([]int64{1, 5, 1000, 1 << 50, 1 << 61}).Draw(t, "spread")
		for i := range rapid.SampledFrom([]int{0, 1, 2, 50, 200, 1200}).Draw(t, "pairs") {
			value := r.Int64N(2*spread+1) - spread
			count := r.Int64N(11) - 1
			d.Add(value, count)
			if i%2 == 0 {
				half.Add(value, count)
			} else {
				other.Add(value, count)
			}
			for range count {
				samples = append(samples, value)
			}
			if i%300 == 0 {
				d.Percentile(50) // a query in between changes nothing
			}
		}
		half.AddAll(&other)
		slices.Sort(samples)
		if d.Count() != int64(len(samples)) || half.Count() != d.Count() {
			t.Fatalf("%d samples, want %d", d.Count(), len(samples))
		}
		if half.Mean() != d.Mean() {
			t.Fatalf("the mean depends on the order: %v, %v", half.Mean(), d.Mean())
		}
		for p := range 101 {
			want := int64(0)
			if n := len(samples); n > 0 {
				want = samples[max((p*n+99)/100, 1)-1]
			}
			if got := d.Percentile(p); got != want || half.Percentile(p) != want {
				t.Fatalf("percentile %d: %d and %d, want %d", p, got, half.Percentile(p), want)
			}
		}
		if len(samples) == 0 {
			return
		}
		floats := make([]float64, len(samples))
		for i, s := range samples {
			floats[i] = float64(s)
		}
		if want := stat.Mean(floats, nil); math.Abs(d.Mean()-want) > 1e-12*float64(spread) {
			t.Fatalf("mean %v, want %v", d.Mean(), want)
		}
	})
}

func TestDistributionEmpty(t *testing.T) {
	var d Distribution
	d.Add(5, 0)
	d.Add(7, -1)
	if d.Count() != 0 || len(d.pairs) != 0 || d.Milliseconds() != (Latency{}) {
		t.Errorf("%d samples, %d values kept, %+v", d.Count(), len(d.pairs), d.Milliseconds())
	}
}

func TestDistributionMilliseconds(t *testing.T) {
	var d Distribution
	for i := range int64(100) {
		d.Add((i+1)*1_500_000_000, 1)
	}
	if got, want := d.Milliseconds(), (Latency{Mean: 75.75, P50: 75, P90: 135, P95: 142.5, P99: 148.5, Max: 150}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestDistributionMemory records many samples of few values one by one.
func TestDistributionMemory(t *testing.T) {
	var d Distribution
	r := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		d.Add(r.Int64N(500), 1)
	}
	if cap(d.pairs) > 4096 || d.Count() != 1_000_000 {
		t.Errorf("%d samples of 500 values take %d pairs", d.Count(), cap(d.pairs))
	}
}

// BenchmarkDistribution is the load of a run of 12.7 million tokens: half a
// million pairs and the summary.
func BenchmarkDistribution(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	values := make([]int64, 500_000)
	for i := range values {
		values[i] = 30e9 + r.Int64N(50e9)
	}
	b.ReportAllocs()
	for b.Loop() {
		var d Distribution
		for _, v := range values {
			d.Add(v, 25)
		}
		d.Milliseconds()
	}
}

// TestNothingRecorded: a value recorded zero times is no sample and no maximum.
func TestNothingRecorded(t *testing.T) {
	var with, without Distribution
	for value := range int64(3) {
		with.Add(value, 1)
		with.Add(1000+value, 0)
		with.Add(2000+value, -1)
		without.Add(value, 1)
	}
	if with.Milliseconds() != without.Milliseconds() || with.Count() != 3 {
		t.Errorf("%d samples, %+v; want 3, %+v", with.Count(), with.Milliseconds(), without.Milliseconds())
	}
}
