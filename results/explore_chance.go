package results

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// exactTables is up to how many ways to spread a front over a knob's levels all
	// are tried: a tenth of a second at most.
	exactTables = 1 << 20
	// Of more, up to mostDrawn are drawn, so that a p of 0.05 is known to 0.0007;
	// fewer where levels are many and wide, at drawnSteps steps a knob.
	mostDrawn  = 99_999
	drawnSteps = 50_000_000
	// leastDrawn is how many are drawn for each knob at least: the least p that they
	// can show, times the knobs, is then 0.01.
	leastDrawn = 100
)

// fronts are the random fronts of one size, as one knob sees them: how many of
// their points each of its levels has, which is a multivariate hypergeometric
// distribution.
type fronts struct {
	points, front int
	levels        []levelRest // rising in size, so that the largest takes what is left
	logFactorial  []float64   // natural logarithm, up to points
}

// levelRest is a level with its part of the uncertainty, in bits, that remains
// where so many of its points are on the front: 0 up to all of its or the
// front's.
type levelRest struct {
	size int
	rest []float64
}

// newFronts returns the fronts of a size among the points of some levels. The
// information is the same about the front and about the rest: it takes the
// smaller of both.
func newFronts(levels []Level, front int, logFactorial []float64) *fronts {
	points := len(logFactorial) - 1
	c := &fronts{points: points, front: min(front, points-front), logFactorial: logFactorial}
	single := 0
	for _, l := range levels {
		if l.All == 1 {
			single++
			continue
		}
		rest := make([]float64, min(l.All, c.front)+1)
		for f := range rest {
			rest[f] = float64(float64(l.All) / float64(points) * entropy(f, l.All))
		}
		c.levels = append(c.levels, levelRest{l.All, rest})
	}
	if single > 0 { // nothing remains uncertain about a point alone: all these are as one
		c.levels = append(c.levels, levelRest{single, make([]float64, min(single, c.front)+1)})
	}
	slices.SortFunc(c.levels, func(a, b levelRest) int { return cmp.Compare(a.size, b.size) })
	return c
}

// logFactorials returns the natural logarithms of 0! to n!.
func logFactorials(n int) []float64 {
	values := make([]float64, n+1)
	for i := range values {
		values[i], _ = math.Lgamma(float64(i + 1))
	}
	return values
}

// logWays returns the logarithm of the number of ways to choose k of n.
func (c *fronts) logWays(n, k int) float64 {
	return c.logFactorial[n] - c.logFactorial[k] - c.logFactorial[n-k]
}

// meanRest returns the uncertainty, in bits, that the knob leaves about a random
// front, on average: the closed form of Vinh, Epps and Bailey (2010), level by
// level, as each alone is hypergeometric.
func (c *fronts) meanRest() float64 {
	mean, all := 0.0, c.logWays(c.points, c.front)
	for _, l := range c.levels {
		others := c.points - l.size
		for f := max(0, c.front-others); f < len(l.rest); f++ {
			if l.rest[f] > 0 {
				mean += float64(math.Exp(c.logWays(l.size, f)+c.logWays(others, c.front-f)-all) * l.rest[f])
			}
		}
	}
	return mean
}

// p returns the probability that the knob leaves no more uncertainty about a
// random front than limit, and from how many random fronts it is known, 0 where
// it is exact. Drawn at least says how many have to be drawn where it is not.
func (c *fronts) p(limit float64, drawnAtLeast int) (p float64, drawn int) {
	if c.tables() <= exactTables {
		return min(1, c.exact(0, c.front, c.points, -c.logWays(c.points, c.front), 0, limit)), 0
	}
	steps := 0.0
	share := float64(c.front) / float64(c.points)
	for _, l := range c.levels { // the standard deviation, and what a draw takes besides
		steps += 4 + math.Sqrt(float64(l.size)*share*(1-share))
	}
	drawn = max(drawnAtLeast, min(mostDrawn, int(drawnSteps/steps)))
	// One reached more than was seen: the actual front is one of them.
	return float64(1+c.reached(limit, drawn)) / float64(1+drawn), drawn
}

// tables returns an upper bound of the number of ways to spread the front over
// the levels: without the levels' sizes, or without the front's.
func (c *fronts) tables() float64 {
	levels := len(c.levels)
	bySize := 1.0
	for _, l := range c.levels[:levels-1] {
		bySize *= float64(len(l.rest))
	}
	a, _ := math.Lgamma(float64(c.front + levels))
	b, _ := math.Lgamma(float64(c.front + 1))
	d, _ := math.Lgamma(float64(levels))
	return min(bySize, math.Exp(a-b-d))
}

// exact returns the probability of all ways to spread left points of the front
// over the levels from one on, of room points, that leave no more uncertainty
// than limit. LogP and rest are of the levels before.
func (c *fronts) exact(level, left, room int, logP, rest, limit float64) float64 {
	l := c.levels[level]
	if level == len(c.levels)-1 {
		if rest+l.rest[left] > limit {
			return 0
		}
		return math.Exp(logP + c.logWays(l.size, left))
	}
	room -= l.size
	sum := 0.0
	for f := max(0, left-room); f <= min(left, l.size); f++ {
		sum += float64(c.exact(level+1, left-f, room, logP+c.logWays(l.size, f), rest+l.rest[f], limit))
	}
	return sum
}

// reached draws fronts and returns about how many of them the knob leaves no
// more uncertainty than limit.
func (c *fronts) reached(limit float64, draws int) int {
	random := rand.New(rand.NewPCG(1, 0)) // the same table, the same bytes
	reached, last := 0, len(c.levels)-1
	for range draws {
		rest, left, room := 0.0, c.front, c.points
		for i := 0; i < last && left > 0; i++ {
			l := &c.levels[i]
			f := c.draw(random, room, left, l.size)
			rest, left, room = rest+l.rest[f], left-f, room-l.size
		}
		if left > 0 {
			rest += c.levels[last].rest[left]
		}
		if rest <= limit {
			reached++
		}
	}
	return reached
}

// draw returns how many of the front points are among size of all room points:
// inversion by search from the mode to both sides (L. Devroye, "Non-Uniform
// Random Variate Generation", 1986, chapter III.2), in a number of steps of about
// the standard deviation.
func (c *fronts) draw(random *rand.Rand, room, front, size int) int {
	least, most := max(0, front+size-room), min(front, size)
	mode := (front + 1) * (size + 1) / (room + 2)
	atMode := math.Exp(c.logWays(size, mode) + c.logWays(room-size, front-mode) - c.logWays(room, front))
	u := float64(random.Float64()) - float64(atMode)
	low, high, atLow, atHigh := mode, mode, atMode, atMode
	for u >= 0 && (low > least || high < most) {
		if high < most {
			atHigh *= float64((front-high)*(size-high)) / float64((high+1)*(room-front-size+high+1))
			high++
			if u -= float64(atHigh); u < 0 {
				return high
			}
		}
		if low > least {
			atLow *= float64(low*(room-front-size+low)) / float64((front-low+1)*(size-low+1))
			low--
			if u -= float64(atLow); u < 0 {
				return low
			}
		}
	}
	return mode // with what rounding leaves of the sum
}
