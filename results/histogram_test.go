package results

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// nasty has shapes of samples that are hard for percentiles and sums.
var nasty = map[string]func(r *rand.Rand) int64{
	"constant":    func(*rand.Rand) int64 { return 107_562_046_351 },
	"zeros":       func(*rand.Rand) int64 { return 0 },
	"mostly zero": func(r *rand.Rand) int64 { return max(r.Int64N(1<<40)-1<<40+1<<36, 0) },
	"bimodal":     func(r *rand.Rand) int64 { return 30e9 + r.Int64N(2)*7e16 + r.Int64N(1e9) },
	"heavy tail":  func(r *rand.Rand) int64 { return int64(1e9 * math.Pow(1-r.Float64(), -1.1)) },
	"all scales":  func(r *rand.Rand) int64 { return r.Int64() >> r.IntN(64) },
	"huge":        func(r *rand.Rand) int64 { return math.MaxInt64 - r.Int64N(1<<53) },
	"powers":      func(r *rand.Rand) int64 { return 1<<r.IntN(63) - r.Int64N(2) },
	"both signs":  func(r *rand.Rand) int64 { return (r.Int64() - math.MaxInt64/2) >> r.IntN(40) },
	"least":       func(r *rand.Rand) int64 { return math.MinInt64 + r.Int64N(3) },
}

// truth is the list of samples.
type truth struct {
	values []int64 // sorted
	sum    *big.Int
}

func (e *truth) add(value, count int64) {
	for range count {
		e.values = append(e.values, value)
	}
	e.sum.Add(e.sum, new(big.Int).Mul(big.NewInt(value), big.NewInt(count)))
}

// compare checks every result of d, percentiles to within a relative bound.
func (e *truth) compare(t rapid.TB, d *Distribution, within float64) {
	t.Helper()
	n := len(e.values)
	if d.Count() != int64(n) {
		t.Fatalf("%d samples, want %d", d.Count(), n)
	}
	slices.Sort(e.values)
	for p := range 101 {
		want := e.values[max((p*n+99)/100, 1)-1]
		got := d.Percentile(p)
		if math.Abs(float64(got)-float64(want)) > within*math.Abs(float64(want)) || p == 100 && got != want {
			t.Fatalf("percentile %d: %d, want %d", p, got, want)
		}
	}
	if got := d.Max(); got != e.values[n-1] {
		t.Fatalf("max %d, want %d", got, e.values[n-1])
	}
	sum, _ := new(big.Float).SetInt(e.sum).Float64()
	if got, want := d.Mean(), sum/float64(n); math.Abs(got-want) > 1e-15*math.Abs(want) {
		t.Fatalf("mean %v, want %v", got, want)
	}
}

// TestHistogram compares the histogram with the list of samples, whole and added up from parts in
// any order.
func TestHistogram(t *testing.T) {
	for name, draw := range nasty {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				e := truth{sum: new(big.Int)}
				var whole, first, second Distribution
				whole.coarsen()
				first.coarsen()
				second.coarsen()
				for range rapid.IntRange(1, 300).Draw(t, "pairs") {
					value, count := draw(r), 1+r.Int64N(9)
					e.add(value, count)
					whole.Add(value, count)
					if r.IntN(2) == 0 {
						first.Add(value, count)
					} else {
						second.Add(value, count)
					}
				}
				e.compare(t, &whole, 0.0005)
				second.AddAll(&first)
				e.compare(t, &second, 0.0005)
			})
		})
	}
}

// TestBuckets: buckets are contiguous, contain their representative value, and are at most 0.1%
// wide.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64().Draw(t, "value") >> rapid.IntRange(0, 63).Draw(t, "shift")
		b := bucketOf(v)
		middle := bucketMiddle(b)
		if bucketOf(middle) != b {
			t.Fatalf("%d stands for bucket %d of %d, and is in %d", middle, b, v, bucketOf(middle))
		}
		if v < math.MaxUint64 && bucketOf(v+1) != b && bucketOf(v+1) != b+1 {
			t.Fatalf("%d is in bucket %d, the next value in %d", v, b, bucketOf(v+1))
		}
		if v < 2048 && middle != v {
			t.Fatalf("%d stands for %d", middle, v)
		}
	})
}

// TestDistributionOfManyValues exceeds the number of exact values, and agrees with the list of
// samples in any order and division.
func TestDistributionOfManyValues(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("sorts millions of samples")
	}
	for _, name := range []string{"bimodal", "heavy tail", "huge", "both signs"} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 0))
			e := truth{sum: new(big.Int)}
			var whole, first, second Distribution
			for range 3 * exactValues / 2 {
				value, count := nasty[name](r), 1+r.Int64N(2)
				e.add(value, count)
				whole.Add(value, count)
				if value%4 == 0 { // few enough to stay exact
					first.Add(value, count)
				} else {
					second.Add(value, count)
				}
			}
			if whole.coarse == nil || first.coarse != nil || second.coarse == nil {
				t.Fatalf("a histogram: whole %v, parts %v, %v", whole.coarse != nil, first.coarse != nil, second.coarse != nil)
			}
			e.compare(t, &whole, 0.0005)
			first.AddAll(&second)
			if first.Milliseconds() != whole.Milliseconds() || first.Count() != whole.Count() {
				t.Errorf("%+v of the parts, %+v of the whole", first.Milliseconds(), whole.Milliseconds())
			}
		})
	}
}

// TestExactValues: exact values remain exact up to the last one, also if equal values are far apart
// in order.
func TestExactValues(t *testing.T) {
	const step = 1_000_003 // without a common factor with exactValues: a permutation
	var d Distribution
	for round := range 2 {
		for i := range int64(exactValues) {
			d.Add(i*step%exactValues*5_000_000_007, int64(round)+1)
		}
	}
	for _, p := range []int{0, 1, 50, 99, 100} {
		want := max(int64(p)*exactValues/100, 1) - 1
		if p*exactValues%100 > 0 {
			want++
		}
		if got := d.Percentile(p); got != want*5_000_000_007 {
			t.Errorf("percentile %d: %d, want %d", p, got, want*5_000_000_007)
		}
	}
	if d.Count() != 3*exactValues {
		t.Errorf("%d samples", d.Count())
	}
}

// TestDistributionStaysSmall: samples that all differ need no more memory than the exact values.
func TestDistributionStaysSmall(t *testing.T) {
	var d Distribution
	r := rand.New(rand.NewPCG(1, 1))
	most := 0
	for range 4 * exactValues {
		d.Add(30e9+r.Int64N(50e9), 25)
		most = max(most, cap(d.pairs))
	}
	if most > 2*exactValues || d.Count() != 100*exactValues {
		t.Errorf("%d samples took %d pairs", d.Count(), most)
	}
}
