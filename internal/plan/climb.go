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
	// tries bounds the doublings and halvings beyond firstRates.
	tries = 8
	// longest is the seconds, 50 days, in which all requests come at the lowest rate that is tried
	// below firstRates: a run holds 106 days, its last answers included.
	longest = 50 * 86400
	// firstStep is by how much the rate of a point of which nothing is known changes at first, relative.
	firstStep = 0.05
)

// firstRates are tried first, in shares of the throughput of a full queue.
var firstRates = []float64{1. / 8, 1. / 4, 1. / 2, 3. / 4, 1, 5. / 4}

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

// Find returns the highest rate at which a configuration's node serves the requests within its targets. It first tries firstRates, and
// doubles or halves the rate until the highest fails and one does not; then it bisects between the highest rate that meets the
// targets and the next higher one that was tried. Where attainment dips at a lower rate the answer is above the dip. A rate that is asked
// for is judged first, and is the answer where it holds.
func (s *Search) Find(ctx context.Context, cfg *configs.Config, trace *traces.Trace) (*Answer, error) {
	j, err := NewJudge(cfg, trace, &s.Meter)
	if err != nil {
		return nil, err
	}
	a := newAnswer(j)
	if asked := asked(cfg); asked > 0 {
		if err := a.ask(ctx, j, asked); err != nil || a.Asked.Met {
			return a, err
		}
	}
	if err := a.bracket(ctx, j, cfg); err != nil {
		return nil, err
	}
	for {
		best := a.highest()
		if best < 0 || best == len(a.Tried)-1 || !between(j, a.Tried[best].offered(), a.Tried[best+1].offered(), s.Precision) {
			return a.settle(best, len(trace.Requests), cfg.SLO.Attainment), nil
		}
		if err := a.try(ctx, j, math.Sqrt(a.Tried[best].offered()*a.Tried[best+1].offered())); err != nil {
			return nil, err
		}
	}
}

func newAnswer(j *Judge) *Answer {
	return &Answer{Measured: j.to - j.from, Beyond: system.ContextNote(j.cfg, j.trace)}
}

// asked returns the rate, or the number of users, that a configuration names; 0 for none.
func asked(cfg *configs.Config) float64 {
	if cfg.Arrivals.Kind == traces.ArrivalsClosed {
		return float64(cfg.Arrivals.Users)
	}
	return cfg.Arrivals.RatePerS
}

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

// bracket tries rates until the highest fails and one does not.
func (a *Answer) bracket(ctx context.Context, j *Judge, cfg *configs.Config) error {
	n := len(j.trace.Requests)
	full, first := asked(cfg), firstRates[:4]
	if full == 0 || j.users() {
		var err error
		if full, err = j.full(ctx); err != nil {
			return err
		}
		first = firstRates
	}
	if j.users() {
		full, first = float64(max(cfg.Arrivals.Users, 1)), firstRates[:4]
	}
	if err := a.try(ctx, j, list.Map(first, func(share float64) float64 { return share * full })...); err != nil {
		return err
	}
	last := func() *Load { return &a.Tried[len(a.Tried)-1] }
	for i := 0; i < tries && last().Met; i++ {
		if err := a.try(ctx, j, 2*last().offered()); err != nil {
			return err
		}
	}
	for i := 0; i < tries && a.highest() < 0 && !a.alone() && a.lower(j, n); i++ {
		if err := a.try(ctx, j, a.Tried[0].offered()/2); err != nil {
			return err
		}
	}
	return nil
}

// lower says whether a rate below all that were tried can be run.
func (a *Answer) lower(j *Judge, n int) bool {
	if j.users() {
		return a.Tried[0].Users > 1
	}
	return a.Tried[0].RatePerS/2 >= float64(n)/longest
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

// answer returns the highest rate of a point that is known to hold one, to the precision; of one that is not, that of Find.
func (s *Search) answer(ctx context.Context, c *contest, x candidate) (*Answer, error) {
	cfg, err := c.load(x.point)
	if err != nil {
		return nil, err
	}
	cfg.Arrivals.RatePerS = c.rate
	if x.rate == 0 {
		return s.Find(ctx, cfg, c.trace)
	}
	e, err := c.entrant(x.point, x.n)
	if err != nil {
		return nil, err
	}
	held, err := c.highest(ctx, x.point, x.n, x.rate, s.Precision)
	if err != nil {
		return nil, err
	}
	a := newAnswer(e.judge)
	if asked := asked(cfg); asked > 0 {
		if err := a.ask(ctx, e.judge, asked); err != nil || a.Asked.Met {
			a.Highest = max(held, asked)
			return a, err
		}
	}
	l, err := e.judge.load(held, e.verdict.result, &e.verdict.measured)
	if err != nil {
		return nil, err
	}
	a.Tried = append(a.Tried, l)
	if err := a.try(ctx, e.judge, e.failed); err != nil {
		return nil, err
	}
	return a.settle(a.highest(), x.n, cfg.SLO.Attainment), nil
}

// above returns the rate that is tried above one.
func (c *contest) above(rate, step float64) float64 {
	if c.asked > 0 {
		return max(float64(rate*(1+step)), rate+1)
	}
	return float64(rate * (1 + step))
}

// highest returns the highest rate that a point holds by n requests, to a precision: from a rate upwards or downwards by growing steps, and
// then between. It is 0 where the point holds none down to a ten thousandth of it.
func (c *contest) highest(ctx context.Context, p []int, n int, from, precision float64) (float64, error) {
	e, err := c.entrant(p, n)
	if err != nil || e.judge == nil {
		return 0, err
	}
	step, least := precision, max(from*1e-4, min(c.asked, 1))
	if e.held == 0 {
		step = max(step, firstStep)
	}
	for rate := max(from, e.held); ; {
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
			rate = max(rate*min(1/(1+step), float64(e.came)/float64(n)), least)
		}
		step = min(2*step, 1)
	}
}
