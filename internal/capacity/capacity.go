package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

const (
	// LeastMeasured is the fewest requests that a rate is judged by: 20 are beyond the 99th percentile.
	LeastMeasured = 2000
	// edge is the share of the requests at either end of a run that is not measured.
	edge = 0.1
	// LeastRequests is the fewest requests of a run: LeastMeasured of them are in its middle and are measured.
	LeastRequests = LeastMeasured * 10 / 8
	// residences is how many times the 99th percentile of end-to-end latency the requests of a run must come over. In a shorter
	// run the node still fills when the last of them comes, and the number in the system grows at rates that it can serve, too.
	residences = 10
	// tries bounds the doublings and halvings beyond firstRates.
	tries = 8
	// longest is the seconds, 50 days, in which all requests come at the lowest rate that is tried
	// below firstRates: a run holds 106 days, its last answers included.
	longest = 50 * 86400
)

// Load is how a node serves one rate. Latencies are in milliseconds, as in results.Summary,
// of the measured requests.
type Load struct {
	System        string          `json:"system"`
	Model         string          `json:"model"`
	GPU           string          `json:"gpu"`
	Policy        string          `json:"policy"`
	Trace         string          `json:"trace"`
	RatePerS      float64         `json:"rate_per_s"`
	Attainment    float64         `json:"attainment"`
	GoodputTokens float64         `json:"goodput_tokens_per_s"`
	TTFT          results.Latency `json:"ttft_ms"`
	TBT           results.Latency `json:"tbt_ms"`
	TPOT          results.Latency `json:"tpot_ms"`
	E2E           results.Latency `json:"e2e_ms"`
	Spent
	Saturated bool `json:"saturated"`
	Met       bool `json:"met"` // enough requests attain the targets, and the node keeps up
	// Summary is of the whole run, but for latencies and goodput, which are of the measured requests.
	Summary *results.Summary `json:"-"`
}

// Spent is what a node takes while it serves, over the whole run: GPUs, watts of the site, and USD by its price list.
type Spent struct {
	GPUs    int     `json:"gpus"`
	Watts   float64 `json:"site_power_mean_w"`
	USD     float64 `json:"usd_per_million_output_tokens"`
	USDLow  float64 `json:"usd_per_million_output_tokens_low"`
	USDHigh float64 `json:"usd_per_million_output_tokens_high"`
}

// Answer is what a search found.
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
	// Next is the next higher rate that was tried, where it attains the targets and fails since the number of requests in
	// the system grew; else nil. Needed is the requests of a run that is long enough to trust this, 0 where these runs were.
	Next     *Load
	Needed   int
	Beyond   string // says which requests go beyond the model's context, "" where none does
	TooLarge int    // requests of a run that fit no empty memory or go beyond the context: they attain nothing
}

// Search is how a node is searched for its highest rate.
type Search struct {
	Precision float64 // largest ratio between the answer and a rate above it that fails, less 1
	Near      float64 // a rate that the answer may be near, whose surroundings are tried first; 0: unknown
	Done      func()  // told of every run, from several goroutines; nil: nobody
}

// firstRates are tried first, in shares of the throughput of a full queue.
var firstRates = []float64{1. / 8, 1. / 4, 1. / 2, 3. / 4, 1, 5. / 4}

// nearRates are tried first where the answer may be near a rate, in shares of it.
var nearRates = []float64{0.92, 1.08}

// Judge runs a node at rates.
type Judge struct {
	cfg      *configs.Config
	node     *system.Node
	trace    *traces.Trace
	from, to int // the measured requests
	done     func()
}

// Requests returns the requests that the runs of a configuration have: run.requests of them,
// or LeastRequests, those of the file again and again where it has fewer.
func Requests(cfg *configs.Config) (*traces.Trace, error) {
	c, n := *cfg, cmp.Or(cfg.Run.Requests, LeastRequests)
	if n < LeastRequests {
		return nil, &input.Error{Key: "run.requests", Value: strconv.Itoa(n), Expected: fmt.Sprintf("at least %d, of which the middle %d are measured", LeastRequests, LeastMeasured)}
	}
	c.Run.Requests = 0
	if slices.Contains(traces.BuiltinNames(), c.Run.Trace) {
		c.Run.Requests = n
	}
	trace, err := system.LoadRequests(&c)
	if err != nil {
		return nil, err
	}
	return trace.Repeated(n), nil
}

