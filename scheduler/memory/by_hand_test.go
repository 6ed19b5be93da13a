package memory

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/schedtest"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestLedgerByHand: three layers of two heads take 6 units for each 16 tokens of a request.
func TestLedgerByHand(t *testing.T) {
	ledger := func(units int64) *Ledger {
		return NewLedger(LedgerSpec{Ranksets: 1, Layers: 3, HeadsPerChannel: 2, UnitTokens: 16, Capacity: units})
	}
	for capacity, most := range map[int64]int{5: 0, 6: 16, 11: 16, 12: 32, 6 << 20: 16 << 20} {
		if got := ledger(capacity).Most(); got != most {
			t.Errorf("%d units hold %d tokens, want %d", capacity, got, most)
		}
	}
	l := ledger(99)
	for share, want := range map[float64]int64{0: 0, 0.25: 24, 0.5: 49, 1: 99} {
		if got := l.ShareOfRank(share); got != want {
			t.Errorf("%v of 99 units are %d, want %d", share, got, want)
		}
	}
	for used, legal := range map[int64]bool{-1: false, 0: true, 99: true, 100: false} {
		if l.used[0] = used; (l.Check() == nil) != legal {
			t.Errorf("%d of 99 units in use: %v", used, l.Check())
		}
	}
	// Without a cache nothing is counted.
	if l.BeginBatch(); l.CacheCounts() != (CacheCounts{}) || l.CachedUnits() != 0 || l.unused(0) != 0 || l.severalUse(0) != 0 {
		t.Error("a ledger without a cache has one")
	}
}

// TestCachedUnitsByHand: a block of 16 tokens on two ranksets has 2 heads of 2 layers on one, and of 1 layer on the
// other: 6 units.
func TestCachedUnitsByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 2, Layers: 3, HeadsPerChannel: 2, UnitTokens: 16, Capacity: 100, Rotation: true})
	l.KeepPrefixes(16, 10, scheduler.PlaceByPrefix)
	h := HistoryOf(&traces.Request{Input: 48, Output: 1}, 0, 32)
	r, _ := l.Reserve(Prompted(48), nil, 0, nil)
	l.Keep(&r, &h)
	if got := l.CachedUnits(); got != 2*6 {
		t.Errorf("two blocks in use have %d units", got)
	}
	l.Release(r)
	if got := [3]int64{l.CachedUnits(), l.unused(0), l.unused(1)}; got != [3]int64{2 * 6, 2 * 4, 2 * 2} {
		t.Errorf("two idle blocks have %v units, want 12: 8 and 4", got)
	}
	if l.CountPrompt(32, 48); l.CacheCounts().Hit != 32 || l.CacheCounts().Miss != 16 {
		t.Errorf("%+v", l.CacheCounts())
	}
}

// TestGPUByHand: activations, keys and values, and the spare memory beside them.
func TestGPUByHand(t *testing.T) {
	g := GPU{Model: schedtest.SmallModel, SpareUnit: 100, HomeUnit: 70}
	activations, kv := g.Model.ActivationBytes, g.KVBytes(1) // kv of two heads of 8 elements of a byte, twice, in four layers
	if kv != 2*2*8*4 || g.KVBytes(7) != 7*kv {
		t.Errorf("a token has %v", kv)
	}
	if got := g.SpareUsed(); got != 0 {
		t.Errorf("%d units of no spare memory", got)
	}
	if got, want := g.BesideSpare(5, 3), int64(activations(5)+3*kv+99)/100; got != want {
		t.Errorf("%d units beside, by hand %d", got, want)
	}
	for _, c := range []struct {
		prompt   int
		chunking bool
		holdsKV  bool
		want     units.Bytes
	}{
		{40, false, false, activations(40)}, {40, true, true, activations(16)}, {3, true, true, activations(3)}, // a chunk has 16 tokens
		{40, true, false, min(activations(40), activations(16)+40*kv)}, {1000, true, false, min(activations(1000), activations(16)+1000*kv)},
	} {
		g.HoldsKV = c.holdsKV
		if got := g.Least(c.prompt, &scheduler.Spec{Chunking: c.chunking, ChunkMultiple: 16}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	g.Spare = NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 50})
	g.Spare.Reserve(Prompted(3), nil, 0, nil)
	if got := g.SpareUsed(); got != 5 { // 300 B in units of 70
		t.Errorf("%d units, by hand 5", got)
	}
	g.HoldsKV = false
	for _, free := range []units.Bytes{0, -1} {
		g.Free = activations(5) + 2*kv + 300 + free
		if g.Fits(5, 2) != (free == 0) {
			t.Errorf("fits with %d B too few: %v", -free, g.Fits(5, 2))
		}
	}
	if g.HoldsKV = true; !g.Fits(5, 1<<20) {
		t.Error("keys and values elsewhere take memory")
	}
}
