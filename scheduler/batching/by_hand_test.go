package batching

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// one returns a ledger with one layer and one head, where each token takes a unit.
func one(units int64) *memory.Ledger {
	return memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: units})
}

// byHand returns a scheduler with five requests of 10 prompt and 5 output tokens. The GPUs have memory for 100 tokens, and the host, if
// any, for 50.
func byHand(admission string, host bool) *Scheduler {
	c := Config{
		Scheduler: &scheduler.Spec{SubBatches: 2, Chunking: true, ChunkMultiple: 4}, Memory: &scheduler.MemorySpec{Admission: admission, MaxTokens: 40, Watermark: 0.25},
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 100},
	}
	m := Memories{Ledger: one(100), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}
	if host {
		m.HostLedger = one(50)
	}
	var requests []traces.Request
	for i := range 5 {
		requests = append(requests, request(i, 10, 5))
	}
	return New(c, m, requests, nil)
}

// hold lets a request decode with memory for so many tokens, on the host or the GPUs.
func (s *Scheduler) hold(t *testing.T, request int32, tokens int, host bool) {
	r, ok := s.memoryOf(host).Reserve(memory.Prompted(tokens), nil, 0, nil)
	if !ok {
		t.Fatal("no room")
	}
	r.Host = host
	s.Holds[request] = r
	s.Enter(scheduler.Decoding{Request: request, Base: 11, Last: 4})
}

