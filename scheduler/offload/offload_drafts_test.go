package offload

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/units"
)

// drafting makes a replica's steps verify three tokens a request. A draft is accepted half of the time: a step emits 1.75 on average.
func drafting(s *batching.State) {
	s.Speculation = scheduler.Speculation{Verified: 3, Acceptance: 0.5}
	for i := range s.Batch.Sub {
		s.Batch.Sub[i].Verified = 3
	}
}

// TestPackDraftsByHand: a request has 20 ps of batched operations for each of its three tokens. The CPUs' attention takes 10 ps, and one
// for each token of context, with the two drafts.
func TestPackDraftsByHand(t *testing.T) {
	for _, c := range []struct {
		name       string
		contexts   []int
		first, two []int
	}{
		// The second sub-batch may take the 60 ps of the first one's operations: 10 + 51 are too much, 10 + 50 are not. It then has 60 ps
		// of its own, so the first one may take 10 more of attention: 10 + 49. The first one's 120 ps then allow 10 + 50 + 49.
		{"three", []int{49, 48, 47, 47}, []int{47}, []int{48, 47}},
		{"the longest of the first", []int{48, 59, 58}, []int{58}, []int{48}},
	} {
		o, s := byHand(stub{lines{token: 20, context: 1, host: 10, hostContext: 1}}, 0, c.contexts...)
		drafting(s)
		n := o.pack(2)
		first, two := ofContexts(s.Batch.Sub[0].Host, 0), ofContexts(s.Batch.Sub[1].Host, 0)
		if n != len(c.first)+len(c.two) || !slices.Equal(first, c.first) || !slices.Equal(two, c.two) {
			t.Errorf("%s: %d, %v and %v, by hand %v and %v", c.name, n, first, two, c.first, c.two)
		}
	}
}

// slower has iterations of 100 ps, or of 140 with a request of the host.
type slower struct{ lines }

func (slower) Iteration(b *scheduler.Batch) units.Duration {
	if len(b.Sub[0].Host)+len(b.Sub[1].Host) > 0 {
		return 140
	}
	return 100
}

func (slower) Latest() (took, up, down units.Duration) { return 100, 0, 0 }

// TestHelpDraftsByHand: three tokens beside three others lengthen the batched operations of 90 ps and 20 a token by 60 of 150, so an
// iteration of 100 ps may take 140. With 91 ps it may take less.
func TestHelpDraftsByHand(t *testing.T) {
	for weights, want := range map[units.Duration]int{90: 1, 91: 0} {
		o, s := byHand(slower{lines{weights: weights, token: 20}}, 0, 30)
		drafting(s)
		if o.helpBest(); len(s.Batch.Sub[0].Host)+len(s.Batch.Sub[1].Host) != want {
			t.Errorf("%d ps of weights: %d and %d of the host, want %d", weights, len(s.Batch.Sub[0].Host), len(s.Batch.Sub[1].Host), want)
		}
	}
}

// TestHidesDraftsByHand is TestHidesByHand with three tokens a request and two more of context.
func TestHidesDraftsByHand(t *testing.T) {
	for _, c := range []struct {
		name    string
		hosts   []int
		longest int
	}{
		// Alone in the second sub-batch, beside 60 ps of the first: 10 + (p + 2)/2, rounded up.
		{"one request", nil, 98},
		// One in each, the first with 10 + 60 ps: 10 + (p + 6 + 2·2)/2, rounded down.
		{"beside one of 6", []int{6}, 111},
	} {
		o, s := byHand(stub{lines{token: 20, context: 1, host: 10, hostContext: 1}}, 0, c.hosts...)
		if drafting(s); !o.hides(c.longest) || o.hides(c.longest+1) {
			t.Errorf("%s: a prompt of %d tokens hides: %v, of one more: %v", c.name, c.longest, o.hides(c.longest), o.hides(c.longest+1))
		}
	}
}

// squares has operations that take the square of the tokens, as if more tokens filled more tiles.
type squares struct{ links }

func (squares) Linear(tokens int) units.Duration { return units.Duration(tokens * tokens) }

// TestSparedByHand: a layer takes 100 ps and one a token. A step of one request verifies three tokens: 103 ps, of which a request on the
// host takes 3. Half of the steps would be there, and an output of eight takes 8 / 1.75 steps, the first token apart: 4 / 2 · 100 ps a
// layer are saved.
func TestSparedByHand(t *testing.T) {
	costs, layers := links{lines: lines{weights: 100, token: 1}}, float64(schedtest.SmallModel.Layers)
	for _, c := range []struct {
		name            string
		costs           Costs
		output, emitted int
		onGPUs          int
		want            float64
	}{
		{"four steps", costs, 8, 0, 1, 200 * layers},
		{"two steps", costs, 8, 4, 1, 3 / 1.75 / 2 * 100 * layers},
		{"none", costs, 1, 0, 1, 0},
		{"of none on the GPUs", costs, 8, 0, 0, 0},
		{"not less than nothing", squares{costs}, 8, 0, 1, 0}, // 9 ps become 36
	} {
		s := hosting(1, lines{}, 0)
		o := New(c.costs, 0)
		o.s, s.Batch.Step = &s.State, 0
		drafting(o.s)
		s.Decoding, s.Requests[1].Output = s.Decoding[:c.onGPUs], c.output
		w := batching.Waiting{Request: 1, Prompt: 9 + c.emitted, Emitted: c.emitted}
		if got := o.spared(&w); got < c.want*(1-1e-12) || !(got <= c.want*(1+1e-12)) {
			t.Errorf("%s: %g ps, want %g", c.name, got, c.want)
		}
	}
}

