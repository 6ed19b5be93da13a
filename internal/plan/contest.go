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
	came    int64    // requests at which it failed there
	longer  *entrant // what judges it instead, by more requests
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
	v, err := c.judge(ctx, e, rate)
	if err != nil || e.judge == nil {
		return false, err
	}
	if v.Met {
		e.held, e.verdict = rate, v
	} else {
		e.failed, e.fails, e.came = rate, v.Fails, v.Came
	}
	return v.Met, nil
}

// judge runs a point at a rate. Where a short run fails because its queue grows, the node may only be filling: a longer run then judges this
// rate and the later ones of the point.
func (c *contest) judge(ctx context.Context, e *entrant, rate float64) (v Verdict, err error) {
	n := len(e.judge.trace.Requests)
	if e.longer == nil {
		if err := c.search.acquire(ctx); err != nil {
			return v, err
		}
		v, err = e.judge.Holds(ctx, rate)
		c.search.release()
		if err != nil {
			e.judge = nil
			return v, unfit(err)
		}
		if n == len(c.trace.Requests) || len(v.Fails) != 1 || v.Fails[0].Name != queueGrows {
			return v, nil
		}
		if e.longer, err = c.entrant(e.point, min(5*n/2, len(c.trace.Requests)), e.further...); err != nil {
			return v, err
		}
	}
	l := e.longer
	v.Met, err = c.holds(ctx, l, rate)
	v.Fails, v.Stay, v.Came = l.fails, l.verdict.Stay, l.came
	return v, err
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

// raise raises the rate of points that hold one until one is left, which takes a candidate's place. Of several that fail the next rate the
// one counts that lasted longest.
func (c *contest) raise(ctx context.Context, x candidate, alive [][]int, rate, step float64) (candidate, error) {
	for len(alive) > 1 {
		left, err := c.race(ctx, alive, x.n, rate*(1+step))
		if err != nil {
			return candidate{}, err
		}
		if len(left) == 0 {
			break
		}
		alive, rate = left, float64(rate*(1+step))
	}
	x.rate = rate
	x.point = slices.MaxFunc(alive, func(a, b []int) int {
		e, _ := c.entrant(a, x.n)
		f, _ := c.entrant(b, x.n)
		return int(e.came - f.came)
	})
	return x, nil
}

// ascend climbs from a point that holds about a rate: it takes the highest rate that the point holds, and goes on with a neighbour that
// holds the next one, which the point fails. Neighbours of a further stride are asked where those of the first have none. The rate is 0 where
// the point holds none.
func (c *contest) ascend(ctx context.Context, x candidate, strides ...stride) (candidate, error) {
	for i := 0; i < len(strides); i++ {
		var err error
		if x.rate, err = c.highest(ctx, x.point, x.n, x.rate, strides[0].rate); err != nil || x.rate == 0 {
			return x, err
		}
		e, err := c.entrant(x.point, x.n)
		if err != nil {
			return x, err
		}
		alive, err := c.rivals(ctx, x, e.failed, strides[i])
		if err != nil {
			return x, err
		}
		if len(alive) == 0 {
			continue
		}
		if x, err = c.raise(ctx, x, alive, e.failed, strides[0].rate); err != nil {
			return x, err
		}
		i = -1
	}
	return x, nil
}

// inertTo is how far above the rate at which a move changed nothing it is not tried again.
const inertTo = 1.1

// move is a change of a knob: its axis and the value's place there.
type move struct{ axis, value int }

// moved returns the move from a point to its neighbour.
func moved(p, q []int) move {
	i := 0
	for p[i] == q[i] {
		i++
	}
	return move{i, q[i]}
}

// roomy says whether a move is from one limit of the batch to another, both far above the largest batch at the highest rate that the
// point is known to hold.
func (c *contest) roomy(e *entrant, m move) bool {
	const far = 4
	axis := &c.axes[m.axis]
	if axis.key != maxSeqs || e.verdict.result == nil {
		return false
	}
	return min(leastSeqs<<e.point[m.axis], leastSeqs<<m.value) >= far*e.verdict.result.Batch().Max
}

// rivals has the neighbours of a point race at a rate that it fails, and returns those that hold it. A move with which a run is the same,
// as with a limit of the batch that none reaches, is not tried again near that rate.
func (c *contest) rivals(ctx context.Context, x candidate, rate float64, by stride) ([][]int, error) {
	e, err := c.entrant(x.point, x.n)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(neighbours(c.axes, x.point, e.fails, by), func(q []int) bool {
		m := moved(x.point, q)
		return rate <= inertTo*x.inert[m] || c.roomy(e, m)
	})
	alive, err := c.race(ctx, all, x.n, rate)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if f, _ := c.entrant(q, x.n); f.failed == e.failed && f.came == e.came && slices.Equal(f.fails, e.fails) {
			x.inert[moved(x.point, q)] = rate
		}
	}
	return alive, nil
}
