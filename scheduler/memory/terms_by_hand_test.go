package memory

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestTokensOfHeadsByHand: the tokens that heads of each class hold of a prompt of 100 and 30 after
// it.
func TestTokensOfHeadsByHand(t *testing.T) {
	r := Length{Prompt: 100, Tokens: 130}
	for _, c := range []struct {
		class HeadClass
		want  int64
	}{
		{HeadClass{}, 130}, {HeadClass{OfPrompt: true}, 100}, {HeadClass{AfterPrompt: true}, 30}, {HeadClass{Skip: 20}, 110}, {HeadClass{Skip: 200}, 0}, {HeadClass{Skip: -5}, 135},
		{HeadClass{Share: 0.5}, 65}, {HeadClass{Share: 0.501}, 66}, {HeadClass{Most: 50}, 50}, {HeadClass{Most: 131}, 130}, {HeadClass{Share: 0.25, Most: 20}, 20}, {HeadClass{OfPrompt: true, Skip: 20, Share: 0.5, Most: 50}, 40},
	} {
		if got := c.class.tokens(r); got != c.want {
			t.Errorf("%+v: %d tokens, by hand %d", c.class, got, c.want)
		}
	}
	// Units of 64 B: three heads of 130 tokens of 2 B have 260 B, 5 units each; two of 50 tokens of 4 B have 200 B, 4 units each.
	l := shape{unitTokens: 16, heads: 9, unitBytes: 64, classes: []HeadClass{{Heads: 3, TokenBytes: 2}, {Heads: 2, TokenBytes: 4, Most: 50, Skip: 1}}}
	if got := l.perLayer(r); got != 3*5+2*4 {
		t.Errorf("%d units, by hand 23", got)
	}
	if got := l.content(r); got != 3*260+2*200 {
		t.Errorf("%d B, by hand 1180", got)
	}
	// While it is prefilled, the prompt takes 100 tokens of 8 B in each of three heads: 13 units each.
	l.filling = []HeadClass{{Heads: 3, TokenBytes: 8}}
	if got := l.whileFilling(r); got != 3*13 {
		t.Errorf("%d units while the prompt is filled, by hand 39", got)
	}
	if a, b := l.holds(&Reservation{Length: r, Filling: true}), l.holds(&Reservation{Length: r}); a != 39 || b != 23 {
		t.Errorf("%d and %d units are held", a, b)
	}
	// A block of 32 tokens has a unit in each of three heads, two in each of two, and half of one in the sixth, which it does not hold.
	blocks := shape{unitBytes: 64, block: 32, classes: []HeadClass{{Heads: 3, TokenBytes: 2}, {Heads: 2, TokenBytes: 4}, {Heads: 1, TokenBytes: 1}}}
	if a, b := blocks.blockUnits(), blocks.shared(&Reservation{Shared: 95}); a != 3+2*2 || b != 2*7 {
		t.Errorf("%d units of a block, %d of two; by hand 7 and 14", a, b)
	}
	l = shape{unitTokens: 16, heads: 2, block: 32}
	if a, b, c := l.perLayer(r), l.perLayer(Prompted(128)), l.content(r); a != 2*9 || b != 2*8 || c != 2*130 || l.Whole(130) != 144 || l.Whole(128) != 128 || l.whileFilling(r) != 18 {
		t.Errorf("%d and %d units, %d tokens, %d whole", a, b, c, l.Whole(130))
	}
	shared := Reservation{Length: r, Shared: 64}
	if a, b := l.shared(&shared), l.holds(&shared); a != 2*4 || b != 2*9-2*4 {
		t.Errorf("%d units are shared, %d held", a, b)
	}
}

