package scheduler

import "github.com/l3sim/l3sim/units"

// Decoding is a request in its decode phase. Contexts grow by one token in
// every step, so a request keeps its context relative to the step's number and
// nothing has to be touched as it grows.
type Decoding struct {
	Request int32 // index into the replica's requests
	Offset  int32 // rankset offset
	// Base + step = tokens that the decode step of that number attends over, its
	// own token included.
	Base int64
	// Last is the step that emits the request's last token.
	Last int64
}

// Context returns the tokens that the step of the given number attends over.
func (d *Decoding) Context(step int64) int { return int(d.Base + step) }

// Chunk is a part of a prompt that an iteration prefills.
type Chunk struct {
	Request  int32
	Offset   int32
	Tokens   int  // prompt tokens prefilled now
	Finished int  // prompt tokens prefilled before
	Last     bool // the prompt ends here: the iteration emits token 1
	Host     bool // its keys and values go to the host's memory
}

// SubBatch is one of the (one or two) sub-batches of an iteration.
type SubBatch struct {
	Decode  []Decoding
	Prefill []Chunk
	// Host is the decoding requests that the host's CPUs attend for, beside those of
	// Decode on the GPUs. Only Offload has any.
	Host []Decoding
}

// PrefillTokens returns the prompt tokens of the sub-batch.
func (s *SubBatch) PrefillTokens() int {
	n := 0
	for i := range s.Prefill {
		n += s.Prefill[i].Tokens
	}
	return n
}

// Tokens returns the rows of the sub-batch's fully-connected operations.
func (s *SubBatch) Tokens() int { return len(s.Decode) + len(s.Host) + s.PrefillTokens() }

// Emitting returns the requests that get a token: all that decode and those
// whose prompt ends.
func (s *SubBatch) Emitting() int {
	n := len(s.Decode) + len(s.Host)
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
	// Step counts the iterations that decode; one that prefills alone keeps the
	// number of the one before.
	Step int64
	Sub  []SubBatch
	// Pauses is which requests in their decode phase sit the iterations out from this
	// one on though others decode, and which take part again, in order.
	Pauses []Pause
	// Moves is the keys and values that go between GPUs and host beside the work.
	Moves Moves
}

// Pause is a decoding request that sits out from an iteration on, or no more.
type Pause struct {
	Request int32
	Ends    bool
}

// Moves is the requests whose keys and values change their memory, beside the
// prompts of the iteration that go to the host.
type Moves struct{ Down, Up Move } // to the host, to the GPUs

// Move is the keys and values that go one way.
type Move struct {
	Tokens int            // that start with the iteration
	Wait   units.Duration // that the iteration gives what is still on its way
}

// Decoding returns the requests that decode in the iteration.
func (b *Batch) Decoding() int {
	n := 0
	for i := range b.Sub {
		n += len(b.Sub[i].Decode) + len(b.Sub[i].Host)
	}
	return n
}

// Empty says that the batch has no work.
func (b *Batch) Empty() bool {
	for i := range b.Sub {
		if s := &b.Sub[i]; len(s.Decode) > 0 || len(s.Prefill) > 0 || len(s.Host) > 0 {
			return false
		}
	}
	return true
}

// give puts a decoding request into the first or the second sub-batch.
func (b *Batch) give(d *Decoding, second bool) {
	s := 0
	if second {
		s = 1
	}
	b.Sub[s].Decode = append(b.Sub[s].Decode, *d)
}

// merge puts everything into the first sub-batch.
func (b *Batch) merge() {
	b.Sub[0].Decode = append(b.Sub[0].Decode, b.Sub[1].Decode...)
	b.Sub[0].Prefill = append(b.Sub[0].Prefill, b.Sub[1].Prefill...)
	b.Sub[1].Decode, b.Sub[1].Prefill = b.Sub[1].Decode[:0], b.Sub[1].Prefill[:0]
}
