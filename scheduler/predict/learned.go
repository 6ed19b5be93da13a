package predict

import (
	"math"
	"math/rand/v2"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// Learned predicts from a profile of executed sub-batches (L3, section 5.3):
//
//	T_PIM = Linear(Σ f_d, len(f_d), Σ c_p of the other sub-batch)        (5)
//	T_GPU = Σ RFR_p(c_p, f_p) + RFR_batch(Σ c_p, len(f_d))               (6)
//
// with a linear model by least squares and two random forests. The models are refitted as the
// profile grows; a forest replaces its oldest trees. A fallback answers until the first fit.
// lab/docs/model-node.md states the rules and the errors. A Learned serves one replica and is not
// safe for concurrent use.
type Learned struct {
	warmUp   int
	fallback batching.Predictor
	noise    noise
	prefill  *latencyForest // one chunk's attention
	batched  *latencyForest // all batched operations
	pim      *latencyLine
}

// NewLearned returns a predictor with an empty profile. The fallback answers until the models are
// fitted. Noise and forests draw from rng.
func NewLearned(spec *scheduler.PredictorSpec, fallback batching.Predictor, rng *rand.Rand) *Learned {
	return &Learned{
		warmUp: spec.WarmUp, fallback: fallback,
		prefill: newLatencyForest(spec, rng.Uint64(), attentionWork),
		batched: newLatencyForest(spec, rng.Uint64(), tokenWork),
		pim:     newLatencyLine(spec),
		noise:   newNoise(spec.Noise, rng),
	}
}

// GPU implements Predictor.
func (l *Learned) GPU(s *scheduler.SubBatch, step int64) units.Duration {
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
		t += l.batched.predict(prefill, len(s.Decode)*max(s.Verified, 1))
	}
	return units.FromPicoseconds(math.Round(t))
}

// PIM implements Predictor.
func (l *Learned) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) units.Duration {
	switch {
	case !l.pim.ready:
		return l.fallback.PIM(s, iteration, otherPrefill)
	case len(s.Decode) == 0 && otherPrefill == 0:
		return 0 // no work takes no time, whatever the constant term
	}
	return units.FromPicoseconds(math.Round(l.pim.predict([pimFeatures]float64{
		float64(s.Contexts(iteration)), float64(len(s.Decode) * max(s.Verified, 1)), float64(otherPrefill),
	})))
}

// Observe adds an executed sub-batch to the profile, with measurement noise on its
// times, and fits the models that are due. Parts without work, which have neither tokens
// nor decoding requests, are not observed.
func (l *Learned) Observe(s *scheduler.Sample) error {
	l.add(s)
	return l.learn()
}

// add adds a sub-batch to the profile.
func (l *Learned) add(s *scheduler.Sample) {
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

// learn fits the models that are due. The two forests answer together, so their first fits
// coincide.
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

// noise multiplies times by log-normal factors of mean 1, so times stay positive and unbiased.
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

// RelativeError is the mean relative error RE = (1/n) Σ |Y − Ŷ|/Y of the L3 paper
// (section 6.3). Y are measured times, Ŷ predicted times.
type RelativeError struct {
	Mean  float64 `json:"mean"` // 0 where Count is 0
	Count int     `json:"sub_batches"`
}

// add adds a pair. A time measured as 0 has no relative error and does not count.
func (e *RelativeError) add(measured, predicted float64) {
	if measured == 0 {
		return
	}
	e.Count++
	e.Mean += (math.Abs((measured-predicted)/measured) - e.Mean) / float64(e.Count)
}

// PredictionErrors are the errors of the models (L3, Fig 10b), each over the sub-batches with such
// work.
type PredictionErrors struct {
	PrefillAttention RelativeError `json:"prefill_attention"` // of all chunks of a sub-batch together
	DecodeAttention  RelativeError `json:"decode_attention"`  // T_PIM: attention with its transfers
	FC               RelativeError `json:"fc"`
}

// HoldOut trains the models once on a random 80% of the samples, and returns the errors on the
// other 20%. The window of spec is widened to hold all training samples. Training and test times
// have the noise of spec. Order and noise come from rng.
func HoldOut(spec *scheduler.PredictorSpec, samples []scheduler.Sample, rng *rand.Rand) (PredictionErrors, error) {
	var e PredictionErrors
	order := rng.Perm(len(samples))
	train, test := order[:len(order)*4/5], order[len(order)*4/5:]
	whole := *spec
	for _, i := range train {
		whole.Window += max(2, len(samples[i].Chunks)) // each half of the line's window holds all samples
	}
	l := NewLearned(&whole, nil, rng)
	for _, i := range train {
		l.add(&samples[i])
	}
	if err := l.fitAll(); err != nil {
		return e, err
	}
	for _, i := range test {
		l.judge(&samples[i], &e)
	}
	return e, nil
}

// fitAll fits every model that has data.
func (l *Learned) fitAll() error {
	for _, m := range [...]*latencyForest{l.prefill, l.batched} {
		if len(m.data.y) > 0 {
			if err := m.fit(); err != nil {
				return err
			}
		}
	}
	if l.pim.size() > 0 {
		return l.pim.fit()
	}
	return nil
}

// judge compares the models with a measurement of s.
func (l *Learned) judge(s *scheduler.Sample, e *PredictionErrors) {
	if l.prefill.forest != nil {
		measured, predicted := 0.0, 0.0
		for i := range s.Chunks {
			c := &s.Chunks[i]
			measured += l.noise.measure(c.Time)
			predicted += l.prefill.predict(c.Tokens, c.Finished)
		}
		e.PrefillAttention.add(measured, predicted)
	}
	if l.batched.forest != nil && s.PrefillTokens+s.Decoding > 0 {
		e.FC.add(l.noise.measure(s.FC), l.batched.predict(s.PrefillTokens, s.Decoding))
	}
	if l.pim.ready && s.Decoding > 0 {
		e.DecodeAttention.add(l.noise.measure(s.PIM), l.pim.predict(
			[pimFeatures]float64{float64(s.Contexts), float64(s.Decoding), float64(s.PrefillMoved)}))
	}
}