// TestRanksByHand: seven layers on three ranksets: three, two and two, starting at the offset. If eight heads lie on three channels, these are 8, 6 and 6 heads on the
// fullest.
func TestRanksByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 3, Layers: 7, HeadsPerChannel: 2, UnitTokens: 16, Capacity: 100, Rotation: true})
	if !slices.Equal(l.layersOn, []int{3, 2, 2}) || l.Capacity() != 300 || l.Ranksets() != 3 || l.ShareOfRank(0.255) != 25 {
		t.Errorf("layers %v, %d units", l.layersOn, l.Capacity())
	}
	for offset, want := range [][]int64{{12, 8, 8}, {8, 12, 8}, {8, 8, 12}} { // two units of each of two heads a layer
		clear(l.used)
		if l.apply(offset, 4); !slices.Equal(l.used, want) || l.Used() != 28 {
			t.Errorf("at offset %d units %v, by hand %v", offset, l.used, want)
		}
		for rank, layers := range want {
			if got := l.layersFrom(offset, rank); got != float64(layers)/4 {
				t.Errorf("%v layers of offset %d on rankset %d", got, offset, rank)
			}
		}
	}
	if got := l.UnitsOf(17); got != 7*2*2 {
		t.Errorf("%d units of 17 tokens", got)
	}
	r := Reservation{Length: Prompted(40)}
	if got := l.HeldBy(&r); got != 7*3*2 {
		t.Errorf("%d units are held", got)
	}
	// The first rankset has three layers: 16 units of each fit, the units of 33 heads do not.
	if got := l.Most(); got != 16*16 {
		t.Errorf("%d tokens at most, by hand 256", got)
	}
	clear(l.used)
	l.used[1] = 90
	for offset, want := range []bool{true, false, true} { // 5 units a layer: 10 of two layers fit there, 15 do not
		if l.fits(offset, 5, 0) != want {
			t.Errorf("offset %d fits: %t", offset, !want)
		}
	}
	if l.fits(0, 5, 1) || !l.fits(0, 5, 0) {
		t.Error("a unit is to stay free")
	}
	if one := NewLedger(LedgerSpec{Ranksets: 3, Layers: 7, HeadsPerChannel: 2, UnitTokens: 16, Capacity: 100}); !slices.Equal(one.layersOn, []int{7, 0, 0}) {
		t.Errorf("without rotation layers %v", one.layersOn)
	}
	if dealt := NewLedger(LedgerSpec{Ranksets: 3, Layers: 7, HeadsPerChannel: 1, Heads: 8, Channels: 3, UnitTokens: 16, Capacity: 100, Rotation: true}); !slices.Equal(dealt.layersOn, []int{8, 6, 6}) {
		t.Errorf("heads on the fullest channel %v", dealt.layersOn)
	}
	// A rank without any layer of a request does not keep it out.
	none := NewLedger(LedgerSpec{Ranksets: 2, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 10})
	if none.used[1] = 11; !none.fits(0, 10, 0) || none.fits(1, 1, 0) {
		t.Error("of two ranks one is full")
	}
	for used, bad := range map[int64]bool{10: false, 11: true, -1: true} {
		none.used[1] = used
		if err := none.Check(); (err != nil) != bad {
			t.Errorf("%d units of 10: %v", used, err)
		}
	}
}

// TestOffsetsByHand: round-robin starts after the last offset taken; otherwise the offset with the fewest tokens is taken, the
// first of equal ones.
func TestOffsetsByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 4, Layers: 4, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100, Rotation: true})
	l.PlaceBy(scheduler.BalanceRoundRobin, nil)
	for _, c := range []struct {
		spare      []int
		want, next int
	}{{[]int{0, 1, 2, 3}, 0, 1}, {[]int{0, 1, 2, 3}, 1, 2}, {[]int{0, 1, 3}, 3, 0}, {[]int{2}, 2, 3}, {[]int{0, 1}, 0, 1}} {
		if l.spare = c.spare; l.choose() != c.want || l.next != c.next {
			t.Errorf("of %v: then %d, by hand %d and then %d", c.spare, l.next, c.want, c.next)
		}
	}
	l.PlaceBy(scheduler.BalanceLeastLoaded, nil)
	l.tokens = []int64{5, 3, 3, 9}
	for want, spare := range map[int][]int{1: {0, 1, 2, 3}, 2: {0, 2, 3}, 0: {0, 3}, 3: {3}} {
		if l.spare = spare; l.choose() != want {
			t.Errorf("of %v %d", spare, l.choose())
		}
	}
	l.PlaceBy(scheduler.BalanceRandom, rand.New(rand.NewPCG(1, 2)))
	l.spare = []int{1, 3}
	seen := map[int]int{}
	for range 40 {
		seen[l.choose()]++
	}
	if len(seen) != 2 || seen[1] < 8 || seen[3] < 8 {
		t.Errorf("offsets %v", seen)
	}
}

