package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

const (
	// edge is the share of the requests at either end of a run that is not measured, since they meet a node that fills or empties. The first
	// request of each user is not measured either, as all arrive together.
	edge = 0.1
	// DefaultRequests is the default number of requests of a run: of the 2,000 in its middle 20 are beyond the 99th percentile.
	DefaultRequests = 2500
	// wholeFile is the number of requests from which on a file is used as it is by default: repeated requests add no information.
	wholeFile = 1000
	// LeastRequests is the fewest requests of a run. An answer from few states how certain it is.
	LeastRequests = 50
	// residences is the shortest arrival time of a run's requests, in multiples of the 99th percentile of end-to-end latency.
	// In a shorter run the node still fills when the last request arrives, so the number in the system grows even at rates that
	// it can serve.
	residences = 10
)

// Load is the service of a node at one rate, or for one number of users. Latencies are in milliseconds, as in results.Summary, of
// the measured requests.
type Load struct {
	System   string  `json:"system"`
	Model    string  `json:"model"`
	GPU      string  `json:"gpu"`
	Policy   string  `json:"policy"`
	Trace    string  `json:"trace"`
	RatePerS float64 `json:"rate_per_s"`
	Users    int     `json:"users,omitempty"`
	system.Measured
	Spent
	Saturated bool      `json:"saturated"`
	Met       bool      `json:"met"`             // enough requests attain the targets, and the node keeps up
	Fails     []Failure `json:"fails,omitempty"` // why not
	// Summary is of the whole run, except for latencies and goodput, which are of the measured
	// requests.
	Summary *results.Summary `json:"-"`
	came    int64            // requests that had arrived when the run ended
}

// Spent is the node's resources over the whole run: GPUs, watts of the site, and USD by its price list.
type Spent struct {
	GPUs    int     `json:"gpus"`
	Watts   float64 `json:"site_power_mean_w"`
	USD     float64 `json:"usd_per_million_output_tokens"`
	USDLow  float64 `json:"usd_per_million_output_tokens_low"`
	USDHigh float64 `json:"usd_per_million_output_tokens_high"`
}

// offered returns the load: requests per second, or users.
func (l *Load) offered() float64 {
	if l.Users > 0 {
		return float64(l.Users)
	}
	return l.RatePerS
}

// Failure is a reason why a node does not hold a rate.
type Failure struct {
	Name string `json:"name"` // queueGrows, turnedAway, tooFew, a target (TTFT, TBT, TPOT, E2E), or one of a percentile
	// Share is the share of measured requests that miss the target or are turned away; 0 for a failure of the run as a
	// whole.
	Share float64 `json:"share,omitempty"`
}

const (
	queueGrows = "queue grows"
	turnedAway = "turned away"
	tooFew     = "too few requests" // for the number of users: each has less than two
)

// String returns the failure as text.
func (f Failure) String() string {
	switch {
	case f.Share == 0:
		return f.Name
	case f.Name == turnedAway:
		return fmt.Sprintf("%.3g%% turned away", 100*f.Share)
	}
	return fmt.Sprintf("%s missed by %.3g%%", f.Name, 100*f.Share)
}

// why returns failures as one line.
func why(all []Failure) string {
	return strings.Join(list.Map(all, Failure.String), ", ")
}

// Judge runs a node at rates. All runs have the same requests in the same pattern, which is drawn at a rate of 1 and stretched, so
// that two runs differ in the rate or the node alone.
type Judge struct {
	cfg   *configs.Config
	node  *system.Node
	trace *traces.Trace
	share float64 // of the measured requests that must attain their targets
	few   bool    // one request more may miss them, and an eighth more
	meter Meter
}

// Meter is called after each run with the number of requests that arrived in it, from several
// goroutines.
type Meter func(requests int64)

// Requests returns the requests for runs of a configuration: run.requests of them, or those of a file with at least wholeFile, at most
// DefaultRequests; shorter files repeat. With many users it returns at least four times their number.
func Requests(cfg *configs.Config) (*traces.Trace, error) {
	users := usersOf(cfg)
	c, n := *cfg, cmp.Or(cfg.Run.Requests, max(DefaultRequests, 4*users))
	if least := max(LeastRequests, 2*users); n < least {
		return nil, &input.Error{Key: "run.requests", Value: strconv.Itoa(n), Expected: fmt.Sprintf("at least %d, of which the middle %.0f%% are measured, without the first request of each user", least, 100*(1-2*edge))}
	}
	c.Run.Requests = 0
	if slices.Contains(traces.BuiltinNames(), c.Run.Trace) {
		c.Run.Requests = n
	}
	trace, err := system.LoadRequests(&c)
	if err != nil {
		return nil, err
	}
	if have := len(trace.Requests); cfg.Run.Requests == 0 && have >= wholeFile {
		n = max(min(n, have), 4*users)
	}
	return trace.Repeated(n), nil
}

