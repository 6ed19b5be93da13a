package batching

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
)

// TestGrowByHand: requests with memory for 10 tokens grow to the context of the step, whether they began to decode first or later.
// Nobody gives up memory while a rank of 100 tokens has room.
func TestGrowByHand(t *testing.T) {
	s := byHand(scheduler.AdmitCurrent, false)
	for request := range int32(3) {
		s.hold(t, request, 10, false)
	}
	s.Batch.Step = 3
	s.GrowAll(func() int32 {
		t.Fatal("a request is to give up memory")
		return -1
	})
	for i, d := range s.Decoding {
		if got, want := s.Holds[d.Request].Tokens, d.Context(3); got != want || want <= 10 {
			t.Errorf("request %d of %d: memory for %d tokens, want %d, more than 10", i, len(s.Decoding), got, want)
		}
	}
}

// TestTakesByHand: an iteration has 90 of its 100 tokens. A prompt that must stay whole is taken if it has 10 or fewer. If it is
// alone in an iteration, it is cut if it has more than 100.
func TestTakesByHand(t *testing.T) {
	for _, c := range []struct {
		policy       scheduler.Policy
		before, left int // tokens of the iteration, and of the prompt
		want         int
	}{
		{scheduler.PolicyPrefillFirst, 90, 9, 9},
		{scheduler.PolicyPrefillFirst, 90, 10, 10},
		{scheduler.PolicyPrefillFirst, 90, 11, 0},
		{scheduler.PolicyChunkedPrefill, 90, 10, 10},
		{scheduler.PolicyChunkedPrefill, 90, 11, 10},
		{scheduler.PolicyPrefillFirst, 0, 100, 100},
		{scheduler.PolicyPrefillFirst, 0, 150, 100},
		{scheduler.PolicyChunkedPrefill, 0, 150, 100},
	} {
		s := byHand(scheduler.AdmitFinal, false)
		s.Policy = c.policy
		if c.before > 0 {
			s.Batch.Sub[0].Prefill = []scheduler.Chunk{{Request: 0, Tokens: c.before}}
		}
		if got := s.Takes(&Waiting{Request: 1, Prompt: c.left + 3, finished: 3}); got != c.want {
			t.Errorf("%v: %d tokens of a prompt of %d beside %d, want %d", c.policy, got, c.left, c.before, c.want)
		}
	}
}
