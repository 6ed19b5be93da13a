package forming

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// TestPromptShare: four GPUs share 40 tokens. Prompts of 25 tokens are cut into 10, 10 and 5 beside each other, in their order; without
// shares one prompt after another fills the iteration.
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
		config := Config{Policy: c.policy, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 1}, PromptShare: c.share,
			Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal}, Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 40}}
		s := New(config, Memories{Ledger: one(10_000), GPU: memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, HoldsKV: true}}, requests, FormerOf(c.policy, nil))
		for i := range requests {
			s.Add(int32(i))
		}
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
