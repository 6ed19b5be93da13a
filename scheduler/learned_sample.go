package scheduler

import (
	"math"
	"math/rand/v2"

	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// Sample is an executed sub-batch in a profile. It has the features of equations 5 and 6
// of the L3 paper, and the measured times, each over all layers.
type Sample struct {
	Chunks        []ChunkSample
	PrefillTokens int            // Σ c_p
	Decoding      int            // len(f_d)
	FC            units.Duration // t_batch: the batched operations of all tokens
	Contexts      int64          // Σ f_d
	PrefillMoved  int            // Σ c_p of the other sub-batch
	PIM           units.Duration // t_d + t_comm + t_overlap
}

// ChunkSample is the prefill attention of one chunk.
type ChunkSample struct {
	Tokens   int // c_p
	Finished int // f_p
	Time     units.Duration
}

// Set sets the features to those of sub-batch s and all times to 0.
// OtherPrefill is the number of the other sub-batch's prompt tokens. Set allocates only
// where the sample holds more chunks than ever before.
func (m *Sample) Set(s *SubBatch, iteration int64, otherPrefill int) {
	chunks := m.Chunks[:0]
	for i := range s.Prefill {
		chunks = append(chunks, ChunkSample{Tokens: s.Prefill[i].Tokens, Finished: s.Prefill[i].Finished})
	}
	*m = Sample{
		Chunks: chunks, PrefillTokens: s.PrefillTokens(), Decoding: len(s.Decode),
		Contexts: s.contexts(iteration), PrefillMoved: otherPrefill,
	}
}

// contexts returns the sum of the tokens that decoding requests attend over.
func (s *SubBatch) contexts(iteration int64) int64 {
	sum := int64(len(s.Decode)) * iteration
	for i := range s.Decode {
		sum += s.Decode[i].Base
	}
	return sum
}

// noise multiplies times by log-normal factors of mean 1: times stay positive, and
// unbiased.
type noise struct {
	mu, sigma float64
	rng       *rand.Rand
}

// newNoise returns noise of a relative standard deviation: the variance of a
// log-normal factor of mean 1 is e^σ² − 1.
func newNoise(relative float64, rng *rand.Rand) noise {
	variance := portable.Log1p(relative * relative)
	return noise{mu: -variance / 2, sigma: math.Sqrt(variance), rng: rng}
}

// measure returns t with noise, in picoseconds.
func (n *noise) measure(t units.Duration) float64 {
	if n.sigma == 0 {
		return float64(t)
	}
	return float64(float64(t) * portable.Exp(n.mu+float64(n.sigma*n.rng.NormFloat64())))
}
