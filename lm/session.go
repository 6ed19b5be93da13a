package lm

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// Session is some sequences on their way: prompts that are prefilled, then tokens that
// are decoded one by one, all sequences side by side, in float32.
type Session struct {
	decoder[float32]
	host  *host  // the GPU's attention over prompts
	dimms *dimms // attention of decode steps; nil without DIMMs
}

// decoder takes the tokens of some sequences through a model.
type decoder[T real] struct {
	model         *Model
	prefill, step attender[T]
	lanes         []*lane[T]
	reads         []sequence
}

// sequence is where a sequence stands.
type sequence struct{ length, limit int }

// prefillTokens is the tokens of a prompt that are computed side by side.
const prefillTokens = 256

// NewSession returns a session of sequences that grow up to limits tokens each. Without
// DIMMs (nil) decode steps attend in float32 on the host. A limit beyond the model's context
// is an input.Error, as is what the DIMMs cannot hold.
func NewSession(m *Model, on *Node, limits []int) (*Session, error) {
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

// newDecoder returns one without attenders.
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

// Prefill computes a prompt of at least one token of a sequence that has none yet, and
// returns the logits after its last token, valid until the sequence's next step.
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
			lanes[i].position, lanes[i].token = read.length+i, token
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

// Step decodes: it gives each of the sequences a token and returns the logits after it, by
// place in sequences, valid until the next step.
func (s *decoder[T]) Step(sequences []int, tokens []byte) ([][]T, error) {
	lanes := make([]*lane[T], len(sequences))
	for i, n := range sequences {
		read := &s.reads[n]
		if read.length >= read.limit {
			return nil, fmt.Errorf("sequence %d has its %d tokens", n+1, read.limit)
		}
		l := s.lanes[n]
		l.position, l.token, l.withLogits = read.length, tokens[i], true
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

// MaxError returns the largest difference of any element of an attention result that the DIMMs
// gave from attention in float64 on the same keys and values; 0 without DIMMs.
func (s *Session) MaxError() float64 {
	if s.dimms == nil {
		return 0
	}
	return s.dimms.maxError()
}
