package scheduler

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/traces"
)

// caching returns a scheduler that prefills first, with memory for all and a cache of prefixes, and runs a request of 1,024 tokens
// to its end. The next one of 1,040 tokens begins with these.
func caching(gpu GPUMemory, multiple, batch int) *Scheduler {
	requests := []traces.Request{{Input: 1024, Output: 1, Hashes: []uint64{1, 2}}, {Input: 1040, Output: 2, Hashes: []uint64{1, 2, 3}}}
	ledger := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	ledger.KeepPrefixes(512, 100, PlaceByPrefix)
	config := Config{Policy: PolicyPrefillFirst, Scheduler: &Spec{SubBatches: 1, Chunking: true, ChunkMultiple: multiple}, Memory: &MemorySpec{Admission: AdmitFinal},
		Comm: &CommSpec{Balance: BalanceLeastLoaded}, Batching: &BatchingSpec{MaxBatchTokens: batch}}
	s := New(config, requests, ledger, gpu, nil, nil)
	s.Add(0)
	for s.Waiting() > 0 {
		s.Next()
		s.Complete(func(int32, int) {})
	}
	s.Add(1)
	return s
}

// TestPrefixOnGPUs: a prefix that comes to the GPUs takes their memory with the rest of the prompt until that ends, and is not used
// where it does not fit; one that stays takes none.
func TestPrefixOnGPUs(t *testing.T) {
	tight := smallModel.ActivationBytes(1040)
	for _, c := range []struct {
		name            string
		gpu             GPUMemory
		multiple, batch int
		chunk           Chunk
		kept            int
	}{
		{"fetched", GPUMemory{Free: 1 << 30}, 16, 4096, Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 1040},
		{"fetched and cut", GPUMemory{Free: 1 << 30}, 8, 1024, Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 1040},
		{"too large", GPUMemory{Free: tight}, 1024, 4096, Chunk{Tokens: 1040, Last: true}, 0},
		{"at home", GPUMemory{Free: tight, PrefixStays: true}, 1024, 4096, Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 0},
		{"in the GPUs' own", GPUMemory{Free: tight, HoldsKV: true}, 1024, 4096, Chunk{Tokens: 16, Finished: 1024, Prefix: 1024, Last: true}, 0},
	} {
		c.gpu.Model = smallModel
		s := caching(c.gpu, c.multiple, c.batch)
		c.chunk.Request = 1
		b := s.Next()
		if len(b.Sub[0].Prefill) != 1 || b.Sub[0].Prefill[0] != c.chunk || s.kvOnGPU != c.kept {
			t.Errorf("%s: %+v with %d tokens on the GPUs, want %+v with %d", c.name, b.Sub[0].Prefill, s.kvOnGPU, c.chunk, c.kept)
		}
		if err := s.CheckMemory(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if s.Complete(func(int32, int) {}); s.kvOnGPU != 0 {
			t.Errorf("%s: %d tokens stay on the GPUs", c.name, s.kvOnGPU)
		}
	}
	// Cut, what stays at home is not among what the GPUs keep.
	s := caching(GPUMemory{Model: smallModel, Free: 1 << 30, PrefixStays: true}, 8, 8)
	if b := s.Next(); b.Sub[0].Prefill[0].Tokens != 8 || s.kvOnGPU != 16 {
		t.Errorf("%+v with %d tokens on the GPUs, want 16", b.Sub[0].Prefill, s.kvOnGPU)
	}
}

// TestHostDropsWhatIsKept: where the cache is full and a request keeps a block that is in the host's memory, what makes way may have
// the host drop just that block.
func TestHostDropsWhatIsKept(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	l.KeepPrefixes(512, 1, PlaceByPrefix)
	l.KeepOnHost(1)
	one, two := history{hashes: []uint64{1}, tokens: 512}, history{hashes: []uint64{2}, tokens: 512}
	reserve := func(h *history) Reservation {
		r, _ := l.reserve(prompted(600), h, 0, nil, BalanceLeastLoaded, nil)
		return r
	}
	late, early := reserve(&one), reserve(&one)
	l.keep(&early, &one)
	l.Release(early)
	other := reserve(&two)
	l.keep(&other, &two) // block 1 goes to the host
	l.Release(other)
	l.keep(&late, &one) // block 2 does
	users := make([]int32, len(l.cache.blocks))
	if err := l.follow(&late, users); err != nil || late.Shared != 512 {
		t.Errorf("%d tokens are kept; %v", late.Shared, err)
	}
	if err := l.checkBlocks(users); err != nil || l.cache.hosted != 1 {
		t.Errorf("the host has %d blocks; %v", l.cache.hosted, err)
	}
}

// TestForecastOfShared: the forecast of requests that share a prefix is that of requests without it, in a memory without the place
// that it takes once.
func TestForecastOfShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		spec := LedgerSpec{Ranksets: 2, Layers: 2, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 1 << 20, Rotation: true}
		memory := &MemorySpec{Admission: AdmitCurrent, MaxTokens: 20_000, History: 100, Margin: 1}
		shared, apart := NewLedger(spec), NewLedger(spec)
		shared.KeepPrefixes(512, 100, PlaceByPrefix)
		one, other := newForecast(memory, 2), newForecast(memory, 2)
		for range 20 {
			n := 1 + rng.IntN(20_000)
			one.ended(n)
			other.ended(n)
		}
		const prefix = 1024
		for range 1 + rng.IntN(5) {
			own, emitted := 1+rng.IntN(3000), rng.IntN(3000)
			h := history{hashes: []uint64{1, 2}, tokens: prefix}
			r, _ := shared.reserve(prompted(prefix+own), &h, 0, nil, BalanceLeastLoaded, nil)
			shared.keep(&r, &h)
			one.addHolder(&r, prefix+own, emitted)
			other.add(r.Offset, own, emitted)
		}
		one.add(0, 700, 0)
		other.add(0, 700, 0)
		one.foresee(shared)
		other.foresee(apart)
		for range 30 {
			shared.capacity = int64(rng.IntN(400))
			apart.capacity = shared.capacity - prefix/512
			for offset := range 2 {
				if got, want := one.fits(shared, offset, 0), other.fits(apart, offset, 0); got != want {
					t.Fatalf("fits %d units at offset %d: %v, want %v", shared.capacity, offset, got, want)
				}
			}
		}
	})
}

// TestFewHashes: of a request with fewer hashes than its prompt has blocks, only these are known.
func TestFewHashes(t *testing.T) {
	if h := historyOf(&traces.Request{Input: 2000, Output: 1, Hashes: []uint64{1}}, 1999); h.tokens != traces.BlockTokens {
		t.Errorf("%d tokens are known, want one block", h.tokens)
	}
}
