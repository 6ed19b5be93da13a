package lm

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

// Session is some sequences on their way: prompts that are prefilled, then tokens that
// are decoded one by one, all sequences side by side.
type Session struct {
	model  *Model
	host   *host   // the GPU's attention over prompts
	dimms  *dimms  // attention of decode steps; nil without DIMMs
	chosen *chosen // attention by a policy; nil without one
	lanes  []*lane
	reads  []sequence
}

// sequence is where a sequence stands.
type sequence struct{ length, limit int }

// prefillTokens is the tokens of a prompt that are computed side by side.
const prefillTokens = 256

// NewSession returns a session of sequences that grow up to limits tokens each. Without
// DIMMs (nil) decode steps attend in float32 on the host. A limit beyond the model's context
// is an input.Error, as is what the DIMMs cannot hold.
func NewSession(m *Model, on *Node, limits []int) (*Session, error) {
	s, err := newSession(m, limits)
	if err != nil {
		return nil, err
	}
	s.host = newHost(m, limits, on != nil)
	if on != nil {
		s.dimms, err = newDIMMs(m, on, s.host, limits)
	}
	return s, err
}

// newSession returns a session without an attender.
func newSession(m *Model, limits []int) (*Session, error) {
	s := &Session{model: m}
	for i, n := range limits {
		if n < 1 || n > m.Context {
			return nil, &input.Error{Key: fmt.Sprintf("sequence %d", i+1), Value: fmt.Sprintf("%d tokens", n),
				Expected: fmt.Sprintf("1 to %d tokens, the model's context", m.Context)}
		}
		l := m.newLane()
		l.sequence = i
		s.lanes = append(s.lanes, l)
		s.reads = append(s.reads, sequence{limit: n})
	}
	return s, nil
}

// Prefill computes a prompt of at least one token of a sequence that has none yet, and
// returns the logits after its last token, valid until the sequence's next step.
func (s *Session) Prefill(sequence int, prompt []byte) ([]float32, error) {
	var a attender = s.host
	switch {
	case s.dimms != nil:
		a = prefill{s.dimms}
	case s.chosen != nil:
		a = chosenPrefill{s.chosen}
	}
	lanes := make([]*lane, min(prefillTokens, len(prompt)))
	for i := range lanes {
		lanes[i] = s.model.newLane()
		lanes[i].sequence = sequence
	}
	read := &s.reads[sequence]
	if len(prompt) == 0 || read.length > 0 || len(prompt) > read.limit {
		return nil, fmt.Errorf("a prompt of %d tokens for a sequence with %d of %d", len(prompt), read.length, read.limit)
	}
	var last *lane
	for len(prompt) > 0 {
		n := min(len(lanes), len(prompt))
		for i, token := range prompt[:n] {
			lanes[i].position, lanes[i].token = read.length+i, token
			lanes[i].withLogits = i == n-1 && n == len(prompt)
		}
		if err := s.model.forward(lanes[:n], a); err != nil {
			return nil, err
		}
		read.length += n
		last, prompt = lanes[n-1], prompt[n:]
	}
	if s.chosen != nil {
		s.chosen.begin(sequence, read.length)
	}
	return last.logits, nil
}

// Step decodes: it gives each of the sequences a token and returns the logits after it, by
// place in sequences, valid until the next step.
func (s *Session) Step(sequences []int, tokens []byte) ([][]float32, error) {
	var a attender = s.host
	switch {
	case s.dimms != nil:
		a = s.dimms
	case s.chosen != nil:
		a = s.chosen
	}
	lanes := make([]*lane, len(sequences))
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
	if err := s.model.forward(lanes, a); err != nil {
		return nil, err
	}
	logits := make([][]float32, len(lanes))
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