// TestGrowthByHand: rows of 16 tokens. 20 tokens have two rows, and grow to 33 in three. A share of the rows in use is
// unfilled.
func TestGrowthByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 2, HeadsPerChannel: 3, UnitTokens: 16, Capacity: 20})
	r, ok := l.Reserve(Prompted(20), nil, 0, nil)
	if !ok || l.Used() != 2*3*2 || l.tokens[0] != 20 || l.filled != 60 {
		t.Fatalf("%+v: %d units", r, l.Used())
	}
	if got, want := l.Fragmentation(0), 1-20./32; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v is not filled, by hand %v", got, want)
	}
	if got, want := l.Fragmentation(l.Unfilled(Prompted(20), 11)), 1-11./32; math.Abs(got-want) > 1e-12 || l.Unfilled(Prompted(20), 11) != 3*9 {
		t.Errorf("%v is not filled of a context of 11, by hand %v", got, want)
	}
	if !l.Grow(&r, 20) || r.Tokens != 20 || !l.Grow(&r, 21) || r.Tokens != 32 || l.Used() != 12 || l.tokens[0] != 32 {
		t.Errorf("%+v: %d units", r, l.Used())
	}
	if l.GrowBeside(&r, 33, 3) || r.Tokens != 32 || !l.GrowBeside(&r, 33, 2) || r.Tokens != 48 || l.Used() != 18 || l.filled != 3*48 {
		t.Errorf("%+v: %d units beside others", r, l.Used())
	}
	if l.Grow(&r, 49) {
		t.Errorf("24 of 20 units: %+v", r)
	}
	if l.Settle(&r) || r.Filling {
		t.Error("a prompt frees nothing")
	}
	if l.Release(r); l.Used() != 0 || l.tokens[0] != 0 || l.filled != 0 || l.Fragmentation(0) != 0 {
		t.Errorf("%d units are left", l.Used())
	}
	// A prompt holds 5 units a layer, and a decoding request 2.
	l = NewLedger(LedgerSpec{Ranksets: 1, Layers: 2, UnitTokens: 16, UnitBytes: 10, Capacity: 20, Classes: []HeadClass{{Heads: 1, TokenBytes: 1, Most: 20}}, Filling: []HeadClass{{Heads: 1, TokenBytes: 1}}})
	r, _ = l.Reserve(Prompted(50), nil, 0, nil)
	if before := l.Used(); before != 10 || !l.Settle(&r) || l.Used() != 4 {
		t.Errorf("%d units, then %d", before, l.Used())
	}
	if got, want := l.Fragmentation(0), 1-2*20./40; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v is not filled, by hand %v", got, want)
	}
	// Heads that skip tokens end within another unit: 16 more tokens would need a unit that is missing, one more token does not.
	l = NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, UnitTokens: 16, UnitBytes: 16, Capacity: 2, Classes: []HeadClass{{Heads: 1, TokenBytes: 1, Skip: 4}}})
	r, _ = l.Reserve(Prompted(20), nil, 0, nil) // 16 B
	if !l.Grow(&r, 33) || r.Tokens != 33 || l.Used() != 2 {
		t.Errorf("%+v: %d units", r, l.Used())
	}
}

