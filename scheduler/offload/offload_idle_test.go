package offload

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// emptyGPUs returns an Offload whose GPUs have free memory for some tokens. The host's requests have prompts of 10 tokens, attend
// over 11 next, and have steps left. A prompt of 10 tokens with an output of steps+1 waits.
func emptyGPUs(capacity int64, costs lines, hosted, steps int, admission scheduler.MemorySpec) offloading {
	spec := memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: capacity}
	gpus := memory.NewLedger(spec)
	spec.Capacity = 10_000
	config := batching.Config{
		Policy: scheduler.PolicyChunkedPrefill, Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 1}, Memory: &admission,
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 100},
	}
	var requests []traces.Request
	for i := range hosted + 1 {
		requests = append(requests, traces.Request{ID: i, Input: 10, Output: steps + 1})
	}
	memories := batching.Memories{Ledger: gpus, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}, HostLedger: memory.NewLedger(spec)}
	s := newOffloading(config, memories, requests, costs, 0.03)
	for i := range int32(hosted) {
		s.Holds[i], _ = s.HostLedger.Reserve(memory.Prompted(10+steps), nil, 0, nil)
		s.Holds[i].Host = true
		s.Enter(scheduler.Decoding{Request: i, Base: 11, Last: int64(steps) - 1})
	}
	return s
}

// TestStaysByHand has requests on the host and GPUs without work. A layer of a step takes 100 and the attention: 11 on the GPUs, and on
// the host as the case says. There are 4 layers, and moving up takes 10 tokens' time. At 4 a token, a request moves if that makes its
// steps more than 10 shorter in total. Otherwise it stays, and the waiting prompt begins on the GPUs first.
func TestStaysByHand(t *testing.T) {
	known := scheduler.MemorySpec{Admission: scheduler.AdmitFinal}
	grows := scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}
	for _, c := range []struct {
		name        string
		admission   scheduler.MemorySpec
		capacity    int64
		hosted      int
		steps       int
		host, token units.Duration // attention of a step there: of all requests, and for each token that they attend over
		ended       int            // an output that is known, 0 for none
		seats       int
		stays       bool
	}{
		{"a step as long there", known, 20, 1, 9, 11, 0, 0, 0, true},
		{"the last step, 10 longer", known, 20, 1, 1, 21, 0, 0, 0, true},
		{"the last step, 11 longer", known, 20, 1, 1, 22, 0, 0, 0, false},
		{"five steps, 2 longer", known, 20, 1, 5, 13, 0, 0, 0, true},
		{"five steps, 3 longer", known, 20, 1, 5, 14, 0, 0, 0, false},
		{"the prompt runs beside", known, 22, 1, 1, 21, 0, 0, 0, false},
		{"the prompt runs beside, but for its seat", known, 22, 1, 1, 21, 0, 0, 1, true},
		{"the prompt nearly fits beside", known, 21, 1, 1, 21, 0, 0, 0, true},
		{"two attend on the host", known, 20, 2, 1, 0, 1, 0, 0, false},
		{"two attend on the host, a little faster", known, 20, 2, 1, -1, 1, 0, 0, true},
		{"nothing known: as many steps as tokens so far", grows, 15, 1, 3, 21, 0, 0, 0, true},
		{"nothing known, 11 longer", grows, 15, 1, 3, 22, 0, 0, 0, false},
		{"six tokens are likely: five steps, 2 longer", grows, 15, 1, 3, 13, 0, 6, 0, true},
		{"six tokens are likely: five steps, 3 longer", grows, 15, 1, 3, 14, 0, 6, 0, false},
	} {
		s := emptyGPUs(c.capacity, lines{weights: 100, context: 1, host: c.host, hostContext: c.token, move: 4}, c.hosted, c.steps, c.admission)
		s.Batching.MaxNumSeqs = c.seats
		if c.ended > 0 {
			s.Learn(c.ended - 1)
		}
		s.Add(int32(c.hosted))
		b := s.Next()
		moved, began := b.Moves.Up.Tokens, len(b.Sub[0].Prefill) == 1 && !b.Sub[0].Prefill[0].Host
		if want := c.seats == 0 && (c.stays || c.capacity >= 22); (moved == 0) != c.stays || began != want {
			t.Errorf("%s: %d tokens move up, the prompt begins on the GPUs: %v, want %v", c.name, moved, began, want)
		}
	}
}