// measured returns the range of measured requests among n. With many users their first requests are not measured, unless those are more than
// half of all.
func measured(n, users int) (from, to int) {
	ends := int(edge * float64(n))
	return min(max(ends, users), n/2), n - ends
}

// NewJudge returns the judge of a configuration's node and a trace.
func NewJudge(cfg *configs.Config, trace *traces.Trace, meter Meter) (*Judge, error) {
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	if meter == nil {
		meter = func(int64) {}
	}
	return &Judge{cfg: cfg, node: node, trace: trace, share: cfg.SLO.Attainment, meter: meter}, nil
}

// most returns how many of n measured requests may miss their targets.
func (j *Judge) most(n int) int {
	most := 0
	for float64(n-most-1)/float64(n) >= j.share {
		most++
	}
	if j.few {
		most += 1 + most/8
	}
	return most
}

// thinned returns n requests of a trace with the same spread of lengths: sorted by prompt, they are taken at equal distances, with short
// and long answers in turn. If requests depend on one another, it returns the first n.
func thinned(t *traces.Trace, n int, cfg *configs.Config) *traces.Trace {
	all := len(t.Requests)
	if n >= all || t.Waits() || cfg.Cache.Prefix {
		return t.Repeated(n)
	}
	order := slices.Clone(t.Requests)
	slices.SortFunc(order, func(a, b traces.Request) int { return cmp.Or(a.Input-b.Input, a.ID-b.ID) })
	thin := &traces.Trace{Name: t.Name}
	for i := range n {
		block := order[i*all/n : (i+1)*all/n]
		slices.SortFunc(block, func(a, b traces.Request) int { return cmp.Or(a.Output-b.Output, a.ID-b.ID) })
		thin.Requests = append(thin.Requests, block[i*golden%turns*len(block)/turns])
	}
	slices.SortFunc(thin.Requests, func(a, b traces.Request) int { return a.ID - b.ID })
	for i := range thin.Requests {
		thin.Requests[i].ID, thin.Requests[i].Arrival = i, t.Requests[i].Arrival
	}
	return thin
}

// Multiples of golden, modulo turns, spread evenly: their ratio is near the golden ratio.
const golden, turns = 618, 1000

// usersOf returns the number of users of a configuration, each of whom waits for an answer before the next request; 0: requests arrive at a
// rate.
func usersOf(c *configs.Config) int {
	if c.Arrivals.Kind != traces.ArrivalsClosed {
		return 0
	}
	return c.Arrivals.Users
}

// arrive returns the configuration at a rate, or with a number of users, and its requests in the common pattern.
func (j *Judge) arrive(rate float64) (*configs.Config, *traces.Trace, error) {
	cfg := *j.cfg
	if usersOf(j.cfg) > 0 {
		cfg.Arrivals.Users = int(rate)
	} else {
		cfg.Arrivals.RatePerS = rate
	}
	trace, err := j.trace.Arrive(cfg.Arrivals, cfg.Run.Seed)
	return &cfg, trace, err
}

// processors bounds the parallel runs of all searches.
var processors = make(chan struct{}, runtime.GOMAXPROCS(0))