// TestFreeOfGPUsByHand: windows, prompts and the spare memory in what the weights leave of the
// GPUs' memory.
func TestFreeOfGPUsByHand(t *testing.T) {
	m := &llm.Model{Layers: 2, Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, FFNHidden: 4, Vocab: 9, ElementBits: 16, TensorParallel: 1}
	token := m.KVBytesOnGPUs()
	g := GPU{Model: m, Free: 1000, SpareUnit: 48, HomeUnit: 100}
	if token != 32 || g.KVBytes(3) != 96 || g.SpareUsed() != 0 || g.inSpare() != 0 {
		t.Errorf("%d B a token, %d", token, g.SpareUsed())
	}
	g.Spare = NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100})
	for used, want := range map[int]int64{1: 1, 2: 1, 3: 2, 25: 12, 26: 13} { // 48, 96, 144, 1200 and 1248 B of 100
		r, _ := g.Spare.Reserve(Prompted(used), nil, 0, nil)
		if got := g.SpareUsed(); got != want || g.inSpare() != units.Bytes(48*used) {
			t.Errorf("%d units are %d of the other memory, by hand %d", used, got, want)
		}
		g.Spare.Release(r)
	}
	if got, want := g.BesideSpare(3, 2), (int64(m.ActivationBytes(3))+64+47)/48; got != want {
		t.Errorf("%d units beside, by hand %d", got, want)
	}
	for _, c := range []struct{ holds, stays, want bool }{{false, false, true}, {true, false, false}, {false, true, false}, {true, true, false}} {
		if g := (GPU{HoldsKV: c.holds, PrefixStays: c.stays}); g.Fetches() != c.want {
			t.Errorf("%+v: fetches %t", c, !c.want)
		}
	}
	for _, c := range []struct {
		g    GPU
		want bool
	}{{GPU{}, false}, {GPU{Window: 1}, true}, {GPU{PromptShare: 0.1}, true}, {GPU{Share: 0.1}, true}, {GPU{PromptShare: -0.1}, false}} {
		if c.g.Windowed() != c.want {
			t.Errorf("%+v: windows %t", c.g, !c.want)
		}
	}
	spare, _ := g.Spare.Reserve(Prompted(2), nil, 0, nil)
	g.Free = m.ActivationBytes(5) + 4*token + 96
	if !g.Fits(5, 4) || g.Fits(5, 5) || g.Fits(6, 4) {
		t.Error("five tokens and keys of four fit beside two units")
	}
	g.HoldsKV, g.Free = true, m.ActivationBytes(5)+96
	if !g.Fits(5, 1000) {
		t.Error("keys and values that have a memory of their own take none of this")
	}
	g.Spare.Release(spare)
	spec := &scheduler.Spec{Chunking: true, ChunkMultiple: 4}
	for _, c := range []struct {
		prompt int
		holds  bool
		want   units.Bytes
	}{{10, true, m.ActivationBytes(4)}, {3, true, m.ActivationBytes(3)}, {10, false, min(m.ActivationBytes(10), m.ActivationBytes(4)+10*token)}, {1, false, m.ActivationBytes(1)}} {
		g := GPU{Model: m, HoldsKV: c.holds}
		if got := g.Least(c.prompt, spec); got != c.want {
			t.Errorf("%+v: %d B at least, by hand %d", c, got, c.want)
		}
		if got := g.Least(c.prompt, &scheduler.Spec{ChunkMultiple: 4}); got != m.ActivationBytes(c.prompt) {
			t.Errorf("%+v whole: %d B", c, got)
		}
	}
}

