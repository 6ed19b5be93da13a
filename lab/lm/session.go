package lm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units/portable"
)

// Session is several sequences in parallel, in float32: prompts are prefilled, then tokens are
// decoded one by one.
type Session struct {
	decoder[float32]
	host  *host  // the GPU's attention over prompts
	dimms *dimms // attention of decode steps; nil without DIMMs
}

// decoder computes the tokens of some sequences through a model.
type decoder[T real] struct {
	model         *Model
	prefill, step attender[T]
	lanes         []*lane[T]
	reads         []sequence
}

type sequence struct{ length, limit int } // the state of a sequence

const prefillTokens = 256 // prompt tokens computed in parallel

// NewSession returns a session of sequences that grow up to limits tokens each. Without DIMMs (nil)
// decode steps attend in float32 on the host. A limit beyond the model's context, or beyond the
// DIMMs' capacity, returns an input.Error.
func NewSession(m *Model, on *Node, limits []int) (*Session, error) {
	if m.Latent.Is() {
		return newLatentSession(m, on, limits)
	}
	d, err := newDecoder[float32](m, limits)
	if err != nil {
		return nil, err
	}
	s := &Session{decoder: d, host: newHost(m, limits, on != nil)}
	s.prefill, s.step = s.host, s.host
	if on != nil {
		if s.dimms, err = newDIMMs(m, on, s.host, m.headShape(nil), limits); err != nil {
			return nil, err
		}
		s.prefill, s.step = prefill{s.dimms}, s.dimms
	}
	return s, nil
}

// newLatentSession is NewSession for a model with latent attention, which attends to unrounded rows.
func newLatentSession(m *Model, on *Node, limits []int) (*Session, error) {
	if on != nil {
		return nil, m.noDIMMs()
	}
	if err := m.texts(); err != nil {
		return nil, err
	}
	d, _, err := newLatentDecoder[float32](m, LatentForm{}, nil, limits)
	if err != nil {
		return nil, err
	}
	return &Session{decoder: *d}, nil
}

// newDecoder returns a decoder without attenders.
func newDecoder[T real](m *Model, limits []int) (decoder[T], error) {
	s := decoder[T]{model: m}
	for i, n := range limits {
		if n < 1 || n > m.Context {
			return s, &input.Error{Key: fmt.Sprintf("sequence %d", i+1), Value: fmt.Sprintf("%d tokens", n),
				Expected: fmt.Sprintf("1 to %d tokens, the model's context", m.Context)}
		}
		l := newLane[T](m)
		l.sequence = i
		s.lanes = append(s.lanes, l)
		s.reads = append(s.reads, sequence{limit: n})
	}
	return s, nil
}

// Prefill computes a prompt of at least one token for an empty sequence, and returns the logits
// after its last token, valid until the sequence's next step.
func (s *decoder[T]) Prefill(sequence int, prompt []byte) ([]T, error) {
	lanes := make([]*lane[T], min(prefillTokens, len(prompt)))
	for i := range lanes {
		lanes[i] = newLane[T](s.model)
		lanes[i].sequence = sequence
	}
	read := &s.reads[sequence]
	if len(prompt) == 0 || read.length > 0 || len(prompt) > read.limit {
		return nil, fmt.Errorf("a prompt of %d tokens for a sequence with %d of %d", len(prompt), read.length, read.limit)
	}
	var last *lane[T]
	for len(prompt) > 0 {
		n := min(len(lanes), len(prompt))
		for i, token := range prompt[:n] {
			lanes[i].position, lanes[i].token = read.length+i, int(token)
			lanes[i].withLogits = i == n-1 && n == len(prompt)
		}
		if err := forward(s.model, lanes[:n], s.prefill); err != nil {
			return nil, err
		}
		read.length += n
		last, prompt = lanes[n-1], prompt[n:]
	}
	return last.logits, nil
}

// Step decodes: it appends a token to each of the sequences and returns the logits after it, in the
// order of sequences, valid until the next step.
func (s *decoder[T]) Step(sequences []int, tokens []byte) ([][]T, error) {
	lanes := make([]*lane[T], len(sequences))
	for i, n := range sequences {
		read := &s.reads[n]
		if read.length >= read.limit {
			return nil, fmt.Errorf("sequence %d has its %d tokens", n+1, read.limit)
		}
		l := s.lanes[n]
		l.position, l.token, l.withLogits = read.length, int(tokens[i]), true
		lanes[i] = l
		read.length++
	}
	if err := forward(s.model, lanes, s.step); err != nil {
		return nil, err
	}
	logits := make([][]T, len(lanes))
	for i, l := range lanes {
		logits[i] = l.logits
	}
	return logits, nil
}

// MaxError returns the largest difference of any element of the DIMMs' attention results from
// attention in float64 on the same keys and values; 0 without DIMMs.
func (s *Session) MaxError() float64 {
	if s.dimms == nil {
		return 0
	}
	return s.dimms.maxError()
}

// Sampler chooses the next token of a sequence.
type Sampler struct {
	temperature float64
	random      *rand.Rand
}

// NewSampler returns the sampler of a sequence: at temperature 0 it takes the likeliest token,
// otherwise it draws from softmax(logits/temperature) with the seed and the sequence.
func NewSampler(temperature float64, seed uint64, sequence int) *Sampler {
	return &Sampler{temperature, rand.New(rand.NewPCG(seed, uint64(sequence)))}
}

// Next returns a token; of equal logits the smaller one.
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

// Generate prefills the prompts and decodes tokens tokens after each, all sequences in parallel,
// until ctx is done. It calls emit with each token as it is chosen. It returns the session, whose
// sequences hold all but their last token. Logits that are not finite return an error.
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
