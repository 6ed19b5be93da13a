package scheduler

import (
	"math/rand/v2"
	"sort"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Predictor returns how long a sub-batch keeps each side busy over a whole iteration.
type Predictor interface {
	// GPU returns T_GPU of equation 6 of the L3 paper: prefill attention of the
	// sub-batch's chunks, the batched operations of all its tokens, and what decodes there.
	GPU(s *SubBatch, step int64) units.Duration
	// PIM returns T_PIM of equation 5: decode attention of the sub-batch, the transfers
	// of its vectors, and the transfer of the keys and values of otherPrefill prompt
	// tokens of the other sub-batch.
	PIM(s *SubBatch, step int64, otherPrefill int) units.Duration
}

// waiting is a request that has prompt tokens to prefill. For one that was
// preempted, the tokens that it had emitted are part of the prompt.
type waiting struct {
	request  int32
	prompt   int  // tokens to prefill
	emitted  int  // output tokens emitted before
	finished int  // prompt tokens prefilled, or found
	prefix   int  // of these, found in the cache
	begun    bool // some were once
	cut      bool // its keys and values are counted in kvOnGPU
	held     bool
	hold     Reservation
	staged   Reservation // on the GPUs, of a cut prompt that goes to the host
}

// placement keeps requests in memory. The Scheduler itself has one memory, Offload
// has two.
type placement interface {
	// admit reserves memory for the queue's head.
	admit(w *waiting) bool
	// makeRoom takes memory from the request that arrived last, and returns that
	// request. With two memories it frees memory of the GPUs.
	makeRoom() int32
	// enter has a request decode from the next step on.
	enter(d Decoding)
	// release frees memory.
	release(r Reservation)
}

// Config is the policies of a scheduler.
type Config struct {
	Policy    Policy
	Scheduler *Spec
	Memory    *MemorySpec
	Comm      *CommSpec
	Batching  *BatchingSpec
	// PrefillStreak bounds the iterations in a row of PolicyPrefillFirst that only prefill
	// while requests decode; 0: no limit.
	PrefillStreak int
}

// Scheduler forms the iterations of one replica. Requests are admitted in the
// order of their arrival.
type Scheduler struct {
	policy    Policy
	spec      *Spec
	memory    *MemorySpec
	comm      *CommSpec
	batching  *BatchingSpec
	streak    streak
	requests  []traces.Request
	ledger    *Ledger
	forecast  *forecast // nil: no forecast
	gpu       GPUMemory
	predictor Predictor
	rng       *rand.Rand
	place     placement

	queue    []waiting // from head on: requests with prompt tokens left
	head     int
	blocked  bool          // the head may not start, and no memory was freed since it was refused
	refusal  refusal       // why the head may not start
	moving   []move        // requests that swap in from the host, one after another; empty without an Offload
	onHost   int           // requests that decode on the host; 0 without an Offload
	decoding []Decoding    // longest context first
	holds    []Reservation // of decoding requests, by request
	batch    Batch
	share    sharer
	dealt    int64   // iteration in which the decoding requests were dealt; -1: deal again
	single   bool    // the iterations since then run as a single batch
	groups   *groups // nil: not asked for
	chunked  []waiting
	gone     []Preemption

	preemptions int64
	// wholePrompts are those that would have been cut and ran whole as the GPUs had no room for
	// the keys and values of a cut one; longestWhole is the tokens of the longest.
	wholePrompts int64
	longestWhole int
	recomputed   int64 // contexts of tokens that second prefills emitted
	// kvOnGPU is the number of prompt tokens of all cut requests. The GPU keeps their
	// KV because later chunks read it. The first chunk reserves room for the whole
	// prompt, so that two cut prompts can never block each other.
	kvOnGPU int
	windows int // tokens of all requests in memory whose keys and values stay on the GPUs
}

// New returns a scheduler of the requests of one replica. Add tells it that a request
// has arrived. rng is for BalanceRandom.
func New(c Config, requests []traces.Request, ledger *Ledger, gpu GPUMemory, p Predictor, rng *rand.Rand) *Scheduler {
	s := &Scheduler{
		policy: c.Policy, spec: c.Scheduler, memory: c.Memory, comm: c.Comm, batching: c.Batching, streak: streak{most: c.PrefillStreak}, requests: requests, ledger: ledger, gpu: gpu, predictor: p,
		rng: rng, holds: make([]Reservation, len(requests)), dealt: -1,
		batch: Batch{Step: -1, Sub: make([]SubBatch, c.Scheduler.SubBatches)},
	}
	s.place, s.forecast = s, newForecast(c.Memory, len(ledger.used))
	return s
}

// Add queues a request that has arrived. It returns false for a request that can
// never run, because it does not fit an empty memory.
func (s *Scheduler) Add(request int32) bool {
	r := &s.requests[request]
	if !s.canEverRun(r) {
		return false
	}
	s.enqueue(waiting{request: request, prompt: r.Input})
	return true
}

// KVTokens returns the number of tokens of a request with keys and values at its end.
// It excludes the last output token, whose key and value are never read.
func KVTokens(r *traces.Request) int { return r.Input + r.Output - 1 }

// canEverRun says whether r fits empty memories. Its KV must fit the DIMMs. Its prompt
// must fit the GPUs in the smallest steps that the scheduler takes; the last chunk needs
// the KV of all earlier chunks on the GPU. The prompt of a preempted request can grow to
// its final length.
func (s *Scheduler) canEverRun(r *traces.Request) bool {
	return s.ledger.FitsEmpty(s.final(r)) && s.gpu.least(s.longestPrompt(r), s.spec)+s.gpu.kv(s.window(r)) <= s.gpu.Free
}

// dealEvery is the number of steps after which decoding requests are dealt to the
// sub-batches again although the set of requests is the same. All contexts grow alike:
// the token sums drift apart by at most the difference in requests a step.
const dealEvery = 64

// Next forms the next iteration. It returns an empty batch when nothing can run.
func (s *Scheduler) Next() *Batch {
	s.begin()
	switch s.policy {
	case PolicyPrefillFirst:
		s.prefillFirst()
	case PolicyChunkedPrefill:
		s.chunkedPrefill()
	default:
		s.subBatches()
	}
	s.ledger.swaps(&s.batch)
	s.group()
	return &s.batch
}

// begin forgets the prompts and the preempted requests of the iteration before.
func (s *Scheduler) begin() {
	s.ledger.mark()
	if s.outdated() {
		s.blocked = false
	}
	s.chunked, s.gone = s.chunked[:0], s.gone[:0]
	for i := range s.batch.Sub {
		s.batch.Sub[i].Prefill = s.batch.Sub[i].Prefill[:0]
	}
}

// outdated says whether a request that was refused for growth may ask again: dealEvery
// steps have passed, and the forecast has changed as requests grew.
func (s *Scheduler) outdated() bool {
	return s.refusal.cause == noGrowth && s.batch.Step-s.refusal.step >= dealEvery
}

// subBatches forms an iteration by the steps 1 to 4 of L3, section 5.3.
func (s *Scheduler) subBatches() {
	b := &s.batch
	again := s.nextStep()
	prefill := s.head < len(s.queue) && !s.blocked
	if !prefill && !again {
		return
	}
	if prefill && s.single {
		s.deal() // prompts are added against both sub-batches
	}
	if prefill {
		s.prefill()
	}
	if s.spec.Adaptive && len(b.Sub) == 2 {
		s.adapt()
	}
}

// nextStep has all decoding requests take a step. It finds memory for their tokens.
// It deals them to the sub-batches where they are not dealt, or were dealt dealEvery
// steps ago, and returns whether it dealt them.
func (s *Scheduler) nextStep() bool {
	b := &s.batch
	b.Step++
	if s.memory.Admission == AdmitCurrent {
		s.grow()
	}
	again := s.dealt < 0 || b.Step-s.dealt >= dealEvery
	if again {
		s.deal()
	}
	return again
}

// deal divides the decoding requests over the sub-batches.
func (s *Scheduler) deal() {
	b := &s.batch
	s.dealt, s.single = b.Step, false
	s.regroup()
	for i := range b.Sub {
		b.Sub[i].Decode = b.Sub[i].Decode[:0]
	}
	switch {
	case len(b.Sub) == 1:
		b.Sub[0].Decode = append(b.Sub[0].Decode, s.decoding...)
	case s.comm.Balance == BalanceSplit:
		s.share.byOffset(b, s.decoding, len(s.ledger.used))
	default:
		s.share.byTokens(b, s.decoding)
	}
}

// prefill adds prompts to the sub-batches. The paper adds to sub-batch 1 first,
// against the PIM time of sub-batch 0, which starts the iteration.
func (s *Scheduler) prefill() {
	for i := len(s.batch.Sub) - 1; i >= 0; i-- {
		if !s.addPrefill(i) {
			break
		}
	}
}

// adapt runs the iteration as a single batch where that is predicted to be faster.
// Two sub-batches take at least the GPU's time for both, as each reads all weights.
// They also take at least the GPU and PIM time of either one. A single batch takes
// its own GPU and PIM time.
func (s *Scheduler) adapt() {
	b := &s.batch
	first, second := &b.Sub[0], &b.Sub[1]
	if first.Tokens() == 0 || second.Tokens() == 0 {
		return
	}
	gpu0, gpu1 := s.predictor.GPU(first, b.Step), s.predictor.GPU(second, b.Step)
	pim0 := s.predictor.PIM(first, b.Step, second.PrefillTokens())
	pim1 := s.predictor.PIM(second, b.Step, first.PrefillTokens())
	decode, prompts := len(first.Decode), len(first.Prefill)
	b.merge()
	s.regroup()
	gpu, pim := s.predictor.GPU(first, b.Step), s.predictor.PIM(first, b.Step, 0)
	if gpu+pim < max(gpu0+gpu1, gpu0+pim0, gpu1+pim1) {
		s.single = true
		return
	}
	second.Decode = append(second.Decode, first.Decode[decode:]...)
	second.Prefill = append(second.Prefill, first.Prefill[prompts:]...)
	first.Decode, first.Prefill = first.Decode[:decode], first.Prefill[:prompts]
}

// Complete applies the batch that Next formed. Prompts advance. Requests whose prompt
// ended start to decode. Requests whose output ended free their memory. Complete calls
// emitted for every request that got the first token after a prompt, or its last token,
// with the number of tokens that the request has now.
func (s *Scheduler) Complete(emitted func(request int32, tokens int)) {
	kept := 0
	for i := range s.decoding {
		d := &s.decoding[i]
		if d.Last > s.batch.Step {
			if kept < i { // in most iterations none ended, and none moves
				s.decoding[kept] = *d
			}
			kept++
			continue
		}
		s.keepPrefix(d.Request, &s.holds[d.Request], KVTokens(&s.requests[d.Request]))
		s.place.release(s.holds[d.Request])
		s.forecast.ended(s.requests[d.Request].Output)
		s.dealt = -1
		emitted(d.Request, s.requests[d.Request].Output)
	}
	s.decoding = s.decoding[:kept]
	if len(s.chunked) == 0 {
		return
	}
	s.dealt = -1
	for i := len(s.chunked) - 1; i >= 0; i-- {
		// Cut requests return to the queue's head, in the same order.
		if w := &s.chunked[i]; w.finished < w.prompt {
			s.pushFront(*w)
		}
	}
	for i := range s.chunked {
		if w := &s.chunked[i]; w.finished == w.prompt {
			s.freeGPU(w)
			s.startDecoding(w, emitted)
		}
	}
}

// freeGPU frees the memory on the GPU that take and stage reserved for a cut prompt.
func (s *Scheduler) freeGPU(w *waiting) {
	if w.cut {
		w.cut = false
		s.kvOnGPU -= s.keepsOnGPU(w)
		if s.gpu.windowed() { // a window may fit now
			s.blocked = false
		}
		if w.hold.Host {
			s.place.release(w.staged)
		}
	}
}

// settle frees memory that a request has only until its prompt ends.
func (s *Scheduler) settle(r *Reservation) {
	if s.ledger.filling != nil {
		s.ledger.Settle(r)
		s.blocked = false
	}
	r.Filling = false
}

// release frees memory.
func (s *Scheduler) release(r Reservation) {
	s.windows -= r.Window
	s.ledger.Release(r)
	s.blocked = false
}

// startDecoding moves a request whose prompt has ended to the decoding requests. It
// ends the request where the token that it emits now is its last.
func (s *Scheduler) startDecoding(w *waiting, emitted func(int32, int)) {
	r := &s.requests[w.request]
	tokens := w.emitted + 1
	if w.emitted > 0 {
		s.recomputed += int64(w.prompt)
	} else if c := s.ledger.cache; c != nil {
		c.hit, c.miss = c.hit+int64(w.prefix), c.miss+int64(w.prompt-w.prefix)
	}
	s.keepPrefix(w.request, &w.hold, w.prompt)
	emitted(w.request, tokens)
	if r.Output == tokens {
		s.place.release(w.hold)
		s.forecast.ended(tokens)
		return
	}
	s.settle(&w.hold)
	s.holds[w.request] = w.hold
	s.place.enter(Decoding{
		Request: w.request, Offset: int32(w.hold.Offset),
		Base: int64(w.prompt) - s.batch.Step,
		Last: s.batch.Step + int64(r.Output-tokens), Prompt: int32(w.prompt),
	})
}

// enter adds a request to the decoding requests.
func (s *Scheduler) enter(d Decoding) {
	at := sort.Search(len(s.decoding), func(i int) bool { return s.decoding[i].Base < d.Base })
	s.decoding = append(s.decoding, Decoding{})
	copy(s.decoding[at+1:], s.decoding[at:])
	s.decoding[at] = d
}

// UsedUnits returns the allocation units in use, on one channel.
func (s *Scheduler) UsedUnits() int64 { return s.ledger.Used() }

// Fragmentation returns the unfilled share of the rows in use, 0 to 1. AdmitCurrent
// reserves whole rows: a row is filled by tokens that exist. For the other policies a
// row is filled by the tokens that were reserved.
func (s *Scheduler) Fragmentation() float64 {
	var unused int64
	if s.memory.Admission == AdmitCurrent {
		for i := range s.decoding {
			d := &s.decoding[i]
			r := s.holds[d.Request].Length
			unused += s.ledger.content(r) - s.ledger.content(Length{r.Prompt, d.Context(s.batch.Step)})
		}
	}
	return s.ledger.fragmentation(unused)
}