// TestLatestOutputsByHand: the latest three of five ended requests had 4, 7 and 2 tokens; the running ones have 5.
func TestLatestOutputsByHand(t *testing.T) {
	o := NewOutputs(&scheduler.MemorySpec{History: 3, MaxTokens: 100})
	if o.Mean(5) != 100 || o.Likely(5) != 5 || o.Likely(500) != 100 {
		t.Errorf("before any ended %v and %v", o.Mean(5), o.Likely(5))
	}
	for i, want := range []int{0, 0, 0, 9, 8} {
		if got := o.Ended([]int{9, 8, 4, 7, 2}[i]); got != want {
			t.Errorf("%d is forgotten, by hand %d", got, want)
		}
	}
	if got, want := o.Mean(5), (5+4+7+2)/3.; got != want || o.Likely(5) != want || o.Mean(1000) != 100 {
		t.Errorf("%v tokens on average, by hand %v", got, want)
	}
	if got := o.Ended(1); got != 4 {
		t.Errorf("%d is forgotten, by hand 4", got)
	}
	many := NewOutputs(&scheduler.MemorySpec{MaxTokens: 100})
	for range 1000 {
		many.Ended(3)
	}
	if got := many.Ended(3); got != 3 || len(many.lengths) != 1000 {
		t.Errorf("%d of %d lengths are kept", len(many.lengths), latestOutputs)
	}
	var f *Forecast
	f.Ended(3)
	g := NewForecast(&scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, History: 3, MaxTokens: 100}, 1)
	for _, n := range []int{9, 8, 4, 7, 2} {
		g.Ended(n)
	}
	if !slices.Equal(g.sorted, []int{2, 4, 7}) {
		t.Errorf("%v are known, by hand 2, 4 and 7", g.sorted)
	}
}

// TestStretchesByHand: three of four requests begin with block 1, and two of them go on with 2 and 3; the fourth shares nothing. Another sub-batch has its own runs. Of runs that save as
// much, the first found comes first.
func TestStretchesByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	l.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
	texts := [][]uint64{{1, 2, 3, 10}, {1, 2, 3, 11}, {1, 4, 12}, {7, 8}, {7, 9}}
	var holds []Reservation
	for i, text := range texts {
		r := traces.Request{Input: 512 * len(text), Output: 5, Hashes: text}
		h := HistoryOf(&r, int32(i), r.Input)
		hold, ok := l.Reserve(Prompted(r.Input), &h, 0, nil)
		if !ok {
			t.Fatal("no room")
		}
		l.Keep(&hold, &h)
		holds = append(holds, hold)
	}
	sub := func(requests ...int32) (s scheduler.SubBatch) {
		for _, r := range requests {
			s.Decode = append(s.Decode, scheduler.Decoding{Request: r})
		}
		return s
	}
	shared := func(tokens int, requests ...int32) scheduler.Shared {
		return scheduler.Shared{Tokens: tokens, Requests: requests}
	}
	var g Groups
	for range 2 { // which reuses its memory
		subs := []scheduler.SubBatch{sub(3, 0, 1, 2), sub(4, 3), sub(2, 1), sub(0), sub(0, 1)}
		g.Group(l, subs, holds)
		g.Group(l, subs, holds) // anew, of the same sub-batches
		for i, want := range [][]scheduler.Shared{{shared(1024, 1, 2), shared(512, 1, 2, 3)}, {shared(512, 0, 1)}, {shared(512, 0, 1)}, nil, {shared(1536, 0, 1)}} {
			if got := subs[i].Shared; len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("sub-batch %d shares %v, by hand %v", i, got, want)
			}
			if err := l.NewCacheCheck().CheckShared(&subs[i], holds); err != nil {
				t.Error(err)
			}
		}
		// The check finds tokens and requests that are not shared, runs out of order, and a duplicate
		// run.
		x := &subs[0]
		for what, spoil := range map[string]func(){
			"tokens": func() { x.Shared[0].Tokens += 512 }, "requests": func() { x.Shared[1].Requests = x.Shared[1].Requests[1:] }, "order": func() { x.Shared[0], x.Shared[1] = shared(512, 1, 2), shared(1024, 1, 2, 3) },
			"missing": func() { x.Shared = x.Shared[:1] }, "twice": func() { x.Shared = []scheduler.Shared{shared(512, 1, 2), shared(512, 1, 2), shared(512, 1, 2, 3)} },
		} {
			whole := slices.Clone(x.Shared)
			if spoil(); l.NewCacheCheck().CheckShared(x, holds) == nil {
				t.Errorf("%s: nothing is found", what)
			}
			x.Shared = whole
		}
	}
	if len(g.users) == 0 || slices.Max(g.users) != 0 || slices.Max(g.ends) != 0 {
		t.Error("something is kept of the batch before")
	}
}

