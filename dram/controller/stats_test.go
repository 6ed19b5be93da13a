package controller

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLatencies compares with the sorted list, for one channel and for two.
func TestLatencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "bits")), 1, 200).Draw(t, "latencies")
		var one, first, second Stats
		var sum int64
		for i, v := range values {
			one.Latency.add(v)
			sum += v
			if i%2 == 0 {
				first.Latency.add(v)
			} else {
				second.Latency.add(v)
			}
		}
		slices.Sort(values)
		first.add(&second)
		for _, s := range []*Stats{&one, &first} {
			l := &s.Latency
			if len(l.clocks) != len(values) || l.Max() != values[len(values)-1] || l.Mean() != float64(sum)/float64(len(values)) {
				t.Fatalf("count %d, max %d, mean %v of %v", len(l.clocks), l.Max(), l.Mean(), values)
			}
			for _, p := range []int{1, 50, 90, 99, 100} {
				if got, want := l.Percentile(float64(p)), values[(p*len(values)+99)/100-1]; got != want {
					t.Fatalf("p%d is %d, want %d of %v", p, got, want, values)
				}
			}
		}
	})
	var nothing Latencies
	if nothing.Mean() != 0 || nothing.Max() != 0 || nothing.Percentile(99) != 0 {
		t.Error("statistics over nothing must be 0")
	}
}
