package memory

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// TestBlocksOfClasses: a block has 512 tokens, with latents of 1,152 bytes in three layers and index keys of 132 bytes in two. It takes 32
// units of 16 tokens' latents in each layer and 3 whole ones of index keys. A request holds the units of its own tokens and of what is left
// of blocks.
func TestBlocksOfClasses(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 16, Capacity: 1 << 20, UnitBytes: 16 * 1152,
		Classes: []HeadClass{{Heads: 3, TokenBytes: 1152}, {Heads: 2, TokenBytes: 132}}})
	l.KeepPrefixes(512, 100, scheduler.PlaceByPrefix)
	if got := l.blockUnits(); got != 3*32+2*3 || l.cache.units != got {
		t.Errorf("a block has %d units, the cache's %d; want %d", got, l.cache.units, 3*32+2*3)
	}
	r := Reservation{Length: Prompted(1100), Shared: 1024}
	// 69 units of latents in each layer, and 8 of index keys (145,200 bytes of 18,432 each).
	if got, want := l.holds(&r), int64(3*69+2*8-2*(3*32+2*3)); got != want {
		t.Errorf("a request of 1,100 tokens holds %d units beside two blocks, want %d", got, want)
	}
	if got := l.holds(&Reservation{Length: Prompted(1100)}); got != 3*69+2*8 {
		t.Errorf("without blocks it holds %d units", got)
	}
}

// TestCacheOfClasses reserves, keeps, grows and releases at random in a ledger of two classes. The cache's own check holds, memory never
// exceeds its capacity, unshared requests take as much as without blocks, and nothing is left at the end.
func TestCacheOfClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 16, Capacity: int64(number("capacity", 500, 5000)), UnitBytes: 16 * 1152,
			Classes: []HeadClass{{Heads: number("latents", 1, 4), TokenBytes: 1152}, {Heads: number("index keys", 1, 3), TokenBytes: int64(number("bytes", 1, 300))}}})
		l.KeepPrefixes(512, int64(number("blocks", 1, 30)), scheduler.PlaceByPrefix)
		type request struct {
			Reservation
			text []uint64
		}
		var live []*request
		for range number("operations", 1, 60) {
			switch op := number("operation", 0, 3); {
			case op == 0:
				text := make([]uint64, number("text", 0, 4))
				for i := range text {
					text[i] = uint64(number("block", 0, 1))
				}
				length := Prompted(len(text)*512 + number("more", 1, 700))
				if r, ok := l.Reserve(length, &History{hashes: text, tokens: length.Tokens - 1}, 0, nil); ok {
					live = append(live, &request{r, text})
				}
			case len(live) == 0:
			case op == 1:
				k := live[number("kept", 0, len(live)-1)]
				l.Keep(&k.Reservation, &History{hashes: k.text, tokens: min(k.Tokens, len(k.text)*512)})
				l.Settle(&k.Reservation)
			case op == 2:
				k := live[number("grown", 0, len(live)-1)]
				l.Grow(&k.Reservation, k.Tokens+number("by", 1, 300))
			default:
				i := number("released", 0, len(live)-1)
				l.Release(live[i].Reservation)
				live = slices.Delete(live, i, i+1)
			}
			check, units, users := l.NewCacheCheck(), int64(0), map[int32]int{}
			for i, k := range live {
				if err := check.Use(&k.Reservation, int32(i)); err != nil {
					t.Fatal(err)
				}
				units += l.perLayer(k.Length)
				for at := k.last; at > 0; at = l.cache.blocks[at].before {
					users[at]++
				}
			}
			for _, n := range users {
				units -= int64(n-1) * l.cache.units
			}
			if err := check.CheckBlocks(); err != nil {
				t.Fatal(err)
			}
			if err := l.Check(); err != nil || l.Used() != units {
				t.Fatalf("%d units are in use, by requests %d: %v", l.Used(), units, err)
			}
		}
		for _, k := range live {
			l.Release(k.Reservation)
		}
		if err := l.ClearCache(); err != nil || l.Used() != 0 || l.filled != 0 {
			t.Fatalf("%d units are in use after all is cleared, %d bytes filled: %v", l.Used(), l.filled, err)
		}
	})
}