// TestEvictByHand: four blocks come in turn to a cache with room for one, so three are evicted. The host keeps the latest of these as far as
// it has room; without a host none moves there.
func TestEvictByHand(t *testing.T) {
	for host, want := range map[int64]struct {
		hosted int64
		moved  int
		found  []bool
	}{0: {0, 0, []bool{false, false, false, true}}, 1: {1, 3 * 512, []bool{false, false, true, true}}, 2: {2, 3 * 512, []bool{false, true, true, true}}, 5: {3, 3 * 512, []bool{true, true, true, true}}} {
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
		l.KeepPrefixes(512, 1, scheduler.PlaceByPrefix)
		l.KeepOnHost(host)
		for hash := range uint64(4) {
			h := History{hashes: []uint64{hash}, tokens: 512}
			r, _ := l.Reserve(Prompted(600), &h, 0, nil)
			l.Keep(&r, &h)
			l.Release(r)
		}
		if c := l.cache; c.count != 1 || c.host.count != want.hosted || c.swaps != (swaps{down: want.moved}) || c.did.Evicted != 3 || l.CachedUnits() != 1 {
			t.Errorf("a host of %d: %d here, %d there, %+v, %d evicted, %d units", host, c.count, c.host.count, c.swaps, c.did.Evicted, l.CachedUnits())
		}
		for hash, found := range want.found {
			if got := l.Cached(&History{hashes: []uint64{uint64(hash)}, tokens: 512}); (got == 512) != found {
				t.Errorf("a host of %d: %d tokens of block %d are found", host, got, hash)
			}
		}
		if err := l.NewCacheCheck().CheckBlocks(); err != nil {
			t.Error(err)
		}
	}
}

// TestOwnTokensByHand: of a request's three blocks, another one uses the first, and a third one the first
// two.
func TestOwnTokensByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	l.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
	h := History{hashes: []uint64{1, 2, 3}, tokens: 1536}
	first, _ := l.Reserve(Prompted(2000), &h, 0, nil)
	if l.Keep(&first, &h); l.ownTokens(first.last) != 1536 {
		t.Errorf("alone %d tokens are its own", l.ownTokens(first.last))
	}
	for i, want := range []int{1024, 512} {
		h.tokens = 512 * (i + 1)
		if r, _ := l.Reserve(Prompted(2000), &h, 0, nil); r.Shared != 512*(i+1) || l.ownTokens(first.last) != want {
			t.Errorf("%d tokens shared: %d are its own, by hand %d", r.Shared, l.ownTokens(first.last), want)
		}
	}
	if l.ownTokens(0) != 0 {
		t.Error("no block has tokens")
	}
}

// TestForecastOfLongOutputs: if outputs of more than 4,096 tokens are configured, the distribution has only every second number of
// tokens.
func TestForecastOfLongOutputs(t *testing.T) {
	for _, c := range []struct {
		most   int
		ended  []int
		longer map[int]float64
	}{
		// Of two outputs and one running request that outlasts them, a third ends after 3 tokens, and half of the rest after 100. The longest
		// expected is 200.
		{8192, []int{100, 3}, map[int]float64{0: 1, 2: 1, 3: 1, 4: 2. / 3, 99: 2. / 3, 100: 1. / 3, 199: 1. / 3, 200: 0, 8191: 0}},
		{4096, []int{100, 3}, map[int]float64{0: 1, 2: 1, 3: 2. / 3, 99: 2. / 3, 100: 1. / 3, 199: 1. / 3, 200: 0, 4095: 0}},
		{4097, []int{4000}, map[int]float64{0: 1, 3999: 1, 4000: 0.5, 4096: 0.5, 4097: 0}},
	} {
		f := NewForecast(&scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: c.most, History: 5}, 1)
		for _, n := range c.ended {
			f.Ended(n)
		}
		f.Add(0, 10, 70) // an earlier forecast, of a longer output
		f.survive()
		f.Clear()
		f.Add(0, 10, 0)
		f.survive()
		for tokens, want := range c.longer {
			if got := f.longer(tokens); math.Abs(got-want) > 1e-12 {
				t.Errorf("up to %d tokens: more than %d with a chance of %v, by hand %v", c.most, tokens, got, want)
			}
		}
	}
}

