package offload

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// moving returns a Former with requests 0 and 1 of 10 tokens on the GPUs and request 2 of 20 on the host. Each has memory for a thousand
// tokens, and the GPUs' memory is full. A token moves in 2 ps.
func moving(t *testing.T) (*Former, *batching.State) {
	t.Helper()
	s := hosting(2, lines{}, 0, 20)
	o := New(stub{lines{move: 2}}, 0)
	o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
	return o, o.s
}

// fill fills the host's memory.
func fill(s *batching.State) {
	for {
		if _, ok := s.HostLedger.Reserve(memory.Prompted(1000), nil, 0, nil); !ok {
			return
		}
	}
}

// TestMakeRoomByHand: the GPUs' memory is taken from the latest arrival. A prompt arrives after all that decode.
func TestMakeRoomByHand(t *testing.T) {
	// The later of two that decode goes to the host if that has room; otherwise it waits. One that the host could not hold to its end
	// waits, too.
	o, s := moving(t)
	s.Requests[1].Output = 10_000
	if got := o.makeRoom(); got != 1 || len(s.Host.Decoding) != 1 || s.Queue.Len() != 1 {
		t.Errorf("too long for the host: request %d; %d on the host, %d wait", got, len(s.Host.Decoding), s.Queue.Len())
	}
	o, s = moving(t)
	if got := o.makeRoom(); got != 1 || len(s.Host.Decoding) != 2 || len(s.Decoding) != 1 || s.Queue.Len() != 0 || s.Ledger.Used() != 1000 {
		t.Errorf("request %d; %d on the host, %d on the GPUs, %d wait", got, len(s.Host.Decoding), len(s.Decoding), s.Queue.Len())
	}
	o, s = moving(t)
	fill(s)
	if got := o.makeRoom(); got != 1 || len(s.Host.Decoding) != 1 || len(s.Decoding) != 1 || s.Queue.Len() != 1 || s.Ledger.Used() != 1000 {
		t.Errorf("a full host: request %d; %d on the host, %d on the GPUs, %d wait", got, len(s.Host.Decoding), len(s.Decoding), s.Queue.Len())
	}

	// A request that swaps in goes back if it arrived after those that decode, and stays if before.
	for _, first := range []bool{false, true} {
		o, s = moving(t)
		s.Release(s.Holds[1])
		s.Decoding = s.Decoding[:1]
		if o.startSwaps(); len(s.Host.SwapIns) != 1 {
			t.Fatal("nobody swaps in")
		}
		want := int32(2)
		if first {
			s.Decoding[0].Request, want = 3, 3
			s.Extend(append(s.Requests, s.Requests[0]))
			s.Holds[3] = s.Holds[0]
		}
		if got := o.makeRoom(); got != want || len(s.Host.Decoding) != 1 || len(s.Host.SwapIns) != map[bool]int{true: 1}[first] {
			t.Errorf("request %d, want %d: %d on the host, %d swap in", got, want, len(s.Host.Decoding), len(s.Host.SwapIns))
		}
	}
	o, s = moving(t) // nobody decodes on the GPUs
	s.Release(s.Holds[1])
	s.Decoding = s.Decoding[:1]
	o.startSwaps()
	s.Decoding = nil
	if got := o.makeRoom(); got != 2 || len(s.Host.SwapIns) != 0 {
		t.Errorf("request %d, %d swap in", got, len(s.Host.SwapIns))
	}

	// A prompt on the GPUs loses its memory. So does one for the host, but the GPUs only hold it for its chunks before the last.
	for _, c := range []struct {
		host, cut bool
		want      int32
	}{{false, false, 3}, {true, false, 1}, {true, true, 3}} {
		o, s = moving(t)
		if !c.host {
			s.Release(s.Holds[1])
			s.Decoding = s.Decoding[:1]
		}
		s.Add(3)
		if !s.Reserve(s.Queue.First(), c.host) {
			t.Fatal("no room for a prompt")
		}
		s.Queue.First().Cut = c.cut
		if got := o.makeRoom(); got != c.want || len(s.Queue.Held()) != 0 {
			t.Errorf("a prompt, %+v: request %d, and %d have memory", c, got, len(s.Queue.Held()))
		}
	}
}

