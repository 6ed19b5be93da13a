package plan

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

const (
	// longest is the seconds, 49 days, in which all requests come at the lowest rate that is tried: a run holds 106 days, its last
	// answers included.
	longest = 49 * 86400
	// firstStep is by how much the rate of a point of which nothing is known changes at first, relative.
	firstStep = 0.05
)

// shares are the shares of the answer at which a configuration is judged, too, where its knobs are not searched: latency over load.
var shares = []float64{0.25, 0.5, 0.75, 0.9}

// Answer is the highest rate that a configuration holds.
type Answer struct {
	// Best is the highest rate that meets the targets. Where no rate does, its rate is 0, and the
	// rest is of the lowest rate tried.
	Best  Load
	Tried []Load // by rate
	// Alone says that where no rate meets the targets, requests do not wait for one another at the lowest rates that were tried: rates
	// below them have the same latencies.
	Alone    bool
	Dips     bool // a rate below Best did not meet the targets
	Measured int  // requests that each rate is judged by
	// Next is the next higher rate that was tried, which fails; nil where none was. Needed is the requests of a run that is long enough
	// to trust that the number of requests in the system grew there, 0 where these runs were, or other targets are missed.
	Next     *Load
	Needed   int
	Highest  float64 // the highest rate that holds, or number of users, where Asked is the answer and a search knows one; else 0
	Asked    *Load   // the rate that was asked for, nil where none was
	Beyond   string  // says which requests go beyond the model's context, "" where none does
	TooLarge int     // requests of a run that fit no empty memory or go beyond the context: they attain nothing
}

// Find returns the highest rate at which a configuration's node serves the requests within its targets. A rate that is asked for is judged
// first, and is the answer where it holds.
func (s *Search) Find(ctx context.Context, cfg *configs.Config, trace *traces.Trace) (*Answer, error) {
	j, err := NewJudge(cfg, trace, &s.Meter)
	if err != nil {
		return nil, err
	}
	c := &contest{search: s, trace: trace, asked: users(cfg)}
	return c.answer(ctx, &entrant{judge: j}, asked(cfg), 0)
}

func newAnswer(j *Judge) *Answer {
	return &Answer{Measured: j.to - j.from, Beyond: system.ContextNote(j.cfg, j.trace)}
}

// users returns the number of users that a configuration names, 0 where its requests come at a rate.
func users(cfg *configs.Config) float64 {
	if cfg.Arrivals.Kind == traces.ArrivalsClosed {
		return float64(cfg.Arrivals.Users)
	}
	return 0
}

// asked returns the rate, or the number of users, that a configuration names; 0 for none.
func asked(cfg *configs.Config) float64 { return cmp.Or(users(cfg), cfg.Arrivals.RatePerS) }

// ask judges the rate that is asked for. Where it holds it is the answer.
func (a *Answer) ask(ctx context.Context, j *Judge, rate float64) error {
	l, err := j.at(ctx, rate)
	if err != nil {
		return err
	}
	a.Asked, a.TooLarge = &l, int(l.Summary.RejectedRequests)
	a.Tried = append(a.Tried, l)
	if l.Met {
		a.Best = l
	}
	return nil
}

// between says whether a rate is to be tried between one that holds and one that fails.
func between(j *Judge, held, failed, precision float64) bool {
	return failed > (1+precision)*held && (!j.users() || failed > held+1)
}

// rounded returns a rate with six digits, so that --rate repeats it as it is printed; of users a whole number.
func rounded(j *Judge, rate float64) float64 {
	if j.users() {
		return max(1, math.Round(rate))
	}
	return tables.Round(rate, 6)
}

// highest returns the place of the highest rate that meets the targets, -1 for none.
func (a *Answer) highest() int {
	for i, l := range slices.Backward(a.Tried) {
		if l.Met {
			return i
		}
	}
	return -1
}

// alone says that the lowest rates that were tried have the same latencies.
func (a *Answer) alone() bool {
	if len(a.Tried) < 2 {
		return a.Tried[0].Users == 1
	}
	x, y := &a.Tried[0], &a.Tried[1]
	return x.TTFT == y.TTFT && x.TBT == y.TBT && x.E2E == y.E2E
}

// settle makes the rate at a place the answer, of runs of n requests and a share of them that must attain the targets.
func (a *Answer) settle(best, n int, target float64) *Answer {
	a.Best = a.Tried[max(best, 0)]
	if next := best + 1; next < len(a.Tried) {
		a.Next = &a.Tried[next]
		if needed := residences * a.Next.E2E.P99 / 1e3 * a.Next.RatePerS; a.Next.Saturated && a.Next.Attainment >= target && needed > float64(n) {
			a.Needed = int(math.Ceil(needed))
		}
	}
	if best < 0 {
		a.Best.RatePerS, a.Best.Users, a.Alone = 0, 0, a.alone()
		return a
	}
	a.Dips = slices.ContainsFunc(a.Tried[:best], func(l Load) bool { return !l.Met })
	return a
}