// TestCacheChecksByHand: every count of the cache that differs from that of its blocks is found.
func TestCacheChecksByHand(t *testing.T) {
	fresh := func(host int64) (*Ledger, []Reservation) {
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
		l.KeepPrefixes(512, 3, scheduler.PlaceByPrefix)
		l.KeepOnHost(host)
		var holds []Reservation
		for i, text := range [][]uint64{{1, 2}, {1}, {5, 6}} {
			r := traces.Request{Input: 512 * len(text), Output: 5, Hashes: text}
			h := HistoryOf(&r, int32(i), r.Input)
			hold, _ := l.Reserve(Prompted(r.Input), &h, 0, nil)
			l.Keep(&hold, &h)
			holds = append(holds, hold)
		}
		l.Release(holds[2]) // block 5 is nobody's
		return l, holds[:2]
	}
	check := func(l *Ledger, holds []Reservation) error {
		c := l.NewCacheCheck()
		for i := range holds {
			if err := c.Use(&holds[i], int32(i)); err != nil {
				return err
			}
		}
		return c.CheckBlocks()
	}
	for what, c := range map[string]struct {
		spoil func(l *Ledger, holds []Reservation)
		want  string
	}{
		"nothing":     {func(*Ledger, []Reservation) {}, ""},
		"in use":      {func(l *Ledger, _ []Reservation) { l.cache.used[0]++ }, "counted are 3, 1 and 1"},
		"by several":  {func(l *Ledger, _ []Reservation) { l.cache.several[0]++ }, "counted are 2, 2 and 1"},
		"of others":   {func(l *Ledger, _ []Reservation) { l.cache.unused[0]++ }, "holds 2 units of blocks in use, 1 in use by several and 1 of others, counted are 2, 1 and 2"},
		"count":       {func(l *Ledger, _ []Reservation) { l.cache.count++ }, "the cache has 3 blocks, 2 in use, counted are 4, 2 in use, of 3"},
		"most":        {func(l *Ledger, _ []Reservation) { l.cache.most = 2 }, "the cache has 3 blocks"},
		"pinned":      {func(l *Ledger, _ []Reservation) { l.cache.pinned-- }, "counted are 3, 1 in use"},
		"host":        {func(l *Ledger, _ []Reservation) { l.cache.host.count++ }, "the host has 0 blocks, counted are 1 of"},
		"users":       {func(l *Ledger, h []Reservation) { l.cache.blocks[h[1].last].users++ }, "users, 2 requests use it"},
		"offset":      {func(l *Ledger, h []Reservation) { h[0].Offset = 1 }, "request 0: block"},
		"shared":      {func(l *Ledger, h []Reservation) { h[0].Shared = 512 }, "request 0: its blocks have 1024 tokens of a prefix of 512"},
		"other block": {func(l *Ledger, h []Reservation) { h[1].last = h[0].last }, "request 1: its blocks have 1024 tokens of a prefix of 512"},
	} {
		l, holds := fresh(0)
		c.spoil(l, holds)
		if err := check(l, holds); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	// Block 5 moves to the host for another one; the batch reports what moved up and down.
	l, holds := fresh(2)
	r := traces.Request{Input: 512, Output: 5, Hashes: []uint64{9}}
	h := HistoryOf(&r, 3, 512)
	l.BeginBatch()
	hold, _ := l.Reserve(Prompted(512), &h, 0, nil)
	if !l.Keep(&hold, &h) {
		t.Error("nothing is kept")
	}
	holds = append(holds, hold)
	if err := check(l, holds); err != nil || l.cache.host.count != 1 || l.cache.did.Evicted != 1 {
		t.Errorf("%d blocks are on the host, %d made way; %v", l.cache.host.count, l.cache.did.Evicted, err)
	}
	var none scheduler.Batch
	if l.EndBatch(&none); l.cache.swaps.down != 512 {
		t.Errorf("%+v is moved by no batch", l.cache.swaps)
	}
	b := scheduler.Batch{Sub: []scheduler.SubBatch{{Decode: make([]scheduler.Decoding, 1)}}}
	l.cache.swaps.up, l.cache.swaps.earlier = 1024, 256
	if l.EndBatch(&b); b.Moves != (scheduler.Moves{Down: scheduler.Move{Tokens: 512}, Up: scheduler.Move{Tokens: 1024}, Earlier: 256}) || l.cache.swaps != (swaps{}) {
		t.Errorf("%+v are moved", b.Moves)
	}
	if got := l.CacheCounts(); got.Up != 1024 || got.Down != 512 || got.Evicted != 1 {
		t.Errorf("%+v", got)
	}
	l.cache.host.most = 0
	b.Moves = scheduler.Moves{}
	l.cache.swaps.down = 7
	if l.EndBatch(&b); b.Moves != (scheduler.Moves{}) {
		t.Errorf("%+v are moved without a host", b.Moves)
	}
	// A cache that is full of blocks in use keeps no new ones.
	full := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 512, Capacity: 100})
	full.KeepPrefixes(512, 1, scheduler.PlaceByPrefix)
	r = traces.Request{Input: 1024, Output: 5, Hashes: []uint64{1, 2}}
	h = HistoryOf(&r, 0, 1024)
	hold, _ = full.Reserve(Prompted(1024), &h, 0, nil)
	if changed := full.Keep(&hold, &h); !changed || hold.Shared != 512 || full.Used()+full.unused(0) != 2 {
		t.Errorf("%+v with %d units", hold, full.Used())
	}
	if full.Keep(&hold, &h) {
		t.Error("a full cache keeps more")
	}
}

