package system

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestPeak compares with the maximum of sums written out, whatever the replicas'
// pace.
func TestPeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		replicas := rapid.IntRange(1, 5).Draw(t, "replicas")
		// Few or many changes, so that replicas have to wait for each other or not.
		length := rapid.SampledFrom([]int{0, 3, 50, 3 * changesTold, changesKept + 3*changesTold}).Draw(t, "changes")
		p := newPeak(replicas)
		functions := make([]*steps, replicas)
		var wg sync.WaitGroup
		for i := range replicas {
			functions[i] = &steps{}
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				l := level{peak: p, replica: i}
				defer l.end()
				now := units.Duration(0)
				for range length * (i + 1) / replicas {
					now += units.Duration(r.IntN(3) * (1 + i)) // often at the same time
					v := r.Int64N(1000)
					l.set(now, v)
					functions[i].set(now, int32(v))
				}
			})
		}
		wg.Wait()
		if want := maxOfSum(functions); p.top != max(want, 0) {
			t.Fatalf("peak %d, want %d", p.top, want)
		}
		for i := range p.told {
			if n := len(p.told[i].changes); n > 0 {
				t.Fatalf("replica %d: %d changes are left", i, n)
			}
		}
	})
}

// TestPeakKeepsLittle: a replica far ahead of the others waits for them.
func TestPeakKeepsLittle(t *testing.T) {
	p := newPeak(2)
	ahead, behind := level{peak: p}, level{peak: p, replica: 1}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 10 * changesKept {
			ahead.set(units.Duration(i), int64(i%7))
		}
		ahead.end()
	})
	for i := range 20 * changesKept {
		behind.set(units.Duration(i), int64(i%5))
	}
	behind.end()
	wg.Wait()
	if kept := cap(p.told[0].changes); kept > 2*changesKept || p.top != 10 {
		t.Errorf("%d changes were kept; peak %d", kept, p.top)
	}
}

// TestPeakTogether: where one loop runs all replicas, the maximum is the same, with all that changes at
// one time counted together.
func TestPeakTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPeak(3)
		p.together = true
		levels, functions := make([]level, 3), make([]*steps, 3)
		for i := range levels {
			levels[i], functions[i] = level{peak: p, replica: i}, &steps{}
		}
		now := units.Duration(0)
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			now += units.Duration(rapid.IntRange(0, 2).Draw(t, "after"))
			i, v := rapid.IntRange(0, 2).Draw(t, "replica"), rapid.IntRange(0, 9).Draw(t, "value")
			levels[i].set(now, int64(v))
			functions[i].set(now, int32(v))
		}
		for i := range levels {
			levels[i].end()
		}
		if want := maxOfSum(functions); p.top != want {
			t.Fatalf("peak %d, want %d", p.top, want)
		}
	})
}
