package plan

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// Search is how servers are searched.
type Search struct {
	Precision float64 // largest ratio between an answer and a rate above it that fails, less 1
	Tune      bool    // search the knobs; else the configuration is taken as given
	Meter     Meter
	once      sync.Once
	workers   chan struct{}
}

// acquire waits for a processor.
func (s *Search) acquire(ctx context.Context) error {
	s.once.Do(func() { s.workers = make(chan struct{}, runtime.GOMAXPROCS(0)) })
	select {
	case s.workers <- struct{}{}:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Search) release() { <-s.workers }

const (
	// stays is how many mean stays of a request the requests come over by which knobs are compared, so that a node that fills is not
	// taken for a full one. leastCoarse is the fewest of these requests.
	stays       = 6
	leastCoarse = 400
	// hopeless is the share of the best rate so far below which an arm is not searched.
	hopeless = 0.4
	// near and nearer are how far below the best the best points of other arms may be, by the coarse comparison, and still be judged by
	// all requests, and with their neighbours.
	near, nearer = 0.5, 0.25
)

// candidate is a point and the highest rate that it is known to hold.
type candidate struct {
	point []int
	rate  float64
	n     int              // by how many requests
	inert map[move]float64 // the rate to which a move changed no run
}

// Coarse is what a comparison of all knobs found, the best first: for each tensor parallelism and policy the knobs with the highest rate, by
// fewer requests than the answer will have.
type Coarse struct {
	contest    *contest
	candidates []candidate
	given      error // of the configuration as given, where no point is valid
}

// Rate returns the highest rate of all.
func (c *Coarse) Rate() float64 {
	if len(c.candidates) == 0 {
		return 0
	}
	return c.candidates[0].rate
}

// coarse returns a comparison that has not begun.
func (s *Search) coarse(o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Coarse, error) {
	c := &contest{search: s, options: WithAdmission(o), trace: trace, asked: users(cfg), rate: cfg.Arrivals.RatePerS, seen: map[string]*entrant{}}
	if err := check(cfg); err != nil {
		return nil, err
	}
	if s.Tune {
		c.axes = grid(o, cfg)
	}
	_, err := c.load(nil)
	return &Coarse{contest: c, given: err}, nil
}

// Compare searches the knobs of a configuration by few requests.
func (s *Search) Compare(ctx context.Context, o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Coarse, error) {
	out, err := s.coarse(o, cfg, trace)
	if err != nil {
		return nil, err
	}
	c := out.contest
	if len(c.axes) == 0 {
		out.candidates = []candidate{{point: []int{}, n: len(trace.Requests)}}
		return out, nil
	}
	all := arms(c.axes)
	found := make([]candidate, len(all))
	from, first := 0.0, 0
	for i, arm := range all { // the first that serves anything shows where rates lie
		guess, err := c.guess(ctx, arm)
		if err == nil && guess > 0 {
			found[i], err = c.arm(ctx, arm, guess, guess*1e-4)
			from, first = found[i].rate, i+1
		}
		if err != nil {
			return nil, err
		}
		if from > 0 {
			break
		}
	}
	if err := c.each(ctx, all[first:], found[first:], func(ctx context.Context, arm []int, _ candidate) (candidate, error) {
		if from == 0 {
			return candidate{}, nil
		}
		return c.arm(ctx, arm, from, from*hopeless)
	}); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(x candidate) bool { return x.rate == 0 })
	rank(found)
	if err := c.each(ctx, nil, found, func(ctx context.Context, _ []int, x candidate) (candidate, error) {
		if x.rate < found[0].rate*(1-near) {
			return x, nil
		}
		return c.again(ctx, x)
	}); err != nil {
		return nil, err
	}
	rank(found)
	out.candidates = found
	return out, nil
}

// rank puts the highest rate first.
func rank(all []candidate) {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.rate, a.rate) })
}

