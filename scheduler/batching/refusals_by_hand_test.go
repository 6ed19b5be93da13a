package batching

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// TestBesideSpareByHand: the spare memory, activations, a cut prompt of 7 tokens and a window of 3 fill the GPUs.
func TestBesideSpareByHand(t *testing.T) {
	s := byHand(scheduler.AdmitCurrent, false)
	s.GPU.Spare, s.GPU.SpareUnit, s.GPU.HomeUnit, s.GPU.HoldsKV, s.GPU.Window = one(20), 32, 100, false, 3
	near, _ := s.GPU.Spare.Reserve(memory.Prompted(20), nil, 0, nil)
	near.Near = true
	home, _ := s.Ledger.Reserve(memory.Prompted(7), nil, 0, nil)
	home.Window = 3
	s.Holds[0] = near
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 11, Last: 4}}
	s.chunked = []Waiting{{Request: 1, Prompt: 7, Cut: true, held: true, Hold: home}}
	s.Usage.cutPrompts, s.Usage.windows = 7, 3
	s.Batch.Sub[0].Decode = s.Decoding
	s.GPU.Free = 20*32 + s.GPU.Model.ActivationBytes(1) + s.GPU.KVBytes(7+3)
	if err := s.CheckMemory(); err != nil {
		t.Error(err)
	}
	s.GPU.Free--
	// The batch only decodes, so only the law of the spare memory limits it.
	if err := s.CheckMemory(); err == nil || !strings.Contains(err.Error(), "the GPUs' spare memory accounts for 20 units of 20, its requests for 20, beside 1 tokens of activations and 7 of cut prompts") {
		t.Error(err)
	}
	s.GPU.Free++
	s.GPU.Spare.Release(near)                                                   // an empty spare memory keeps nobody from growing
	s.Holds[0], s.GPU.Free = memory.Reservation{Length: memory.Prompted(10)}, 0 // for its context of 10, elsewhere
	if err := s.CheckMemory(); err != nil {
		t.Error(err)
	}
	s.GPU.Spare = one(1)
	near, _ = s.GPU.Spare.Reserve(memory.Prompted(1), nil, 0, nil)
	near.Near = true
	s.Holds[0], s.Decoding[0].Base = near, 2 // a context of 1
	if err := s.CheckMemory(); err == nil || !strings.Contains(err.Error(), "the GPUs' spare memory accounts for 1 units of 1, its requests for 1") {
		t.Errorf("a single unit lies beside activations for which there is no room: %v", err)
	}
}

// TestHoldersByHand: a request decodes, on the GPUs or on the host, with at most the context that it holds memory
// for.
func TestHoldersByHand(t *testing.T) {
	s := byHand(scheduler.AdmitCurrent, false)
	s.Batch.Step = 5
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 6}, {Request: 1, Base: 8}} // contexts of 11 and 13
	s.Host.Decoding = []Hosted{{Paused: Paused{Decoding: scheduler.Decoding{Request: 2, Base: 4}}, Runs: true}, {Paused: Paused{Decoding: scheduler.Decoding{Request: 3, Base: 2}, Settled: 3}}}
	for request, context := range []int{11, 13, 9, 5} {
		s.Holds[request] = memory.Reservation{Length: memory.Prompted(context)}
	}
	if err := s.checkHolders(); err != nil {
		t.Error(err)
	}
	for request, context := range []int{11, 13, 9, 5} {
		s.Holds[request].Tokens--
		want := fmt.Sprintf("request %d decodes at a context of %d and holds memory for %d tokens", request, context, context-1)
		if err := s.checkHolders(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		s.Holds[request].Tokens++
	}
	s.Holds[1] = memory.Reservation{}
	if err := s.CheckMemory(); err == nil || !strings.Contains(err.Error(), "request 1 decodes at a context of 13 and holds memory for 0 tokens") {
		t.Error(err)
	}
}

// TestForeseenByHand: the requests of a forecast, with the tokens that each has emitted. They have prompts of 10 tokens.
func TestForeseenByHand(t *testing.T) {
	spec := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 40, History: 9, Margin: 1}
	state := func(policy scheduler.Policy) *Scheduler {
		s := byHand(scheduler.AdmitCurrent, true)
		s.Policy, s.Memory, s.forecast = policy, spec, memory.NewForecast(spec, 1)
		s.hold(t, 0, 20, false) // context 11 - 1 before step 0, and one more each step
		s.hold(t, 1, 20, false)
		s.Decoding[1].Base += 5
		s.Holds[1].Near = true // in the spare memory
		s.hold(t, 2, 20, true)
		s.forecast.Add(0, 5, 6) // asked before
		s.Batch.Step = 2
		s.Holds[3].Length = memory.Prompted(12)
		s.Host.SwapIns = []SwapIn{{Paused: Paused{Decoding: scheduler.Decoding{Request: 3, Base: 12}, Settled: 1}}}
		s.chunked = []Waiting{
			{Request: 4, Prompt: 13, Emitted: 3, held: true, Hold: memory.Reservation{Length: memory.Prompted(13)}},
			{Request: 4, Prompt: 15, Emitted: 5, held: true, Hold: memory.Reservation{Length: memory.Prompted(15), Near: true}},
			{Request: 4, Prompt: 14, Emitted: 4, held: true, Hold: memory.Reservation{Length: memory.Prompted(14), Host: true}},
		}
		return s
	}
	type holder struct{ input, emitted int }
	for _, c := range []struct {
		policy scheduler.Policy
		onHost bool
		want   []holder
	}{
		{scheduler.PolicySubBatches, false, []holder{{10, 3}, {10, 3}, {10, 3}, {10, 2}}},
		{scheduler.PolicyPrefillFirst, false, []holder{{10, 4}, {10, 3}, {10, 3}, {10, 2}}}, // prompts run before the next step
		{scheduler.PolicySubBatches, true, []holder{{10, 3}, {10, 4}, {10, 2}}},
	} {
		s := state(c.policy)
		want := memory.NewForecast(spec, 1)
		for _, h := range c.want[:len(c.want)-1] {
			want.AddHolder(&memory.Reservation{}, h.input, h.emitted)
		}
		last := c.want[len(c.want)-1]
		want.Add(0, last.input, last.emitted)
		want.Foresee(s.memoryOf(c.onHost))
		if got := s.Foresee(&Waiting{Request: 4, Prompt: 12, Emitted: 2}, c.onHost); !reflect.DeepEqual(got, want) {
			t.Errorf("policy %d, host %v: the forecast is of others than %v", c.policy, c.onHost, c.want)
		}
	}
}

