package scheduler

import "github.com/l3sim/l3sim/units"

// Decoding is a request in its decode phase. Its context grows by one token in every
// step. The context is kept relative to the step's number, so that nothing is written
// when it grows.
type Decoding struct {
	Request int32 // index into the replica's requests
	Offset  int32 // rankset offset
	// Base + n is the number of tokens that decode step n attends over, the step's own token included.
	Base int64
	// Last is the step that emits the request's last token.
	Last int64
	// Prompt is the number of tokens that were prefilled. After a preemption the tokens that
	// had been emitted are among them.
	Prompt int32
	// Accepted is the number of drafts that the step accepts. It is set once a batch is formed, in
	// that batch's requests alone.
	Accepted int32
}

// Context returns the number of tokens that a decode step attends over.
func (d *Decoding) Context(step int64) int { return int(d.Base + step) }

// Chunk is a part of a prompt that an iteration prefills.
type Chunk struct {
	Request  int32
	Offset   int32
	Tokens   int  // prompt tokens prefilled now
	Finished int  // prompt tokens prefilled before, or found in the cache
	Prefix   int  // of these, found in the cache
	Last     bool // the prompt ends here: the iteration emits token 1
	Host     bool // its keys and values go to the host's memory
	Near     bool // its keys and values stay in the GPUs' spare memory
}

// SubBatch is one of the (one or two) sub-batches of an iteration.
type SubBatch struct {
	Decode  []Decoding
	Prefill []Chunk
	// Shared is the prefixes that several requests of Decode share, largest saving first: see Scheduler.GroupPrefixes.
	Shared []Shared
	// Host is the decoding requests whose attention the host's CPUs compute. Those of
	// Decode are on the GPUs. Only Offload fills Host.
	Host []Decoding
	// Near is the decoding requests whose keys and values are in the GPUs' spare memory, where the GPUs compute
	// their attention. The requests of Decode are then on ranks.
	Near []Decoding
	// Verified is the number of tokens that a step of each decoding request verifies; 0 means 1.
	Verified int
}

// Shared is a run of cached blocks that the same decoding requests of a sub-batch use. They also use all blocks in front of it,
// which more requests may share.
type Shared struct {
	Tokens   int
	Requests []int32 // places in SubBatch.Decode, rising
}

// Spared returns how many token reads are saved if the run is read once.
func (s *Shared) Spared() int { return (len(s.Requests) - 1) * s.Tokens }

// PrefillTokens returns the prompt tokens of the sub-batch.
func (s *SubBatch) PrefillTokens() int {
	n := 0
	for i := range s.Prefill {
		n += s.Prefill[i].Tokens
	}
	return n
}

// MovedTokens returns the prompt tokens of the sub-batch whose keys and values leave the GPUs.
func (s *SubBatch) MovedTokens() int {
	n := 0
	for i := range s.Prefill {
		if c := &s.Prefill[i]; !c.Near {
			n += c.Tokens
		}
	}
	return n
}

// Contexts returns the sum of the tokens that decoding requests attend over in a step.
func (s *SubBatch) Contexts(step int64) int64 {
	sum := int64(len(s.Decode)) * step
	for i := range s.Decode {
		sum += s.Decode[i].Base
	}
	return sum
}

// Tokens returns the number of rows of the sub-batch's fully-connected operations.
func (s *SubBatch) Tokens() int { return s.DecodeTokens() + s.PrefillTokens() }

// DecodeTokens returns the rows of decoding requests: one for each token that a step verifies.
func (s *SubBatch) DecodeTokens() int { return s.decoding() * max(s.Verified, 1) }

// Sampled returns the rows of the LM head: each token that a decoding request verifies, and the last token of each
// prompt that ends.
func (s *SubBatch) Sampled() int { return s.Emitting() - s.decoding() + s.DecodeTokens() }

// decoding returns the number of requests that decode.
func (s *SubBatch) decoding() int { return len(s.Decode) + len(s.Host) + len(s.Near) }

// Emitting returns the number of requests that get a token: all that decode, and
// those whose prompt ends.
func (s *SubBatch) Emitting() int {
	n := s.decoding()
	for i := range s.Prefill {
		if s.Prefill[i].Last {
			n++
		}
	}
	return n
}

// Batch is what one iteration runs. It is valid until the next call of
// Scheduler.Next.
type Batch struct {
	// Step counts the iterations that decode. An iteration that only prefills keeps the
	// number of the iteration before.
	Step int64
	Sub  []SubBatch
	// Pauses lists the decoding requests that pause or resume with this iteration, in the order of
	// these events.
	Pauses []Pause
	// Grouped counts the changes of SubBatch.Shared.
	Grouped int64
	// Moves is the keys and values that the iteration swaps between GPUs and host.
	Moves Moves
	// Drafted is the number of accepted drafts: tokens emitted beyond one for each decoding request.
	Drafted int
}

// Pause is a decoding request that pauses from an iteration on or, with Ends, resumes.
type Pause struct {
	Request int32
	Ends    bool
}

// Moves is the keys and values that swap out to the host (Down) and in to the GPUs (Up). It
// excludes the iteration's own prompts that go to the host.
type Moves struct {
	Down, Up Move
	Earlier  int // tokens of Down that left at the end of the iteration before; their transfer may be over
}

// Move is the transfer of keys and values in one direction.
type Move struct {
	Tokens int            // tokens whose transfer starts with the iteration
	Wait   units.Duration // the iteration waits this long for transfers under way
}

// Decoding returns the number of requests that decode in the iteration.
func (b *Batch) Decoding() int {
	n := 0
	for i := range b.Sub {
		n += b.Sub[i].decoding()
	}
	return n
}

// Requests returns the number of requests that decode in the iteration or have a part of their prompt in it.
func (b *Batch) Requests() int {
	n := b.Decoding()
	for i := range b.Sub {
		n += len(b.Sub[i].Prefill)
	}
	return n
}

// Tokens returns the rows of all fully-connected operations.
func (b *Batch) Tokens() int {
	n := 0
	for i := range b.Sub {
		n += b.Sub[i].Tokens()
	}
	return n
}

// Empty says that the batch has no work.
func (b *Batch) Empty() bool {
	for i := range b.Sub {
		if s := &b.Sub[i]; s.decoding() > 0 || len(s.Prefill) > 0 {
			return false
		}
	}
	return true
}