// TestNamesOfTextByHand: what identifies two blocks of 512 tokens as the same text: hashes, a prefix, a turn of a session, or the request itself.
func TestNamesOfTextByHand(t *testing.T) {
	c := &cache{tokens: 512, hash: 512}
	own := HistoryOf(&traces.Request{Input: 2000}, 7, 1000)
	if got := c.name(&own, 1, 3); got != (blockName{3, onlyOwn, 7}) || !own.Own() || c.known(&own) != 1000 {
		t.Errorf("%+v", got)
	}
	hashes := HistoryOf(&traces.Request{Input: 900, Hashes: []uint64{4, 5, 6}, Prefix: &traces.Prefix{Number: 9, Tokens: 600}}, 7, 2000)
	if got := c.known(&hashes); got != 900 || hashes.Own() {
		t.Errorf("%d tokens are known", got)
	}
	hashes.tokens = 5000
	if got := c.known(&hashes); got != 3*512 {
		t.Errorf("%d tokens are known of three hashes", got)
	}
	for i, want := range []blockName{{1, prefixText, 9}, {1, hashOfText, 5}, {1, hashOfText, 6}} { // the second block goes beyond the prefix
		if got := c.name(&hashes, i, 1); got != want {
			t.Errorf("block %d: %+v, by hand %+v", i, got, want)
		}
	}
	turn := &traces.Turn{Session: 3, Number: 0}
	said := HistoryOf(&traces.Request{Input: 900, Turn: turn}, 7, 700)
	if got, want := c.name(&said, 0, 2), (blockName{2, turnOfText, 3<<32 | uint64(turn.TextOf(512))}); got != want || said.tokens != 700 || said.Own() {
		t.Errorf("%+v, by hand %+v", got, want)
	}
}