// TestRejectionsByHand: what a rejected request lacks. GPUs hold 100 tokens.
func TestRejectionsByHand(t *testing.T) {
	for _, c := range []struct {
		name          string
		host          int64 // its tokens
		all           bool  // requests live there
		input, output int
		want          scheduler.Rejection // zero: the GPUs have too little memory for its prompt
	}{
		{"the GPUs hold it", 0, false, 90, 11, scheduler.Rejection{}},
		{"the GPUs are too small", 0, false, 90, 12, scheduler.Rejection{KVTokens: 101, MostKVTokens: 100}},
		{"a small host changes nothing", 50, false, 90, 11, scheduler.Rejection{}},
		{"a small host is no help", 50, false, 90, 12, scheduler.Rejection{KVTokens: 101, MostKVTokens: 100}},
		{"it ends on the host", 150, false, 100, 51, scheduler.Rejection{}},
		{"both are too small", 150, false, 100, 52, scheduler.Rejection{KVTokens: 151, MostKVTokens: 150}},
		{"its prompt goes by the GPUs", 150, false, 101, 50, scheduler.Rejection{KVTokens: 101, MostKVTokens: 100}},
		{"a long prompt that the host cannot hold", 150, false, 120, 40, scheduler.Rejection{KVTokens: 159, MostKVTokens: 150}},
		{"all live on the host", 50, true, 40, 11, scheduler.Rejection{}},
		{"that is too small", 50, true, 40, 12, scheduler.Rejection{KVTokens: 51, MostKVTokens: 50}},
	} {
		s := byHand(scheduler.AdmitFinal, c.host > 0)
		if c.host > 0 {
			s.HostLedger = one(c.host)
		}
		s.AllOnHost, s.GPU.Free = c.all, 5
		s.Requests[0] = traces.Request{Input: c.input, Output: c.output}
		if c.want == (scheduler.Rejection{}) {
			c.want = scheduler.Rejection{Bytes: schedtest.SmallModel.ActivationBytes(4), Free: 5} // the smallest step
		}
		if got := s.Rejection(0); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	s := byHand(scheduler.AdmitFinal, false) // a window of three tokens takes memory, too
	s.GPU.Free, s.GPU.Window = 5, 3
	if got, want := s.Rejection(0), (scheduler.Rejection{Bytes: schedtest.SmallModel.ActivationBytes(4) + s.GPU.KVBytes(3), Free: 5}); got != want {
		t.Errorf("with a window %+v, want %+v", got, want)
	}
}

// TestLostGroupsByHand: two requests use the same two blocks. In one sub-batch they share them; in two they share
// none.
func TestLostGroupsByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.Ledger = memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 10})
	s.Ledger.KeepPrefixes(512, 10, scheduler.PlaceByPrefix)
	s.GroupPrefixes()
	for i := range 2 {
		s.Requests[i].Input, s.Requests[i].Hashes = 1025, []uint64{1, 2}
		h := memory.HistoryOf(&s.Requests[i], int32(i), 1024)
		r, _ := s.Ledger.Reserve(memory.Prompted(1025), &h, 0, nil)
		s.Ledger.Keep(&r, &h)
		s.Holds[i] = r
		s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: 1025, Last: 9})
	}
	whole := []scheduler.Shared{{Tokens: 1024, Requests: []int32{0, 1}}}
	for _, c := range []struct {
		a, b   []scheduler.Decoding
		shared []scheduler.Shared
		legal  bool
	}{
		{s.Decoding, nil, whole, true}, {s.Decoding, nil, nil, false}, {s.Decoding[:1], s.Decoding[1:], nil, true},
		{s.Decoding[:1], s.Decoding[1:], []scheduler.Shared{{Tokens: 1024, Requests: []int32{0}}}, false},
		{nil, s.Decoding, nil, false},
	} {
		s.Batch.Sub[0] = scheduler.SubBatch{Decode: c.a, Shared: c.shared}
		s.Batch.Sub[1] = scheduler.SubBatch{Decode: c.b}
		if err := s.checkCache(); (err == nil) != c.legal {
			t.Errorf("%d and %d requests with %v: %v", len(c.a), len(c.b), c.shared, err)
		}
	}
	// Without groups nobody has to share.
	s.groups, s.Batch.Sub[0], s.Batch.Sub[1] = nil, scheduler.SubBatch{Decode: s.Decoding}, scheduler.SubBatch{}
	if err := s.checkCache(); err != nil {
		t.Error(err)
	}
	s.Holds[0].Shared = 512
	if err := s.checkCache(); err == nil || !strings.Contains(err.Error(), "request 0: its blocks have 1024 tokens of a prefix of 512") {
		t.Error(err)
	}
}
