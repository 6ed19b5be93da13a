package batching

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// TestMakeRoom makes a scheduler take memory back again and again: first from requests that
// prefill, the latest arrival first, then from those that decode.
func TestMakeRoom(t *testing.T) {
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100})
	config := Config{
		Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 1, MinPrefillTokens: 4},
		Memory:    &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{},
	}
	var requests []traces.Request
	for i := range 5 {
		requests = append(requests, request(i, 10, 5))
	}
	s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30}}, requests, nil)
	hold := func() memory.Reservation {
		r, _ := ledger.Reserve(memory.Prompted(10), nil, 0, nil)
		return r
	}
	// Requests 1 and 0 decode and have emitted 2 and 3 tokens, 2 and 3 prefill, 4 waits.
	s.Batch.Step = 7
	s.Decoding = []scheduler.Decoding{{Request: 1, Base: 5, Last: 9}, {Request: 0, Base: 6, Last: 8}}
	s.Holds[0], s.Holds[1] = hold(), hold()
	s.Queue.list = []Waiting{
		{}, {}, // taken by the requests that decode
		{Request: 2, Prompt: 10, finished: 4, Cut: true, held: true, Hold: hold()},
		{Request: 3, Prompt: 10, held: true, Hold: hold()},
		{Request: 4, Prompt: 10},
	}
	s.Queue.head, s.Usage.cutPrompts = 2, 10
	for i, want := range []struct {
		request int32
		used    int64
		kv      int
	}{{3, 30, 10}, {2, 20, 0}, {1, 10, 0}, {0, 0, 0}} {
		if got := s.makeRoom(); got != want.request {
			t.Errorf("request %d gave up its memory, want %d", got, want.request)
		}
		if ledger.Used() != want.used || s.Usage.cutPrompts != want.kv || s.Preemptions != int64(i+1) {
			t.Errorf("after request %d: %d units, %d tokens on the GPU and %d preemptions, want %d, %d and %d",
				want.request, ledger.Used(), s.Usage.cutPrompts, s.Preemptions, want.used, want.kv, i+1)
		}
	}
	for i, w := range s.Queue.list[s.Queue.head:] {
		emitted := []int{3, 2, 0, 0, 0}[i]
		if int(w.Request) != i || w.held || w.Cut || w.finished != 0 || w.Emitted != emitted || w.Prompt != 10+emitted {
			t.Errorf("place %d of the queue: got %+v, want request %d with %d tokens emitted", i, w, i, emitted)
		}
	}
}

// TestPreemptedFindsItsOwn: a preempted request finds the whole blocks of keys and values that it computed in a cache of prefixes.
// What others take meanwhile is lost from the end.
func TestPreemptedFindsItsOwn(t *testing.T) {
	const block = 4
	for _, c := range []struct {
		name   string
		others int // units that another request takes meanwhile
		last   int // step of the last of nine tokens, where it decodes
		prompt int // tokens to prefill again
		found  int
	}{
		{"13 tokens", 0, 13, 13, 12},
		{"12 tokens, of which the last has no key yet", 0, 14, 12, 8},
		{"room is taken that was free", 2, 13, 13, 12},
		{"the last block is taken", 3, 13, 13, 8},
		{"9 tokens of a prompt's 10", 0, 0, 10, 8},
	} {
		ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: block, Capacity: 5})
		ledger.KeepPrefixes(block, 100, scheduler.PlaceByPrefix)
		config := Config{
			Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 1}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent},
			Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{},
		}
		s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}, []traces.Request{request(0, 10, 9), request(1, 9, 1)}, nil)
		hold, _ := ledger.Reserve(memory.Prompted(12), nil, 0, nil)
		decodes := c.last > 0
		if decodes {
			s.Batch.Step, s.Holds[0] = 8, hold
			s.Decoding = []scheduler.Decoding{{Request: 0, Base: int64(c.prompt - 8), Last: int64(c.last)}}
			s.DropDecoding(0)
		} else {
			s.Queue.list = []Waiting{{Request: 0, Prompt: 10, finished: 9, begun: true, held: true, Hold: hold}}
			s.DropQueued(s.Queue.First())
		}
		h := memory.HistoryOf(&s.Requests[1], 1, 9)
		other, _ := ledger.Reserve(memory.Prompted(c.others*block), &h, 0, nil)
		if ledger.Release(other); other.Shared > 0 {
			t.Errorf("%s: another request finds %d tokens", c.name, other.Shared)
		}
		w := s.Queue.First()
		if !s.Reserve(w, false) || w.Prompt != c.prompt || w.finished != c.found || w.prefix != c.found {
			t.Errorf("%s: %d tokens are found of %d, want %d of %d", c.name, w.finished, w.Prompt, c.found, c.prompt)
		}
		s.take(0, w, w.Prompt-w.finished)
		if err := s.CheckMemory(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		s.Complete(func(int32, int) {})
		if decodes && s.Recomputed != int64(c.prompt) { // the context of its next token, found or not
			t.Errorf("%s: %d tokens are contexts of recomputed prompts, want %d", c.name, s.Recomputed, c.prompt)
		}
		if n := ledger.CacheCounts(); n.Hit != 0 || !decodes && n.Miss != 10 {
			t.Errorf("%s: %d tokens of prompts count as found, %d as computed", c.name, n.Hit, n.Miss)
		}
	}
}

// TestLatestByHand: the latest arrival among the requests that decode, on GPUs or host.
func TestLatestByHand(t *testing.T) {
	for at := range 3 {
		s := byHand(scheduler.AdmitFinal, false)
		for i := range 3 {
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32((2 - at + i) % 3)})
		}
		if got := s.Latest(); got != at {
			t.Errorf("%+v: %d, by hand %d", s.Decoding, got, at)
		}
	}
}

// TestDropByHand: preempted requests wait in the order of their arrival, whatever the order of preemption. They are no longer paused, and their prompt
// may be the longest.
func TestDropByHand(t *testing.T) {
	for _, order := range [][]int32{{1, 3}, {3, 1}} {
		s := byHand(scheduler.AdmitCurrent, true)
		s.hold(t, 1, 20, false)
		s.hold(t, 3, 20, false)
		s.Queue.list = []Waiting{{Request: 4, Prompt: 10}}
		s.Batch.Step, s.near.longest = 2, 11
		for i, request := range order {
			s.Batch.Pauses = []scheduler.Pause{{Request: 0}, {Request: request}, {Request: 2}}
			if s.Decoding[0].Request != request {
				s.Decoding[0], s.Decoding[len(s.Decoding)-1] = s.Decoding[len(s.Decoding)-1], s.Decoding[0]
			}
			if got := s.DropDecoding(0); got != request || len(s.Decoding) != 1-i || s.Ledger.Used() != int64(20*(1-i)) || s.Preemptions != int64(i+1) {
				t.Errorf("%v: request %d loses its memory, %d decode with %d units", order, got, len(s.Decoding), s.Ledger.Used())
			}
			if p := s.Batch.Pauses; len(p) != 2 || p[0].Request != 0 || p[1].Request != 2 {
				t.Errorf("%v: %+v pause", order, p)
			}
		}
		for i, want := range []Waiting{{Request: 1, Prompt: 12, Emitted: 2}, {Request: 3, Prompt: 12, Emitted: 2}, {Request: 4, Prompt: 10}} {
			if got := s.Queue.At(i); *got != want {
				t.Errorf("%v: %+v waits, by hand %+v", order, *got, want)
			}
		}
		if s.near.longest != 12 {
			t.Errorf("%v: the longest prompt has %d tokens", order, s.near.longest)
		}
	}
}
