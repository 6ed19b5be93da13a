package batching

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// TestPausedByHand: a request that sat out steps 6 to 8 attends in step 8 over what it would have attended over in step 5, and ends
// three steps later.
func TestPausedByHand(t *testing.T) {
	p := Paused{Decoding: scheduler.Decoding{Base: 10, Last: 20}, Settled: 5, Since: 100}
	before := p.Context(5)
	p.Settle(8)
	if p.Base != 7 || p.Last != 23 || p.Settled != 8 || p.Context(8) != before {
		t.Errorf("%+v", p)
	}
	h := Hosted{Paused: Paused{Decoding: scheduler.Decoding{Base: 10}, Settled: 3}}
	if sits, runs := h.NextContext(9), (&Hosted{Paused: h.Paused, Runs: true}).NextContext(9); sits != 13 || runs != 19 {
		t.Errorf("contexts of %d and %d, by hand 13 and 19", sits, runs)
	}
}

// TestUnfilledRowsByHand: rows of 4 tokens. The GPUs have 10 and 7 tokens in 5 rows of 20, 3 unfilled. The host has 5 and 9 in 5 rows, 6 unfilled; a request that
// sits out has the context of the step in which it stopped. A request in the spare memory is not in these rows.
func TestUnfilledRowsByHand(t *testing.T) {
	rows := func(units int64) *memory.Ledger {
		return memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 4, Capacity: units})
	}
	for admission, want := range map[string][2]float64{scheduler.AdmitCurrent: {3. / 20, 9. / 40}, scheduler.AdmitFinal: {0, 0}} {
		s := byHand(admission, true)
		s.Ledger, s.HostLedger = rows(25), rows(12)
		hold := func(request int32, reserved, context int, host bool) {
			r, ok := s.memoryOf(host).Reserve(memory.Prompted(reserved), nil, 0, nil)
			if !ok {
				t.Fatal("no room")
			}
			r.Host = host
			s.Holds[request] = r
			s.Enter(scheduler.Decoding{Request: request, Base: int64(context) - 6, Last: 99})
		}
		s.Batch.Step = 6
		hold(0, 12, 10, false)
		hold(1, 8, 7, false)
		if got := s.Fragmentation(); math.Abs(got-want[0]) > 1e-12 {
			t.Errorf("%s: %v of the GPUs' rows are unfilled, by hand %v", admission, got, want[0])
		}
		hold(2, 8, 5, true)
		hold(3, 12, 9, true)
		h := &s.Host.Decoding[s.Host.Find(3)]
		h.Runs, h.Settled = false, 4 // nine tokens in step 4
		h.Base += 2
		if got := s.Fragmentation(); math.Abs(got-want[1]) > 1e-12 {
			t.Errorf("%s: %v of all rows are unfilled, by hand %v", admission, got, want[1])
		}
		s.Holds[0].Near = true
		if got := s.Fragmentation(); admission == scheduler.AdmitCurrent && math.Abs(got-7./40) > 1e-12 {
			t.Errorf("%v of all rows are unfilled beside a request of the spare memory, by hand 7 of 40", got)
		}
	}
}

