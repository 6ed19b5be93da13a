package memory

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// TestHostDropsWhatIsKept: the cache is full, and a request keeps a block that is in the host's memory. The eviction may then make
// the host drop that same block.
func TestHostDropsWhatIsKept(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	l.KeepPrefixes(512, 1, scheduler.PlaceByPrefix)
	l.KeepOnHost(1)
	one, two := History{hashes: []uint64{1}, tokens: 512}, History{hashes: []uint64{2}, tokens: 512}
	reserve := func(h *History) Reservation {
		r, _ := l.Reserve(Prompted(600), h, 0, nil)
		return r
	}
	late, early := reserve(&one), reserve(&one)
	l.Keep(&early, &one)
	l.Release(early)
	other := reserve(&two)
	l.Keep(&other, &two) // block 1 goes to the host
	l.Release(other)
	l.Keep(&late, &one) // block 2 does
	check := l.NewCacheCheck()
	if err := check.Use(&late, 0); err != nil || late.Shared != 512 {
		t.Errorf("%d tokens are kept; %v", late.Shared, err)
	}
	if err := check.CheckBlocks(); err != nil || l.cache.host.count != 1 {
		t.Errorf("the host has %d blocks; %v", l.cache.host.count, err)
	}
}

// TestBackFromTheHost: a block that returns takes the place of the least recently used one, which moves to the host. If all blocks have a
// place, none moves.
func TestBackFromTheHost(t *testing.T) {
	for _, c := range []struct {
		most         int64
		blocks       uint64
		here, hosted int64
		swaps        swaps
	}{{1, 2, 1, 1, swaps{up: 512, down: 1024}}, {2, 3, 2, 1, swaps{up: 512, down: 1024}}, {3, 3, 3, 0, swaps{}}} {
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
		l.KeepPrefixes(512, c.most, scheduler.PlaceByPrefix)
		l.KeepOnHost(c.most)
		reserve := func(hash uint64) Reservation {
			h := History{hashes: []uint64{hash}, tokens: 512}
			r, ok := l.Reserve(Prompted(600), &h, 0, nil)
			if !ok {
				t.Fatal("no room")
			}
			l.Keep(&r, &h)
			return r
		}
		for hash := range c.blocks { // if these are more than the places, the first moves to the host
			l.Release(reserve(hash))
		}
		r := reserve(0)
		check := l.NewCacheCheck()
		if err := check.Use(&r, 0); err != nil || r.Shared != 512 {
			t.Errorf("%d tokens are shared; %v", r.Shared, err)
		}
		if got := l.cache; got.count != c.here || got.host.count != c.hosted || got.swaps != c.swaps {
			t.Errorf("of %d places %d are taken, %d blocks are on the host; %+v", c.most, got.count, got.host.count, got.swaps)
		}
		if err := check.CheckBlocks(); err != nil {
			t.Error(err)
		}
	}
}

// TestForecastOfShared: the forecast for requests that share a prefix equals that for requests without it, in a memory smaller by
// the prefix. The forecast for a request that shares with no other is the same as without a cache.
func TestForecastOfShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		spec := LedgerSpec{Ranksets: 2, Layers: 2, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 1 << 20, Rotation: true}
		memory := &scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 20_000, History: 100, Margin: 1}
		shared, apart := NewLedger(spec), NewLedger(spec)
		shared.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
		one, other := NewForecast(memory, 2), NewForecast(memory, 2)
		for range 20 {
			n := 1 + rng.IntN(20_000)
			one.Ended(n)
			other.Ended(n)
		}
		const prefix = 1024
		n := 1 + rng.IntN(5)
		for range n {
			own, emitted := 1+rng.IntN(3000), rng.IntN(3000)
			h := History{hashes: []uint64{1, 2}, tokens: prefix}
			r, _ := shared.Reserve(Prompted(prefix+own), &h, 0, nil)
			shared.Keep(&r, &h)
			one.AddHolder(&r, prefix+own, emitted)
			if n > 1 {
				other.Add(r.Offset, own, emitted)
			} else {
				other.Add(r.Offset, prefix+own, emitted)
			}
		}
		one.Add(0, 700, 0)
		other.Add(0, 700, 0)
		one.Foresee(shared)
		other.Foresee(apart)
		for range 30 {
			shared.capacity = int64(rng.IntN(400))
			if apart.capacity = shared.capacity; n > 1 {
				apart.capacity -= prefix / 512
			}
			for offset := range 2 {
				if got, want := one.fits(shared, offset, 0), other.fits(apart, offset, 0); got != want {
					t.Fatalf("fits %d units at offset %d: %v, want %v", shared.capacity, offset, got, want)
				}
			}
		}
	})
}

