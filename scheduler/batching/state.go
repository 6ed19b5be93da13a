package batching

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/traces"
)

// Former forms the iterations of a replica; it is all that differs between schedulers. It chooses the prompts and
// decoding requests of an iteration and their sub-batches.
type Former interface {
	// Form fills the Batch of a replica's State, which has no prompts yet, from the State's requests. It reserves
	// memory before it uses it; if a memory is full, it may preempt requests.
	Form(s *State)
}

// Scheduler is a replica's requests and memories, with the Former of its iterations.
type Scheduler struct {
	State
	former Former
}

// Config is the policies of a scheduler.
type Config struct {
	Policy    scheduler.Policy
	Scheduler *scheduler.Spec
	Memory    *scheduler.MemorySpec
	Comm      *scheduler.CommSpec
	Batching  *scheduler.BatchingSpec
	// PrefillStreak bounds the iterations in a row of PolicyPrefillFirst that only prefill
	// while requests decode; 0: no limit.
	PrefillStreak int
	// PromptShare bounds the tokens of one prompt in an iteration of continuous batching: a GPU's share of MaxBatchTokens, if each GPU
	// attends for requests of its own. 0: no bound.
	PromptShare int
	Ahead       bool  // an iteration is formed while the one before runs
	Prefilled   *Link // the link over which prompts prefilled elsewhere come; nil: prompts run here
	Speculation scheduler.Speculation
	Random      *rand.Rand // for BalanceRandom
	// Begins returns the channel on which a request's keys and values begin. It is nil if they are on all channels alike.
	// BalanceSplit gives both sub-batches requests that begin on each channel.
	Begins func(request int32) int
}

// Memories is the memories of a replica.
type Memories struct {
	Ledger *memory.Ledger // keys and values of requests that decode on the GPUs or on ranks
	GPU    memory.GPU
	// HostLedger has the keys and values of requests for which the host's CPUs attend; nil: none. A
	// request has all its keys and values in one of the two memories.
	HostLedger *memory.Ledger
	// AllOnHost keeps the keys and values of every request on the host. The Ledger then holds those of cut
	// prompts until their last chunk.
	AllOnHost bool
}

// State is the requests of a replica and the memory that they hold. A Former forms iterations from it.
//
// A request waits in the queue until its prompt is prefilled. While a chunk of its prompt is in the batch, it is in chunked.
// Then it decodes, on the GPUs (or ranks) or on the host, or swaps in from the host. A preempted request waits again.
type State struct {
	Config
	Memories
	Counts
	Requests []traces.Request
	Queue    queue
	chunked  []Waiting            // prompts of the batch
	Decoding []scheduler.Decoding // requests that decode and are not on the host, longest context first
	Holds    []memory.Reservation // of requests that decode or swap in, by request
	Host     host
	gone     []scheduler.Preemption // requests that lost their memory when the batch was formed
	forecast *memory.Forecast       // nil: no forecast
	outputs  memory.Outputs         // of requests that ended
	near     nearMemory
	Usage    usage
	during   ahead
	Coming   coming
	Batch    scheduler.Batch // the iteration that is being formed, or was formed last
	Dealt    int64           // step in which a Former last assigned decoding requests to sub-batches; -1: requests have come or gone since

	groups  *memory.Groups // nil: GroupPrefixes was not called
	grouped bool           // SubBatch.Shared is up to date
}

// usage is the GPU memory that requests take beside their reservations.
type usage struct {
	// cutPrompts is the number of prompt tokens of all requests with cut prompts. The GPU keeps their
	// KV because later chunks read it. The first chunk reserves room for the whole prompt, so that two
	// cut prompts can never block each other.
	cutPrompts int
	windows    int   // tokens of all requests in memory whose keys and values stay on the GPUs
	Freed      int64 // counts releases of memory of the Ledger
}

// kv returns the tokens whose keys and values the GPUs keep.
func (u *usage) kv() int { return u.cutPrompts + u.windows }

// Counts counts what has happened to the requests of a replica.
type Counts struct {
	Preemptions int64 // how often requests lost their memory, while they decoded or before their prompt ended
	// WholePrompts counts the prompts that the policy would have cut but ran whole, because the GPUs had no room for keys
	// and values between chunks. LongestWhole is the longest of them, in tokens. All decoding requests wait for such a
	// prompt.
	WholePrompts int64
	LongestWhole int
	SpareTokens  int64 // tokens of requests that decode in the GPUs' spare memory
	Recomputed   int64 // contexts, summed, of the output tokens that a recomputed prompt emitted in place of a decode step
}