// TestWindowsByHand: windows of requests that decode and that prefill add up. If a window does not fit with the rest, the request is refused for the memory
// that it needs, or waits for an iteration of fewer tokens.
func TestWindowsByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.GPU.Window, s.GPU.HoldsKV = 3, false
	s.hold(t, 0, 10, false)
	s.hold(t, 1, 10, false)
	s.Holds[0].Window, s.Holds[1].Window = 5, 7
	s.Queue.list = []Waiting{{Request: 2, held: true, Hold: memory.Reservation{Window: 11}}}
	s.chunked = []Waiting{{Request: 3, held: true, Hold: memory.Reservation{Window: 13}}}
	if got := s.countWindows(); got != 5+7+11+13 {
		t.Errorf("windows of %d tokens, by hand 36", got)
	}
	s.Usage.windows = 36
	for _, r := range []memory.Reservation{{Window: 5}, {Near: true, Window: 9}, {Host: true, Window: 9}} {
		if r.Near {
			s.GPU.Spare = one(10)
		}
		s.HostLedger = one(10)
		s.Queue.Blocked = true
		freed, windows := s.Usage.Freed, s.Usage.windows
		s.Release(r)
		if onGPUs := !r.Near && !r.Host; (s.Usage.Freed == freed+1) != onGPUs || (s.Usage.windows == windows-r.Window) != onGPUs || s.Queue.Blocked {
			t.Errorf("%+v: %+v", r, s.Usage)
		}
	}
	fresh := func() *Scheduler {
		s := byHand(scheduler.AdmitFinal, true)
		s.GPU.Window, s.GPU.HoldsKV = 3, false
		s.Add(0)
		return s
	}
	for _, onHost := range []bool{false, true} {
		s, other := fresh(), Refusal{NoSeat, 7}
		s.Queue.Refusal, s.Host.Refusal, s.Batch.Step = other, other, 4
		s.GPU.Free = s.GPU.KVBytes(3) + s.GPU.Model.ActivationBytes(4) - 1 // the shortest chunk has four tokens
		if s.Reserve(s.Queue.First(), onHost) || !s.Queue.Blocked {
			t.Error("a window that does not fit is reserved")
		}
		want := [2]Refusal{{noMemory, 4}, other}
		if onHost {
			want[0], want[1] = want[1], want[0]
		}
		if got := [2]Refusal{s.Queue.Refusal, s.Host.Refusal}; got != want {
			t.Errorf("on the host %t: refusals %+v, by hand %+v", onHost, got, want)
		}
		// Beside two tokens of the batch, the chunk and the window do not fit, but nobody is refused for
		// long.
		s = fresh()
		s.GPU.Free = s.GPU.KVBytes(3) + s.GPU.Model.ActivationBytes(5)
		s.Batch.Sub[0].Prefill = []scheduler.Chunk{{Tokens: 2}}
		if s.Reserve(s.Queue.First(), onHost) || s.Queue.Blocked {
			t.Errorf("on the host %t: a window is reserved beside others, or refused: %t", onHost, s.Queue.Blocked)
		}
		s.Batch.Sub[0].Prefill[0].Tokens, s.Usage.windows = 1, 0
		if !s.Reserve(s.Queue.First(), onHost) || s.Usage.windows != 3 || s.Queue.First().Hold.Host != onHost {
			t.Errorf("on the host %t: %+v with windows of %d", onHost, s.Queue.First(), s.Usage.windows)
		}
		s.GPU.Free *= 10
		s.Add(1)
		s.Queue.head++
		if !s.Reserve(s.Queue.First(), onHost) || s.Usage.windows != 6 {
			t.Errorf("windows of %d tokens, by hand 6", s.Usage.windows)
		}
	}
}

// TestOrderLawByHand: with a host, nobody waits behind a later arrival.
func TestOrderLawByHand(t *testing.T) {
	for _, c := range []struct {
		requests []int32
		want     string
	}{{[]int32{1, 2, 4}, ""}, {[]int32{1, 3, 2}, "request 2 waits behind 3, which came later"}, {[]int32{2, 1, 3}, "request 1 waits behind 2"}} {
		s := byHand(scheduler.AdmitCurrent, true)
		for _, r := range c.requests {
			s.Queue.list = append(s.Queue.list, Waiting{Request: r})
		}
		if err := s.CheckMemory(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.requests, err, c.want)
		}
	}
	s := byHand(scheduler.AdmitCurrent, true)
	s.hold(t, 1, 20, true)
	s.HostLedger = memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 15})
	if err := s.CheckMemory(); err == nil {
		t.Error("the host has more than it has room for")
	}
}

