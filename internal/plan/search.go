package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
)

// Search is the settings of a search.
type Search struct {
	Precision float64 // largest ratio between an answer and a rate above it that fails, less 1
	Tune      bool    // search the knobs; otherwise the configuration is fixed
	Meter     Meter
}

const (
	// stays is the arrival time of the requests that compare knobs, in mean stays of a request, so that a filling node is not taken
	// for a full one. leastCoarse is the fewest of these requests.
	stays       = 6
	leastCoarse = 400
	// hopeless is the share of the best rate so far below which an arm is not searched.
	hopeless = 0.4
	// near and nearer bound how far below the best the points of other arms may be, by the coarse comparison, to be judged by all
	// requests, and to have their neighbours judged.
	near, nearer = 0.5, 0.25
)

// Contest returns a new contest over the points of a configuration.
func (s *Search) Contest(o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Contest, error) {
	kind := cfg.Arrivals.Kind
	switch {
	case !cfg.SLO.Given():
		return nil, &input.Error{Key: "--slo", Expected: "targets of latency, such as ttft=2s,tbt=100ms"}
	case kind == traces.ArrivalsAtOnce:
		return nil, &input.Error{Key: "arrivals.kind", Value: strconv.Quote(kind), Expected: "auto, trace, poisson or gamma: arrivals with a rate; or closed-loop (--users)"}
	case cfg.Arrivals.Scale != 1:
		return nil, &input.Error{Key: "arrivals.scale", Value: fmt.Sprint(cfg.Arrivals.Scale), Expected: "1: the search sets the rate"}
	}
	c := &Contest{search: s, options: AsServer(o), share: shareOf(o), trace: trace, n: len(trace.Requests), users: usersOf(cfg) > 0, asked: cfg.Arrivals.RatePerS, seen: map[string]*entrant{}}
	if c.users {
		c.asked = float64(cfg.Arrivals.Users)
	}
	if s.Tune {
		c.axes = grid(o, cfg)
	}
	return c, nil
}

// Rate returns the highest rate of all candidates.
func (c *Contest) Rate() float64 {
	if len(c.Candidates) == 0 {
		return 0
	}
	return c.Candidates[0].Rate
}

// Compare searches the knobs by few requests. For each tensor parallelism and policy it finds those with the
// highest rate.
func (c *Contest) Compare(ctx context.Context) error {
	if len(c.axes) == 0 {
		return nil
	}
	c.ctx = ctx
	rest, from := arms(c.axes), 0.0
	for from == 0 && len(rest) > 0 { // the first that serves anything shows the scale of rates
		if guess := c.guess(rest[0]); guess > 0 {
			c.Candidates = []Candidate{c.arm(rest[0], guess, guess*lowest)}
			from = c.Rate()
		}
		rest = rest[1:]
	}
	others := make([]Candidate, len(rest))
	sideBySide(rest, func(i int, arm []int) { others[i] = c.arm(arm, from, from*hopeless) })
	c.Candidates = slices.DeleteFunc(append(c.Candidates, others...), func(x Candidate) bool { return x.Rate == 0 })
	rank(c.Candidates)
	best := c.Rate()
	sideBySide(c.Candidates, func(i int, x Candidate) {
		if x.Rate >= best*(1-near) {
			c.Candidates[i] = c.again(x)
		}
	})
	rank(c.Candidates)
	return c.err
}

// rank puts the highest rate first.
func rank(all []Candidate) {
	slices.SortStableFunc(all, func(a, b Candidate) int { return cmp.Compare(b.Rate, a.Rate) })
}

// few returns the number of requests of the first comparison of knobs.
func (c *Contest) few() int { return min(leastCoarse, c.n) }

// guess returns half the rate, or the number of users, at which a node of an arm serves a full queue; 0 if the arm serves nothing.
func (c *Contest) guess(arm []int) float64 {
	for _, e := range c.entrants(starts(c.axes, arm), c.few()) {
		judge := c.open(e)
		if judge == nil {
			continue
		}
		if c.users {
			return c.asked
		}
		full, err := judge.full(c.ctx)
		if err == nil {
			return full / 2
		}
		c.leave(e, err)
	}
	return 0
}