// TestAdmissionLawByHand: the head of the queue needs 14 tokens: 10 + 5, without the key of the last
// one.
func TestAdmissionLawByHand(t *testing.T) {
	fails := func(s *Scheduler, want string) {
		t.Helper()
		if err := s.CheckAdmission(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for used, want := range map[int]string{86: "request 0 waits, and offset 0 has room for its 14 tokens", 87: ""} { // of 100
		s := byHand(scheduler.AdmitFinal, false)
		s.hold(t, 4, used, false)
		fails(s, "") // nobody waits
		s.Add(0)
		fails(s, "") // nobody was refused
		s.Queue.Blocked = true
		fails(s, want)
	}
	// Seats: one of one is taken, then free.
	s := byHand(scheduler.AdmitFinal, false)
	s.hold(t, 4, 10, false)
	s.Add(0)
	s.Batching.MaxNumSeqs, s.Queue.Blocked, s.Queue.Refusal = 1, true, Refusal{NoSeat, 0}
	fails(s, "")
	s.Batching.MaxNumSeqs = 2
	fails(s, "request 0 waits, and only 1 run")
	// A refusal for growth is checked in the step that made it.
	s.Queue.Refusal = Refusal{NoGrowth, s.Batch.Step - 1}
	fails(s, "")
	s.Queue.Refusal.step = s.Batch.Step
	fails(s, "has room for its 14 tokens")
	// If a window does not fit on the GPUs, that is reason enough: 14 tokens of KV and activations of 4.
	s.GPU.Window, s.GPU.HoldsKV = 14, false
	s.GPU.Free = s.GPU.KVBytes(14) + s.GPU.Model.ActivationBytes(4)
	fails(s, "has room")
	s.GPU.Free--
	fails(s, "")

	// Two memories: the GPUs are full. The host has room for 14 tokens, or is busy, or every seat is taken.
	for used, want := range map[int]string{36: "on the host: request 0 waits", 37: ""} { // of 50
		s := byHand(scheduler.AdmitFinal, true)
		s.hold(t, 4, 100, false)
		s.hold(t, 3, used, true)
		s.Host.Decoding[0].Movable = false
		s.Add(0)
		s.Queue.Blocked = true
		fails(s, want)
		s.Host.Refusal.Cause = NoGain
		fails(s, "")
		s.Host.Refusal, s.Batching.MaxNumSeqs = Refusal{}, 2
		fails(s, "")
		s.Batching.MaxNumSeqs = 3
		fails(s, want)
	}
	s = byHand(scheduler.AdmitFinal, true) // the GPUs have room; an older request of the host comes first
	s.hold(t, 0, 50, true)
	s.Add(1)
	s.Queue.Blocked = true
	fails(s, "")
	s.Host.Decoding[0].Movable = false
	fails(s, "request 1 waits, and offset 0")
}

// TestOvertakesByHand: older requests on the host, or moving there, that the GPUs could hold.
func TestOvertakesByHand(t *testing.T) {
	w := &Waiting{Request: 2, Prompt: 10}
	for _, c := range []struct {
		request int32
		movable bool
		stay    bool
		want    bool
	}{{1, true, false, true}, {1, false, false, false}, {1, true, true, false}, {2, true, false, false}, {3, true, false, false}} {
		s := byHand(scheduler.AdmitFinal, true)
		s.hold(t, c.request, 10, true)
		s.Host.Decoding[0].Movable, s.Host.Stay = c.movable, c.stay
		if got := s.Overtakes(w); got != c.want {
			t.Errorf("decoding on the host, %+v: %v", c, got)
		}
	}
	for _, c := range []struct {
		request int32
		host    bool
		large   bool // for the GPUs
		want    bool
	}{{1, true, false, true}, {1, false, false, false}, {2, true, false, false}, {3, true, false, false}, {1, true, true, false}} {
		s := byHand(scheduler.AdmitFinal, true)
		if c.large {
			s.Requests[c.request].Output = 92
		}
		s.chunked = []Waiting{{Request: c.request, Prompt: 10, Hold: memory.Reservation{Host: c.host}}}
		if got := s.Overtakes(w); got != c.want {
			t.Errorf("a prompt for the host, %+v: %v", c, got)
		}
	}
}

// TestLengthsByHand: what is reserved, what stays on the GPUs, and what stays free.
func TestLengthsByHand(t *testing.T) {
	w := &Waiting{Request: 0, Prompt: 10}
	for admission, want := range map[string]memory.Length{scheduler.AdmitFinal: {Prompt: 10, Tokens: 14}, scheduler.AdmitMax: {Prompt: 10, Tokens: 40}, scheduler.AdmitCurrent: {Prompt: 10, Tokens: 10}} {
		if got := byHand(admission, false).Reserved(w); got != want {
			t.Errorf("%s reserves %+v, want %+v", admission, got, want)
		}
	}
	s := byHand(scheduler.AdmitCurrent, true)
	if r := &s.Requests[0]; s.longestPrompt(r) != 14 || byHand(scheduler.AdmitFinal, false).longestPrompt(r) != 10 {
		t.Error("a request that lost its memory prefills all but its last token, where memory is reserved as it grows")
	}
	for _, c := range []struct {
		window        int
		prompt, share float64
		want          int
	}{{3, 0, 0, 3}, {30, 0, 0, 14}, {3, 0.25, 0, 3 + 3}, {0, 0, 0.5, 7}, {2, 0.1, 0.3, 2 + 1 + 5}} { // of 10 and 14 tokens
		s.GPU.Window, s.GPU.PromptShare, s.GPU.Share = c.window, c.prompt, c.share
		if got := s.window(&s.Requests[0]); got != c.want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
	// A quarter of the GPUs' 100 tokens, and on the host of its 50; or what the GPUs' requests hold, if the GPUs could hold the
	// request.
	s.GPU.Window, s.GPU.PromptShare, s.GPU.Share = 0, 0, 0
	if got := [2]int64{s.KeepFree(w, false), s.KeepFree(w, true)}; got != [2]int64{} {
		t.Errorf("%v units of empty memories stay free", got)
	}
	s.hold(t, 3, 20, false)
	s.hold(t, 4, 5, true)
	if got := [2]int64{s.KeepFree(w, false), s.KeepFree(w, true)}; got != [2]int64{25, 20} {
		t.Errorf("%v units stay free, want 25 and 20", got)
	}
	if got := s.KeepFree(&Waiting{Request: 0, Prompt: 101}, true); got != 12 {
		t.Errorf("%d units of the host stay free, want 12", got)
	}
	known := byHand(scheduler.AdmitFinal, false)
	if known.hold(t, 3, 20, false); known.KeepFree(w, false) != 0 {
		t.Error("memory stays free where lengths are known")
	}
	// Refusals for growth are old after 64 steps, or after an eighth of the mean output. The mean is 700 before any request has ended,
	// then 7, 84, 83 and 550.
	s.outputs = memory.NewOutputs(&scheduler.MemorySpec{MaxTokens: 700})
	for _, c := range []struct {
		ended int
		after int64
	}{{0, 64}, {7, 1}, {161, 10}, {81, 10}, {1_951, 64}} {
		if c.ended > 0 {
			s.outputs.Ended(c.ended)
		}
		for step, old := range map[int64]bool{c.after - 1: false, c.after: true} {
			s.Batch.Step = 7 + step
			for cause, may := range map[refusalCause]bool{noMemory: false, NoGrowth: old, NoSeat: false, NoGain: old} { // memory and seats are waited for
				if s.IsOld(Refusal{cause, 7}) != may {
					t.Errorf("after %d, a refusal of cause %d is old after %d steps: %v", c.ended, cause, step, !may)
				}
			}
		}
	}
}

// TestMemoryLawsByHand: what requests hold equals what the memories account for, and activations fit
// beside it.
func TestMemoryLawsByHand(t *testing.T) {
	s := byHand(scheduler.AdmitCurrent, true)
	s.hold(t, 0, 20, false)
	s.hold(t, 1, 30, true)
	swaps, _ := s.Ledger.Reserve(memory.Prompted(7), nil, 0, nil)
	s.Holds[2] = swaps
	s.Host.SwapIns = []SwapIn{{Paused: Paused{Decoding: scheduler.Decoding{Request: 2}}}}
	prompt, _ := s.Ledger.Reserve(memory.Prompted(11), nil, 0, nil)
	s.Queue.list = []Waiting{{Request: 3, Prompt: 11, held: true, Hold: prompt}}
	cut, _ := s.HostLedger.Reserve(memory.Prompted(13), nil, 0, nil)
	cut.Host = true
	staged, _ := s.Ledger.Reserve(memory.Prompted(17), nil, 0, nil)
	s.chunked = []Waiting{{Request: 4, Prompt: 13, Cut: true, held: true, Hold: cut, Staged: staged}}
	if err := s.CheckMemory(); err != nil {
		t.Error(err)
	}
	if got := s.UsedUnits(); got != 20+30+7+11+13+17 {
		t.Errorf("%d units are in use", got)
	}
	if got := s.running(); got != 5 {
		t.Errorf("%d requests run", got)
	}
	for name, lose := range map[string]func(){
		"GPUs": func() { s.Holds[0].Tokens++ }, "host": func() { s.Holds[1].Tokens++ }, "swap in": func() { s.Holds[2].Tokens++ }, "prompt": func() { s.Queue.list[0].Hold.Tokens++ },
		"cut prompt": func() { s.chunked[0].Hold.Tokens++ }, "staged": func() { s.chunked[0].Staged.Tokens++ },
	} {
		holds, list, chunked := slices.Clone(s.Holds), slices.Clone(s.Queue.list), slices.Clone(s.chunked)
		if lose(); s.CheckMemory() == nil {
			t.Errorf("%s: a token more than is accounted for", name)
		}
		s.Holds, s.Queue.list, s.chunked = holds, list, chunked
	}
	s.Batch.Step = 3 // contexts of 14 in 20 rows of the GPUs, and in 30 of the host; all others are full
	if got, want := s.Fragmentation(), float64(20-14+30-14)/(20+7+11+17+30+13); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v of the rows are unfilled, by hand %v", got, want)
	}
	// Activations of 9 tokens, and the KV of a cut prompt of 13 if prompts keep it.
	s = byHand(scheduler.AdmitCurrent, false)
	s.Batch.Sub[1].Prefill = []scheduler.Chunk{{Tokens: 9}}
	s.GPU.Free = s.GPU.Model.ActivationBytes(9)
	if err := s.CheckMemory(); err != nil {
		t.Error(err)
	}
	if s.GPU.Free--; s.CheckMemory() == nil {
		t.Error("activations do not fit")
	}
	if s.Batch.Sub[1].Prefill = nil; s.CheckMemory() != nil {
		t.Error("requests that decode alone are held back")
	}
}

// TestSpareLawByHand: the GPUs' spare memory has 30 units of 32 B. A request that decodes has 20 of them, a prompt 6.
func TestSpareLawByHand(t *testing.T) {
	near := func(capacity int64) *Scheduler {
		s := byHand(scheduler.AdmitCurrent, false)
		s.GPU.Spare, s.GPU.SpareUnit, s.GPU.HomeUnit = one(capacity), 32, 100
		return s
	}
	s := near(30)
	hold := func(tokens int) memory.Reservation {
		r, _ := s.GPU.Spare.Reserve(memory.Prompted(tokens), nil, 0, nil)
		r.Near = true
		return r
	}
	s.Holds[0] = hold(20)
	s.Decoding = []scheduler.Decoding{{Request: 0, Base: 11, Last: 4}}
	s.chunked = []Waiting{{Request: 1, Prompt: 6, held: true, Hold: hold(6)}}
	s.Batch.Sub[0].Decode = s.Decoding
	s.GPU.Free = 26*32 + s.GPU.Model.ActivationBytes(1)
	if err := s.CheckMemory(); err != nil {
		t.Error(err)
	}
	if got := s.UsedUnits(); got != 9 { // 832 B of the Ledger's units of 100
		t.Errorf("%d units", got)
	}
	if s.GPU.Free--; s.CheckMemory() == nil {
		t.Error("activations do not fit beside")
	}
	s.GPU.Free = 1 << 30
	if s.chunked[0].Hold.Near = false; s.CheckMemory() == nil {
		t.Error("units that nobody holds")
	}
	// What stays free: activations of MaxBatchTokens tokens, or of the batch with a first chunk of at most ChunkMultiple; the KV of prompts; a
	// quarter.
	beside := func(tokens, kv int) int64 {
		return int64((s.GPU.Model.ActivationBytes(tokens) + s.GPU.KVBytes(kv) + 31) / 32)
	}
	s.near.longest, s.Usage.windows = 5, 3
	w := &Waiting{Request: 2, Prompt: 10}
	for _, c := range []struct{ most, cut, tokens, kv int }{{100, 0, 100, 3 + 2*5}, {100, 12, 100, 3 + 12}, {2, 0, 1 + 4, 3 + 2*5}} {
		s.Batching.MaxBatchTokens, s.Usage.cutPrompts = c.most, c.cut
		if got, want := s.keepForPrompts(w), beside(c.tokens, c.kv)+30/4; got != want {
			t.Errorf("%+v: %d units stay free, by hand %d", c, got, want)
		}
	}
	if got, want := s.keepForPrompts(&Waiting{Request: 2, Prompt: 3}), beside(1+3, 13)+7; got != want {
		t.Errorf("with a prompt of 3 tokens %d units stay free, by hand %d", got, want)
	}
	if s.Scheduler.Chunking = false; s.keepForPrompts(w) != beside(1+10, 13)+7 {
		t.Error("a prompt that is not cut runs whole")
	}
	if s.Memory.Admission = scheduler.AdmitFinal; s.keepForPrompts(w) != beside(1+10, 13) {
		t.Error("known lengths need no room to grow")
	}
	// Longest first, to the smaller sum; to the first sub-batch if both are equal.
	var f dealer
	s.Batch.Step = 0
	s.Decoding = nil
	for i, context := range []int64{10, 7, 5, 2, 99} {
		s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: context})
		s.Holds[i] = memory.Reservation{Near: i < 4}
	}
	home := f.dealNear(&s.State)
	a, b := s.Batch.Sub[0].Near, s.Batch.Sub[1].Near
	if len(home) != 1 || home[0].Request != 4 || len(a) != 2 || len(b) != 2 || a[1].Base != 2 || b[0].Base != 7 || b[1].Base != 5 {
		t.Errorf("%v and %v, at home %v", a, b, home)
	}
}

