package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// TestPromptShare: four GPUs share 40 tokens. Prompts of 25 tokens are cut into 10, 10 and 5, side by side and in order. Without
// shares, one prompt after another fills the iteration.
func TestPromptShare(t *testing.T) {
	for _, c := range []struct {
		policy scheduler.Policy
		share  int
		want   [][]int // tokens of the prompts of each iteration
	}{
		{scheduler.PolicyChunkedPrefill, 10, [][]int{{10, 10, 10, 10}, {10, 10, 10, 10}, {5, 5, 5, 5, 10}, {10}, {5}}},
		{scheduler.PolicyPrefillFirst, 10, [][]int{{10, 10, 10, 10}, {10, 10, 10, 10}, {5, 5, 5, 5, 10}, {10}, {5}}},
		{scheduler.PolicyChunkedPrefill, 0, [][]int{{25, 15}, {10, 25, 5}, {20, 20}, {5}}},
		{scheduler.PolicyPrefillFirst, 0, [][]int{{25}, {25}, {25}, {25}, {25}}},
	} {
		var requests []traces.Request
		for i := range 5 {
			requests = append(requests, traces.Request{ID: i, Input: 25, Output: 1})
		}
		s := shared(c.policy, c.share, requests)
		for i, want := range c.want {
			var got []int
			for _, p := range s.Next().Sub[0].Prefill {
				got = append(got, p.Tokens)
			}
			if !slices.Equal(got, want) {
				t.Errorf("policy %v, share %d: iteration %d has %v, want %v", c.policy, c.share, i, got, want)
			}
			s.Complete(func(int32, int) {})
		}
		if s.Next(); s.InSystem() != 0 {
			t.Errorf("policy %v, share %d: %d requests are left", c.policy, c.share, s.InSystem())
		}
	}
}

// shared returns a Scheduler of iterations of 40 tokens that has these requests.
func shared(policy scheduler.Policy, share int, requests []traces.Request) *Scheduler {
	config := Config{Policy: policy, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 1}, PromptShare: share,
		Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 40}}
	s := New(config, Memories{Ledger: one(10_000), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}, requests, FormerOf(policy, nil))
	addAll(s, len(requests))
	return s
}

// TestPromptShareOrder: prompts of unequal lengths that are cut side by side keep their order in the queue, and their first tokens come in
// that order.
func TestPromptShareOrder(t *testing.T) {
	for _, policy := range []scheduler.Policy{scheduler.PolicyChunkedPrefill, scheduler.PolicyPrefillFirst} {
		var requests []traces.Request
		for i, input := range []int{25, 31, 12, 38, 8} {
			requests = append(requests, traces.Request{ID: i, Input: input, Output: 1})
		}
		s := shared(policy, 10, requests)
		for i, want := range []struct {
			chunks  [][2]int // requests and tokens
			emitted []int32
		}{
			{[][2]int{{0, 10}, {1, 10}, {2, 10}, {3, 10}}, nil},
			{[][2]int{{0, 10}, {1, 10}, {2, 2}, {3, 10}, {4, 8}}, []int32{2, 4}},
			{[][2]int{{0, 5}, {1, 10}, {3, 10}}, []int32{0}},
			{[][2]int{{1, 1}, {3, 8}}, []int32{1, 3}},
		} {
			var chunks [][2]int
			for _, p := range s.Next().Sub[0].Prefill {
				chunks = append(chunks, [2]int{int(p.Request), p.Tokens})
			}
			var emitted []int32
			s.Complete(func(request int32, _ int) { emitted = append(emitted, request) })
			if err := s.checkOrder(); err != nil || !slices.Equal(chunks, want.chunks) || !slices.Equal(emitted, want.emitted) {
				t.Errorf("policy %v, iteration %d: %v, first tokens of %v; by hand %v and %v: %v", policy, i, chunks, emitted, want.chunks, want.emitted, err)
			}
		}
		if s.Next(); s.InSystem() != 0 {
			t.Errorf("policy %v: %d requests are left", policy, s.InSystem())
		}
	}
}