// run runs the node at a rate. With early the run ends once too many requests have missed their targets; the load then has only its
// failures.
func (j *Judge) run(ctx context.Context, rate float64, early bool) (Load, error) {
	cfg, trace, err := j.arrive(rate)
	if err != nil {
		return Load{}, err
	}
	users := usersOf(cfg)
	from, to := measured(len(trace.Requests), users)
	middle := system.Window{To: math.MaxInt64} // the requests of users are known only after the run
	if users == 0 {
		middle = system.Middle(trace, from, to)
	}
	seen := tally{slo: &j.cfg.SLO}
	misses := &system.Misses{From: from, To: to, Most: int64(j.most(to - from)), Missed: seen.add}
	options := system.Options{Measure: &middle}
	if early {
		options.Misses = misses
	}
	processors <- struct{}{}
	r, err := j.node.Run(ctx, trace, options)
	<-processors
	if errors.Is(err, system.ErrMissed) {
		j.meter(misses.Came)
		return Load{Fails: seen.failures(to - from), came: misses.Came}, nil
	}
	if err != nil {
		return Load{}, err
	}
	j.meter(int64(len(r.Requests)))
	middle = system.Window{From: r.Requests[from].Request.Arrival, To: r.Requests[to-1].Request.Arrival}
	m := r.Measured(from, to, middle)
	s, err := r.Summary(cfg)
	if err != nil {
		return Load{}, err
	}
	s.TTFT, s.TBT, s.TPOT, s.E2E, s.Goodput.Attainment, s.Goodput.TokensPerS = m.TTFT, m.TBT, m.TPOT, m.E2E, m.Attainment, m.GoodputTokens
	seen = tally{slo: &j.cfg.SLO}
	for i := range r.Requests[from:to] {
		if q := &r.Requests[from+i]; !q.Attained {
			seen.add(q)
		}
	}
	l := Load{
		System: cfg.Run.System, Model: cfg.ModelTitle("tensor_parallel"), GPU: s.GPU, Policy: cfg.Policy.Name, Trace: trace.Name,
		RatePerS: cfg.Arrivals.RatePerS, Measured: m,
		Spent:     Spent{cfg.Node.GPUs, s.EnergyReport.Watts, s.Cost.PerMToken, s.Cost.PerMTokenLow, s.Cost.PerMTokenHigh},
		Saturated: m.Saturated, Fails: j.failures(&seen, to-from, s), Summary: s, came: int64(len(r.Requests)),
	}
	if users > len(trace.Requests)/2 {
		l.Fails = append(l.Fails, Failure{Name: tooFew})
	}
	l.Met = len(l.Fails) == 0
	if users > 0 {
		l.Users, l.RatePerS = users, s.Arrivals.RatePerS
	}
	return l, nil
}

// failures returns why a whole run does not hold its rate; seen counts the misses among n measured requests.
func (j *Judge) failures(seen *tally, n int, s *results.Summary) (all []Failure) {
	if s.Saturated {
		all = append(all, Failure{Name: queueGrows})
	}
	if seen.missed > j.most(n) {
		all = append(all, seen.failures(n)...)
	}
	for _, name := range s.SLO.Missed(&s.TTFT, &s.TBT, &s.TPOT, &s.E2E) {
		all = append(all, Failure{Name: name})
	}
	return all
}

// full returns the requests per second that the node serves from a full queue.
func (j *Judge) full(ctx context.Context) (float64, error) {
	r, err := j.node.Run(ctx, j.trace.AtOnce(), system.Options{})
	if err != nil {
		return 0, err
	}
	j.meter(int64(len(r.Requests)))
	s, err := r.Summary(j.cfg)
	if err != nil {
		return 0, err
	}
	return s.RequestsPerS, nil
}

// tally counts measured requests by the targets that they miss. A request counts for each target that it
// misses.
type tally struct {
	slo    *scheduler.SLO
	missed int    // requests
	count  [5]int // by index of missable
}

// missable are the failures of single requests.
var missable = [...]string{"TTFT", "TPOT", "E2E", turnedAway, "TBT"}

// add counts a request that missed its targets. If its first token is late, it may have no further token yet, and its gaps are unknown
// then.
func (t *tally) add(q *results.Request) {
	served := q.Outcome == results.Served
	over := func(d, target units.Duration) bool { return served && target > 0 && d > target }
	gaps := units.Duration(q.Request.Output - 1)
	mean := (q.Finish - q.FirstToken + gaps - 1) / max(gaps, 1) // rounded up, as SLO.Attains does
	missed := [...]bool{over(q.FirstToken-q.Request.Arrival, t.slo.TTFT), over(mean, t.slo.TPOT), over(q.Finish-q.Request.Arrival, t.slo.E2E), !served, served && q.Slow}
	for i, m := range missed {
		if m {
			t.count[i]++
		}
	}
	t.missed++
}

// failures returns the targets missed by requests, of of in all, most frequent first.
func (t *tally) failures(of int) (all []Failure) {
	for i, n := range t.count {
		if n > 0 {
			all = append(all, Failure{missable[i], float64(n) / float64(of)})
		}
	}
	slices.SortStableFunc(all, func(a, b Failure) int { return cmp.Compare(b.Share, a.Share) })
	return all
}
