package offload

import (
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// stub has iterations that take 100 ps, or 140 with a request of the host in the first sub-batch. The latest took 100, in which the
// links were idle for 30 up and 20 down.
type stub struct{ lines }

func (stub) Iteration(b *scheduler.Batch) units.Duration {
	if len(b.Sub[0].Host) > 0 {
		return 140
	}
	return 100
}

func (stub) Latest() (took, up, down units.Duration) { return 100, 30, 20 }

// byHand returns a Former of a replica with one request on the GPUs, and requests with the given contexts on the host,
// which sit out.
func byHand(costs Costs, delay float64, contexts ...int) (*Former, *batching.State) {
	s := hosting(1, lines{}, delay, contexts...)
	o := New(costs, delay)
	o.s = &s.State
	s.Batch.Step, s.Batch.Sub[0].Decode = 0, s.Decoding
	for i := range s.Host.Decoding {
		s.Host.Decoding[i].Runs, s.Host.Decoding[i].Since = false, 1
	}
	return o, o.s
}

// at moves to a later step. The GPUs' request attends there over as many tokens as at step 0; those that sit out do anyway.
func at(s *batching.State, step int64) {
	s.Batch.Step = step
	for i := range s.Decoding {
		s.Decoding[i].Base -= step
	}
}

// TestWaitsLawByHand: turns may take a quarter of the time, so an iteration of 100 ps earns 25.
func TestWaitsLawByHand(t *testing.T) {
	fails := func(o *Former, want string) {
		t.Helper()
		if err := o.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o, s := byHand(stub{}, 0.25, 20)
	fails(o, "") // its wait begins
	fails(o, "sits out on the host for 100ps, and turns took 0ps of it")
	s.Host.Decoding[0].Since = 2 // it took part, and sits out anew
	fails(o, "")
	s.Host.Decoding[0].Runs = true
	fails(o, "")
	s.Host.Decoding[0].Runs, s.Host.Decoding[0].Comes = false, true // it is not there yet
	fails(o, "")
	s.Host.Decoding[0].Comes = false
	fails(o, "")
	s.Host.SwapIns = []batching.SwapIn{{Paused: s.Host.Decoding[0].Paused}}
	fails(o, "") // it is on its way to the GPUs: a wait of it begins anew
	s.Host.SwapIns = nil
	fails(o, "sits out on the host for 100ps")
	o.watch = watch{}
	s.Batch.Sub[0].Prefill = []scheduler.Chunk{{Tokens: 99}} // with the GPUs' request all 100 tokens of a batch
	fails(o, "")
	fails(o, "")
	s.Batch.Sub[0].Prefill[0].Tokens = 98
	fails(o, "sits out on the host for 200ps")

	// What earlier turns cost: 30 ps, while iterations of 100 ps earn 25 each.
	o, _ = byHand(stub{}, 0.25, 20)
	o.turns.credit = -30
	fails(o, "")
	fails(o, "")
	fails(o, "turns took 30ps of it")
	// A credit is not a debt.
	o, _ = byHand(stub{}, 0.25, 20)
	o.turns.credit = 50
	fails(o, "")
	fails(o, "turns took 0ps of it")

	// One of two requests has turns, of 140 - 100 ps. The other waits for one of them.
	o, s = byHand(stub{}, 0.25, 20, 20)
	turn := s.Host.Decoding[1]
	s.Host.Decoding[1].Runs = true
	s.Batch.Sub[0].Host, o.turns.request = []scheduler.Decoding{turn.Decoding}, turn.Request
	fails(o, "")
	if o.watch.turns != 40 || o.watch.ran != 140 || len(s.Batch.Sub[0].Host) != 1 {
		t.Errorf("turns took %v of %v, and %d take part", o.watch.turns, o.watch.ran, len(s.Batch.Sub[0].Host))
	}
	fails(o, "") // one turn of another
	fails(o, "others had 2 turns, of 1 that were there")
	// Nobody decodes: nothing is earned or spent.
	o, s = byHand(stub{}, 0.25, 20)
	s.Batch.Sub[0].Decode = nil
	if fails(o, ""); o.watch.ran != 0 {
		t.Errorf("%v of iterations without decoding requests", o.watch.ran)
	}
}

// TestAccountByHand: an iteration of 100 ps, with links idle for 30 ps up and 20 down. Turns may take a quarter of it.
func TestAccountByHand(t *testing.T) {
	o, s := byHand(stub{}, 0.25, 20, 20)
	swaps := []batching.SwapIn{{Left: 50}, {Left: 80}}
	s.Host.SwapIns, o.swaps.leaving, s.Batch.Step, s.Dealt = swaps, 40, 7, 3
	s.Host.Decoding[1].Comes = true
	o.account() // does not count
	if o.swaps.took != 0 || swaps[0].Left != 50 || o.swaps.leaving != 40 || o.turns.credit != 0 {
		t.Errorf("%+v, credit %v", o.swaps, o.turns.credit)
	}
	o.counts = true
	o.account()
	if o.swaps.took != 100 || swaps[0].Left != 20 || swaps[1].Left != 50 || o.swaps.leaving != 20 || o.turns.credit != 25 || !s.Host.Decoding[1].Comes {
		t.Errorf("%+v, %+v, credit %v", o.swaps, swaps, o.turns.credit)
	}
	s.Batch.Sub[0].Decode = nil // turns are of decode steps
	o.account()
	if o.account(); o.swaps.leaving != 0 || o.turns.credit != 25 || s.Host.Decoding[1].Comes || s.Host.Decoding[1].Since != 7 || s.Host.Decoding[0].Since != 1 || s.Dealt != -1 {
		t.Errorf("%+v, credit %v, %+v", o.swaps, o.turns.credit, s.Host.Decoding)
	}
}

// ofContexts returns the contexts of the requests that take part in a sub-batch.
func ofContexts(list []scheduler.Decoding, step int64) (contexts []int) {
	for i := range list {
		contexts = append(contexts, list[i].Context(step))
	}
	return contexts
}

// TestPackByHand: batched operations take 20 ps a token, the GPUs' attention 10 ps, and the CPUs' 10 ps and one for each
// token of context.
func TestPackByHand(t *testing.T) {
	for _, c := range []struct {
		name       string
		over       int
		delay      float64
		contexts   []int
		first, two []int
	}{
		// The second sub-batch may take the first one's 20 ps: 10 + 30 and 10 + 12 are too much, 10 + 5 are not. Later requests go where more is left.
		{"two", 2, 0, []int{30, 12, 5, 4, 3}, []int{4}, []int{5, 3}},
		{"two, one of which passes longer ones", 2, 0, []int{11, 10}, nil, []int{10}},
		// The first alone has 10 ps, and as much again as all of it takes: 10 + 20 for each token, 50 with one.
		{"one", 1, 1, []int{51, 50, 12}, []int{50, 12}, nil},
		{"one, without a delay", 1, 0, []int{1}, nil, nil},
	} {
		for _, step := range []int64{0, 7} {
			o, s := byHand(stub{lines{token: 20, context: 1, host: 10, hostContext: 1}}, c.delay, c.contexts...)
			at(s, step)
			n := o.pack(c.over)
			first, two := ofContexts(s.Batch.Sub[0].Host, step), ofContexts(s.Batch.Sub[1].Host, step)
			if n != len(c.first)+len(c.two) || !slices.Equal(first, c.first) || !slices.Equal(two, c.two) {
				t.Errorf("%s at step %d: %d, %v and %v, by hand %v and %v", c.name, step, n, first, two, c.first, c.two)
			}
		}
	}
	// A request that is moving to the host is skipped.
	o, s := byHand(stub{lines{token: 20, context: 1, host: 10, hostContext: 1}}, 0, 2, 3)
	s.Host.Decoding[0].Comes = true
	if n := o.pack(2); n != 1 || !s.Host.Decoding[1].Chosen || s.Host.Decoding[0].Chosen {
		t.Errorf("%d: %+v", n, s.Host.Decoding)
	}
}

// TestSpreadByHand: with one sub-batch all go there. With two, each goes where fewer tokens are, or to the first if both
// are equal.
func TestSpreadByHand(t *testing.T) {
	for over, want := range map[int][2][]int{1: {{10, 4, 6, 3, 9}, nil}, 2: {{10, 3}, {4, 6, 9}}} {
		for _, step := range []int64{0, 7} {
			o, s := byHand(stub{lines{}}, 0, 10, 4, 6, 3, 9)
			at(s, step)
			o.spread(over)
			if a, b := ofContexts(s.Batch.Sub[0].Host, step), ofContexts(s.Batch.Sub[1].Host, step); !slices.Equal(a, want[0]) || !slices.Equal(b, want[1]) {
				t.Errorf("over %d at step %d: %v and %v, want %v", over, step, a, b, want)
			}
		}
	}
}

// single has iterations that take 100 ps with one sub-batch of the host, and 200 with two.
type single struct{ stub }

func (single) Iteration(b *scheduler.Batch) units.Duration {
	if len(b.Sub[1].Host) > 0 {
		return 200
	}
	return 100
}

// TestAllOnHostAreSpread: if all requests are on the host, they decode in two sub-batches; with idle GPUs, in one or two, whichever
// is faster.
func TestAllOnHostAreSpread(t *testing.T) {
	for all, want := range map[bool][2]int{true: {2, 3}, false: {5, 0}} {
		o, s := byHand(single{}, 0, 10, 4, 6, 3, 9)
		s.Release(s.Holds[s.Decoding[0].Request])
		s.Decoding, s.Batch.Sub[0].Decode = nil, nil
		s.AllOnHost, s.Dealt = all, -1
		if o.help(); len(s.Batch.Sub[0].Host) != want[0] || len(s.Batch.Sub[1].Host) != want[1] || s.Dealt != s.Batch.Step {
			t.Errorf("all on the host %v: %d and %d decode, want %v", all, len(s.Batch.Sub[0].Host), len(s.Batch.Sub[1].Host), want)
		}
	}
}

// TestHidesByHand: the longest prompt whose request's attention is hidden, at 20 ps a token of batched operations, 10 ps of the
// GPUs' attention, and 10 ps and one a token of the CPUs'.
func TestHidesByHand(t *testing.T) {
	for _, c := range []struct {
		name     string
		delay    float64
		hosts    []int
		prefills bool // a prompt of 9 tokens
		longest  int
	}{
		// Alone in the second sub-batch, beside 20 ps of the first: 10 + p/2, since each sub-batch gets
		// half.
		{"one request", 0, nil, false, 20},
		// One in each, the first with 10 + 20 ps: 10 + (p + 6)/2.
		{"beside one of 6", 0, []int{6}, false, 35},
		// One in the first, two in the second beside 20 + 20 ps: 10 + (p + 15)/2.
		{"beside one of 6, and a prompt", 0, []int{6}, true, 45},
		// In one sub-batch: twice the 10 + 40 ps, less the 40.
		{"a delay as long as the step", 1, nil, false, 50},
	} {
		for _, step := range []int64{0, 7} {
			o, s := byHand(stub{lines{token: 20, context: 1, host: 10, hostContext: 1}}, c.delay, c.hosts...)
			if at(s, step); c.prefills {
				s.Add(int32(1 + len(c.hosts)))
				if !s.Reserve(s.Queue.First(), true) {
					t.Fatal("no room")
				}
			}
			if !o.hides(c.longest) || o.hides(c.longest+1) {
				t.Errorf("%s at step %d: a prompt of %d tokens hides: %v, of one more: %v", c.name, step, c.longest, o.hides(c.longest), o.hides(c.longest+1))
			}
		}
	}
}

// TestSwapsByHand: two requests of 20 and 30 tokens begin to swap in in one step, at 2 ps a token, and arrive within an iteration.
func TestSwapsByHand(t *testing.T) {
	s := hosting(3, lines{}, 0, 20, 30)
	o := New(stub{lines{move: 2}}, 0)
	o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
	for _, gone := range s.Decoding[1:] { // the GPUs have room for two
		s.Release(s.Holds[gone.Request])
	}
	s.Decoding = s.Decoding[:1]
	o.startSwaps()
	if n := len(s.Host.SwapIns); n != 2 || s.Host.SwapIns[0].Left != 40 || s.Host.SwapIns[1].Left != 100 || s.Batch.Moves.Up.Tokens != 50 {
		t.Fatalf("%d swap in: %+v, %d tokens", n, s.Host.SwapIns, s.Batch.Moves.Up.Tokens)
	}
	o.swaps.leaving = 1 // nobody else begins
	s.Host.SwapIns[0].Left = -5
	if o.swapIn(); len(s.Host.SwapIns) != 1 || len(s.Decoding) != 2 || s.Batch.Moves.Up.Wait != 0 {
		t.Errorf("%+v, %d on the GPUs, waited %v", s.Host.SwapIns, len(s.Decoding), s.Batch.Moves.Up.Wait)
	}
	s.Host.SwapIns[0].Left = 99
	if o.swapIn(); len(s.Host.SwapIns) != 0 || s.Batch.Moves.Up.Wait != 99 {
		t.Errorf("%+v, waited %v", s.Host.SwapIns, s.Batch.Moves.Up.Wait)
	}
}

// TestSwapsGiveWay: a request of the host swaps in after an older prompt that waits for the GPUs, but before one that they can never
// hold, which goes to the host.
func TestSwapsGiveWay(t *testing.T) {
	for output, want := range map[int]int{992: 0, 993: 1} { // with a prompt of 9 the first fills the 1,000 tokens of the GPUs
		s := hosting(1, lines{}, 0, 20)
		o := New(stub{}, 0)
		o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
		s.Release(s.Holds[0])
		s.Decoding, s.Requests[0].Output = nil, output
		s.Add(0)
		if o.startSwaps(); len(s.Host.SwapIns) != want {
			t.Errorf("behind an older prompt with an output of %d tokens %d swap in, want %d", output, len(s.Host.SwapIns), want)
		}
	}
}

// TestSwapsNeedNoForecast: the GPUs have room for 990 tokens more. A request of the host swaps in after 11 emitted tokens; outputs
// were 900 long so far. A prompt waits for the expected growth.
func TestSwapsNeedNoForecast(t *testing.T) {
	s := hostingWith(&scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 992, History: 20}, 1, lines{}, 0, 20)
	s.Release(s.Holds[0])
	s.Holds[0], _ = s.Ledger.Reserve(memory.Prompted(10), nil, 0, nil)
	for range 20 {
		s.Learn(900)
	}
	o := New(stub{}, 0)
	o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
	s.Add(2)
	if s.Admit(s.Queue.First()) || s.Queue.Refusal.Cause != batching.NoGrowth {
		t.Errorf("the prompt is admitted, or refused for another reason: %+v", s.Queue.Refusal)
	}
	if o.startSwaps(); len(s.Host.SwapIns) != 1 {
		t.Errorf("%d swap in", len(s.Host.SwapIns))
	}
}

// TestSwapsWaitForNoPrompt: prompts made the latest iteration 300 ps long; a step of the GPUs' request takes 100. A swap in that needs 101
// more does not join the next iteration, which would wait for it. GPUs without requests have nothing else to do, and wait.
func TestSwapsWaitForNoPrompt(t *testing.T) {
	for _, c := range []struct {
		onGPUs     int
		took, left units.Duration
		arrives    bool
	}{{1, 300, 100, true}, {1, 300, 101, false}, {1, 80, 100, false}, {0, 300, 300, true}, {0, 300, 301, false}} {
		s := hosting(2, lines{}, 0, 20)
		o := New(stub{}, 0)
		o.s, o.swaps.took, s.Batch.Step = &s.State, c.took, 0
		s.Release(s.Holds[0])
		s.Decoding = s.Decoding[:1]
		o.startSwaps()
		if s.Decoding = s.Decoding[:c.onGPUs]; len(s.Host.SwapIns) != 1 {
			t.Fatal("nobody swaps in")
		}
		s.Host.SwapIns[0].Left = c.left
		if o.swapIn(); (len(s.Host.SwapIns) == 0) != c.arrives {
			t.Errorf("%+v: %d swap in", c, len(s.Host.SwapIns))
		}
	}
}

// TestAsksAgain: a request that the host refused for growth is tried again after an eighth of the mean output, here of 40 tokens, as
// with the GPUs. So is one whose attention would not be hidden. One without memory or a seat is not.
func TestAsksAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		refused batching.Refusal
		asks    []int64 // steps
	}{
		{"memory, or nothing refused", batching.Refusal{}, nil},
		{"it would not hide", batching.Refusal{Cause: batching.NoGain}, []int64{5, 6, 64, 66}},
		{"growth", batching.Refusal{Cause: batching.NoGrowth}, []int64{5, 6, 64, 66}},
		{"seats", batching.Refusal{Cause: batching.NoSeat}, nil},
	} {
		s := hostingWith(&scheduler.MemorySpec{Admission: scheduler.AdmitFinal, MaxTokens: 40}, 1, lines{}, 0.25, 20)
		o := New(stub{}, 0.25)
		o.s = &s.State
		var asks []int64
		for _, s.Batch.Step = range []int64{0, 1, 4, 5, 6, 64, 66} {
			s.Queue.Blocked, s.Host.Refusal = true, c.refused
			if o.askAgain(); !s.Queue.Blocked {
				asks = append(asks, s.Batch.Step)
			}
		}
		if !slices.Equal(asks, c.asks) {
			t.Errorf("%s: asks again in steps %d, want %d", c.name, asks, c.asks)
		}
	}
}