// New returns a scheduler of the requests of one replica. Add tells it that a request has arrived.
func New(c Config, m Memories, requests []traces.Request, f Former) *Scheduler {
	s := &Scheduler{former: f, State: State{
		Config: c, Memories: m, Requests: requests, Holds: make([]memory.Reservation, len(requests)), Dealt: -1,
		forecast: memory.NewForecast(c.Memory, m.Ledger.Ranksets()), outputs: memory.NewOutputs(c.Memory), Batch: scheduler.Batch{Step: -1, Sub: make([]scheduler.SubBatch, c.Scheduler.SubBatches)},
	}}
	if c.Speculation.Ahead() > 0 {
		for i := range s.Batch.Sub {
			s.Batch.Sub[i].Verified = c.Speculation.Verified
		}
	}
	s.Queue.elsewhere = c.Prefilled != nil
	m.Ledger.PlaceBy(c.Comm.Balance, c.Random)
	if m.HostLedger != nil {
		m.HostLedger.PlaceBy(c.Comm.Balance, c.Random)
	}
	if m.GPU.Spare != nil {
		s.near.forecast = memory.NewForecast(c.Memory, m.GPU.Spare.Ranksets())
	}
	return s
}

// GroupPrefixes makes batches list the prefixes that their decoding requests share
// (SubBatch.Shared).
func (s *State) GroupPrefixes() { s.groups = &memory.Groups{} }

// Next forms the next iteration. It returns an empty batch if nothing can run. The result is valid until the next call.
func (s *Scheduler) Next() *scheduler.Batch {
	s.gone = s.gone[:0]
	s.form()
	if s.settle() && s.Batch.Empty() { // nothing runs meanwhile: the scheduler waits for what happened
		s.form()
	}
	s.speculate()
	return &s.Batch
}

// form fills the batch.
func (s *Scheduler) form() {
	s.Ledger.BeginBatch()
	if s.IsOld(s.Queue.Refusal) {
		s.Queue.Blocked = false
	}
	s.chunked = s.chunked[:0]
	for i := range s.Batch.Sub {
		s.Batch.Sub[i].Prefill = s.Batch.Sub[i].Prefill[:0]
	}
	s.former.Form(&s.State)
	if s.Prefilled != nil {
		s.receive()
	}
	s.Ledger.EndBatch(&s.Batch)
	if s.groups != nil && !s.grouped {
		s.grouped = true
		s.Batch.Grouped++
		s.groups.Group(s.Ledger, s.Batch.Sub, s.Holds)
	}
}

// Extend sets the requests that Add may name: those of before, followed by more.
func (s *State) Extend(requests []traces.Request) {
	s.Requests = requests
	s.Holds = append(s.Holds, make([]memory.Reservation, len(requests)-len(s.Holds))...)
}

// Add queues a request that has arrived. It returns false for a request that can
// never run, because it does not fit an empty memory.
func (s *State) Add(request int32) bool {
	r := &s.Requests[request]
	if !s.hosts(s.final(r)) && (s.AllOnHost || !s.canRunOnGPUs(r)) {
		return false
	}
	s.arrive(Waiting{Request: request, Prompt: r.Input})
	s.near.longest = max(s.near.longest, r.Input)
	return true
}

// Waiting returns the requests that still have prompt tokens to prefill.
func (s *State) Waiting() int { return s.Queue.Len() + len(s.during.came) }

// InSystem returns the requests that were added and have not left: those that wait, that prefill in
// the present iteration, that decode and that swap in. It is valid between Next and Complete.
func (s *State) InSystem() int {
	return s.Waiting() + len(s.chunked) + len(s.Decoding) + len(s.Host.Decoding) + len(s.Host.SwapIns)
}

// Preempted returns the decoding requests that lost their memory when Next formed the
// latest batch, in that order. The result is valid until the next call of Next.
func (s *State) Preempted() []scheduler.Preemption { return s.gone }

// Cached returns how many of the first tokens of a prompt are cached at a single offset.
func (s *State) Cached(r *traces.Request) int {
	h := memory.HistoryOf(r, memory.NoRequest, r.Input-1)
	return s.Ledger.Cached(&h)
}

// Complete applies the batch that Next formed. Prompts advance. Requests whose prompt
// ended start to decode. Requests whose output ended free their memory. Complete calls
// emitted for every request that got the first token after a prompt, or its last token,
// with the number of tokens that the request has now.
func (s *State) Complete(emitted func(request int32, tokens int)) {
	for i := range s.Batch.Sub {
		for k := range s.Batch.Sub[i].Host {
			if d := &s.Batch.Sub[i].Host[k]; d.Last <= s.Batch.Step {
				s.LeaveHost(s.Host.Find(d.Request))
				s.end(d.Request, emitted)
			}
		}
		s.SpareTokens += int64(len(s.Batch.Sub[i].Near) + s.draftedOf(s.Batch.Sub[i].Near))
	}
	kept := 0
	for i := range s.Decoding {
		d := &s.Decoding[i]
		if d.Last > s.Batch.Step {
			if kept < i { // in most iterations no request ended, and none moves
				s.Decoding[kept] = *d
			}
			kept++
			continue
		}
		s.keepPrefix(d.Request, &s.Holds[d.Request], KVTokens(&s.Requests[d.Request]))
		s.end(d.Request, emitted)
	}
	s.Decoding = s.Decoding[:kept]
	s.advance()
	if s.Prefilled != nil {
		s.deliver(emitted)
	}
	if len(s.chunked) == 0 {
		return
	}
	s.Dealt = -1
	for i := len(s.chunked) - 1; i >= 0; i-- {
		// Cut requests return to the queue's head, in the same order.
		if w := &s.chunked[i]; w.finished < w.Prompt {
			s.Queue.pushFront(*w)
		}
	}
	for i := range s.chunked {
		if w := &s.chunked[i]; w.finished == w.Prompt {
			s.startDecoding(w, emitted)
		}
	}
}