// TestPlacement: the first of two ranksets has a request's prefix and another request. The request goes to the rankset with most of its
// prefix, or to the one with less to do.
func TestPlacement(t *testing.T) {
	for placement, want := range map[string]int{scheduler.PlaceByPrefix: 0, scheduler.PlaceForBalance: 1} {
		l := NewLedger(LedgerSpec{Ranksets: 2, Layers: 2, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
		l.KeepPrefixes(512, 50, placement)
		h := History{hashes: []uint64{1}, tokens: 512}
		first, _ := l.Reserve(Prompted(600), &h, 0, nil)
		l.Keep(&first, &h)
		if r, ok := l.Reserve(Prompted(700), &h, 0, nil); !ok || r.Offset != want || (r.Shared == 512) != (want == 0) {
			t.Errorf("%s: %+v", placement, r)
		}
	}
}

// TestFewHashes: of a request with fewer hashes than its prompt has blocks, only those blocks are known.
func TestFewHashes(t *testing.T) {
	for hash, want := range map[int]int{traces.BlockTokens: traces.BlockTokens, 16: 16, 1024: 1024, 4096: 1999} {
		c := cache{hash: hash}
		h := HistoryOf(&traces.Request{Input: 2000, Output: 1, Hashes: []uint64{1}}, 0, 1999)
		if got := c.known(&h); got != want {
			t.Errorf("hashes of %d tokens: %d tokens are known, want %d", hash, got, want)
		}
	}
}

// TestHashesOfOtherBlocks: hashes are of blocks of other lengths than 512 tokens. A prompt then finds the cache's whole blocks within
// the hashes that it shares with an earlier one.
func TestHashesOfOtherBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := traces.BlockTokens >> rapid.IntRange(0, 6).Draw(t, "halvings")
		hash := rapid.SampledFrom([]int{8, 16, 48, 64, 512, 1000, 1024}).Draw(t, "tokens of a hash")
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: block, Capacity: 1 << 20})
		l.KeepPrefixes(block, 1<<20, scheduler.PlaceByPrefix)
		l.HashesName(hash)
		alike := rapid.IntRange(0, 40).Draw(t, "hashes in common")
		request := func(id uint64) *traces.Request {
			r := &traces.Request{Input: rapid.IntRange(1, 60*hash).Draw(t, "tokens")}
			for i := range (r.Input + hash - 1) / hash {
				if what := uint64(i); i < alike {
					r.Hashes = append(r.Hashes, what)
				} else {
					r.Hashes = append(r.Hashes, id)
				}
			}
			return r
		}
		one, other := request(1<<40), request(1<<41)
		h := HistoryOf(one, 0, one.Input)
		held, _ := l.Reserve(Prompted(one.Input), &h, 0, nil)
		l.Keep(&held, &h)
		if want := one.Input / block * block; held.Shared != want {
			t.Fatalf("a prompt of %d tokens has %d in blocks of %d, want %d", one.Input, held.Shared, block, want)
		}
		h = HistoryOf(other, 1, other.Input)
		want := min(one.Input, other.Input, alike*hash) / block * block
		if got := l.Cached(&h); got != want {
			t.Fatalf("%d tokens are found, want %d of %d and %d with %d hashes of %d tokens in common", got, want, one.Input, other.Input, alike, hash)
		}
	})
}

// TestBlocksWithinHashes: if a hash of the trace covers several blocks, a prompt finds what it shares with an earlier one, to the
// last whole block.
func TestBlocksWithinHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := traces.BlockTokens >> rapid.IntRange(0, 9).Draw(t, "halvings")
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: block, Capacity: 1 << 20})
		l.KeepPrefixes(block, 1<<20, scheduler.PlaceByPrefix)
		alike := rapid.IntRange(0, 3).Draw(t, "hashes in common")
		request := func(id uint64) *traces.Request {
			r := &traces.Request{Input: rapid.IntRange(1, 4*traces.BlockTokens).Draw(t, "tokens")}
			for i := range (r.Input + traces.BlockTokens - 1) / traces.BlockTokens {
				if i < alike {
					r.Hashes = append(r.Hashes, uint64(i))
				} else {
					r.Hashes = append(r.Hashes, id)
				}
			}
			return r
		}
		first, second := request(100), request(200)
		h := HistoryOf(first, 0, first.Input)
		r, _ := l.Reserve(Prompted(first.Input), &h, 0, nil)
		l.Keep(&r, &h)
		l.Release(r)
		h = HistoryOf(second, 1, second.Input-1)
		got, _ := l.Reserve(Prompted(second.Input), &h, 0, nil)
		if want := min(alike*traces.BlockTokens, first.Input, second.Input-1) / block * block; got.Shared != want {
			t.Fatalf("prompts of %d and %d tokens, of which %d hashes are alike: %d tokens are found, want %d", first.Input, second.Input, alike, got.Shared, want)
		}
	})
}

// TestPrefixTokens: prompts with the same prefix of a built-in trace share its whole blocks of the cache and no more, whatever
// hashes of 512 tokens say. Those with another prefix share nothing.
func TestPrefixTokens(t *testing.T) {
	for block := 1; block <= 4*traces.BlockTokens; block *= 2 {
		for _, tokens := range []int{1, 15, 16, 64, 300, 511, 512, 513, 600, 1000, 1024, 1500, 2500, 4096} {
			trace, err := traces.Synthetic(traces.Own, 30, 1, traces.SyntheticSpec{
				Distribution: traces.Auto, MaxTokens: 1 << 15, InputMean: 300, InputStd: 200, OutputMean: 1, PrefixTokens: tokens, Prefixes: 3})
			if err != nil {
				t.Fatal(err)
			}
			l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: block, Capacity: 1 << 30})
			l.KeepPrefixes(block, 1<<30, scheduler.PlaceByPrefix)
			seen := map[uint64]bool{}
			for i := range trace.Requests {
				r := &trace.Requests[i]
				h := HistoryOf(r, int32(i), r.Input-1)
				got, want := l.Cached(&h), 0
				if seen[r.Prefix.Number] {
					want = min(tokens, r.Input-1) / block * block
				}
				if got != want {
					t.Fatalf("blocks of %d, prefix of %d tokens, request %d: %d tokens are found, want %d", block, tokens, i, got, want)
				}
				seen[r.Prefix.Number] = true
				h = HistoryOf(r, int32(i), r.Input)
				held, _ := l.Reserve(Prompted(r.Input), &h, 0, nil)
				l.Keep(&held, &h)
				l.Release(held)
			}
		}
	}
}
