package policies

import (
	"math/rand/v2"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
)

// source makes vectors; drawing each element from rapid would be too slow.
type source struct{ *rand.Rand }

func newSource(t *rapid.T) source {
	return source{rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed of vectors"), 0))}
}

// normal returns n normal values rounded to FP16.
func (s source) normal(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = attention.RoundHalf(float32(s.NormFloat64()))
	}
	return x
}

// fixedSource returns a source with a fixed seed.
func fixedSource() source { return source{rand.New(rand.NewPCG(1, 2))} }
