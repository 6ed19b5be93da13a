package scheduler

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestEmits: a step emits from 1 to as many tokens as it verifies, on average (1 - a^k)/(1 - a) (Leviathan et al., ICML 2023, equation
// 1).
func TestEmits(t *testing.T) {
	for _, s := range []Speculation{{1, 0.5, 1}, {2, 0.7, 1}, {3, 0.8, 7}, {5, 0.7, 2}, {8, 0.95, 3}, {4, 1, 1}} {
		const requests, steps = 200, 500
		sum := 0
		for id := range requests {
			for emitted := range steps {
				n := s.Emits(id, emitted, 1<<20)
				if n < 1 || n > s.Verified {
					t.Fatalf("%+v: a step emits %d tokens", s, n)
				}
				sum += n
			}
		}
		want := 0.0
		for i := range s.Verified {
			want += math.Pow(s.Acceptance, float64(i))
		}
		if mean := s.Mean(); math.Abs(mean/want-1) > 1e-12 {
			t.Errorf("%+v: %v tokens a step in the mean, want %v", s, mean, want)
		}
		if got := float64(sum) / (requests * steps); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%+v: %v tokens a step, want %v", s, got, want)
		}
	}
}

// TestSteps: steps emit what a request has left, wherever they begin, and never more.
func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Speculation{rapid.IntRange(0, 6).Draw(t, "verified"), rapid.Float64Range(0.01, 1).Draw(t, "acceptance"), rapid.Uint64().Draw(t, "seed")}
		id, emitted, left := rapid.IntRange(0, 1<<20).Draw(t, "id"), rapid.IntRange(1, 5000).Draw(t, "emitted"), rapid.IntRange(0, 300).Draw(t, "left")
		want := s.Steps(id, emitted, left)
		steps := 0
		for ; left > 0; steps++ {
			n := s.Emits(id, emitted, left)
			if n < 1 || n > left {
				t.Fatalf("%d tokens of %d that are left", n, left)
			}
			emitted, left = emitted+n, left-n
		}
		if steps != want {
			t.Fatalf("%d steps, want %d", steps, want)
		}
	})
}
