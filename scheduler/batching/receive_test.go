package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestReceiveByHand: three prompts of 20, 40 and 20 tokens are prefilled elsewhere. Memory has room for two of them (2 and 3 of 5 units). A link
// that carries a token in 1 ps, with a latency of 7 ps, delivers them at 27 and 67 ps; no batch has a prompt. The third one's transfer begins when
// the first has ended.
func TestReceiveByHand(t *testing.T) {
	for _, policy := range []scheduler.Policy{scheduler.PolicyPrefillFirst, scheduler.PolicyChunkedPrefill} {
		s, _ := small(policy, 5, [2]int{20, 2}, [2]int{40, 2}, [2]int{20, 2})
		s.Prefilled, s.Queue.elsewhere = &Link{Latency: 7, Transfer: func(tokens int) units.Duration { return units.Duration(tokens) }}, true
		addAll(s, 3)
		var emitted [][2]int
		step := func(now, ends units.Duration, decoding int, sent []int32, came [][2]int) {
			t.Helper()
			s.Coming.Now = now
			b := s.Next()
			if b.Decoding() != decoding || len(b.Sub[0].Prefill) > 0 || !slices.Equal(s.Coming.Sent, sent) {
				t.Errorf("%v at %v: %d decode, %d prompts, %v are sent", policy, now, b.Decoding(), len(b.Sub[0].Prefill), s.Coming.Sent)
			}
			if now == 0 { // only the third one has not begun
				if got := expired(s, 1000); !slices.Equal(got, []int32{2}) {
					t.Errorf("%v are dropped", got)
				}
				s.Add(2)
			}
			if err := s.CheckMemory(); err != nil || s.CheckAdmission() != nil {
				t.Errorf("at %v: %v, %v", now, err, s.CheckAdmission())
			}
			s.Coming.Now, emitted = ends, nil
			s.Complete(func(request int32, tokens int) { emitted = append(emitted, [2]int{int(request), tokens}) })
			if !slices.Equal(emitted, came) {
				t.Errorf("%v at %v: tokens %v, want %v", policy, ends, emitted, came)
			}
		}
		step(0, 26, 0, []int32{0, 1}, nil)
		if at, ok := s.Comes(); at != 27 || !ok {
			t.Errorf("the first comes at %v, %v", at, ok)
		}
		step(26, 27, 0, nil, [][2]int{{0, 1}})
		step(27, 63, 1, nil, [][2]int{{0, 2}}) // its second token ends it
		step(63, 67, 0, []int32{2}, [][2]int{{1, 1}})
		step(67, 88, 1, nil, [][2]int{{1, 2}})
		step(88, 90, 0, nil, [][2]int{{2, 1}}) // 63 + 20 + 7
		step(90, 91, 1, nil, [][2]int{{2, 2}})
		if _, ok := s.Comes(); ok || s.UsedUnits() != 0 || s.InSystem() != 0 {
			t.Errorf("%d units in use by %d requests at the end", s.UsedUnits(), s.InSystem())
		}
	}
}

// TestReceiveWithRoomForOne: memory has room for one prompt of 40 tokens. The prompt of 20 behind it holds nothing and does not decode,
// whenever the first has arrived. Its transfer of 20 ps begins when the first has ended, and it arrives 7 ps later.
func TestReceiveWithRoomForOne(t *testing.T) {
	s, _ := small(scheduler.PolicyPrefillFirst, 3, [2]int{40, 3}, [2]int{20, 2})
	s.Prefilled, s.Queue.elsewhere = &Link{Latency: 7, Transfer: func(tokens int) units.Duration { return units.Duration(tokens) }}, true
	addAll(s, 2)
	for _, c := range []struct {
		now, ends units.Duration
		decoding  int
		sent      []int32
		came      [][2]int // requests and their tokens
	}{
		{0, 47, 0, []int32{0}, [][2]int{{0, 1}}},
		{47, 50, 1, nil, nil},
		{50, 60, 1, nil, [][2]int{{0, 3}}},
		{60, 86, 0, []int32{1}, nil},
		{86, 87, 0, nil, [][2]int{{1, 1}}},
		{87, 88, 1, nil, [][2]int{{1, 2}}},
	} {
		s.Coming.Now = c.now
		b := s.Next()
		if err := s.CheckMemory(); err != nil || b.Decoding() != c.decoding || !slices.Equal(s.Coming.Sent, c.sent) {
			t.Errorf("at %v: %d decode, %v are sent: %v", c.now, b.Decoding(), s.Coming.Sent, err)
		}
		var emitted [][2]int
		s.Coming.Now = c.ends
		s.Complete(func(request int32, tokens int) { emitted = append(emitted, [2]int{int(request), tokens}) })
		if !slices.Equal(emitted, c.came) {
			t.Errorf("at %v: tokens %v, want %v", c.ends, emitted, c.came)
		}
	}
	if s.UsedUnits() != 0 || s.InSystem() != 0 {
		t.Errorf("%d units in use by %d requests at the end", s.UsedUnits(), s.InSystem())
	}
}