// TestStaysForFewSteps: a step that emits two tokens is worth two, and GPUs that decode have work during a move.
func TestStaysForFewSteps(t *testing.T) {
	known := scheduler.MemorySpec{Admission: scheduler.AdmitFinal}
	s := emptyGPUs(30, lines{weights: 100, context: 1, host: 11, move: 4}, 1, 6, known)
	s.o.s = &s.State
	h := &s.Host.Decoding[0]
	one := s.o.stepsLeft(h)
	if s.Speculation = (scheduler.Speculation{Verified: 2, Acceptance: 1}); one != 6 || s.o.stepsLeft(h) != 3 {
		t.Errorf("%v steps of a token, %v of two; want 6 and 3", one, s.o.stepsLeft(h))
	}
	s.Speculation = scheduler.Speculation{}
	idle := s.o.stays(h, 15)
	s.Decoding = []scheduler.Decoding{{Request: 1, Base: 10, Last: 9}}
	if !idle || s.o.stays(h, 15) {
		t.Errorf("with idle GPUs it stays: %v; with others: %v", idle, s.o.stays(h, 15))
	}
}

// TestNobodyStaysOnAFullHost: a request that would stay on the host moves up where the host has no room for the next token of each request
// there. Known outputs have their room already.
func TestNobodyStaysOnAFullHost(t *testing.T) {
	for _, c := range []struct {
		admission    scheduler.MemorySpec
		hosted, room int
		drafts       int
		stays        bool
	}{
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 1, 1, 0, true},
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 1, 0, 0, false},
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 2, 2, 0, true},
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 2, 1, 0, false},
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 1, 3, 2, true},
		{scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000}, 1, 2, 2, false},
		{scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, 1, 0, 0, true},
	} {
		s := emptyGPUs(30, lines{weights: 100, context: 1, host: 11, move: 4}, c.hosted, 6, c.admission)
		s.o.s, s.Speculation = &s.State, scheduler.Speculation{Verified: c.drafts + 1}
		if _, ok := s.HostLedger.Reserve(memory.Prompted(int(s.HostLedger.Capacity()-s.HostLedger.Used())-c.room), nil, 0, nil); !ok {
			t.Fatal("no room")
		}
		if got := s.o.stays(&s.Host.Decoding[0], 15); got != c.stays {
			t.Errorf("%+v: stays %v", c, got)
		}
	}
}

// TestLastOfAFullHostBeginsAnew: where the only request that runs loses the host's memory, its prompt is the same iteration's: there would be
// no other one.
func TestLastOfAFullHostBeginsAnew(t *testing.T) {
	s := emptyGPUs(30, lines{weights: 100, context: 1, host: 11, move: 4}, 1, 6, scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 1000})
	s.Policy, s.Host.Decoding[0].Movable = scheduler.PolicyPrefillFirst, false
	s.HostLedger.Reserve(memory.Prompted(int(s.HostLedger.Capacity()-s.HostLedger.Used())), nil, 0, nil)
	s.HostLedger.Release(s.Holds[0])
	s.Holds[0], _ = s.HostLedger.Reserve(memory.Prompted(10), nil, 0, nil) // for what it has, and not for its next token
	s.Holds[0].Host = true
	s.HostLedger.Reserve(memory.Prompted(int(s.HostLedger.Capacity()-s.HostLedger.Used())), nil, 0, nil)
	if b := s.Next(); len(b.Sub[0].Prefill) != 1 || b.Sub[0].Prefill[0].Request != 0 || b.Sub[0].Prefill[0].Tokens != 11 || b.Sub[0].Prefill[0].Host {
		t.Errorf("%+v", b)
	}
}
