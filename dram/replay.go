package dram

import (
	"context"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Setup is a memory system: channels of ranks of a part under a policy.
type Setup struct {
	Spec     *Spec
	Policy   *Policy
	Channels int
	Ranks    int // ranks of a channel
}

// Check has the rules of the whole set-up but for its mapping.
func (s *Setup) Check(c *input.Check) {
	s.Spec.Check(c)
	s.Policy.Check(c)
	input.Within(c, "channels", s.Channels, 1, 256)
	input.Within(c, "ranks", s.Ranks, 1, MaxRanks)
}

// Validate returns the first fault of the set-up.
func (s *Setup) Validate() error {
	if err := input.Validate(s); err != nil {
		return err
	}
	_, err := s.Mapping()
	return err
}

// Mapping returns the address mapping of the set-up.
func (s *Setup) Mapping() (*Mapping, error) {
	return newMapping(s.Policy.Mapping, s.Spec, s.Channels, s.Ranks)
}

// Replay runs a trace: each channel takes its requests in order, at most one a
// clock, whatever the others do, so that channels run in parallel with the same
// result as one after another. Logs is nil, or gives the command log of each
// channel.
func (s *Setup) Replay(ctx context.Context, requests []Request, logs []*LogWriter) (*Stats, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	mapping, err := s.Mapping()
	if err != nil {
		return nil, err
	}
	parts := [][]Request{requests}
	if s.Channels > 1 {
		parts = split(requests, mapping, s.Channels)
	}
	stats := make([]*Stats, s.Channels)
	errs := make([]error, s.Channels)
	var wg sync.WaitGroup
	for i := range parts {
		var log *LogWriter
		if logs != nil {
			log = logs[i]
		}
		c := newController(s.Spec, s.Policy, mapping, s.Ranks, log)
		wg.Go(func() { stats[i], errs[i] = c.run(ctx, parts[i]) })
	}
	wg.Wait()
	total := &Stats{}
	for i := range stats {
		if errs[i] != nil {
			return nil, errs[i]
		}
		total.add(stats[i])
	}
	return total, nil
}

// split deals the requests out to their channels.
func split(requests []Request, m *Mapping, channels int) [][]Request {
	parts := make([][]Request, channels)
	for _, r := range requests {
		channel, _, _ := m.decode(r.Address)
		parts[channel] = append(parts[channel], r)
	}
	return parts
}
