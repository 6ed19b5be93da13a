package scheduler

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/l3sim/l3sim/traces"
)

// Former forms the iterations of a replica. It is all that differs between schedulers: which prompts and which decoding
// requests an iteration has, in which sub-batches.
type Former interface {
	// Form fills the Batch of a replica's State, which has no prompts yet, from the requests of the State. Before it
	// uses memory for a request it reserves it; where a memory is full it may take memory from requests.
	Form(s *State)
}

// Scheduler is a replica's requests and memories, with the Former of its iterations.
type Scheduler struct {
	State
	former Former
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
	Random        *rand.Rand // for BalanceRandom
}

// Memories is the memories of a replica.
type Memories struct {
	Ledger *Ledger // keys and values of requests that decode on the GPUs or on ranks
	GPU    GPUMemory
	// HostLedger has the keys and values of requests for which the host's CPUs attend; nil: none.
	// A request has all its keys and values in one of the two.
	HostLedger *Ledger
	// AllOnHost has every request on the host. The Ledger then has prompts in chunks, until their last chunk.
	AllOnHost bool
}

// State is the requests of a replica and the memory that they hold. It is what a Former forms an iteration from.
//
// A request waits in the queue until its prompt is prefilled. While chunks of its prompt are in the batch it is among chunked.
// Then it decodes, on the GPUs (or ranks) or on the host, or swaps in from there. A request that loses its memory waits again.
type State struct {
	Config
	Memories
	Counts
	requests []traces.Request
	queue    queue
	chunked  []waiting     // prompts of the batch
	decoding []Decoding    // requests that decode and are not on the host, longest context first
	holds    []Reservation // of requests that decode or swap in, by request
	host     host
	gone     []Preemption // requests that lost their memory when the batch was formed
	forecast *forecast    // nil: no forecast
	usage    usage
	batch    Batch // the iteration that is being formed, or was formed last
	dealt    int64 // step in which a Former chose what decodes in which sub-batch; -1: requests have come or gone since

	groups  *groups // nil: not asked for
	grouped bool    // what requests share is known for the sub-batches as they are
}

// usage is what requests take of the GPUs beside their reservations.
type usage struct {
	// cutPrompts is the number of prompt tokens of all cut requests. The GPU keeps their
	// KV because later chunks read it. The first chunk reserves room for the whole
	// prompt, so that two cut prompts can never block each other.
	cutPrompts int
	windows    int   // tokens of all requests in memory whose keys and values stay on the GPUs
	freed      int64 // counts releases of memory of the Ledger
}

// kv returns the tokens whose keys and values the GPUs keep.
func (u *usage) kv() int { return u.cutPrompts + u.windows }

// Counts is what has happened to the requests of a replica.
type Counts struct {
	Preemptions int64 // how often requests lost their memory, while they decoded or before their prompt ended
	// WholePrompts is the prompts that the policy would have cut and that ran whole, as the GPUs had no room for the keys
	// and values of a cut one. LongestWhole is the tokens of the longest. All that decodes waits for such a prompt.
	WholePrompts int64
	LongestWhole int
	Recomputed   int64 // contexts of the output tokens that came from a recomputed prompt and not from a decode step
}

// New returns a scheduler of the requests of one replica. Add tells it that a request has arrived.
func New(c Config, m Memories, requests []traces.Request, f Former) *Scheduler {
	s := &Scheduler{former: f, State: State{
		Config: c, Memories: m, requests: requests, holds: make([]Reservation, len(requests)), dealt: -1,
		forecast: newForecast(c.Memory, m.Ledger.ranksets()), batch: Batch{Step: -1, Sub: make([]SubBatch, c.Scheduler.SubBatches)},
	}}
	m.Ledger.placeBy(c.Comm.Balance, c.Random)
	if m.HostLedger != nil {
		m.HostLedger.placeBy(c.Comm.Balance, c.Random)
	}
	return s
}

// GroupPrefixes has batches say what their decoding requests share.
func (s *State) GroupPrefixes() { s.groups = &groups{} }

// Next forms the next iteration. It returns an empty batch when nothing can run. The result is valid until the next call.
func (s *Scheduler) Next() *Batch {
	s.Ledger.beginBatch()
	if s.refusalIsOld() {
		s.queue.blocked = false
	}
	s.chunked, s.gone = s.chunked[:0], s.gone[:0]
	for i := range s.batch.Sub {
		s.batch.Sub[i].Prefill = s.batch.Sub[i].Prefill[:0]
	}
	s.former.Form(&s.State)
	s.Ledger.endBatch(&s.batch)
	if s.groups != nil && !s.grouped {
		s.grouped = true
		s.batch.Grouped++
		s.groups.group(s.Ledger, s.batch.Sub, s.holds)
	}
	return &s.batch
}

// Extend tells the requests that Add may name: those from before, and more.
func (s *State) Extend(requests []traces.Request) {
	s.requests = requests
	s.holds = append(s.holds, make([]Reservation, len(requests)-len(s.holds))...)
}

// Add queues a request that has arrived. It returns false for a request that can
// never run, because it does not fit an empty memory.
func (s *State) Add(request int32) bool {
	r := &s.requests[request]
	if !s.canRunOnHost(r) && (s.AllOnHost || !s.canRunOnGPUs(r)) {
		return false
	}
	s.queue.add(waiting{request: request, prompt: r.Input})
	return true
}

