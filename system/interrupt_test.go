package system

import (
	"testing"

	"github.com/l3sim/l3sim/sim"
	"pgregory.net/rapid"
)

// TestLeavingWorkTakesTime: vectors that interrupt attention find its rows closed
// (PREA, tRP) before a burst goes to the rank (CWL), and attention goes on once all
// banks are active again: on DDR4-3200 22, 16 and 114 + 22 clocks of 625 ps.
func TestLeavingWorkTakesTime(t *testing.T) {
	const tCK, vacate, open, reactivate = 625, 22, 16, 114 + 22
	interrupts := 0
	drive(t, []string{"node.ranksets=1", allAtOnce}, equal(2, 20_000, 3), keep, func(r *replica, d driven) {
		if len(d.batch.Sub[0].Decode) == 0 {
			return
		}
		c := &r.engine.(*l3).costs
		rec := &Recording{Spans: NewSpans(1)}
		r.engine.record(rec, d.batch, 0)
		var attention, down []sim.Span
		for _, s := range rec.Spans.Spans {
			switch {
			case s.Resource == resourceRank && s.B == 0:
				attention = append(attention, s)
			case s.Resource == resourceDown && s.B == 0:
				down = append(down, s)
			}
		}
		if len(attention) < 3 || len(down) != 2 || attention[0].A != 0 || attention[1].A != 0 || down[1].A != 1 {
			t.Fatalf("no attention of layer 0 in two parts, by the other sub-batch's vectors: %v, %v", attention, down)
		}
		interrupts++
		if got := down[1].Start - attention[0].End; got != (vacate+open)*tCK {
			t.Errorf("data comes %v after attention stops, want %v", got, sim.Time((vacate+open)*tCK))
		}
		if got := attention[1].Start - down[1].End - c.groups[1].decode.close; got != reactivate*tCK {
			t.Errorf("attention goes on %v after the transfer is over, want %v", got, sim.Time(reactivate*tCK))
		}
	})
	if interrupts == 0 {
		t.Error("nothing is ever interrupted")
	}
}

// TestBoundaryWait compares the wait for a boundary with a list of all boundaries: the
// ends of the heads, multiples of the step from each head's start, and every clock once
// the heads are done.
func TestBoundaryWait(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := iterationCosts{
			clock:     newRankClock(sim.Time(rapid.IntRange(1, 9).Draw(t, "tCK")), rapid.Int64Range(10, 13).Draw(t, "tREFI"), 10),
			headsEach: rapid.IntRange(1, 3).Draw(t, "heads"), step: rapid.Int64Range(0, 5).Draw(t, "step"),
		}
		g := groupCost{heads: rapid.SliceOfN(rapid.Int64Range(1, 12), 1, 3).Draw(t, "clocks")}
		at := int64(0)
		boundaries := []sim.Time{0}
		for _, head := range g.heads {
			for range c.headsEach {
				for k := c.step; k > 0 && k < head; k += c.step {
					boundaries = append(boundaries, c.clock.time(at+k))
				}
				at += head
				boundaries = append(boundaries, c.clock.time(at))
			}
		}
		for range 4 { // in the drain
			at++
			boundaries = append(boundaries, c.clock.time(at))
		}
		next := 0
		for elapsed := sim.Time(1); elapsed <= boundaries[len(boundaries)-1]; elapsed++ {
			for boundaries[next] < elapsed {
				next++
			}
			if got, want := c.boundaryWait(&g, elapsed), boundaries[next]-elapsed; got != want {
				t.Fatalf("at %v: the boundary is in %v, want %v", elapsed, got, want)
			}
		}
	})
}

// TestCheckerNamesWhatIsEarly: a piece on the link before its transfer can go, or an
// iteration outside of what its tasks take side by side and in turn, breaks a law; on
// the bounds none is broken.
func TestCheckerNamesWhatIsEarly(t *testing.T) {
	p := newPipeline(2, true)
	if end := p.run(handCosts(), 0); end != 253*ns {
		t.Fatalf("the iteration ends at %v", end)
	}
	// Ranksets compute for 140 ns each on average. In turn: GPUs 102, down 46, up 12,
	// attention 280, and for each of 28 tasks 1 + 1 + 1 + 5 + 4 and 60 for a boundary.
	const busiest, serial = 140 * ns, (102 + 46 + 12 + 280 + 28*72) * ns
	for _, c := range []struct {
		took sim.Time
		law  Law
	}{{busiest - 1, LawIteration}, {busiest, ""}, {serial, ""}, {serial + 1, LawIteration}} {
		check := newChecker(2)
		check.iteration(p, 7*ns, 7*ns+c.took, &p.work)
		if got := lawOf(check); got != c.law {
			t.Errorf("an iteration of %v: law %q, want %q", c.took, got, c.law)
		}
	}
	for _, c := range []struct {
		begin sim.Time
		law   Law
	}{{99 * ns, LawCausality}, {100 * ns, ""}, {101 * ns, ""}} {
		check := newChecker(2)
		p.down.current = transfer{eligible: 100 * ns}
		check.down(p, c.begin, c.begin+5*ns)
		if got := lawOf(check); got != c.law {
			t.Errorf("a transfer that can go at 100ns goes at %v: law %q, want %q", c.begin, got, c.law)
		}
	}
}

func lawOf(c *checker) Law {
	if c.violation == nil {
		return ""
	}
	return c.violation.Law
}