// TestRoomOfHostsByHand: a request goes to the host whole, or in chunks of 4 if the GPUs hold its prompt until the last.
func TestRoomOfHostsByHand(t *testing.T) {
	for _, c := range []struct {
		prompt, tokens, batch int
		gpus                  int64
		free                  func(s *Scheduler) units.Bytes
		want                  bool
	}{
		{10, 14, 100, 100, func(s *Scheduler) units.Bytes { return s.GPU.Model.ActivationBytes(10) }, true},
		{10, 51, 100, 100, func(s *Scheduler) units.Bytes { return 1 << 30 }, false}, // the host has 50
		{10, 14, 9, 100, func(s *Scheduler) units.Bytes { return s.GPU.Model.ActivationBytes(4) + s.GPU.KVBytes(10) }, true},
		{10, 14, 9, 100, func(s *Scheduler) units.Bytes { return s.GPU.Model.ActivationBytes(4) + s.GPU.KVBytes(10) - 1 }, false},
		{10, 14, 9, 9, func(s *Scheduler) units.Bytes { return 1 << 30 }, false}, // a cut prompt is on the GPUs until it ends
		{10, 14, 10, 9, func(s *Scheduler) units.Bytes { return 1 << 30 }, true},
		{3, 14, 2, 100, func(s *Scheduler) units.Bytes { return s.GPU.Model.ActivationBytes(3) + s.GPU.KVBytes(3) }, true}, // shorter than a chunk
	} {
		s := byHand(scheduler.AdmitFinal, true)
		s.Ledger, s.Batching.MaxBatchTokens, s.GPU.HoldsKV = one(c.gpus), c.batch, false
		s.GPU.Free = c.free(s)
		if got := s.hosts(memory.Length{Prompt: c.prompt, Tokens: c.tokens}); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	if s := byHand(scheduler.AdmitFinal, false); s.hosts(memory.Prompted(1)) {
		t.Error("there is no host")
	}
}

// TestStagedByHand: a cut prompt for the host holds memory on the GPUs for all of it, once.
func TestStagedByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, true)
	for _, c := range []struct {
		w     Waiting
		units int64
	}{{Waiting{Prompt: 10}, 0}, {Waiting{Prompt: 10, Cut: true, Hold: memory.Reservation{Host: true}}, 0}, {Waiting{Prompt: 10, Emitted: 3, Hold: memory.Reservation{Host: true}}, 10}} {
		before := s.Ledger.Used()
		if ok := s.stage(&c.w); !ok || s.Ledger.Used()-before != c.units || c.units > 0 && c.w.Staged.Tokens != 10 {
			t.Errorf("%+v: %t, %d units", c.w, ok, s.Ledger.Used()-before)
		}
	}
	if w := (Waiting{Prompt: 91, Hold: memory.Reservation{Host: true}}); s.stage(&w) {
		t.Error("91 of 90 units are reserved")
	}
}

// TestFilledByHand: the rest of a prompt whose first six tokens are done leaves room for the next one; a prompt that is cut
// again leaves none.
func TestFilledByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, false)
	s.Policy = scheduler.PolicyChunkedPrefill
	for i := range int32(3) {
		s.Add(i)
	}
	w := s.Queue.First()
	w.Hold, w.held = s.Ledger.Reserve(memory.Prompted(10), nil, 0, nil)
	w.finished, w.begun = 6, true
	s.Batching.MaxBatchTokens = 4 + 10 + 7
	s.Fill(s.Admit)
	var got [][2]int
	for _, c := range s.Batch.Sub[0].Prefill {
		got = append(got, [2]int{int(c.Request), c.Tokens})
	}
	if want := [][2]int{{0, 4}, {1, 10}, {2, 7}}; !slices.Equal(got, want) || s.Queue.Len() != 0 || len(s.chunked) != 3 {
		t.Errorf("prompts %v, by hand %v", got, want)
	}
}