// each replaces candidates, one of each arm, side by side.
func (c *contest) each(ctx context.Context, arms [][]int, all []candidate, by func(ctx context.Context, arm []int, x candidate) (candidate, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make([]candidate, len(all))
	for i, x := range all {
		group.Go(func() (err error) {
			arm := x.point
			if arms != nil {
				arm = arms[i]
			}
			next[i], err = by(ctx, arm, x)
			return err
		})
	}
	err := group.Wait()
	copy(all, next)
	return err
}

// guess returns half the rate, or the number of users, at which a node of an arm serves a full queue; 0 where the arm serves nothing.
func (c *contest) guess(ctx context.Context, arm []int) (float64, error) {
	for _, p := range starts(c.axes, arm) {
		e, err := c.entrant(p, min(leastCoarse, len(c.trace.Requests)))
		if err != nil {
			return 0, err
		}
		if e.judge == nil {
			continue
		}
		if c.asked > 0 {
			return c.asked, nil
		}
		full, err := e.judge.full(ctx)
		if unfit(err) != nil {
			return 0, err
		}
		if full > 0 {
			return full / 2, nil
		}
	}
	return 0, nil
}

// arm returns the best point of an arm by few requests and long strides; none where it does not hold a least rate.
func (c *contest) arm(ctx context.Context, arm []int, guess, least float64) (candidate, error) {
	n := min(leastCoarse, len(c.trace.Requests))
	for bar := guess; bar >= least && (c.asked == 0 || bar >= 1); bar = c.below(bar) {
		alive, err := c.race(ctx, starts(c.axes, arm), n, bar)
		if err != nil {
			return candidate{}, err
		}
		if len(alive) == 0 {
			continue
		}
		x, err := c.raise(ctx, candidate{n: n, inert: map[move]float64{}}, alive, bar, 0.5)
		if err != nil {
			return x, err
		}
		return c.ascend(ctx, x, coarse)
	}
	return candidate{}, nil
}

// below returns what points are judged at next where none holds a rate or a number of users: a quarter; the last is one user.
func (c *contest) below(bar float64) float64 {
	if c.asked > 0 && bar > 1 {
		return max(bar/4, 1)
	}
	return bar / 4
}

// again judges a candidate by shorter steps, and by as many requests as its node does not only fill in.
func (c *contest) again(ctx context.Context, x candidate) (candidate, error) {
	e, err := c.entrant(x.point, x.n)
	if err != nil {
		return candidate{}, err
	}
	if c.asked == 0 {
		x.n = min(len(c.trace.Requests), max(x.n, int(stays*x.rate*e.verdict.Stay)/100*100))
	}
	x.rate, err = c.highest(ctx, x.point, x.n, x.rate, coarse.rate/3)
	return x, err
}

// Tuned is a configuration with the knobs that serve it best.
type Tuned struct {
	Config *configs.Config
	Sets   []string // settings of knobs beyond the configuration as given
	Answer *Answer
	Binds  []Bind
	point  []int
}

// Decide judges what a comparison found by all requests, and measures what binds.
func (s *Search) Decide(ctx context.Context, x *Coarse) (*Tuned, error) {
	c := x.contest
	c.seen = map[string]*entrant{} // as after Resume, so that the answer is the same
	best := candidate{rate: 0}
	if len(c.axes) > 0 {
		var err error
		if best, err = c.final(ctx, x.candidates); err != nil {
			return nil, err
		}
	}
	if best.point == nil { // no point holds any rate: the answer is of the first that is valid
		best.point = []int{}
		if len(c.axes) > 0 {
			var err error
			if best.point, err = c.valid(x.given); err != nil {
				return nil, err
			}
		}
	}
	cfg, err := c.load(best.point)
	if err != nil {
		return nil, err
	}
	out := &Tuned{Config: cfg, Sets: settings(c.axes, best.point), point: best.point}
	e, err := c.entrant(best.point, len(c.trace.Requests))
	if err == nil && e.judge == nil {
		err = e.err
	}
	if err != nil {
		return nil, err
	}
	if out.Answer, err = c.answer(ctx, e, cmp.Or(c.asked, c.rate), best.rate); err != nil {
		return nil, err
	}
	out.Binds, err = c.binds(ctx, out)
	return out, err
}

// valid returns the first point that is a configuration, or the error of the configuration as given.
func (c *contest) valid(given error) ([]int, error) {
	var first error
	for _, arm := range arms(c.axes) {
		for _, p := range starts(c.axes, arm) {
			_, err := c.load(p)
			if err == nil {
				return p, nil
			}
			first = cmp.Or(first, err) // of the most GPUs a replica: what keeps it out
		}
	}
	return nil, cmp.Or(first, given)
}

// Row finds the knobs of a configuration with which it holds the highest rate of requests within its targets, and measures what binds.
func (s *Search) Row(ctx context.Context, o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Tuned, error) {
	x, err := s.Compare(ctx, o, cfg, trace)
	if err != nil {
		return nil, err
	}
	return s.Decide(ctx, x)
}

// final returns the best point by all requests. The best of few requests climbs; it is then challenged by every other finalist, those of
// each tensor parallelism among them, and by the neighbours of those that are near.
func (c *contest) final(ctx context.Context, candidates []candidate) (best candidate, err error) {
	for _, x := range finalists(c.axes, candidates) {
		near := x.rate >= candidates[0].rate*(1-nearer)
		x.n, x.inert = len(c.trace.Requests), map[move]float64{}
		if best.rate > 0 {
			if x, err = c.challenger(ctx, best, x, near); err != nil {
				return best, err
			}
			if x.rate == 0 {
				continue
			}
		}
		if x, err = c.ascend(ctx, x, last, wide); err != nil {
			return best, err
		}
		if x.rate > best.rate {
			best = x
		}
	}
	return best, nil
}

// challenger returns a point that holds the rate at which the best fails: a finalist, or one of its neighbours where it is near.
func (c *contest) challenger(ctx context.Context, best, x candidate, near bool) (candidate, error) {
	e, err := c.entrant(best.point, best.n)
	if err != nil {
		return candidate{}, err
	}
	bar := e.failed
	alive, err := c.race(ctx, [][]int{x.point}, x.n, bar)
	if err == nil && len(alive) == 0 && near {
		alive, err = c.rivals(ctx, x, bar, last)
	}
	if err != nil || len(alive) == 0 {
		return candidate{}, err
	}
	return c.raise(ctx, x, alive, bar, last.rate)
}

// finalists returns the candidates to judge by more requests, the best first: the best of each tensor parallelism, and those that may be
// better than they look.
func finalists(axes []axis, candidates []candidate) (all []candidate) {
	tp := slices.IndexFunc(axes, func(x axis) bool { return x.key == tensorParallel })
	seen := map[int]bool{}
	for _, x := range candidates {
		of := -1
		if tp >= 0 {
			of = x.point[tp]
		}
		if !seen[of] || x.rate >= candidates[0].rate*(1-near) {
			all = append(all, x)
		}
		seen[of] = true
	}
	return all
}

// Kept is what is kept of a comparison.
type Kept struct {
	Points [][]int   `json:"points"`
	Rates  []float64 `json:"rates"`
	Runs   []int     `json:"requests"`
}

// Kept returns what Resume goes on from.
func (c *Coarse) Kept() (k Kept) {
	for _, x := range c.candidates {
		k.Points, k.Rates, k.Runs = append(k.Points, x.point), append(k.Rates, x.rate), append(k.Runs, x.n)
	}
	return k
}

// Resume returns a comparison that is done.
func (s *Search) Resume(o configs.Options, cfg *configs.Config, trace *traces.Trace, k Kept) (*Coarse, error) {
	out, err := s.coarse(o, cfg, trace)
	if err != nil {
		return nil, err
	}
	out.candidates = nil
	for i := range k.Points {
		out.candidates = append(out.candidates, candidate{point: k.Points[i], rate: k.Rates[i], n: k.Runs[i]})
	}
	return out, nil
}

// Load returns the configuration with settings of knobs, as a search loads it.
func (s *Search) Load(o configs.Options, sets []string) (*configs.Config, error) {
	o = WithAdmission(o)
	o.Sets = slices.Concat(o.Sets, sets)
	return system.Load(o)
}