// TestHistoryByHand: a cache has both blocks of 512 tokens of a prompt. Its last token must be computed, so only one block counts; with one
// token more, both count. If the history moves to the GPUs, these need room for it and for a step.
func TestHistoryByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.Ledger = memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 10})
	s.Ledger.KeepPrefixes(512, 10, scheduler.PlaceByPrefix)
	for i := range s.Requests[:2] {
		s.Requests[i].Input, s.Requests[i].Hashes = 1024+i, []uint64{1, 2}
	}
	h := memory.HistoryOf(&s.Requests[0], 0, 1024)
	r, _ := s.Ledger.Reserve(memory.Prompted(1024), &h, 0, nil)
	s.Ledger.Keep(&r, &h)
	s.Ledger.Release(r)
	finds := func(request int32, want int) {
		t.Helper()
		w := Waiting{Request: request, Prompt: s.Requests[request].Input}
		if h := s.history(&w); s.Ledger.Cached(&h) != want {
			t.Errorf("%d tokens of a prompt of %d are found, want %d", s.Ledger.Cached(&h), w.Prompt, want)
		}
	}
	finds(0, 512)
	finds(1, 1024)
	s.GPU.HoldsKV = false
	for chunking, step := range map[bool]int{true: 4, false: 1025} {
		s.Scheduler.Chunking = chunking
		s.GPU.Free = s.GPU.Model.ActivationBytes(step) + s.GPU.KVBytes(1025)
		finds(1, 1024)
		s.GPU.Free--
		finds(1, 0)
	}
}