// end ends a decoding request.
func (s *State) end(request int32, emitted func(request int32, tokens int)) {
	output := s.Requests[request].Output
	s.free(request)
	s.Learn(output)
	s.Dealt = -1
	emitted(request, output)
}

// startDecoding makes a request whose prompt has ended decode from the next step on. It ends the
// request if the token that it emits now is its last.
func (s *State) startDecoding(w *Waiting, emitted func(request int32, tokens int)) {
	s.freeGPU(w)
	r := &s.Requests[w.Request]
	tokens := w.Emitted + 1
	if w.Emitted > 0 {
		s.Recomputed += int64(w.Prompt)
	} else {
		s.Ledger.CountPrompt(w.others, w.Prompt)
	}
	s.keepPrefix(w.Request, &w.Hold, w.Prompt)
	emitted(w.Request, tokens)
	if r.Output == tokens {
		s.Holds[w.Request] = w.Hold
		s.free(w.Request)
		s.Learn(tokens)
		return
	}
	if s.ledgerOf(&w.Hold).Settle(&w.Hold) {
		s.Queue.Blocked = false
	}
	s.Holds[w.Request] = w.Hold
	s.Enter(scheduler.Decoding{
		Request: w.Request, Offset: int32(w.Hold.Offset),
		Base: int64(w.Prompt) - s.Batch.Step,
		Last: s.Batch.Step + int64(s.Speculation.Steps(r.ID, tokens, r.Output-tokens)), Prompt: int32(w.Prompt),
	})
}

// keepPrefix makes the cache keep the first tokens of a request. Only the Ledger has a cache; the host's memory and the
// GPUs' spare memory have none.
func (s *State) keepPrefix(request int32, r *memory.Reservation, tokens int) {
	if r.Host || r.Near {
		return
	}
	h := memory.HistoryOf(&s.Requests[request], request, tokens)
	if s.Ledger.Keep(r, &h) && !h.Own() {
		s.Queue.Blocked = false // the queue's head may begin with the same tokens, and need less memory
	}
}

// Enter makes a request decode from the next step on; it keeps its memory.
func (s *State) Enter(d scheduler.Decoding) {
	if s.Holds[d.Request].Host {
		s.enterHost(d)
		return
	}
	at := sort.Search(len(s.Decoding), func(i int) bool { return s.Decoding[i].Base < d.Base })
	s.Decoding = slices.Insert(s.Decoding, at, d)
}

// Release frees memory.
func (s *State) Release(r memory.Reservation) {
	s.Queue.Blocked = false
	s.ledgerOf(&r).Release(r)
	if r.Host || r.Near {
		return
	}
	s.Usage.windows -= r.Window
	s.Usage.Freed++
}

// Learn records the output length of a request that has ended.
func (s *State) Learn(output int) {
	s.outputs.Ended(output)
	s.forecast.Ended(output)
	s.near.forecast.Ended(output)
}

// LikelyOutput estimates the output length of a request from the outputs of ended requests and from running, the number of tokens
// that running requests have emitted. If admission reserves final lengths, it returns the request's own.
func (s *State) LikelyOutput(request int32, running int) float64 {
	if s.Memory.Admission == scheduler.AdmitFinal {
		return float64(s.Requests[request].Output)
	}
	return s.outputs.Likely(running)
}

// ledgerOf returns the memory that holds a reservation.
func (s *State) ledgerOf(r *memory.Reservation) *memory.Ledger {
	if r.Near {
		return s.GPU.Spare
	}
	return s.memoryOf(r.Host)
}

// memoryOf returns the host's memory or the Ledger.
func (s *State) memoryOf(host bool) *memory.Ledger {
	if host {
		return s.HostLedger
	}
	return s.Ledger
}

// freeGPU frees the memory on the GPUs that take and stage reserved for a cut prompt.
func (s *State) freeGPU(w *Waiting) {
	if !w.Cut {
		return
	}
	w.Cut = false
	s.Usage.cutPrompts -= s.keepsOnGPU(w)
	if s.GPU.Windowed() { // a window may fit now
		s.Queue.Blocked = false
	}
	if w.Hold.Host {
		s.Release(w.Staged)
	}
}

// Grows says that requests reserve memory as they grow.
func (s *State) Grows() bool { return s.Memory.Admission == scheduler.AdmitCurrent }