func check(cfg *configs.Config) error {
	switch kind := cfg.Arrivals.Kind; {
	case !cfg.SLO.Given():
		return &input.Error{Key: "--slo", Expected: "targets of latency, such as ttft=2s,tbt=100ms"}
	case kind == traces.ArrivalsAtOnce || kind == traces.ArrivalsClosed:
		return &input.Error{Key: "arrivals.kind", Value: strconv.Quote(kind), Expected: "auto, trace, poisson or gamma: arrivals with a rate"}
	case cfg.Arrivals.Scale != 1:
		return &input.Error{Key: "arrivals.scale", Value: fmt.Sprint(cfg.Arrivals.Scale), Expected: "1: the search sets the rate"}
	}
	return nil
}

// NewJudge returns the judge of a configuration's node and a trace.
func NewJudge(cfg *configs.Config, trace *traces.Trace) (*Judge, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	n := len(trace.Requests)
	ends := int(edge * float64(n))
	return &Judge{cfg: cfg, node: node, trace: trace, from: ends, to: n - ends}, nil
}

// Holds says whether the node holds a rate within its targets. The run ends with the first request too many that misses them.
// Requests is how many have come until then.
func (j *Judge) Holds(ctx context.Context, rate float64) (met bool, requests int64, err error) {
	n := int64(j.to - j.from)
	misses := &system.Misses{From: j.from, To: j.to}
	for float64(n-misses.Most-1)/float64(n) >= j.cfg.SLO.Attainment {
		misses.Most++
	}
	l, err := j.at(ctx, rate, misses)
	if errors.Is(err, system.ErrMissed) {
		err = nil
	}
	return l.Met, misses.Came.Load(), err
}