// TestStreakByHand: two iterations in a row may only prefill while requests decode.
func TestStreakByHand(t *testing.T) {
	var k Streak
	for i, c := range []struct {
		prefills bool
		decoding int
		over     bool // of two, after it
		one      bool // of one
	}{
		{true, 0, false, false}, {true, 1, false, true}, {true, 1, true, true}, {true, 3, true, true}, {false, 3, false, false}, {true, 1, false, true}, {true, 0, false, false}, {true, 1, false, true}, {true, 1, true, true},
	} {
		if k.Next(c.prefills, c.decoding) != c.prefills || k.Over(2, 1) != c.over || k.Over(1, 1) != c.one || k.Over(2, 0) || k.Over(0, 1) {
			t.Errorf("iteration %d: a streak of %d, over %v", i, k, k.Over(2, 1))
		}
	}
}

// TestHostedEndByHand: a request on the host ends in the step of its last token, not earlier.
func TestHostedEndByHand(t *testing.T) {
	s := byHand(scheduler.AdmitCurrent, true)
	s.hold(t, 1, 14, true)
	s.hold(t, 2, 14, true)
	s.Host.Decoding[1].Last++
	s.Batch.Step = 4
	for i := range s.Host.Decoding {
		s.Batch.Sub[1].Host = append(s.Batch.Sub[1].Host, s.Host.Decoding[i].Decoding)
	}
	var ended []int32
	s.Complete(func(request int32, tokens int) { ended = append(ended, request) })
	if !slices.Equal(ended, []int32{1}) || len(s.Host.Decoding) != 1 || s.Host.Decoding[0].Request != 2 || s.HostLedger.Used() != 14 {
		t.Errorf("%v ended, %+v are there with %d units", ended, s.Host.Decoding, s.HostLedger.Used())
	}
}