// TestSparedBySeats: the last of four seats. The GPUs hold four requests of 750 tokens. One that has emitted 20 tokens has them in its
// prompt, and they count once.
func TestSparedBySeats(t *testing.T) {
	for output, nothing := range map[int]bool{740: true, 741: false} {
		s := hosting(3, lines{}, 0)
		o := New(links{lines: lines{weights: 100, token: 1}}, 0)
		o.s, s.Batch.Step = &s.State, 0
		s.Batching = &scheduler.BatchingSpec{MaxBatchTokens: 100, MaxNumSeqs: 4}
		s.Requests[3].Output = output
		if got := o.spared(&batching.Waiting{Request: 3, Prompt: 30, Emitted: 20}); (got == 0) != nothing {
			t.Errorf("an output of %d tokens: %g ps", output, got)
		}
	}
	// One seat: of the request itself, or of one like it. Without a limit of seats, taking one costs nothing.
	for seats, nothing := range map[int]bool{0: false, 1: true} {
		s := hosting(1, lines{}, 0)
		o := New(links{lines: lines{weights: 100, token: 1}}, 0)
		o.s, s.Batch.Step = &s.State, 0
		s.Batching = &scheduler.BatchingSpec{MaxBatchTokens: 100, MaxNumSeqs: seats}
		s.Requests[1].Output = 900
		if got := o.spared(&batching.Waiting{Request: 1, Prompt: 10}); (got == 0) != nothing {
			t.Errorf("%d seats: %g ps", seats, got)
		}
	}
}

// TestMemoryOfDrafts: requests whose memory grows have memory for their two drafts beside the context, wherever they move. One that
// attends over 20 tokens now attends over 21 next.
func TestMemoryOfDrafts(t *testing.T) {
	grows := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 992}
	s := hostingWith(grows, 2, lines{}, 0, 20)
	o := New(stub{lines{move: 2}}, 0)
	o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
	drafting(o.s)
	for _, d := range s.Decoding[1:] {
		s.Release(s.Holds[d.Request])
	}
	s.Decoding = s.Decoding[:1]
	if o.startSwaps(); len(s.Host.SwapIns) != 1 || s.Ledger.Used() != 1000+23 || s.HostLedger.Used() != 0 {
		t.Errorf("%d swap in; %d tokens on the GPUs, %d on the host", len(s.Host.SwapIns), s.Ledger.Used(), s.HostLedger.Used())
	}
	if o.turnBack(0); s.Ledger.Used() != 1000 || s.HostLedger.Used() != 23 {
		t.Errorf("back on the host: %d tokens on the GPUs, %d on the host", s.Ledger.Used(), s.HostLedger.Used())
	}
	s.Host.Decoding[0].Runs, s.Host.Decoding[0].Settled, s.Batch.Step = true, 0, 3
	s.Host.Decoding[0].Base = 20
	if o.growHosted(); s.HostLedger.Used() != 25 || s.Holds[2].Tokens != 25 {
		t.Errorf("in step 3: %d tokens on the host, %d of the request", s.HostLedger.Used(), s.Holds[2].Tokens)
	}
}

// TestRoomBesideByHand: a request of the host takes three of the 100 tokens of a batch with prompts, and their activations.
func TestRoomBesideByHand(t *testing.T) {
	activations := schedtest.SmallModel.ActivationBytes
	for _, c := range []struct {
		name         string
		prompt, free int // tokens, and those of which the GPUs have room for the activations
		room         int
	}{
		{"no prompt", 0, 0, 4}, // one more than there are
		{"all have room", 10, 1000, 3},
		{"six tokens are left", 91, 1000, 2},
		{"five", 92, 1000, 1},
		{"two", 95, 1000, 0},
		{"activations of nine tokens", 10, 13 + 9, 3},
		{"of eight", 10, 13 + 8, 2},
		{"of two", 10, 13 + 2, 0},
	} {
		o, s := byHand(stub{}, 0, 20, 20, 20)
		if drafting(s); c.prompt > 0 { // beside the three tokens of the GPUs' request
			s.Batch.Sub[0].Prefill = []scheduler.Chunk{{Tokens: c.prompt}}
			s.GPU.Free = activations(c.free)
		}
		if got := o.roomBeside(); got != c.room {
			t.Errorf("%s: room for %d, want %d", c.name, got, c.room)
		}
		o.turns.credit = 1
		if o.takeTurn(); (o.turns.request != nobody) != (c.room > 0) {
			t.Errorf("%s: a turn of %d with room for %d", c.name, o.turns.request, c.room)
		}
	}
}
