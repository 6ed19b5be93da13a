package scheduler

import (
	"sort"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Predictor tells how long a sub-batch would keep each side busy over a whole
// iteration.
type Predictor interface {
	// GPU returns T_GPU of equation 6 of the L3 paper: prefill attention of the
	// sub-batch's chunks and the batched operations of all its tokens.
	GPU(s *SubBatch) units.Duration
	// PIM returns T_PIM of equation 5: decode attention of the sub-batch, the
	// transfers of its vectors, and the transfer of otherPrefill prompt tokens' KV
	// of the other sub-batch.
	PIM(s *SubBatch, iteration int64, otherPrefill int) units.Duration
}

// GPUMemory is what the GPUs of a replica have beside the weights.
type GPUMemory struct {
	Model *llm.Model
	Free  units.Bytes // after weights and reserve, over all GPUs of the replica
}

// fits says whether activations of tokens tokens and KV of kvTokens tokens of
// unfinished prompts fit.
func (g *GPUMemory) fits(tokens, kvTokens int) bool {
	return g.Model.ActivationBytes(tokens)+units.Bytes(kvTokens)*g.Model.KVBytesPerToken() <= g.Free
}

// waiting is a request that has prompt tokens to prefill.
type waiting struct {
	request  int32
	finished int // prompt tokens prefilled
	held     bool
	hold     Reservation
}

// Scheduler forms the iterations of one replica. Requests are admitted in the
// order of their arrival.
type Scheduler struct {
	spec      *Spec
	memory    *MemorySpec
	requests  []traces.Request
	ledger    *Ledger
	gpu       GPUMemory
	predictor Predictor

	queue    []waiting // from head on: requests with prompt tokens left
	head     int
	decoding []Decoding    // longest context first
	holds    []Reservation // of decoding requests, by request
	batch    Batch
	chunked  []waiting // requests cut or prefilled in the current iteration
	// kvOnGPU is the prompt tokens of all requests that are cut: the GPU keeps
	// their KV because later chunks read it. The first chunk reserves room for the
	// whole prompt, so that two cut prompts can never block each other.
	kvOnGPU int
}

// New returns a scheduler of requests, which are those of one replica; Add tells
// it when one arrives.
func New(spec *Spec, memory *MemorySpec, requests []traces.Request, ledger *Ledger, gpu GPUMemory, p Predictor) *Scheduler {
	return &Scheduler{
		spec: spec, memory: memory, requests: requests, ledger: ledger, gpu: gpu, predictor: p,
		holds: make([]Reservation, len(requests)),
		batch: Batch{Iteration: -1, Sub: make([]SubBatch, spec.SubBatches)},
	}
}

// Add queues a request that has arrived, or reports false where it can never
// run: it fits no empty memory.
func (s *Scheduler) Add(request int32) bool {
	if !s.canEverRun(&s.requests[request]) {
		return false
	}
	s.queue = append(s.queue, waiting{request: request})
	return true
}

// KVTokens returns the KV length of a request at its end: the last token's own
// key and value are never needed.
func KVTokens(r *traces.Request) int { return r.Input + r.Output - 1 }

// reservedTokens returns the KV tokens that admission reserves.
func (s *Scheduler) reservedTokens(r *traces.Request) int {
	if s.memory.Admission == AdmitMax {
		return max(s.memory.MaxTokens, KVTokens(r))
	}
	return KVTokens(r)
}

// canEverRun says whether r fits empty memories: its KV the DIMMs, and its
// prompt the GPUs in the smallest steps that the scheduler takes. The last
// chunk needs the KV of those before it on the GPU.
func (s *Scheduler) canEverRun(r *traces.Request) bool {
	if !s.ledger.FitsEmpty(s.reservedTokens(r)) {
		return false
	}
	if s.gpu.fits(r.Input, 0) {
		return true
	}
	return s.spec.Chunking && s.gpu.fits(min(r.Input, s.spec.ChunkMultiple), r.Input)
}

// Next forms the next iteration (L3, section 5.3, steps 1 to 4). It returns an
// empty batch when every request is done.
func (s *Scheduler) Next() *Batch {
	s.batch.Iteration++
	s.batch.split(s.decoding)
	s.chunked = s.chunked[:0]
	if s.head == len(s.queue) {
		return &s.batch
	}
	// The paper adds to sub-batch 1 first, against the PIM time of sub-batch 0,
	// which starts the iteration.
	for i := len(s.batch.Sub) - 1; i >= 0; i-- {
		if !s.addPrefill(i) {
			break
		}
	}
	return &s.batch
}

// Complete applies the batch that Next formed: prompts advance, requests whose
// prompt ended start to decode, those whose output ended leave and free their
// memory. It calls emitted for every request that got its first or its last
// token, with the number of tokens that it has now.
func (s *Scheduler) Complete(emitted func(request int32, tokens int)) {
	kept := s.decoding[:0]
	for _, d := range s.decoding {
		if d.Last > s.batch.Iteration {
			kept = append(kept, d)
			continue
		}
		s.ledger.Release(s.holds[d.Request])
		emitted(d.Request, s.requests[d.Request].Output)
	}
	s.decoding = kept
	s.kvOnGPU = 0
	for i := len(s.chunked) - 1; i >= 0; i-- {
		// Cut requests return to the queue's head, in their order.
		if w := s.chunked[i]; w.finished < s.requests[w.request].Input {
			s.pushFront(w)
			s.kvOnGPU += s.requests[w.request].Input
		}
	}
	for _, w := range s.chunked {
		if w.finished == s.requests[w.request].Input {
			s.startDecoding(w, emitted)
		}
	}
}

// startDecoding moves a request whose prompt has ended to the decoding ones, or
// ends it where token 1 was all that it had to emit.
func (s *Scheduler) startDecoding(w waiting, emitted func(int32, int)) {
	r := &s.requests[w.request]
	emitted(w.request, 1)
	if r.Output == 1 {
		s.ledger.Release(w.hold)
		return
	}
	d := Decoding{
		Request: w.request, Offset: int32(w.hold.Offset),
		Base: int64(r.Input) - s.batch.Iteration,
		Last: s.batch.Iteration + int64(r.Output) - 1,
	}
	s.holds[w.request] = w.hold
	at := sort.Search(len(s.decoding), func(i int) bool { return s.decoding[i].Base < d.Base })
	s.decoding = append(s.decoding, Decoding{})
	copy(s.decoding[at+1:], s.decoding[at:])
	s.decoding[at] = d
}

// pushFront returns a request to the head of the queue; its place there is free
// because it was taken from it.
func (s *Scheduler) pushFront(w waiting) {
	s.head--
	s.queue[s.head] = w
}

// Ledger returns the KV memory's ledger.
func (s *Scheduler) Ledger() *Ledger { return s.ledger }

// Waiting returns the requests that still have prompt tokens to prefill.
func (s *Scheduler) Waiting() int { return len(s.queue) - s.head }
