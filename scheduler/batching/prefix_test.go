package batching

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
)

// caching returns a scheduler that prefills first, with memory for all requests and a cache of prefixes. It runs a request of
// 1,024 tokens to its end. The next request, of 1,040 tokens, begins with these.
func caching(gpu memory.GPU, multiple, batch int) *Scheduler {
	requests := []traces.Request{{Input: 1024, Output: 1, Hashes: []uint64{1, 2}}, {Input: 1040, Output: 2, Hashes: []uint64{1, 2, 3}}}
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	ledger.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
	config := Config{Policy: scheduler.PolicyPrefillFirst, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: multiple}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal},
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: batch}}
	s := New(config, Memories{Ledger: ledger, GPU: gpu}, requests, FormerOf(config.Policy, nil))
	s.Add(0)
	for s.Waiting() > 0 {
		s.Next()
		s.Complete(func(int32, int) {})
	}
	s.Add(1)
	return s
}

// TestPrefixOnGPUs: a prefix that moves to the GPUs takes their memory with the rest of the prompt until the prompt ends. It is not
// used if it does not fit. One that stays takes none.
func TestPrefixOnGPUs(t *testing.T) {
	tight := schedtest.SmallModel.ActivationBytes(1040)
	for _, c := range []struct {
		name            string
		gpu             memory.GPU
		multiple, batch int
		chunk           scheduler.Chunk
		kept            int
	}{
		{"fetched", memory.GPU{Free: 1 << 30}, 16, 4096, scheduler.Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 1040},
		{"fetched and cut", memory.GPU{Free: 1 << 30}, 8, 1024, scheduler.Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 1040},
		{"too large", memory.GPU{Free: tight}, 1024, 4096, scheduler.Chunk{Tokens: 1040, Last: true}, 0},
		{"at home", memory.GPU{Free: tight, PrefixStays: true}, 1024, 4096, scheduler.Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 0},
		{"in the GPUs' own", memory.GPU{Free: tight, HoldsKV: true}, 1024, 4096, scheduler.Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 0},
	} {
		c.gpu.Model = schedtest.SmallModel
		s := caching(c.gpu, c.multiple, c.batch)
		c.chunk.Request = 1
		b := s.Next()
		if len(b.Sub[0].Prefill) != 1 || b.Sub[0].Prefill[0] != c.chunk || s.Usage.cutPrompts != c.kept {
			t.Errorf("%s: %+v with %d tokens on the GPUs, want %+v with %d", c.name, b.Sub[0].Prefill, s.Usage.cutPrompts, c.chunk, c.kept)
		}
		if err := s.CheckMemory(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if s.Complete(func(int32, int) {}); s.Usage.cutPrompts != 0 {
			t.Errorf("%s: %d tokens stay on the GPUs", c.name, s.Usage.cutPrompts)
		}
	}
	// When the prompt is cut, a prefix that stays at home is not among what the GPUs keep.
	s := caching(memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30, PrefixStays: true}, 8, 8)
	if b := s.Next(); b.Sub[0].Prefill[0].Tokens != 8 || s.Usage.cutPrompts != 16 {
		t.Errorf("%+v with %d tokens on the GPUs, want 16", b.Sub[0].Prefill, s.Usage.cutPrompts)
	}
}

// TestKeptPrefixesAreFound: a request that waits for memory is tried again when another's prefix is kept, unless nobody else can use
// that.
func TestKeptPrefixesAreFound(t *testing.T) {
	for name, asks := range map[string]bool{"a prompt with hashes": true, "a prompt of its own": false} {
		s := caching(memory.GPU{Model: schedtest.SmallModel, Free: 1 << 30}, 16, 4096)
		if s.Requests[1].Hashes = []uint64{7, 8, 9}; !asks {
			s.Requests[1].Hashes = nil
		}
		r, ok := s.Ledger.Reserve(memory.Prompted(1040), nil, 0, nil)
		if !ok {
			t.Fatal("no room")
		}
		s.Queue.Blocked = true
		if s.keepPrefix(1, &r, 1040); s.Queue.Blocked == asks {
			t.Errorf("%s: blocked %v", name, s.Queue.Blocked)
		}
	}
}

// TestCachedLeavesTheLastToken: the last token of a prompt is always computed, so of a prompt of two cached blocks
// one counts as cached.
func TestCachedLeavesTheLastToken(t *testing.T) {
	s := caching(memory.GPU{Free: 1 << 30, Model: schedtest.SmallModel}, 16, 4096)
	for input, want := range map[int]int{512: 0, 513: 512, 1024: 512, 1025: 1024, 1040: 1024} {
		if got := s.Cached(&traces.Request{Input: input, Hashes: []uint64{1, 2, 3}}); got != want {
			t.Errorf("%d tokens: %d cached, want %d", input, got, want)
		}
	}
}

// TestAnswerStaysByHand: a turn of 1,000 tokens with an answer of 100. The prompt fills one block of 512 tokens, and the last token read, the
// 1,099th, lies in the third. When the request ends, the cache keeps two unused blocks, and the next turn finds both.
func TestAnswerStaysByHand(t *testing.T) {
	requests := []traces.Request{{Input: 1000, Output: 100, Turn: &traces.Turn{}}, {Input: 1200, Output: 1, Turn: &traces.Turn{Number: 1}}}
	ledger := memory.NewLedger(memory.LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	ledger.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
	config := Config{Policy: scheduler.PolicyPrefillFirst, Scheduler: &scheduler.Spec{SubBatches: 1, Chunking: true, ChunkMultiple: 16}, Memory: &scheduler.MemorySpec{Admission: scheduler.AdmitFinal},
		Comm: &scheduler.CommSpec{Balance: scheduler.BalanceLeastLoaded}, Batching: &scheduler.BatchingSpec{MaxBatchTokens: 4096}}
	s := New(config, Memories{Ledger: ledger, GPU: memory.GPU{Free: 1 << 30, Model: schedtest.SmallModel}}, requests, FormerOf(config.Policy, nil))
	s.Add(0)
	tokens := 0
	for step := range 100 { // the prompt's, and one for each further token
		if found := s.Cached(&requests[1]); found != min(step, 1)*512 {
			t.Fatalf("before iteration %d the next turn finds %d tokens", step, found)
		}
		s.Next()
		if err := s.CheckMemory(); err != nil {
			t.Fatalf("in iteration %d: %v", step, err)
		}
		s.Complete(func(_ int32, n int) { tokens = n })
	}
	if s.Waiting()+len(s.Decoding) != 0 || tokens != 100 || ledger.Used() != 0 || ledger.CachedUnits() != 2 {
		t.Errorf("%d requests decode, one has emitted %d tokens: %d units in use, %d kept; by hand none, 100, none and 2", len(s.Decoding), tokens, ledger.Used(), ledger.CachedUnits())
	}
	if found := s.Cached(&requests[1]); found != 1024 {
		t.Errorf("the next turn finds %d tokens, by hand 1,024", found)
	}
	if err := ledger.ClearCache(); err != nil {
		t.Error(err)
	}
}