// TestDealByHand: contexts of 10 and 1 tokens at one rankset offset, and of 6 and 5 at another. They are dealt either for even sums, 11 and
// 11, or so that each sub-batch has one of each offset, 15 and 7.
func TestDealByHand(t *testing.T) {
	for balance, want := range map[string][2][]int64{scheduler.BalanceLeastLoaded: {{10, 1}, {6, 5}}, scheduler.BalanceSplit: {{10, 5}, {6, 1}}} {
		s := byHand(scheduler.AdmitFinal, false)
		s.Ledger = memory.NewLedger(memory.LedgerSpec{Ranksets: 2, Layers: 2, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100, Rotation: true})
		s.Comm.Balance, s.Batch.Step = balance, 0
		for i, context := range []int64{10, 1, 6, 5} {
			s.Decoding = append(s.Decoding, scheduler.Decoding{Request: int32(i), Base: context, Offset: int32(i / 2)})
		}
		var f dealer
		f.deal(&s.State)
		var got [2][]int64
		for i := range got {
			for _, d := range s.Batch.Sub[i].Decode {
				got[i] = append(got[i], d.Base)
			}
			slices.Sort(got[i])
			slices.Reverse(got[i])
		}
		if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
			t.Errorf("%s: %v, want %v", balance, got, want)
		}
	}
}

// TestPromptsEndFreesMemory: of 15 units, a request holds 10 while its prompt is prefilled, and then a window of 2. The next one does not fit beside the
// prompt. It fits in the iteration after it, though no request has ended. If the window is as long as the prompt, it waits until a request ends.
func TestPromptsEndFreesMemory(t *testing.T) {
	for window, steps := range map[int]int{2: 1, 5: 1, 6: 5, 10: 5} {
		s := byHand(scheduler.AdmitFinal, false)
		s.former = FormerOf(scheduler.PolicyPrefillFirst, nil)
		s.Ledger = memory.NewLedger(memory.LedgerSpec{
			Ranksets: 1, Layers: 1, Capacity: 15, UnitTokens: 1, UnitBytes: 1,
			Classes: []memory.HeadClass{{Heads: 1, TokenBytes: 1, Most: window}}, Filling: []memory.HeadClass{{Heads: 1, TokenBytes: 1}},
		})
		s.Add(0)
		s.Add(1)
		for step := range steps + 1 {
			b, first := s.Next(), step == 0
			var in []int32
			for i := range b.Sub {
				for _, c := range b.Sub[i].Prefill {
					in = append(in, c.Request)
				}
			}
			if want := map[bool][]int32{first: {0}, step == steps: {1}}[true]; !slices.Equal(in, want) {
				t.Fatalf("window of %d, step %d: prompts %v, by hand %v", window, step, in, want)
			}
			s.Complete(func(int32, int) {})
		}
	}
}