// Find returns the highest rate at which a configuration's node serves the requests within its
// targets. It first tries firstRates, and doubles or halves the rate until the highest fails
// and one does not; then it bisects between the highest rate that meets the targets and the next
// higher one that was tried. Where attainment dips at a lower rate the answer is above the dip.
func (s *Search) Find(ctx context.Context, cfg *configs.Config, trace *traces.Trace) (*Answer, error) {
	j, err := NewJudge(cfg, trace)
	if err != nil {
		return nil, err
	}
	j.done = s.Done
	n := len(trace.Requests)
	if rate := cfg.Arrivals.RatePerS; rate > 0 {
		a := &Answer{Measured: j.to - j.from, Beyond: system.ContextNote(cfg, trace)}
		if a.Best, err = j.at(ctx, rate, nil); err != nil {
			return nil, err
		}
		a.Tried, a.TooLarge = []Load{a.Best}, int(a.Best.Summary.RejectedRequests)
		return a, nil
	}
	a, full, first := &Answer{Measured: j.to - j.from, Beyond: system.ContextNote(cfg, trace)}, s.Near, nearRates
	if full == 0 {
		first = firstRates
		if full, err = j.full(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.try(ctx, j, list.Map(first, func(share float64) float64 { return share * full })...); err != nil {
		return nil, err
	}
	for i := 0; i < tries && a.Tried[len(a.Tried)-1].Met; i++ {
		if err := a.try(ctx, j, 2*a.Tried[len(a.Tried)-1].RatePerS); err != nil {
			return nil, err
		}
	}
	for i := 0; i < tries && a.highest() < 0 && !a.alone() && a.Tried[0].RatePerS/2 >= float64(n)/longest; i++ {
		if err := a.try(ctx, j, a.Tried[0].RatePerS/2); err != nil {
			return nil, err
		}
	}
	for {
		best := a.highest()
		if best < 0 || best == len(a.Tried)-1 || a.Tried[best+1].RatePerS <= (1+s.Precision)*a.Tried[best].RatePerS {
			return a.settle(best, n, cfg.SLO.Attainment), nil
		}
		if err := a.try(ctx, j, math.Sqrt(a.Tried[best].RatePerS*a.Tried[best+1].RatePerS)); err != nil {
			return nil, err
		}
	}
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
	x, y := &a.Tried[0], &a.Tried[1]
	return x.TTFT == y.TTFT && x.TBT == y.TBT && x.E2E == y.E2E
}

// settle makes the rate at a place the answer, of runs of n requests and a share of them that must attain the targets.
func (a *Answer) settle(best, n int, target float64) *Answer {
	a.Best = a.Tried[max(best, 0)]
	if next := best + 1; next < len(a.Tried) && a.Tried[next].Saturated && a.Tried[next].Attainment >= target {
		a.Next = &a.Tried[next]
		if needed := residences * a.Next.E2E.P99 / 1e3 * a.Next.RatePerS; needed > float64(n) {
			a.Needed = int(math.Ceil(needed))
		}
	}
	if best < 0 {
		a.Best.RatePerS, a.Alone = 0, a.alone()
		return a
	}
	a.Dips = slices.ContainsFunc(a.Tried[:best], func(l Load) bool { return !l.Met })
	return a
}

// try runs the node at rates, side by side. Rates have six digits, so that --rate repeats one as it is printed.
func (a *Answer) try(ctx context.Context, j *Judge, rates ...float64) error {
	loads := make([]Load, len(rates))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, rate := range rates {
		group.Go(func() (err error) {
			loads[i], err = j.at(ctx, tables.Round(rate, 6), nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.Tried, a.TooLarge = append(a.Tried, loads...), int(loads[0].Summary.RejectedRequests)
	slices.SortFunc(a.Tried, func(x, y Load) int { return cmp.Compare(x.RatePerS, y.RatePerS) })
	return nil
}

// run runs the node and says when it is done.
func (j *Judge) run(ctx context.Context, trace *traces.Trace, o system.Options) (*system.Result, error) {
	r, err := j.node.Run(ctx, trace, o)
	if j.done != nil && err == nil {
		j.done()
	}
	return r, err
}

// full returns the requests a second that the node serves of a full queue.
func (j *Judge) full(ctx context.Context) (rate float64, err error) {
	r, err := j.run(ctx, j.trace.AtOnce(), system.Options{})
	if err != nil {
		return 0, err
	}
	served, end := 0, units.Duration(0)
	for i := range r.Requests {
		if q := &r.Requests[i]; q.Outcome == results.Served {
			served++
			end = max(end, q.Finish)
		}
	}
	return float64(served) / end.Seconds(), nil
}

// arrive returns the requests at a rate, in the pattern of all rates.
func (j *Judge) arrive(rate float64) (*traces.Trace, error) {
	spec := j.cfg.Arrivals
	spec.RatePerS = rate
	return j.trace.Arrive(spec, j.cfg.Run.Seed)
}

// at runs the node at a rate, to its end but for misses.
func (j *Judge) at(ctx context.Context, rate float64, misses *system.Misses) (Load, error) {
	trace, err := j.arrive(rate)
	if err != nil {
		return Load{}, err
	}
	middle := system.Middle(trace, j.from, j.to)
	r, err := j.run(ctx, trace, system.Options{Measure: &middle, Misses: misses})
	if err != nil {
		return Load{}, err
	}
	m := r.Measured(j.from, j.to, middle)
	cfg := *j.cfg
	cfg.Arrivals.RatePerS = rate
	s, err := r.Summary(&cfg)
	if err != nil {
		return Load{}, err
	}
	s.TTFT, s.TBT, s.TPOT, s.E2E, s.Goodput.Attainment, s.Goodput.TokensPerS = m.TTFT, m.TBT, m.TPOT, m.E2E, m.Attainment, m.GoodputTokens
	targets := results.NewSLO(&j.cfg.SLO)
	met := m.Attainment >= j.cfg.SLO.Attainment && !m.Saturated && len(targets.Missed(&m.TTFT, &m.TBT, &m.TPOT, &m.E2E)) == 0
	return Load{
		Summary: s,
		System:  j.cfg.Run.System, Model: j.cfg.ModelTitle(), GPU: j.cfg.GPUTitle(), Policy: j.cfg.Policy.Name, Trace: j.trace.Name, RatePerS: rate, Attainment: m.Attainment, GoodputTokens: m.GoodputTokens,
		TTFT: m.TTFT, TBT: m.TBT, TPOT: m.TPOT, E2E: m.E2E, Saturated: m.Saturated, Met: met,
		Spent: Spent{j.cfg.Node.GPUs, s.EnergyReport.Watts, s.Cost.PerMToken, s.Cost.PerMTokenLow, s.Cost.PerMTokenHigh},
	}, nil
}
