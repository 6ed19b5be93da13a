package dataflow

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestBoundaryWait compares the wait for a boundary with a list of all boundaries: the
// ends of the heads, multiples of the step from each head's start, and every clock once
// the heads are done.
func TestBoundaryWait(t *testing.T) {
	check := func(t *rapid.T) {
		c := Boundaries{
			Clock: NewClock(Time(rapid.IntRange(1, 9).Draw(t, "tCK")), rapid.Int64Range(10, 13).Draw(t, "tREFI"), 10),
			Each:  rapid.Int64Range(1, 3).Draw(t, "heads"), Step: rapid.Int64Range(0, 5).Draw(t, "step"),
		}
		heads := rapid.SliceOfN(rapid.Int64Range(1, 12), 1, 3).Draw(t, "clocks")
		at := int64(0)
		boundaries := []Time{0}
		for _, head := range heads {
			for range c.Each {
				for k := c.Step; k > 0 && k < head; k += c.Step {
					boundaries = append(boundaries, c.Clock.Time(at+k))
				}
				at += head
				boundaries = append(boundaries, c.Clock.Time(at))
			}
		}
		for range 4 { // during the drain
			at++
			boundaries = append(boundaries, c.Clock.Time(at))
		}
		next := 0
		for elapsed := Time(1); elapsed <= boundaries[len(boundaries)-1]; elapsed++ {
			for boundaries[next] < elapsed {
				next++
			}
			got := c.wait(heads, elapsed)
			if want := boundaries[next] - elapsed; got != want {
				t.Fatalf("at %v: the boundary is in %v, want %v", elapsed, got, want)
			}
			if most := c.longest(); got > most {
				t.Fatalf("at %v: the boundary is in %v, at most %v was promised", elapsed, got, most)
			}
		}
	}
	rapid.Check(t, check)
	deep.Seeds(t, 100, check)
}

// TestClockTime compares the time of clocks with the exact quotient for numbers of any size, whether the clock
// multiplies by the inverse or divides.
func TestClockTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		computing := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1<<40)).Draw(t, "computing")
		interval := computing + rapid.Int64Range(0, computing).Draw(t, "tRFC")
		c := NewClock(Time(rapid.Int64Range(1, 2000).Draw(t, "tCK")), interval, computing)
		border := min(max(c.exact-computing, 0)/interval, c.most) // clocks near the switch between the two
		for _, most := range []int64{1000, border + 2, c.most} {
			clocks := min(rapid.OneOf(rapid.Int64Range(0, most), rapid.Int64Range(max(0, most-4), most)).Draw(t, "clocks"), c.most)
			n := new(big.Int).Mul(big.NewInt(clocks), big.NewInt(interval))
			n.Add(n, big.NewInt(computing-1)).Quo(n, big.NewInt(computing)).Mul(n, big.NewInt(int64(c.tCK)))
			if got := c.Time(clocks); int64(got) != n.Int64() {
				t.Fatalf("%d clocks at %+v: %d, want %v", clocks, c, got, n)
			}
		}
	})
}
