package batching

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// groupScheduler returns a scheduler that prefills first, with memory for all requests and caches of so many blocks on the GPUs and on
// the host.
func groupScheduler(requests []traces.Request, blocks, host int64) *Scheduler {
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	ledger.KeepPrefixes(512, blocks, scheduler.PlaceByPrefix)
	ledger.KeepOnHost(host)
	config := Config{Policy: scheduler.PolicyPrefillFirst, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 512}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal},
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 1 << 20}}
	s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Free: 1 << 40, Model: schedtest.SmallModel, HoldsKV: true}}, requests, FormerOf(config.Policy, nil))
	s.GroupPrefixes()
	for i := range requests {
		s.Add(int32(i))
	}
	return s
}

// TestGroupsOfATree: five requests begin with block 1. Three of them go on with block 2, and two of these share two more blocks.
// The remaining two share other blocks. When one ends, its groups get smaller; a group of one is no group.
func TestGroupsOfATree(t *testing.T) {
	requests := []traces.Request{
		{Input: 2600, Output: 9, Hashes: []uint64{1, 2, 3, 4, 5, 10}}, {Input: 2500, Output: 9, Hashes: []uint64{1, 2, 3, 4, 11}}, {Input: 2400, Output: 5, Hashes: []uint64{1, 2, 12, 13, 14}},
		{Input: 2300, Output: 9, Hashes: []uint64{1, 6, 15, 16, 17}}, {Input: 2200, Output: 9, Hashes: []uint64{1, 6, 18, 19, 20}},
	}
	s := groupScheduler(requests, 100, 0)
	var seen []int64
	next := func() []scheduler.Shared {
		b := s.Next()
		if err := s.CheckMemory(); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, b.Grouped)
		return b.Sub[0].Shared
	}
	if got := next(); len(got) != 0 { // prompts
		t.Errorf("%v", got)
	}
	s.Complete(func(int32, int) {})
	want := []scheduler.Shared{{Tokens: 512, Requests: []int32{0, 1, 2, 3, 4}}, {Tokens: 1024, Requests: []int32{0, 1}}, {Tokens: 512, Requests: []int32{0, 1, 2}}, {Tokens: 512, Requests: []int32{3, 4}}}
	for range 4 {
		if got := next(); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		s.Complete(func(int32, int) {})
	}
	want = []scheduler.Shared{{Tokens: 512, Requests: []int32{0, 1, 2, 3}}, {Tokens: 1536, Requests: []int32{0, 1}}, {Tokens: 512, Requests: []int32{2, 3}}}
	if got := next(); !reflect.DeepEqual(got, want) && !reflect.DeepEqual(got, []scheduler.Shared{want[1], want[0], want[2]}) {
		t.Errorf("%v, want %v", got, want)
	}
	if seen[1] == seen[0] || seen[2] != seen[1] || seen[4] != seen[1] || seen[5] == seen[4] {
		t.Errorf("groups are numbered %v", seen)
	}
	for _, spoil := range []func(*scheduler.Shared){func(x *scheduler.Shared) { x.Tokens += 512 }, func(x *scheduler.Shared) { x.Requests = x.Requests[1:] }} {
		x := &s.Batch.Sub[0].Shared[1]
		whole := *x
		if spoil(x); s.CheckMemory() == nil || !strings.Contains(s.CheckMemory().Error(), "share") {
			t.Errorf("%+v: %v", *x, s.CheckMemory())
		}
		*x = whole
	}
}

// TestEarlier: what a batch moves to the host was evicted before the batch was formed.
func TestEarlier(t *testing.T) {
	s := groupScheduler([]traces.Request{{Input: 1030, Output: 1, Hashes: []uint64{1, 2, 3}}, {Input: 1030, Output: 1, Hashes: []uint64{4, 5, 6}}, {Input: 1030, Output: 1, Hashes: []uint64{1, 2, 3}}}, 2, 2)
	s.Batching.MaxBatchTokens = 1030 // one after the other
	for i, want := range []scheduler.Moves{{}, {}, {Down: scheduler.Move{Tokens: 2048}, Up: scheduler.Move{Tokens: 1024}, Earlier: 1024}} {
		b := s.Next()
		if b.Moves != want || len(b.Sub[0].Prefill) != 1 {
			t.Errorf("batch %d moves %+v with %+v, want %+v", i, b.Moves, b.Sub[0].Prefill, want)
		}
		s.Complete(func(int32, int) {})
	}
}

// whim is a predictor that makes sub-batches run apart or together.
type whim struct{ together bool }

func (w *whim) GPU(s *scheduler.SubBatch, _ int64) units.Duration {
	if w.together {
		return 1
	}
	return units.Duration(s.Tokens() * s.Tokens())
}

func (w *whim) PIM(*scheduler.SubBatch, int64, int) units.Duration { return 0 }

// TestGroupsOfSubBatches: requests share within their sub-batch. From the iteration in which a prompt makes the sub-batches run
// together, all requests share.
func TestGroupsOfSubBatches(t *testing.T) {
	requests := make([]traces.Request, 5)
	for i := range requests {
		requests[i] = traces.Request{Input: 1100, Output: 50, Hashes: []uint64{1, 2, uint64(3 + i)}}
	}
	s := groupScheduler(requests[:4], 100, 0)
	w := &whim{}
	s.Policy, s.Config.Scheduler, s.former = scheduler.PolicyChunkedPrefill, &scheduler.Spec{SubBatches: 2, Adaptive: true, Chunking: true, ChunkMultiple: 512}, FormerOf(scheduler.PolicyChunkedPrefill, w)
	s.Batch.Sub = make([]scheduler.SubBatch, 2)
	step := func() (sizes []int) {
		b := s.Next()
		if err := s.CheckMemory(); err != nil {
			t.Fatal(err)
		}
		for i := range b.Sub {
			for _, x := range b.Sub[i].Shared {
				sizes = append(sizes, len(x.Requests))
			}
		}
		s.Complete(func(int32, int) {})
		return sizes
	}
	step()
	if got := step(); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("groups of %v requests", got)
	}
	s.Extend(requests)
	s.Add(4)
	w.together = true
	if got := step(); !slices.Equal(got, []int{4}) {
		t.Errorf("groups of %v requests, beside a prompt", got)
	}
	if got := step(); !slices.Equal(got, []int{5}) {
		t.Errorf("groups of %v requests, together", got)
	}
}