// TestStepsGrowByHand: in each step a growing request takes memory for its next token. Requests are dealt in the first step and every DealEvery steps.
func TestStepsGrowByHand(t *testing.T) {
	for admission, grows := range map[string]bool{scheduler.AdmitCurrent: true, scheduler.AdmitFinal: false} {
		s := byHand(admission, false)
		s.hold(t, 0, 11, false)
		var f dealer
		f.single, s.Batch.Step = true, 0
		if !f.nextStep(&s.State) || s.Batch.Step != 1 || s.Dealt != 1 || f.single {
			t.Errorf("step %d, dealt in %d", s.Batch.Step, s.Dealt)
		}
		if want := map[bool]int{true: 12, false: 11}[grows]; s.Holds[0].Tokens != want || s.Ledger.Used() != int64(want) { // 11 tokens and one more
			t.Errorf("%s: memory for %d tokens, by hand %d", admission, s.Holds[0].Tokens, want)
		}
		s.Memory.Admission = scheduler.AdmitFinal
		for step := int64(2); step <= DealEvery+1; step++ {
			if dealt := f.nextStep(&s.State); dealt != (step == DealEvery+1) {
				t.Errorf("step %d: dealt %t", step, dealt)
			}
		}
		f.single = true
		s.Batch.Sub[0].Decode, s.Batch.Sub[1].Decode = nil, nil
		if f.apart(&s.State); f.single || len(s.Batch.Sub[0].Decode)+len(s.Batch.Sub[1].Decode) != 1 {
			t.Error("a single batch is not divided again")
		}
		s.Batch.Sub[0].Decode, s.Batch.Sub[1].Decode = nil, nil
		if f.apart(&s.State); len(s.Batch.Sub[0].Decode)+len(s.Batch.Sub[1].Decode) != 0 {
			t.Error("sub-batches that are apart are dealt again")
		}
	}
}

// TestImproveByHand: at the end, neither a move of a value to the other side nor an exchange of two makes the sums more even. The difference returned is that of the
// final sums, whichever side was larger.
func TestImproveByHand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	changed := [2]int{}
	for range 300 {
		values := make([]int64, 2+rng.IntN(14))
		for i := range values {
			values[i] = 1 + rng.Int64N(1000)
		}
		slices.SortFunc(values, func(a, b int64) int { return int(b - a) })
		s := splitter{side: make([]bool, len(values))}
		for i := range s.side {
			s.side[i] = rng.IntN(4) == 0
		}
		if rng.IntN(2) == 0 {
			for i := range s.side {
				s.side[i] = !s.side[i]
			}
		}
		sum := func(side []bool) (d int64) {
			for i, v := range values {
				if side[i] {
					v = -v
				}
				d += v
			}
			return d
		}
		before := slices.Clone(s.side)
		s.improve(values, sum(s.side))
		least := abs(sum(s.side))
		for i := range values {
			for j := i; j < len(values); j++ {
				if j > i && s.side[i] == s.side[j] {
					continue // no exchange
				}
				other := slices.Clone(s.side)
				if other[i] = !other[i]; j > i {
					other[j] = !other[j]
				}
				if got := abs(sum(other)); got < least {
					t.Fatalf("%v, %v: a difference of %d, with %d and %d changed %d", values, s.side, least, i, j, got)
				}
			}
		}
		if d := sum(before); !slices.Equal(before, s.side) {
			changed[map[bool]int{true: 1, false: 0}[d < 0]]++
		}
	}
	if changed[0] < 50 || changed[1] < 50 {
		t.Errorf("%v splits are improved", changed)
	}
}