// Waiting returns the requests that still have prompt tokens to prefill.
func (s *State) Waiting() int { return s.queue.len() }

// InSystem returns the requests that were added and have not left: those that wait, that
// prefill in the present iteration, that decode and that swap in. It is right once Next has
// formed an iteration, until Complete.
func (s *State) InSystem() int {
	return s.queue.len() + len(s.chunked) + len(s.decoding) + len(s.host.decoding) + len(s.host.swapIns)
}

// Preempted returns the decoding requests that lost their memory when Next formed the
// latest batch, in that order. The result is valid until the next call of Next.
func (s *State) Preempted() []Preemption { return s.gone }

// Cached returns how many of the first tokens of a prompt are in the cache at one offset.
func (s *State) Cached(r *traces.Request) int {
	h := historyOf(r, r.Input-1)
	return s.Ledger.cached(&h)
}

// Complete applies the batch that Next formed. Prompts advance. Requests whose prompt
// ended start to decode. Requests whose output ended free their memory. Complete calls
// emitted for every request that got the first token after a prompt, or its last token,
// with the number of tokens that the request has now.
func (s *State) Complete(emitted func(request int32, tokens int)) {
	for i := range s.batch.Sub {
		for k := range s.batch.Sub[i].Host {
			if d := &s.batch.Sub[i].Host[k]; d.Last <= s.batch.Step {
				s.leaveHost(s.host.find(d.Request))
				s.end(d.Request, emitted)
			}
		}
	}
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
		s.end(d.Request, emitted)
	}
	s.decoding = s.decoding[:kept]
	if len(s.chunked) == 0 {
		return
	}
	s.dealt = -1
	for i := len(s.chunked) - 1; i >= 0; i-- {
		// Cut requests return to the queue's head, in the same order.
		if w := &s.chunked[i]; w.finished < w.prompt {
			s.queue.pushFront(*w)
		}
	}
	for i := range s.chunked {
		if w := &s.chunked[i]; w.finished == w.prompt {
			s.startDecoding(w, emitted)
		}
	}
}

// end ends a decoding request.
func (s *State) end(request int32, emitted func(request int32, tokens int)) {
	output := s.requests[request].Output
	s.release(s.holds[request])
	s.forecast.ended(output)
	s.dealt = -1
	emitted(request, output)
}

// startDecoding has a request whose prompt has ended decode from the next step on. It
// ends the request where the token that it emits now is its last.
func (s *State) startDecoding(w *waiting, emitted func(request int32, tokens int)) {
	s.freeGPU(w)
	r := &s.requests[w.request]
	tokens := w.emitted + 1
	if w.emitted > 0 {
		s.Recomputed += int64(w.prompt)
	} else {
		s.Ledger.countPrompt(w.prefix, w.prompt)
	}
	s.keepPrefix(w.request, &w.hold, w.prompt)
	emitted(w.request, tokens)
	if r.Output == tokens {
		s.release(w.hold)
		s.forecast.ended(tokens)
		return
	}
	if s.memoryOf(w.hold.Host).Settle(&w.hold) {
		s.queue.blocked = false
	}
	s.holds[w.request] = w.hold
	s.enter(Decoding{
		Request: w.request, Offset: int32(w.hold.Offset),
		Base: int64(w.prompt) - s.batch.Step,
		Last: s.batch.Step + int64(r.Output-tokens), Prompt: int32(w.prompt),
	})
}

// keepPrefix has the cache keep the first tokens of a request.
func (s *State) keepPrefix(request int32, r *Reservation, tokens int) {
	h := historyOf(&s.requests[request], tokens)
	if s.Ledger.keep(r, &h) {
		s.queue.blocked = false // the queue's head may begin alike, and need less memory
	}
}

// enter has a request decode from the next step on, where its memory is.
func (s *State) enter(d Decoding) {
	if s.holds[d.Request].Host {
		s.enterHost(d)
		return
	}
	at := sort.Search(len(s.decoding), func(i int) bool { return s.decoding[i].Base < d.Base })
	s.decoding = slices.Insert(s.decoding, at, d)
}

// release frees memory.
func (s *State) release(r Reservation) {
	s.queue.blocked = false
	if r.Host {
		s.HostLedger.Release(r)
		return
	}
	s.usage.windows -= r.Window
	s.Ledger.Release(r)
	s.usage.freed++
}

// memoryOf returns the host's memory or the other one.
func (s *State) memoryOf(host bool) *Ledger {
	if host {
		return s.HostLedger
	}
	return s.Ledger
}

// freeGPU frees the memory on the GPUs that take and stage reserved for a cut prompt.
func (s *State) freeGPU(w *waiting) {
	if !w.cut {
		return
	}
	w.cut = false
	s.usage.cutPrompts -= s.keepsOnGPU(w)
	if s.GPU.windowed() { // a window may fit now
		s.queue.blocked = false
	}
	if w.hold.Host {
		s.release(w.staged)
	}
}

// grows says that requests reserve memory as they grow.
func (s *State) grows() bool { return s.Memory.Admission == AdmitCurrent }
