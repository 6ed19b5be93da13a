package batching

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// Predictor returns how long a sub-batch keeps each side busy over a whole iteration. It is the only
// hardware model that this package uses. Package system predicts exactly, with the costs that it will charge;
// Learned predicts from observed times.
type Predictor interface {
	// GPU returns T_GPU of equation 6 of the L3 paper: prefill attention of the sub-batch's chunks,
	// the batched operations of all its tokens, and decode attention on the GPUs.
	GPU(s *scheduler.SubBatch, step int64) units.Duration
	// PIM returns T_PIM of equation 5: decode attention of the sub-batch, the transfers
	// of its vectors, and the transfer of the keys and values of otherPrefill prompt
	// tokens of the other sub-batch.
	PIM(s *scheduler.SubBatch, step int64, otherPrefill int) units.Duration
}

// Exact is a Predictor that also predicts parts separately.
type Exact interface {
	Predictor
	// Exceeds says that GPU is surely above t for a sub-batch with one more chunk of a prompt, which may be empty.
	Exceeds(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration) bool
	// Beyond returns a number of tokens from which on, up to c.Tokens, GPU is surely above t plus Moves of these tokens and of moved others for
	// a sub-batch with a chunk of that many in place of c; moved is negative if no tokens move. It returns c.Tokens + 1 if it knows none.
	Beyond(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration, moved int) int
	// Moves returns what PIM adds for prompt tokens of the other sub-batch.
	Moves(tokens int) units.Duration
}

// FormerOf returns the Former of a policy. p may be nil if the policy predicts nothing: continuous
// batching in one sub-batch, or in two that are not adaptive.
func FormerOf(policy scheduler.Policy, p Predictor) Former {
	d := dealer{predictor: p}
	d.exact, _ = p.(Exact)
	if policy == scheduler.PolicySubBatches {
		return &subBatches{d}
	}
	return &continuous{dealer: d}
}

// subBatches forms iterations of two sub-batches by the steps 1 to 4 of L3, section 5.3.
type subBatches struct{ dealer }

// Form implements Former.
func (f *subBatches) Form(s *State) {
	dealt, prompts := f.nextStep(s), s.Queue.Asks()
	if prompts {
		f.apart(s)
		// The paper adds prompts to sub-batch 1 first, against the PIM time of sub-batch 0,
		// which starts the iteration.
		for i := len(s.Batch.Sub) - 1; i >= 0 && f.addPrefill(s, i); i-- {
		}
	}
	if dealt || prompts {
		f.adapt(s)
	}
}

// dealer divides the decoding requests over the sub-batches of an iteration.
type dealer struct {
	predictor Predictor
	exact     Exact // the same predictor; nil where it is not exact
	share     sharer
	single    bool // the iterations since requests were last dealt run as a single batch
	placer
}

// nextStep advances all decoding requests by a step and reserves memory for their tokens. It deals
// them to the sub-batches if they are not dealt, or were dealt DealEvery steps ago, and returns
// whether it dealt them.
func (f *dealer) nextStep(s *State) bool {
	s.Batch.Step++
	if s.Grows() {
		s.GrowAll(s.makeRoom)
	}
	if s.Dealt >= 0 && s.Batch.Step-s.Dealt < DealEvery {
		return false
	}
	f.deal(s)
	return true
}

// apart splits a single batch into its two sub-batches again: prompts are added against both.
func (f *dealer) apart(s *State) {
	if f.single {
		f.deal(s)
	}
}

// deal divides the decoding requests over the sub-batches.
func (f *dealer) deal(s *State) {
	b := &s.Batch
	f.clear(s)
	s.Dealt = b.Step
	decoding := s.Decoding
	if s.GPU.Spare != nil {
		decoding = f.dealNear(s)
	}
	switch {
	case len(b.Sub) == 1:
		b.Sub[0].Decode = append(b.Sub[0].Decode, decoding...)
	case s.Comm.Balance == scheduler.BalanceSplit:
		f.share.byOffset(b, decoding, s.Ledger.Ranksets(), s.Begins)
	default:
		f.share.byTokens(b, decoding)
	}
}

// clear removes all decoding requests from the iteration, unless they are dealt after it.
func (f *dealer) clear(s *State) {
	f.single, s.Dealt, s.grouped = false, -1, false
	for i := range s.Batch.Sub {
		sub := &s.Batch.Sub[i]
		sub.Decode, sub.Near = sub.Decode[:0], sub.Near[:0]
	}
}

// adapt merges two sub-batches into a single batch if the configuration allows it and it is predicted to
// be faster. Two sub-batches take at least the GPU's time for both, as each reads all weights, and at
// least the time of either one without waits. A single batch takes its own time without waits.
func (f *dealer) adapt(s *State) {
	b := &s.Batch
	if !s.Scheduler.Adaptive || len(b.Sub) != 2 || b.Sub[0].Tokens() == 0 || b.Sub[1].Tokens() == 0 {
		return
	}
	first, second := &b.Sub[0], &b.Sub[1]
	gpu0, alone0 := f.turn(first, b.Step, second.MovedTokens())
	gpu1, alone1 := f.turn(second, b.Step, first.MovedTokens())
	decode, near, prompts := len(first.Decode), len(first.Near), len(first.Prefill)
	first.Decode, second.Decode = append(first.Decode, second.Decode...), second.Decode[:0]
	first.Near, second.Near = append(first.Near, second.Near...), second.Near[:0]
	first.Prefill, second.Prefill = append(first.Prefill, second.Prefill...), second.Prefill[:0]
	s.grouped = false
	if _, alone := f.turn(first, b.Step, 0); alone < max(gpu0+gpu1, alone0, alone1) {
		f.single = true
		return
	}
	second.Decode = append(second.Decode, first.Decode[decode:]...)
	second.Near = append(second.Near, first.Near[near:]...)
	second.Prefill = append(second.Prefill, first.Prefill[prompts:]...)
	first.Decode, first.Near, first.Prefill = first.Decode[:decode], first.Near[:near], first.Prefill[:prompts]
}
