package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// Contest judges points of a grid of knobs of one configuration, each at rates and with a number of requests. It remembers what it was told.
type Contest struct {
	Candidates []Candidate // what Compare found, the best first
	search     *Search
	options    configs.Options
	axes       []axis
	trace      *traces.Trace
	users      bool    // nodes are offered a number of users; else requests come at a rate
	asked      float64 // rate, or number of users, that is asked for; 0 for none
	mu         sync.Mutex
	seen       map[string]*entrant
}

// Candidate is a point and the highest rate that it is known to hold.
type Candidate struct {
	Point    []int            `json:"point"`
	Rate     float64          `json:"rate"`
	Requests int              `json:"requests"` // by how many
	inert    map[move]float64 // the rate to which a move changed no run
}

// entrant is a point, with the further settings that it is judged with.
type entrant struct {
	point   []int
	n       int // requests that judge it
	further []string
	once    sync.Once
	judge   *Judge  // nil where the point is no valid configuration, or serves no request
	err     error   // why
	held    float64 // the highest rate that it is known to hold
	best    Load    // there
	failed  float64 // the lowest rate that it is known to fail, 0 for none
	fails   []Failure
	came    int64    // requests at which it failed there
	longer  *entrant // what judges it instead, by more requests
}

// Config returns the configuration with settings of knobs. Its rate is left to judges.
func (c *Contest) Config(sets ...string) (*configs.Config, error) {
	o := c.options
	o.Sets = slices.Concat(o.Sets, sets)
	cfg, err := system.Load(o)
	if err == nil {
		cfg.Arrivals.RatePerS = 0
	}
	return cfg, err
}

// entrant returns a point with further settings, which is judged by n requests.
func (c *Contest) entrant(point []int, n int, further ...string) *entrant {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(point, n, further)
	if c.seen[key] == nil {
		c.seen[key] = &entrant{point: point, n: n, further: further}
	}
	return c.seen[key]
}

// entrants returns points that are judged by n requests.
func (c *Contest) entrants(points [][]int, n int) []*entrant {
	return list.Map(points, func(p []int) *entrant { return c.entrant(p, n) })
}

// open returns the judge of an entrant, nil where it has none.
func (c *Contest) open(e *entrant) *Judge {
	e.once.Do(func() {
		cfg, err := c.Config(slices.Concat(settings(c.axes, e.point), e.further)...)
		if err != nil {
			e.err = err
			return
		}
		e.judge, e.err = NewJudge(cfg, thinned(c.trace, e.n, cfg), c.search.Meter)
		if e.err == nil && e.n < len(c.trace.Requests) { // one more request that happens to be long must not decide
			e.judge.misses += 1 + e.judge.misses/8
		}
	})
	return e.judge
}

// unfit returns nil for the error of a point that is not valid, or serves no request: it holds no rate.
func unfit(err error) error {
	if errors.As(err, new(*input.Error)) || errors.As(err, new(*system.RejectedError)) {
		return nil
	}
	return err
}

// holds says whether an entrant holds a rate.
func (c *Contest) holds(ctx context.Context, e *entrant, rate float64) (bool, error) {
	rate = c.rounded(rate)
	switch {
	case c.open(e) == nil:
		return false, unfit(e.err)
	case rate <= e.held:
		return true, nil
	case e.failed > 0 && rate >= e.failed:
		return false, nil
	}
	l, err := c.judge(ctx, e, rate)
	if err != nil {
		e.judge, e.err = nil, err
		return false, unfit(err)
	}
	if l.Met {
		e.held, e.best = rate, l
	} else {
		e.failed, e.fails, e.came = rate, l.Fails, l.came
	}
	return l.Met, nil
}

// judge runs an entrant at a rate. Where a short run fails because its queue grows, the node may only be filling: a longer run then judges this
// rate and the later ones of the point.
func (c *Contest) judge(ctx context.Context, e *entrant, rate float64) (Load, error) {
	if e.longer == nil {
		l, err := e.judge.run(ctx, rate, true)
		if err != nil || e.n == len(c.trace.Requests) || len(l.Fails) != 1 || l.Fails[0].Name != queueGrows {
			return l, err
		}
		e.longer = c.entrant(e.point, min(5*e.n/2, len(c.trace.Requests)), e.further...)
	}
	met, err := c.holds(ctx, e.longer, rate)
	return Load{Met: met, Fails: e.longer.fails, E2E: e.longer.best.E2E, came: e.longer.came}, err
}

