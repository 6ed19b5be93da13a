package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// small returns a Scheduler with memory for some units. Its requests have the given lengths and arrive
// at times 0, 10, 20 and so on.
func small(policy scheduler.Policy, capacity int64, lengths ...[2]int) (*Scheduler, []traces.Request) {
	var requests []traces.Request
	for i, l := range lengths {
		requests = append(requests, traces.Request{ID: i, Arrival: units.Duration(10 * i), Input: l[0], Output: l[1]})
	}
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: schedtest.SmallModel.Layers, HeadsPerChannel: 1, UnitTokens: 16, Capacity: capacity * int64(schedtest.SmallModel.Layers)})
	c := Config{
		Policy: policy, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 16, MinPrefillTokens: 1}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal},
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 64, PageTokens: 16},
	}
	gpu := memory.GPU{Model: schedtest.SmallModel, Free: schedtest.SmallModel.ActivationBytes(1000), HoldsKV: true}
	return New(c, Memories{Ledger: ledger, GPU: gpu}, requests, FormerOf(policy, nil)), requests
}

// expired returns the requests that Expire drops.
func expired(s *Scheduler, before units.Duration) (dropped []int32) {
	s.Expire(before, func(request int32) { dropped = append(dropped, request) })
	return dropped
}

// TestExpire: waiting requests that arrived before a time are dropped, the oldest first; those that
// have begun stay. A request behind one without room may start when that is dropped.
func TestExpire(t *testing.T) {
	// The first takes 3 of 5 units, the second needs 4, the third 2.
	s, _ := small(scheduler.PolicyPrefillFirst, 5, [2]int{40, 8}, [2]int{60, 4}, [2]int{20, 4}, [2]int{20, 4})
	addAll(s, 4)
	s.Next()
	s.Complete(func(int32, int) {})
	if b := s.Next(); b.Decoding() != 1 || len(b.Sub[0].Prefill) != 0 || s.InSystem() != 4 {
		t.Fatalf("%d decode beside %d prompts, %d in the system; want 1, 0 and 4", b.Decoding(), len(b.Sub[0].Prefill), s.InSystem())
	}
	s.Complete(func(int32, int) {})
	if got := expired(s, 10); got != nil { // the second came at 10, not before
		t.Fatalf("%v are dropped", got)
	}
	if got := expired(s, 11); !slices.Equal(got, []int32{1}) {
		t.Fatalf("%v are dropped, want the second", got)
	}
	if b := s.Next(); len(b.Sub[0].Prefill) != 1 || b.Sub[0].Prefill[0].Request != 2 || s.InSystem() != 3 {
		t.Fatalf("prompts %+v, %d in the system; want the third request's and 3", b.Sub[0].Prefill, s.InSystem())
	}
	s.Complete(func(int32, int) {})
	if got := expired(s, 1000); !slices.Equal(got, []int32{3}) { // all others have begun
		t.Fatalf("%v are dropped, want the fourth", got)
	}
}

// TestExpireFreesMemory: a dropped request that has memory and no tokens frees it.
func TestExpireFreesMemory(t *testing.T) {
	s, _ := small(scheduler.PolicyPrefillFirst, 100, [2]int{60, 4}, [2]int{200, 4})
	addAll(s, 2)
	s.Next() // the second has memory, and its prompt does not fit beside the first
	held := s.Queue.First().held
	if got := expired(s, 1000); !held || !slices.Equal(got, []int32{1}) {
		t.Fatalf("held %v, %v are dropped", held, got)
	}
	s.Complete(func(int32, int) {})
	for !s.Next().Empty() {
		s.Complete(func(int32, int) {})
	}
	if s.UsedUnits() != 0 || s.InSystem() != 0 {
		t.Errorf("%d units are in use by %d requests", s.UsedUnits(), s.InSystem())
	}
}