// try runs the node at rates that were not tried, side by side.
func (a *Answer) try(ctx context.Context, j *Judge, rates ...float64) error {
	rates = slices.Compact(list.Map(rates, func(rate float64) float64 { return rounded(j, rate) }))
	rates = slices.DeleteFunc(rates, func(rate float64) bool {
		return slices.ContainsFunc(a.Tried, func(l Load) bool { return l.offered() == rate })
	})
	loads := make([]Load, len(rates))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, rate := range rates {
		group.Go(func() (err error) {
			loads[i], err = j.at(ctx, rate)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.Tried = append(a.Tried, loads...)
	slices.SortFunc(a.Tried, func(x, y Load) int { return cmp.Compare(x.offered(), y.offered()) })
	a.TooLarge = int(a.Tried[0].Summary.RejectedRequests)
	return nil
}

// answer returns the highest rate that an entrant holds, to the precision, from a rate that it is known to hold; 0 for none. What is asked
// for is judged first, and is the answer where it holds.
func (c *contest) answer(ctx context.Context, e *entrant, asked, from float64) (*Answer, error) {
	j, known := e.judge, from > 0
	a := newAnswer(j)
	if asked > 0 {
		if err := a.ask(ctx, j, asked); err != nil || a.Asked.Met && !known {
			return a, err
		}
	}
	if from = cmp.Or(from, asked); from == 0 {
		full, err := j.full(ctx)
		if err != nil {
			return nil, err
		}
		from = full / 2
	}
	held, err := c.climb(ctx, e, from, c.search.Precision)
	if err != nil {
		return nil, err
	}
	if a.Asked != nil && a.Asked.Met {
		a.Highest = max(held, asked)
		return a, nil
	}
	rates := []float64{cmp.Or(e.failed, from)} // an entrant that cannot run has failed none: the run says why
	switch {
	case held == 0: // the lowest, and one by which it is seen whether requests wait for one another
		rates = append(rates, 2*e.failed)
	default:
		l, err := j.load(held, e.verdict.result, &e.verdict.measured)
		if err != nil {
			return nil, err
		}
		a.Tried = append(a.Tried, l)
		if !known {
			rates = append(rates, list.Map(shares, func(share float64) float64 { return share * held })...)
		}
	}
	if err := a.try(ctx, j, rates...); err != nil {
		return nil, err
	}
	return a.settle(a.highest(), len(j.trace.Requests), j.cfg.SLO.Attainment), nil
}

// above returns the rate that is tried above one.
func (c *contest) above(rate, step float64) float64 {
	if c.asked > 0 {
		return max(float64(rate*(1+step)), rate+1)
	}
	return float64(rate * (1 + step))
}

// highest returns the highest rate that a point holds by n requests, to a precision; 0 for none.
func (c *contest) highest(ctx context.Context, p []int, n int, from, precision float64) (float64, error) {
	e, err := c.entrant(p, n)
	if err != nil || e.judge == nil {
		return 0, err
	}
	return c.climb(ctx, e, from, precision)
}

// climb returns the highest rate that an entrant holds, to a precision: from a rate upwards or downwards by growing steps, and
// then between. It is 0 where it holds none down to a ten thousandth of it.
func (c *contest) climb(ctx context.Context, e *entrant, from, precision float64) (float64, error) {
	step, n := precision, float64(len(e.judge.trace.Requests))
	least := max(from*1e-4, n/longest)
	if c.asked > 0 {
		least = 1
	}
	if e.held == 0 {
		step = max(step, firstStep)
	}
	for rate := max(from, e.held, least); ; {
		met, err := c.holds(ctx, e, rate)
		switch {
		case err != nil || e.judge == nil:
			return 0, err
		case e.held > 0 && (e.failed > 0 && !between(e.judge, e.held, e.failed, precision)):
			return e.held, nil
		case e.held > 0 && e.failed > 0:
			rate = math.Sqrt(e.held * e.failed)
		case met:
			rate = c.above(rate, step)
		case rate <= least:
			return 0, nil
		default: // the later in the run it failed, the nearer the rate
			rate = max(rate*min(1/(1+step), float64(e.came)/n), least)
		}
		step = min(2*step, 1)
	}
}