// arm returns the best point of an arm by few requests and long strides; none if it does not hold the rate least, or one user.
func (c *Contest) arm(arm []int, guess, least float64) Candidate {
	all := c.entrants(starts(c.axes, arm), c.few())
	for bar := guess; bar >= least; bar /= 4 { // a bar below one user means one
		if alive := c.race(all, bar); len(alive) > 0 {
			return c.ascend(c.raise(Candidate{Requests: c.few(), inert: map[move]float64{}}, alive, bar, 0.5), coarse)
		}
	}
	return Candidate{}
}

// again judges a candidate by shorter steps, and by enough requests that its node does more than fill.
func (c *Contest) again(x Candidate) Candidate {
	if !c.users {
		stay := c.entrant(x.Point, x.Requests).best.E2E.Mean / 1e3
		x.Requests = min(c.n, max(x.Requests, int(stays*x.Rate*stay)/100*100))
	}
	x.Rate = c.climb(c.entrant(x.Point, x.Requests), x.Rate, coarse.rate/3)
	return x
}

// Decide judges the candidates of Compare by all requests, and measures what binds.
func (c *Contest) Decide(ctx context.Context) (*Row, error) {
	c.ctx, c.seen = ctx, map[string]*entrant{} // as if the candidates came from storage, so that the answer is the same
	best := c.final()
	if best.Point == nil { // no point holds any rate: the answer is of the first valid point
		var err error
		if best.Point, err = c.valid(); err != nil {
			return nil, err
		}
	}
	e := c.entrant(best.Point, c.n)
	row, err := c.answer(e, best.Rate)
	if err != nil {
		return nil, err
	}
	c.likely(e, row)
	row.Sets = append([]string{}, settings(c.axes, best.Point)...)
	if len(c.axes) > 0 {
		row.Sets = append(row.Sets, c.share...)
	}
	row.describe(e.judge)
	row.Binds = c.binds(row, best.Point)
	c.seen = nil // other contests need the memory
	return row, c.err
}

// valid returns the first valid point, or the error of the first point, with the most GPUs per replica.
func (c *Contest) valid() ([]int, error) {
	var first error
	for _, arm := range arms(c.axes) {
		for _, p := range starts(c.axes, arm) {
			_, err := c.Config(settings(c.axes, p)...)
			if err == nil {
				return p, nil
			}
			first = cmp.Or(first, err)
		}
	}
	return nil, first
}

// final returns the best point by all requests. The best by few requests climbs. It is then challenged, at the rate that it fails, by
// every other finalist, by the best of each tensor parallelism, and by the neighbours of those that are near.
func (c *Contest) final() (best Candidate) {
	for _, x := range finalists(c.axes, c.Candidates) {
		isNear := x.Rate >= c.Rate()*(1-nearer)
		x.Requests, x.inert = c.n, map[move]float64{}
		if best.Rate > 0 {
			bar := c.entrant(best.Point, best.Requests).failed
			alive := c.race(c.entrants([][]int{x.Point}, x.Requests), bar)
			for _, by := range []stride{last, wide} {
				if len(alive) == 0 && isNear {
					alive = c.rivals(x, bar, by)
				}
			}
			if len(alive) == 0 {
				continue
			}
			x = c.raise(x, alive, bar, last.rate)
		}
		if x = c.ascend(x, last, wide); x.Rate > best.Rate {
			best = x
		}
	}
	return best
}

// finalists returns the candidates to judge by more requests, best first: the best of each tensor parallelism, and those within the
// coarse comparison's error.
func finalists(axes []axis, candidates []Candidate) (all []Candidate) {
	tp := slices.IndexFunc(axes, func(x axis) bool { return x.key == tensorParallel })
	for _, x := range candidates {
		seen := slices.ContainsFunc(all, func(y Candidate) bool { return tp < 0 || x.Point[tp] == y.Point[tp] })
		if !seen || x.Rate >= candidates[0].Rate*(1-near) {
			all = append(all, x)
		}
	}
	return all
}