// TestSwapOutByHand: two requests attend over 10 tokens next. 9 tokens of each have keys and values, which take 18 ps down, one request
// after the other.
func TestSwapOutByHand(t *testing.T) {
	o, s := moving(t)
	for n, request := range []int32{1, 0} {
		if !o.swapOut(s.Latest()) || o.swaps.leaving != units.Duration(18*(n+1)) || s.Batch.Moves.Down.Tokens != 9*(n+1) || !s.Host.Decoding[s.Host.Find(request)].Comes {
			t.Errorf("%d: %v left, %d tokens, %+v", request, o.swaps.leaving, s.Batch.Moves.Down.Tokens, s.Host.Decoding)
		}
	}
	if s.Ledger.Used() != 0 || s.HostLedger.Used() != 1000+2*10 || len(s.Decoding) != 0 {
		t.Errorf("%d tokens on the GPUs, %d on the host, %d decode", s.Ledger.Used(), s.HostLedger.Used(), len(s.Decoding))
	}
	// A move that takes no time ends at once.
	o, s = moving(t)
	o.costs = stub{}
	if o.swapOut(0); s.Host.Decoding[s.Host.Find(0)].Comes {
		t.Error("a request comes in no time")
	}
	// The host's last ten tokens have room for one of them.
	o, s = moving(t)
	if _, ok := s.HostLedger.Reserve(memory.Prompted(int(s.HostLedger.Capacity()-s.HostLedger.Used())-10), nil, 0, nil); !ok {
		t.Fatal("no room")
	}
	if !o.swapOut(0) || o.swapOut(0) || len(s.Decoding) != 1 {
		t.Errorf("%d on the GPUs, %d on the host", len(s.Decoding), len(s.Host.Decoding))
	}
	// On a full host there is no room: nothing moves.
	o, s = moving(t)
	fill(s)
	if o.swapOut(0) || len(s.Decoding) != 2 || len(s.Host.Decoding) != 1 || o.swaps.leaving != 0 || s.Holds[0].Host {
		t.Errorf("%d on the GPUs, %d on the host, %v left", len(s.Decoding), len(s.Host.Decoding), o.swaps.leaving)
	}
}

// TestTurnBackByHand: the second of two requests that swap in goes back to the host, and has sat out since it began to move. If the
// host is full, its 13 tokens become part of its prompt; step 0 made the last of them.
func TestTurnBackByHand(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := hosting(3, lines{}, 0, 20, 21)
		o := New(stub{lines{move: 2}}, 0)
		o.s, o.swaps.took, s.Batch.Step = &s.State, 99, 0
		for _, gone := range s.Decoding[1:] {
			s.Release(s.Holds[gone.Request])
		}
		s.Decoding, s.Host.Decoding[1].Last = s.Decoding[:1], 979 // 992 tokens end with step 979 where step 0 makes the thirteenth
		if o.startSwaps(); len(s.Host.SwapIns) != 2 {
			t.Fatal("two do not swap in")
		}
		if full {
			fill(&s.State)
		}
		s.Batch.Step = 5
		if got := o.turnBack(1); got != 4 || len(s.Host.SwapIns) != 1 || s.Host.SwapIns[0].Request != 3 {
			t.Fatalf("request %d goes back, %+v swap in", got, s.Host.SwapIns)
		}
		if full {
			if w := s.Queue.First(); len(s.Host.Decoding) != 0 || w.Request != 4 || w.Prompt != 9+13 || w.Emitted != 13 {
				t.Errorf("%d on the host; %+v waits", len(s.Host.Decoding), w)
			}
			continue
		}
		if h := &s.Host.Decoding[0]; h.Runs || h.Since != 1 || h.Settled != 5 || h.NextContext(5) != 22 || h.Last != 979+4 {
			t.Errorf("%+v", h)
		}
	}
}

// TestDropHostedByHand: the later of two requests on the host is preempted. It has sat out since step 0, when it attended over 20
// tokens next, so it has emitted 11 of them, however many steps the GPUs took since.
func TestDropHostedByHand(t *testing.T) {
	o, s := byHand(stub{}, 0, 30, 20)
	s.Batch.Step = 5
	for i := range s.Host.Decoding { // an output of 992 after a prompt of 9 ends with step 981 behind the first 11 tokens
		s.Host.Decoding[i].Last = 980
	}
	if got := o.dropHosted(); got != 2 || len(s.Host.Decoding) != 1 || s.HostLedger.Used() != 1000 {
		t.Errorf("request %d; %d on the host with %d tokens", got, len(s.Host.Decoding), s.HostLedger.Used())
	}
	if w := s.Queue.First(); w.Request != 2 || w.Prompt != 9+11 || w.Emitted != 11 {
		t.Errorf("%+v waits", w)
	}
}

