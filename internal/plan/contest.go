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
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// contest judges points of a grid of knobs, each at rates and with a number of requests. It remembers what it was told.
type contest struct {
	search  *Search
	options configs.Options
	axes    []axis
	trace   *traces.Trace
	asked   float64 // users that are asked for; 0 where requests come at a rate
	rate    float64 // that is asked for, 0 for none
	mu      sync.Mutex
	seen    map[string]*entrant
}

// entrant is a point, with the further settings that it is judged with.
type entrant struct {
	point   []int
	further []string
	once    sync.Once
	judge   *Judge
	err     error
	held    float64 // the highest rate that it is known to hold
	verdict Verdict // there
	failed  float64 // the lowest rate that it is known to fail, 0 for none
	fails   []Failure
	came    int64 // requests at which it failed there
}

// doesNotFit is the failure of a point that is no valid configuration, or serves no request.
const doesNotFit = "does not fit"

// load returns the configuration of a point with further settings. Its rate is left to judges.
func (c *contest) load(point []int, further ...string) (*configs.Config, error) {
	o := c.options
	o.Sets = slices.Concat(o.Sets, settings(c.axes, point), further)
	cfg, err := system.Load(o)
	if err == nil {
		cfg.Arrivals.RatePerS = 0
	}
	return cfg, err
}

// entrant returns a point with further settings, which is judged by n requests.
func (c *contest) entrant(point []int, n int, further ...string) (*entrant, error) {
	key := fmt.Sprint(point, n, further)
	c.mu.Lock()
	e := c.seen[key]
	if e == nil {
		e = &entrant{point: point, further: further}
		c.seen[key] = e
	}
	c.mu.Unlock()
	e.once.Do(func() {
		var cfg *configs.Config
		if cfg, e.err = c.load(point, further...); e.err == nil {
			whole := n == len(c.trace.Requests)
			trace := c.trace
			if !whole {
				trace = thinned(c.trace, n, cfg)
			}
			if e.judge, e.err = NewJudge(cfg, trace, &c.search.Meter); e.err == nil && !whole {
				e.judge.lenient()
			}
		}
	})
	return e, unfit(e.err)
}

// unfit returns nil for the error of a point that is not valid, or serves no request: it holds no rate.
func unfit(err error) error {
	if errors.As(err, new(*input.Error)) || errors.As(err, new(*system.RejectedError)) {
		return nil
	}
	return err
}

// holds judges a point at a rate.
func (c *contest) holds(ctx context.Context, e *entrant, rate float64) (bool, error) {
	if e.judge == nil {
		e.fails = []Failure{{Name: doesNotFit}}
		return false, nil
	}
	rate = rounded(e.judge, rate)
	switch {
	case rate <= e.held:
		return true, nil
	case e.failed > 0 && rate >= e.failed:
		return false, nil
	}
	if err := c.search.acquire(ctx); err != nil {
		return false, err
	}
	v, err := e.judge.Holds(ctx, rate)
	c.search.release()
	if unfit(err) != nil {
		return false, err
	}
	if err != nil {
		e.judge = nil
		return false, nil
	}
	if n := len(e.judge.trace.Requests); len(v.Fails) == 1 && v.Fails[0].Name == queueGrows && n < len(c.trace.Requests) {
		longer, err := c.entrant(e.point, min(5*n/2, len(c.trace.Requests)), e.further...) // the node may only fill
		if err != nil {
			return false, err
		}
		if v.Met, err = c.holds(ctx, longer, rate); err != nil {
			return false, err
		}
		v.Stay = longer.verdict.Stay
	}
	if v.Met {
		e.held, e.verdict = rate, v
	} else {
		e.failed, e.fails, e.came = rate, v.Fails, v.Came
	}
	return v.Met, nil
}

// race judges points at a rate, side by side, and returns those that hold it.
func (c *contest) race(ctx context.Context, points [][]int, n int, rate float64) ([][]int, error) {
	met := make([]bool, len(points))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range points {
		group.Go(func() error {
			e, err := c.entrant(p, n)
			if err == nil {
				met[i], err = c.holds(ctx, e, rate)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var alive [][]int
	for i, p := range points {
		if met[i] {
			alive = append(alive, p)
		}
	}
	return alive, nil
}

// raise raises the rate of points that hold one until one is left. Of several that fail the next rate the one counts that lasted longest.
func (c *contest) raise(ctx context.Context, alive [][]int, n int, rate, step float64) ([]int, float64, error) {
	for len(alive) > 1 {
		left, err := c.race(ctx, alive, n, rate*(1+step))
		if err != nil {
			return nil, 0, err
		}
		if len(left) == 0 {
			break
		}
		alive, rate = left, float64(rate*(1+step))
	}
	best := slices.MaxFunc(alive, func(a, b []int) int {
		x, _ := c.entrant(a, n)
		y, _ := c.entrant(b, n)
		return int(x.came - y.came)
	})
	return best, rate, nil
}

// ascend climbs from a point that holds a rate, by steps of the rate, the largest first: where the point fails the next rate, its neighbours
// race at it. The knobs without an order stay.
func (c *contest) ascend(ctx context.Context, p []int, rate float64, n int, steps ...stride) ([]int, float64, error) {
	for _, by := range steps {
		step := by.rate
		for {
			e, err := c.entrant(p, n)
			if err != nil {
				return nil, 0, err
			}
			bar := c.above(rate, step)
			met, err := c.holds(ctx, e, bar)
			if err != nil {
				return nil, 0, err
			}
			if met {
				rate = bar
				continue
			}
			alive, err := c.race(ctx, neighbours(c.axes, p, e.fails, by), n, bar)
			if err != nil {
				return nil, 0, err
			}
			if len(alive) == 0 {
				break
			}
			if p, rate, err = c.raise(ctx, alive, n, bar, step); err != nil {
				return nil, 0, err
			}
		}
	}
	return p, rate, nil
}
