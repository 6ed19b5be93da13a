package scheduler

import "github.com/l3sim/l3sim/units"

// Sample is an executed sub-batch in a profile: the features of equations 5 and 6 of the L3 paper,
// and the measured times, each over all layers.
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

// Set sets the features to those of sub-batch s and all times to 0. otherPrefill is the number of
// the other sub-batch's prompt tokens. Set allocates only if the sample holds more chunks than ever
// before.
func (m *Sample) Set(s *SubBatch, iteration int64, otherPrefill int) {
	chunks := m.Chunks[:0]
	for i := range s.Prefill {
		chunks = append(chunks, ChunkSample{Tokens: s.Prefill[i].Tokens, Finished: s.Prefill[i].Finished})
	}
	*m = Sample{
		Chunks: chunks, PrefillTokens: s.PrefillTokens(), Decoding: len(s.Decode) * max(s.Verified, 1),
		Contexts: s.Contexts(iteration), PrefillMoved: otherPrefill,
	}
}
