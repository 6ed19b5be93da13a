package scheduler

import (
	"math"
	"math/rand/v2"
)

// RelativeError is the mean relative error RE = (1/n) Σ |Y − Ŷ|/Y of the L3 paper
// (section 6.3). Y are measured times, Ŷ predicted times.
type RelativeError struct {
	Mean  float64 // 0 where Count is 0
	Count int
}

// add adds a pair. A time measured as 0 has no relative error and does not count.
func (e *RelativeError) add(measured, predicted float64) {
	if measured == 0 {
		return
	}
	e.Count++
	e.Mean += (math.Abs((measured-predicted)/measured) - e.Mean) / float64(e.Count)
}

// PredictionErrors are the errors of the models (L3, Fig 10b), each over the sub-batches
// that have this part.
type PredictionErrors struct {
	PrefillAttention RelativeError // of all chunks of a sub-batch together
	DecodeAttention  RelativeError // T_PIM: attention with its transfers
	FC               RelativeError
}

// HoldOut trains the models once on a random 80% of the samples, and returns the errors
// on the other 20%. The window of spec is widened to hold all training samples. Times
// have the noise of spec, in training and in test. Order and noise come from rng.
func HoldOut(spec *PredictorSpec, samples []Sample, rng *rand.Rand) (PredictionErrors, error) {
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
func (l *Learned) judge(s *Sample, e *PredictionErrors) {
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
