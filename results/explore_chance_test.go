package results

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// drawLevels returns the levels of up to most points and the size of a front.
func drawLevels(t *rapid.T, most int) (levels []Level, front, points int) {
	for range rapid.IntRange(1, 5).Draw(t, "levels") {
		all := rapid.IntRange(1, max(1, most-points)).Draw(t, "all")
		if points+all > most {
			break
		}
		levels, points = append(levels, Level{All: all}), points+all
	}
	return levels, rapid.IntRange(0, points).Draw(t, "front"), points
}

// TestChanceByEnumeration compares the closed form of the mean and the exact p
// with the definition, over all subsets of the points.
func TestChanceByEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels, front, points := drawLevels(t, 12)
		c := newFronts(levels, front, logFactorials(points))
		uncertainty := entropy(front, points)
		var all []float64 // the uncertainty that remains, by subset
		mean := 0.0
		for subset := range uint(1) << points {
			if bits.OnesCount(subset) != front {
				continue
			}
			from := 0
			for i := range levels {
				levels[i].Front = bits.OnesCount(subset >> from & (1<<levels[i].All - 1))
				from += levels[i].All
			}
			v := uncertainty - information(levels, front, points)
			all, mean = append(all, v), mean+v
		}
		mean /= float64(len(all))
		if got := c.meanRest(); math.Abs(got-mean) > 1e-12 {
			t.Fatalf("%+v, front of %d: mean %g, want %g", levels, front, got, mean)
		}
		limit := all[rapid.IntRange(0, len(all)-1).Draw(t, "actual")] + 1e-12
		reached := 0
		for _, v := range all {
			if v <= limit {
				reached++
			}
		}
		want := float64(reached) / float64(len(all))
		if got, drawn := c.p(limit, 1); drawn != 0 || math.Abs(got-want) > 1e-12 {
			t.Fatalf("%+v, front of %d: p %g from %d, want %g", levels, front, got, drawn, want)
		}
	})
}

// TestDrawnChance: p from drawn fronts is the exact one within five standard
// errors, at the least and at the largest size of what is exact.
func TestDrawnChance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels, front, points := drawLevels(t, rapid.SampledFrom([]int{10, 40, 400}).Draw(t, "points"))
		c := newFronts(levels, front, logFactorials(points))
		if c.tables() > 20_000 {
			t.Skip("takes long")
		}
		// A limit between the mean and certainty: p is neither 0 nor 1.
		limit := c.meanRest() * rapid.Float64Range(0.5, 1.1).Draw(t, "limit")
		want := c.exact(0, c.front, c.points, -c.logWays(c.points, c.front), 0, limit)
		const draws = 5000
		got := float64(c.reached(limit, draws)) / draws
		if math.Abs(got-want) > 5*math.Sqrt(want*(1-want)/draws)+2.0/draws {
			t.Fatalf("%+v, front of %d: p %g, exactly %g", levels, front, got, want)
		}
	})
}

// TestExactChance: all 8 points of a front in one half of 120 points, the chance
// of which is twice C(60, 8)/C(120, 8); and a table too large for the exact way,
// in which the front is where the fewest expect it.
func TestExactChance(t *testing.T) {
	want := 2.0
	for i := range 8 {
		want *= float64(60-i) / float64(120-i)
	}
	levels := []Level{{All: 60}, {Front: 8, All: 60}}
	c := newFronts(levels, 8, logFactorials(120))
	limit := entropy(8, 120) - information(levels, 8, 120) + 1e-12
	if p, drawn := c.p(limit, 1); drawn != 0 || math.Abs(p-want) > 1e-12 {
		t.Errorf("p %g from %d, want %g", p, drawn, want)
	}
	var large []Level
	for range 8 {
		large = append(large, Level{All: 500})
	}
	large[0].Front = 400
	c = newFronts(large, 400, logFactorials(4000))
	limit = entropy(400, 4000) - information(large, 400, 4000) + 1e-12
	if p, drawn := c.p(limit, 1); drawn != mostDrawn || p != 1.0/(1+mostDrawn) {
		t.Errorf("p %g from %d", p, drawn)
	}
}

// TestLeastP: however many levels and knobs there are, what is certain has a p
// below 0.05 after the correction.
func TestLeastP(t *testing.T) {
	var levels []Level
	for i := range 2000 {
		levels = append(levels, Level{All: 4, Front: 4 * (i % 2)})
	}
	c := newFronts(levels, 4000, logFactorials(8000))
	for _, knobs := range []int{1, 50, 60} {
		p, drawn := c.p(1e-12, leastDrawn*knobs)
		if float64(knobs)*p > 0.011 || drawn == 0 {
			t.Errorf("%d knobs: p %g from %d", knobs, float64(knobs)*p, drawn)
		}
	}
}

// TestDraw: mean and variance of the hypergeometric distribution.
func TestDraw(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 0))
	for _, v := range []struct{ room, front, size int }{{10, 1, 1}, {100, 30, 20}, {100, 90, 95}, {100_000, 50_000, 25_000}, {100_000, 12, 25_000}} {
		c := &fronts{logFactorial: logFactorials(v.room)}
		const n = 20_000
		sum, squares := 0.0, 0.0
		share := float64(v.front) / float64(v.room)
		mean := share * float64(v.size)
		variance := mean * (1 - share) * float64(v.room-v.size) / float64(v.room-1)
		for range n {
			x := float64(c.draw(random, v.room, v.front, v.size)) - mean
			sum, squares = sum+x, squares+x*x
		}
		if math.Abs(sum/n) > 4*math.Sqrt(variance/n) || math.Abs(squares/n/variance-1) > 0.06 {
			t.Errorf("%+v: mean off by %g, variance %g, want %g", v, sum/n, squares/n, variance)
		}
	}
}
