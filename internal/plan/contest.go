package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// Contest judges points of a grid of knobs of one configuration, at rates and with numbers of requests. It remembers all results.
type Contest struct {
	Candidates []Candidate // results of Compare, best first
	search     *Search
	options    configs.Options
	axes       []axis
	share      []string // the setting of the GPUs' memory, unless it is given
	trace      *traces.Trace
	n          int             // its requests
	users      bool            // the load is a number of users; else a rate of requests
	asked      float64         // requested rate or number of users; 0 for none
	ctx        context.Context // of the present call
	mu         sync.Mutex
	seen       map[string]*entrant
	err        error // first error, which ends the contest; afterwards nothing holds
}

// Candidate is a point and the highest rate that it is known to hold.
type Candidate struct {
	Point    []int            `json:"point"`
	Rate     float64          `json:"rate"`
	Requests int              `json:"requests"` // number of requests that judged it
	inert    map[move]float64 // the rate up to which a move changed no run
}

// entrant is a point, with further settings for its judgement.
type entrant struct {
	point   []int
	n       int // requests that judge it
	further []string
	once    sync.Once
	judge   *Judge  // nil if the point is no valid configuration, or serves no request
	err     error   // why
	held    float64 // the highest rate that it is known to hold
	best    Load    // there
	failed  float64 // the lowest rate that it is known to fail, 0 for none
	fails   []Failure
	came    int64    // requests that had arrived when it failed there
	longer  *entrant // replaces it, with more requests
}

// Config returns the configuration with settings of knobs. Judges set its rate.
func (c *Contest) Config(sets ...string) (*configs.Config, error) {
	o := c.options
	o.Sets = slices.Concat(o.Sets, sets)
	cfg, err := system.Load(o)
	if err == nil {
		cfg.Arrivals.RatePerS = 0
	}
	return cfg, err
}

// entrant returns a point with further settings, judged by n requests.
func (c *Contest) entrant(point []int, n int, further ...string) *entrant {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(point, n, further)
	if c.seen[key] == nil {
		c.seen[key] = &entrant{point: point, n: n, further: further}
	}
	return c.seen[key]
}

// entrants returns points, judged by n requests.
func (c *Contest) entrants(points [][]int, n int) []*entrant {
	return list.Map(points, func(p []int) *entrant { return c.entrant(p, n) })
}

// open returns the judge of an entrant, nil if it has none.
func (c *Contest) open(e *entrant) *Judge {
	e.once.Do(func() {
		var cfg *configs.Config
		err := input.Ended(c.ctx)
		if err == nil {
			cfg, err = c.Config(slices.Concat(settings(c.axes, e.point), e.further)...)
		}
		if err == nil {
			e.judge, err = NewJudge(cfg, thinned(c.trace, e.n, cfg), c.search.Meter)
		}
		switch {
		case err != nil:
			c.leave(e, err)
		case e.n < c.n: // one request more that happens to be long must not decide
			e.judge.few = true
		}
	})
	return e.judge
}

// leave removes the judge of an entrant, which then holds no rate. An error that is not due to the point (invalid, or serving no request)
// ends the contest.
func (c *Contest) leave(e *entrant, err error) {
	e.judge, e.err = nil, err
	if errors.As(err, new(*input.Error)) || errors.As(err, new(*system.RejectedError)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = cmp.Or(c.err, err)
}

// holds says whether an entrant holds a rate.
func (c *Contest) holds(e *entrant, rate float64) bool {
	rate = c.rounded(rate)
	switch {
	case c.open(e) == nil:
		return false
	case rate <= e.held:
		return true
	case e.failed > 0 && rate >= e.failed:
		return false
	}
	l := c.judge(e, rate)
	switch {
	case l.Met:
		e.held, e.best = rate, l
	case e.judge != nil:
		e.failed, e.fails, e.came = rate, l.Fails, l.came
	}
	return l.Met
}

// judge runs an entrant at a rate. If a short run fails because its queue grows, the node may only be filling; if it has too few requests
// for the users, more may help. A longer run then judges this rate and the point's later ones.
func (c *Contest) judge(e *entrant, rate float64) Load {
	if e.longer == nil {
		l, err := e.judge.run(c.ctx, rate, true)
		if err != nil {
			c.leave(e, err)
		}
		if e.n == c.n || len(l.Fails) != 1 || l.Fails[0].Name != queueGrows && l.Fails[0].Name != tooFew {
			return l
		}
		e.longer = c.entrant(e.point, min(5*e.n/2, c.n), e.further...)
	}
	met := c.holds(e.longer, rate)
	return Load{Met: met, Fails: e.longer.fails, Measured: e.longer.best.Measured, came: e.longer.came}
}

// sideBySide calls do for all elements in parallel.
func sideBySide[T any](all []T, do func(i int, x T)) {
	var group sync.WaitGroup
	for i, x := range all {
		group.Go(func() { do(i, x) })
	}
	group.Wait()
}

// race judges entrants at a rate and returns those that hold it.
func (c *Contest) race(all []*entrant, rate float64) []*entrant {
	sideBySide(all, func(_ int, e *entrant) { c.holds(e, rate) })
	return slices.DeleteFunc(slices.Clone(all), func(e *entrant) bool { return e.held < c.rounded(rate) })
}

// raise raises the rate of the entrants that hold one until one is left, which replaces a candidate. If all fail the next rate, the one that
// lasted longest remains.
func (c *Contest) raise(x Candidate, alive []*entrant, rate, step float64) Candidate {
	for len(alive) > 1 {
		left := c.race(alive, rate*(1+step))
		if len(left) == 0 {
			break
		}
		alive, rate = left, float64(rate*(1+step))
	}
	x.Rate = rate
	x.Point = slices.MaxFunc(alive, func(a, b *entrant) int { return int(a.came - b.came) }).point
	return x
}

// ascend climbs from a point that holds about a rate: it finds the highest rate that the point holds, then moves to a neighbour that holds
// the next rate, which the point fails. It tries neighbours of a later stride if the first stride finds none. The rate is 0 if the point
// holds none.
func (c *Contest) ascend(x Candidate, strides ...stride) Candidate {
	for i := 0; i < len(strides); i++ {
		e := c.entrant(x.Point, x.Requests)
		x.Rate = c.climb(e, x.Rate, strides[0].rate)
		if x.Rate == 0 {
			return x
		}
		if alive := c.rivals(x, e.failed, strides[i]); len(alive) > 0 {
			x, i = c.raise(x, alive, e.failed, strides[0].rate), -1
		}
	}
	return x
}

// inertTo is how far above the rate at which a move changed nothing the move is not tried again.
const inertTo = 1.1

// rivals races the neighbours of a point at a rate that it fails, and returns those that hold it. A move that did not change a run, such
// as a batch limit that is never reached, is not tried again near that rate.
func (c *Contest) rivals(x Candidate, rate float64, by stride) []*entrant {
	e := c.entrant(x.Point, x.Requests)
	moves := slices.DeleteFunc(neighbours(c.axes, x.Point, e.fails, by), func(m move) bool { return rate <= inertTo*x.inert[m] })
	all := list.Map(moves, func(m move) *entrant { return c.entrant(m.from(x.Point), x.Requests) })
	alive := c.race(all, rate)
	for i, f := range all {
		if f.failed == e.failed && f.came == e.came && slices.Equal(f.fails, e.fails) {
			x.inert[moves[i]] = rate
		}
	}
	return alive
}