// TestDraftsOfManyByHand: the drafts of all requests add up, those with an Offset apart, and only if steps verify any. Requests on the host
// grow by what their step accepted, unless it was their last.
func TestDraftsOfManyByHand(t *testing.T) {
	s := byHand(scheduler.AdmitFinal, true)
	s.Speculation = scheduler.Speculation{Verified: 3, Acceptance: 1}
	s.Batch.Step = 0
	var all []scheduler.Decoding
	for i := range int32(3) { // 4, 2 and 2 tokens are left: 2, 1 and 1 drafts
		s.Requests[i].Input = 10 + 5*int(i)
		all = append(all, scheduler.Decoding{Request: i, Offset: 4 - i, Base: 11 + 6*int64(i), Last: 9})
	}
	s.Requests[1].Output, s.Requests[4].Output = 4, 50 // 2 tokens are left of the former
	if got := s.draftedOf(all); got != 2+1+1 {
		t.Errorf("%d drafts are accepted, by hand 4", got)
	}
	if got := s.emittedBefore(&all[1]); got != 17-15 {
		t.Errorf("%d tokens are emitted, by hand 2", got)
	}
	for _, d := range all[:2] {
		s.Holds[d.Request].Host = true
		s.Enter(d)
	}
	ends := all[1]
	ends.Last = 0
	s.Batch.Sub[0].Host = []scheduler.Decoding{all[0], ends}
	s.Decoding = []scheduler.Decoding{all[2], {Request: 3, Base: 24, Last: 9}}
	s.Requests[3].Input, s.Requests[3].Output = 23, 9
	s.advance()
	if a, b := s.Host.Decoding[0].Base, s.Host.Decoding[1].Base; a != 11+2 || b != 17 {
		t.Errorf("on the host contexts go on to %d and %d, by hand 13 and 17", a, b)
	}
	if s.Decoding[0].Request != 3 || s.Decoding[0].Base != 26 || s.Decoding[1].Base != 24 || s.Dealt != -1 {
		t.Errorf("%+v, by hand 26 and 24", s.Decoding)
	}
	s.Speculation = scheduler.Speculation{}
	if got := s.draftedOf(all); got != 0 {
		t.Errorf("%d drafts of none", got)
	}
}

// TestPlacesOfRequests: a request on the host is movable if the GPUs could hold its full length, and its chunks say where they go.
func TestPlacesOfRequests(t *testing.T) {
	for request, movable := range map[int32]bool{0: true, 1: false} {
		s := byHand(scheduler.AdmitFinal, true)
		s.Requests[1].Input = 200
		s.Batch.Step = 0
		s.enterHost(scheduler.Decoding{Request: request, Offset: 1 - request, Base: 11, Last: 4})
		if h := s.Host.Decoding[0]; h.Movable != movable || !h.Runs || s.Dealt != -1 {
			t.Errorf("request %d: %+v", request, h)
		}
	}
	for _, hold := range []memory.Reservation{{Host: true, Offset: 2}, {Near: true}, {}} {
		w := Waiting{Request: 3, Prompt: 20, Emitted: 4, Hold: hold, prefix: 5, finished: 7, others: 2}
		if got, want := w.chunk(6, true), (scheduler.Chunk{Request: 3, Offset: int32(hold.Offset), Tokens: 6, Finished: 7, Prefix: 5, Last: true, Host: hold.Host, Near: hold.Near}); got != want {
			t.Errorf("%+v, by hand %+v", got, want)
		}
	}
}

// TestExpiredDuringByHand: requests that arrived during an iteration are dropped as others are, and those that stay
// wait.
func TestExpiredDuringByHand(t *testing.T) {
	s, _ := small(scheduler.PolicyPrefillFirst, 100, [2]int{20, 4}, [2]int{20, 4}, [2]int{20, 4})
	s.during.came = []Waiting{{Request: 0, Prompt: 20}, {Request: 1, Prompt: 20, begun: true, finished: 1}, {Request: 2, Prompt: 20}}
	if got := expired(s, 20); !slices.Equal(got, []int32{0}) || len(s.during.came) != 2 || s.during.came[0].Request != 1 || s.Waiting() != 2 {
		t.Errorf("%v are dropped, %+v stay", got, s.during.came)
	}
}

// TestEndsAreLearned: the forecasts of both memories learn from requests that end.
func TestEndsAreLearned(t *testing.T) {
	s := byHand(scheduler.AdmitMax, false)
	if got := s.FinalTokens(&s.Requests[0]); got != 40 { // memory.max_tokens
		t.Errorf("%d tokens are reserved", got)
	}
	if s.Memory.MaxTokens = 3; s.FinalTokens(&s.Requests[0]) != 14 {
		t.Errorf("%d tokens are reserved, by hand those of the request", s.FinalTokens(&s.Requests[0]))
	}
	s = byHand(scheduler.AdmitFinal, false)
	if got := s.LikelyOutput(2, 3); got != 5 {
		t.Errorf("an output of %v tokens, which is known", got)
	}
}
