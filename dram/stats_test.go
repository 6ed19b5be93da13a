package dram

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLatencies compares with the sorted list: exact below the coarse bins,
// within their width above.
func TestLatencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "bits")), 1, 200).Draw(t, "latencies")
		var l, first, second Latencies
		var sum int64
		for i, v := range values {
			l.add(v)
			sum += v
			if i%2 == 0 {
				first.add(v)
			} else {
				second.add(v)
			}
		}
		slices.Sort(values)
		first.merge(&second)
		for _, d := range []*Latencies{&l, &first} {
			if d.Count() != int64(len(values)) || d.Max() != values[len(values)-1] || d.Mean() != float64(sum)/float64(len(values)) {
				t.Fatalf("count %d, max %d, mean %v of %v", d.Count(), d.Max(), d.Mean(), values)
			}
			for _, p := range []int{1, 50, 90, 99, 100} {
				want := values[(p*len(values)+99)/100-1]
				got := d.Percentile(float64(p))
				if got != want && (want < exactLatencies || got < want || got > want+want/64) {
					t.Fatalf("p%d is %d, want %d of %v", p, got, want, values)
				}
			}
		}
	})
	var coarse Latencies
	for _, v := range []int64{exactLatencies - 1, exactLatencies, 20_000, 40_000} {
		coarse.add(v)
	}
	// Bins of 256 and of 512 clocks: their ends, but never beyond the longest.
	for p, want := range map[float64]int64{25: 16383, 50: 16384 + 255, 75: 19968 + 255, 100: 40_000} {
		if got := coarse.Percentile(p); got != want {
			t.Errorf("p%v is %d, want %d", p, got, want)
		}
	}
	var none Latencies
	if none.Mean() != 0 || none.Max() != 0 || none.Percentile(99) != 0 {
		t.Error("statistics over nothing must be 0")
	}
}

// Count returns the number of reads.
func (l *Latencies) Count() int64 { return l.count }
