package scheduler

import (
	"math"
	"math/rand/v2"

	"github.com/l3sim/l3sim/units"
)

// Learned predicts from a profile of executed sub-batches (L3, section 5.3):
//
//	T_PIM = Linear(Σ f_d, len(f_d), Σ c_p of the other sub-batch)        (5)
//	T_GPU = Σ RFR_p(c_p, f_p) + RFR_batch(Σ c_p, len(f_d))               (6)
//
// with a linear model by least squares and two random forests. The models are
// fitted again as the profile grows; a forest replaces its oldest trees. A fallback
// answers until a model is fitted first. docs/lab/predictors.md states the rules and the
// errors. A Learned serves one replica and is not safe for concurrent use.
type Learned struct {
	warmUp   int
	fallback Predictor
	noise    noise
	prefill  *latencyForest // one chunk's attention
	batched  *latencyForest // all batched operations
	pim      *latencyLine
}

// NewLearned returns a predictor with an empty profile. The fallback answers until the
// models are warm. The random numbers of noise and forests come from rng.
func NewLearned(spec *PredictorSpec, fallback Predictor, rng *rand.Rand) *Learned {
	return &Learned{
		warmUp: spec.WarmUp, fallback: fallback,
		prefill: newLatencyForest(spec, rng.Uint64(), attentionWork),
		batched: newLatencyForest(spec, rng.Uint64(), tokenWork),
		pim:     newLatencyLine(spec),
		noise:   newNoise(spec.Noise, rng),
	}
}

// GPU implements Predictor.
func (l *Learned) GPU(s *SubBatch, step int64) units.Duration {
	if l.prefill.forest == nil {
		return l.fallback.GPU(s, step)
	}
	prefill, t := 0, 0.0
	for i := range s.Prefill {
		c := &s.Prefill[i]
		prefill += c.Tokens
		t += l.prefill.predict(c.Tokens, c.Finished)
	}
	if prefill+len(s.Decode) > 0 {
		t += l.batched.predict(prefill, len(s.Decode))
	}
	return units.FromPicoseconds(math.Round(t))
}

// PIM implements Predictor.
func (l *Learned) PIM(s *SubBatch, iteration int64, otherPrefill int) units.Duration {
	switch {
	case !l.pim.ready:
		return l.fallback.PIM(s, iteration, otherPrefill)
	case len(s.Decode) == 0 && otherPrefill == 0:
		return 0 // no work takes no time, whatever the line's constant
	}
	return units.FromPicoseconds(math.Round(l.pim.predict([pimFeatures]float64{
		float64(s.contexts(iteration)), float64(len(s.Decode)), float64(otherPrefill),
	})))
}

// Observe adds an executed sub-batch to the profile, with measurement noise on its
// times, and fits the models that are due. Parts without work, which have neither tokens
// nor decoding requests, are not observed.
func (l *Learned) Observe(s *Sample) error {
	l.add(s)
	return l.learn()
}

// add adds a sub-batch to the profile.
func (l *Learned) add(s *Sample) {
	for i := range s.Chunks {
		c := &s.Chunks[i]
		l.prefill.observe(c.Tokens, c.Finished, l.noise.measure(c.Time))
	}
	if s.PrefillTokens+s.Decoding > 0 {
		l.batched.observe(s.PrefillTokens, s.Decoding, l.noise.measure(s.FC))
	}
	if s.Decoding > 0 || s.PrefillMoved > 0 {
		l.pim.observe(pimRow{
			x: [pimFeatures]float64{float64(s.Contexts), float64(s.Decoding), float64(s.PrefillMoved)},
			y: l.noise.measure(s.PIM),
		})
	}
}

// learn fits the models that are due. The two forests answer together, and so their
// first fits are together.
func (l *Learned) learn() error {
	warm := l.prefill.when.seen >= l.warmUp && l.batched.when.seen >= l.warmUp
	for _, m := range [...]*latencyForest{l.prefill, l.batched} {
		if m.forest == nil && warm || m.forest != nil && m.when.due(len(m.data.y)) {
			if err := m.fit(); err != nil {
				return err
			}
		}
	}
	if !l.pim.ready && l.pim.when.seen >= l.warmUp || l.pim.ready && l.pim.when.due(l.pim.size()) {
		return l.pim.fit()
	}
	return nil
}