// TestAsksForGain: the GPUs are full, and attention on the CPUs would not be hidden. The waiting prompt is tried again five steps after
// its refusal, an eighth of the mean output of 40 tokens. Once its attention would be hidden, the host takes it at the next try.
func TestAsksForGain(t *testing.T) {
	s := hostingWith(&scheduler.MemorySpec{Admission: scheduler.AdmitFinal, MaxTokens: 40}, 1, lines{weights: 100, host: 1000}, 0)
	s.Add(1)
	var refused, admitted []int64 // steps
	for range 24 {
		before := s.Host.Refusal
		b := s.Next()
		if len(b.Sub[0].Prefill) > 0 {
			admitted = append(admitted, b.Step)
		} else if s.Host.Refusal != before {
			refused = append(refused, b.Step)
		}
		if b.Step == 12 {
			s.m.host = 0
		}
		s.Complete(func(int32, int) {})
	}
	if want := []int64{0, 6, 12}; !slices.Equal(refused, want) || !slices.Equal(admitted, []int64{18}) {
		t.Errorf("refused in steps %d and admitted in %d, want %d and 18", refused, admitted, want)
	}
	// If no seat is free, the request waits for a seat.
	s.Add(1)
	s.Host.Refusal, s.Batching.MaxNumSeqs = batching.Refusal{Cause: batching.NoGain}, 1
	if s.o.admit(s.Queue.First()) || s.Host.Refusal != (batching.Refusal{}) || s.Queue.Refusal.Cause != batching.NoSeat {
		t.Errorf("without a seat: refused by the host %+v, by the GPUs %+v", s.Host.Refusal, s.Queue.Refusal)
	}
}