// sideBySide does something with all elements, and returns the first error.
func sideBySide[T any](ctx context.Context, all []T, do func(ctx context.Context, i int, x T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, x := range all {
		group.Go(func() error { return do(ctx, i, x) })
	}
	return group.Wait()
}

// race judges entrants at a rate, side by side, and returns those that hold it.
func (c *Contest) race(ctx context.Context, all []*entrant, rate float64) ([]*entrant, error) {
	err := sideBySide(ctx, all, func(ctx context.Context, _ int, e *entrant) error {
		_, err := c.holds(ctx, e, rate)
		return err
	})
	return slices.DeleteFunc(slices.Clone(all), func(e *entrant) bool { return e.held < c.rounded(rate) }), err
}

// raise raises the rate of entrants that hold one until one is left, which takes a candidate's place. Of several that fail the next rate the
// one counts that lasted longest.
func (c *Contest) raise(ctx context.Context, x Candidate, alive []*entrant, rate, step float64) (Candidate, error) {
	for len(alive) > 1 {
		left, err := c.race(ctx, alive, rate*(1+step))
		if err != nil {
			return x, err
		}
		if len(left) == 0 {
			break
		}
		alive, rate = left, float64(rate*(1+step))
	}
	x.Rate = rate
	x.Point = slices.MaxFunc(alive, func(a, b *entrant) int { return int(a.came - b.came) }).point
	return x, nil
}

// ascend climbs from a point that holds about a rate: it takes the highest rate that the point holds, and goes on with a neighbour that
// holds the next one, which the point fails. Neighbours of a further stride are asked where those of the first have none. The rate is 0 where
// the point holds none.
func (c *Contest) ascend(ctx context.Context, x Candidate, strides ...stride) (Candidate, error) {
	for i := 0; i < len(strides); {
		e := c.entrant(x.Point, x.Requests)
		var err error
		if x.Rate, err = c.climb(ctx, e, x.Rate, strides[0].rate); err != nil || x.Rate == 0 {
			return x, err
		}
		alive, err := c.rivals(ctx, x, e.failed, strides[i])
		if err != nil {
			return x, err
		}
		if len(alive) == 0 {
			i++
			continue
		}
		if x, err = c.raise(ctx, x, alive, e.failed, strides[0].rate); err != nil {
			return x, err
		}
		i = 0
	}
	return x, nil
}

// inertTo is how far above the rate at which a move changed nothing it is not tried again.
const inertTo = 1.1

// roomy says whether a move is from one limit of the batch to another, both far above the largest batch at the highest rate that the
// point is known to hold.
func (c *Contest) roomy(e *entrant, m move) bool {
	const far = 4
	if c.axes[m.axis].key != maxSeqs || e.best.Summary == nil {
		return false
	}
	return min(leastSeqs<<e.point[m.axis], leastSeqs<<m.value) >= far*e.best.Summary.DecodeBatch.Max
}

// rivals has the neighbours of a point race at a rate that it fails, and returns those that hold it. A move with which a run is the same,
// as with a limit of the batch that none reaches, is not tried again near that rate.
func (c *Contest) rivals(ctx context.Context, x Candidate, rate float64, by stride) ([]*entrant, error) {
	e := c.entrant(x.Point, x.Requests)
	moves := slices.DeleteFunc(neighbours(c.axes, x.Point, e.fails, by), func(m move) bool { return rate <= inertTo*x.inert[m] || c.roomy(e, m) })
	all := list.Map(moves, func(m move) *entrant { return c.entrant(m.from(x.Point), x.Requests) })
	alive, err := c.race(ctx, all, rate)
	for i, f := range all {
		if f.failed == e.failed && f.came == e.came && slices.Equal(f.fails, e.fails) {
			x.inert[moves[i]] = rate
		}
	}
	return alive, err
}