// TestWaitsForSwaps: GPUs without requests wait for a swap in, or for all swaps out. They do not wait for one that had arrived before
// the iteration. If the host has no requests, only the swaps out remain of the iteration's time.
func TestWaitsForSwaps(t *testing.T) {
	for left, want := range map[units.Duration]units.Duration{-5: 0, 0: 0, 7: 7} {
		o, s := moving(t)
		s.Release(s.Holds[0])
		s.Release(s.Holds[1])
		s.Decoding = nil
		o.startSwaps()
		s.Host.SwapIns[0].Left = left
		if o.help(); s.Batch.Moves.Up.Wait != want || len(s.Decoding) != 1 {
			t.Errorf("%v left: %v, %d on the GPUs", left, s.Batch.Moves.Up.Wait, len(s.Decoding))
		}
	}
	o, s2 := moving(t) // the swap out of both is waited for, and they may decode on the host
	for range 2 {
		o.swapOut(s2.Latest())
	}
	if o.help(); s2.Batch.Moves.Down.Wait != 36 || o.swaps.leaving != 0 || slices.ContainsFunc(s2.Host.Decoding, func(h batching.Hosted) bool { return h.Comes }) {
		t.Errorf("waits for %v, %v left: %+v", s2.Batch.Moves.Down.Wait, o.swaps.leaving, s2.Host.Decoding)
	}
	s := hosting(1, lines{}, 0)
	o = New(stub{}, 0)
	if o.Form(&s.State); o.counts {
		t.Error("the time of an iteration counts in which nothing moves")
	}
	o.swaps.leaving = 1000
	if o.Form(&s.State); !o.counts {
		t.Error("the time of an iteration does not count in which a request leaves")
	}
}

// TestStaysOnGPUsOfNone: with no request waiting, none stays.
func TestStaysOnGPUsOfNone(t *testing.T) {
	o, s := byHand(stub{}, 0)
	if o.stayOnGPUs(); s.Queue.Len() != 0 || s.Ledger.Used() != 1000 {
		t.Errorf("%d wait, %d tokens", s.Queue.Len(), s.Ledger.Used())
	}
}

// TestPrefillStreak: with a streak of one, a step follows each iteration of prompts even if another prompt waits.
func TestPrefillStreak(t *testing.T) {
	s := hosting(3, lines{weights: 1}, 0)
	for _, gone := range s.Decoding[1:] {
		s.Release(s.Holds[gone.Request])
	}
	s.Decoding, s.Policy, s.PrefillStreak = s.Decoding[:1], scheduler.PolicyPrefillFirst, 1
	s.Batching = &scheduler.BatchingSpec{MaxBatchTokens: 10}
	s.Add(1)
	s.Add(2)
	for i, prompts := range []int{1, 0, 1, 0} {
		if b := s.Next(); len(b.Sub[0].Prefill) != prompts || (b.Decoding() == 0) != (prompts == 1) {
			t.Errorf("iteration %d: %d prompts, %d decode", i, len(b.Sub[0].Prefill), b.Decoding())
		}
		s.Complete(func(int32, int) {})
	}
}

// TestSwapsThatBegin: the first of two requests of 20 and 30 tokens takes 40 ps on the links. It always begins; the other one begins if the
// latest iteration was longer.
func TestSwapsThatBegin(t *testing.T) {
	for took, want := range map[units.Duration]int{0: 1, 40: 1, 41: 2} {
		s := hosting(3, lines{}, 0, 20, 30)
		o := New(stub{lines{move: 2}}, 0)
		o.s, o.swaps.took, s.Batch.Step = &s.State, took, 0
		for _, gone := range s.Decoding[1:] {
			s.Release(s.Holds[gone.Request])
		}
		s.Decoding = s.Decoding[:1]
		if o.startSwaps(); len(s.Host.SwapIns) != want {
			t.Errorf("behind an iteration of %v %d swap in, want %d", took, len(s.Host.SwapIns), want)
		}
	}
}
