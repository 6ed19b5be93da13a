package hbm

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestValues: the programs compute attention, whatever the shape, the context and the number of heads: as float64 does, up to what
// sums in float32 lose.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := Level(rapid.SampledFrom(Levels()).Draw(t, "level"))
		shape := Shape{rapid.SampledFrom([]int{1, 40, 64, 80, 128, 160, 256}).Draw(t, "dim"), rapid.IntRange(1, 2).Draw(t, "bytes")}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		vector := func() []float32 {
			x := make([]float32, shape.HeadDim)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			return x
		}
		context := rapid.IntRange(1, 700).Draw(t, "context")
		heads := make([]Head, rapid.IntRange(1, 5).Draw(t, "heads"))
		for i := range heads {
			heads[i].Query = vector()
			for range context {
				heads[i].Keys, heads[i].Values = append(heads[i].Keys, vector()), append(heads[i].Values, vector())
			}
		}
		got, err := Attend(level, shape, heads)
		if err != nil {
			t.Fatal(err)
		}
		for i := range heads {
			for d, want := range exact(&heads[i]) {
				if off := math.Abs(float64(got[i][d]) - want); !(off < 2e-5) {
					t.Fatalf("%s, head %d, element %d: %v, expected %v", level, i, d, got[i][d], want)
				}
			}
		}
	})
}

// exact returns attention by definition, in float64.
func exact(h *Head) []float64 {
	weights, sum := make([]float64, len(h.Keys)), 0.0
	for t, k := range h.Keys {
		dot := 0.0
		for d, x := range k {
			dot += float64(float64(x) * float64(h.Query[d]))
		}
		weights[t] = math.Exp(dot / math.Sqrt(float64(len(h.Query))))
		sum += weights[t]
	}
	out := make([]float64, len(h.Query))
	for t, v := range h.Values {
		for d, x := range v {
			out[d] += float64(weights[t] / sum * float64(x))
		}
	}
	return out
}
