package lm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/l3sim/l3sim/internal/portable"
)

// Sampler chooses the next token of a sequence.
type Sampler struct {
	temperature float64
	random      *rand.Rand
}

// NewSampler returns the sampler of a sequence: at temperature 0 the likeliest token, else
// one drawn by softmax(logits/temperature). Seed and sequence decide what is drawn.
func NewSampler(temperature float64, seed uint64, sequence int) *Sampler {
	return &Sampler{temperature, rand.New(rand.NewPCG(seed, uint64(sequence)))}
}

// Next returns a token; equal logits go to the smaller one.
func (s *Sampler) Next(logits []float32) byte {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	if s.temperature == 0 {
		return byte(best)
	}
	weights, sum := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		weights[i] = portable.Exp(float64(x-logits[best]) / s.temperature)
		sum += weights[i]
	}
	at := float64(s.random.Float64() * sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return byte(i)
		}
	}
	return byte(best)
}

// Generate prefills the prompts and decodes tokens tokens after each, all sequences side
// by side, until ctx is done. emit sees each token as it is chosen. It returns the session, whose
// sequences hold all but their last token. Logits that are not finite are an error.
func Generate(ctx context.Context, m *Model, on *Node, prompts [][]byte, tokens int, samplers []*Sampler, emit func(sequence int, token byte) error) (*Session, error) {
	limits := make([]int, len(prompts))
	sequences, next := make([]int, len(prompts)), make([]byte, len(prompts))
	for i, p := range prompts {
		limits[i], sequences[i] = len(p)+tokens-1, i
	}
	s, err := NewSession(m, on, limits)
	if err != nil {
		return nil, err
	}
	choose := func(i int, logits []float32) error {
		for _, x := range logits {
			if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("sequence %d: a prediction is not finite: the precision's formats do not hold this model", i+1)
			}
		}
		next[i] = samplers[i].Next(logits)
		return emit(i, next[i])
	}
	for i, p := range prompts {
		logits, err := s.Prefill(i, p)
		if err != nil {
			return nil, err
		}
		if err := choose(i, logits); err != nil {
			return nil, err
		}
	}
	for range tokens - 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		logits, err := s.Step(sequences, next)
		if err != nil {
			return nil, err
		}
		for i := range sequences {
			if err := choose(i, logits[i]); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}
