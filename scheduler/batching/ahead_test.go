package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
)

// prompts returns the requests whose prompts are in a batch.
func prompts(b *scheduler.Batch) (all []int32) {
	for i := range b.Sub[0].Prefill {
		all = append(all, b.Sub[0].Prefill[i].Request)
	}
	return all
}

// TestAhead: with iterations formed ahead, a request that arrives during an iteration joins the second one after
// it. So does one that waits for the seat of a request that ends. If nothing else can run, neither waits.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead bool
		seats int
		// The prompts of the iterations. The first request has two tokens; the second arrives during the first
		// iteration.
		want [][]int32
	}{
		{"at once", false, 0, [][]int32{{0}, {1}, nil, nil}},
		{"ahead", true, 0, [][]int32{{0}, nil, {1}, nil, nil}},
		{"one seat", false, 1, [][]int32{{0}, nil, {1}, nil, nil}},
		{"one seat ahead", true, 1, [][]int32{{0}, nil, {1}, nil, nil}}, // nothing else can run once the first has ended
	} {
		s, _ := small(scheduler.PolicyChunkedPrefill, 100, [2]int{20, 2}, [2]int{20, 3})
		s.Ahead, s.Batching.MaxNumSeqs = c.ahead, c.seats
		s.Add(0)
		var got [][]int32
		for b := s.Next(); !b.Empty(); b = s.Next() {
			got = append(got, prompts(b))
			if len(got) == 1 {
				s.Add(1)
				if s.Waiting() != 1 || s.InSystem() != 2 {
					t.Errorf("%s: %d wait of %d", c.name, s.Waiting(), s.InSystem())
				}
			}
			s.Complete(func(int32, int) {})
			if err := s.CheckMemory(); err != nil {
				t.Error(c.name, err)
			}
		}
		if !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: prompts %v, want %v", c.name, got, c.want)
		}
		if s.UsedUnits() != 0 || s.InSystem() != 0 {
			t.Errorf("%s: %d units in use by %d requests", c.name, s.UsedUnits(), s.InSystem())
		}
	}
}

// TestAheadSeat: after its request ends, one of two seats stays empty for an iteration while the other request decodes on. Its
// memory stays taken as long.
func TestAheadSeat(t *testing.T) {
	for _, c := range []struct {
		ahead           bool
		seats, capacity int
		want            int // the iteration of the third prompt, from 0
	}{{false, 2, 100, 2}, {true, 2, 100, 3}, {false, 0, 5, 2}, {true, 0, 5, 3}} {
		s, _ := small(scheduler.PolicyChunkedPrefill, int64(c.capacity), [2]int{20, 2}, [2]int{20, 9}, [2]int{20, 2})
		s.Ahead, s.Batching.MaxNumSeqs = c.ahead, c.seats
		addAll(s, 2)
		at := -1
		for i := 0; ; i++ {
			b := s.Next()
			if b.Empty() {
				break
			}
			if i == 0 {
				s.Add(2)
			}
			if slices.Contains(prompts(b), 2) {
				at = i
			}
			s.Complete(func(int32, int) {})
		}
		if at != c.want {
			t.Errorf("ahead %v, %d seats, %d units: the third prompt runs in iteration %d, want %d", c.ahead, c.seats, c.capacity, at, c.want)
		}
	}
}

// TestAheadOfDrafts: a request has memory for the drafts of its step. Formed ahead, it also has memory for those of the step before,
// since nobody knows yet how many are accepted.
func TestAheadOfDrafts(t *testing.T) {
	for verified := range 5 {
		for _, ahead := range []bool{false, true} {
			s, _ := small(scheduler.PolicyChunkedPrefill, 100, [2]int{20, 11})
			s.Ahead, s.Speculation = ahead, scheduler.Speculation{Verified: verified, Acceptance: 1}
			drafts := max(verified-1, 0)
			if ahead {
				drafts *= 2
			}
			if got := s.FinalTokens(&s.Requests[0]); got != 30+drafts {
				t.Errorf("%d tokens a step, ahead %v: memory for %d tokens, want %d", verified, ahead, got, 30+drafts)
			}
		}
	}
}
