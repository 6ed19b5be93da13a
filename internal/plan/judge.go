package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// edge is the share of the requests at either end of a run that is not measured: they meet a node that fills or empties.
	edge = 0.1
	// DefaultRequests is the requests of a run where nobody gives a number: of the 2,000 in its middle 20 are beyond the 99th percentile.
	DefaultRequests = 2500
	// wholeFile is the requests of a file from which on it is taken as it is where nobody gives a number: requests that come again tell
	// nothing new.
	wholeFile = 1000
	// LeastRequests is the fewest requests of a run. An answer of few says how sure it is.
	LeastRequests = 50
	// residences is how many times the 99th percentile of end-to-end latency the requests of a run must come over. In a shorter
	// run the node still fills when the last of them comes, and the number in the system grows at rates that it can serve, too.
	residences = 10
)

// Load is how a node serves one rate, or one number of users. Latencies are in milliseconds, as in results.Summary, of the measured
// requests.
type Load struct {
	System        string          `json:"system"`
	Model         string          `json:"model"`
	GPU           string          `json:"gpu"`
	Policy        string          `json:"policy"`
	Trace         string          `json:"trace"`
	RatePerS      float64         `json:"rate_per_s"`
	Users         int             `json:"users,omitempty"`
	Attainment    float64         `json:"attainment"`
	GoodputTokens float64         `json:"goodput_tokens_per_s"`
	TTFT          results.Latency `json:"ttft_ms"`
	TBT           results.Latency `json:"tbt_ms"`
	TPOT          results.Latency `json:"tpot_ms"`
	E2E           results.Latency `json:"e2e_ms"`
	Spent
	Saturated bool      `json:"saturated"`
	Met       bool      `json:"met"`             // enough requests attain the targets, and the node keeps up
	Fails     []Failure `json:"fails,omitempty"` // why it is not met
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

// offered returns what the node is offered: requests a second, or users.
func (l *Load) offered() float64 {
	if l.Users > 0 {
		return float64(l.Users)
	}
	return l.RatePerS
}

// Failure is a reason why a node does not hold a rate.
type Failure struct {
	Name string `json:"name"` // queueGrows, turnedAway, a target (TTFT, TBT, TPOT, E2E), or one of a percentile
	// Share is of the measured requests: those that miss the target or are turned away; 0 for what is of the run as a whole.
	Share float64 `json:"share,omitempty"`
}

const (
	queueGrows = "queue grows"
	turnedAway = "turned away"
)

// String returns the failure as people read it.
func (f Failure) String() string {
	switch {
	case f.Share == 0:
		return f.Name
	case f.Name == turnedAway:
		return fmt.Sprintf("%.3g%% turned away", 100*f.Share)
	}
	return fmt.Sprintf("%s missed by %.3g%%", f.Name, 100*f.Share)
}

// why returns failures in a line.
func why(all []Failure) string {
	return strings.Join(list.Map(all, Failure.String), ", ")
}

// Judge runs a node at rates. Rates and nodes see the same requests in the same pattern, which is drawn at a rate of 1 and stretched:
// what differs between two runs is the rate or the node alone.
type Judge struct {
	cfg      *configs.Config
	node     *system.Node
	trace    *traces.Trace
	from, to int // the measured requests
	misses   int // how many measured requests may miss their targets
	meter    *Meter
}

// Meter counts what a search runs.
type Meter struct {
	Done     func()               // told of each run, from several goroutines; nil: nobody
	Requests func(requests int64) // told of the requests that came in it; nil: nobody
}

func (m *Meter) add(requests int64) {
	if m != nil && m.Requests != nil {
		m.Requests(requests)
	}
	if m != nil && m.Done != nil {
		m.Done()
	}
}

// Requests returns the requests that the runs of a configuration have: run.requests of them, or those of a file of wholeFile and more,
// at most DefaultRequests; those of a shorter file again and again.
func Requests(cfg *configs.Config) (*traces.Trace, error) {
	c, n := *cfg, cmp.Or(cfg.Run.Requests, DefaultRequests)
	if n < LeastRequests {
		return nil, &input.Error{Key: "run.requests", Value: strconv.Itoa(n), Expected: fmt.Sprintf("at least %d, of which the middle %.0f%% are measured", LeastRequests, 100*(1-2*edge))}
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
		n = min(n, have)
	}
	return trace.Repeated(n), nil
}

func check(cfg *configs.Config) error {
	switch kind := cfg.Arrivals.Kind; {
	case !cfg.SLO.Given():
		return &input.Error{Key: "--slo", Expected: "targets of latency, such as ttft=2s,tbt=100ms"}
	case kind == traces.ArrivalsAtOnce:
		return &input.Error{Key: "arrivals.kind", Value: strconv.Quote(kind), Expected: "auto, trace, poisson or gamma: arrivals with a rate; or closed-loop (--users)"}
	case cfg.Arrivals.Scale != 1:
		return &input.Error{Key: "arrivals.scale", Value: fmt.Sprint(cfg.Arrivals.Scale), Expected: "1: the search sets the rate"}
	}
	return nil
}

// NewJudge returns the judge of a configuration's node and a trace.
func NewJudge(cfg *configs.Config, trace *traces.Trace, meter *Meter) (*Judge, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	n := len(trace.Requests)
	ends := int(edge * float64(n))
	j := &Judge{cfg: cfg, node: node, trace: trace, from: ends, to: n - ends, meter: meter}
	for measured := j.to - j.from; float64(measured-j.misses-1)/float64(measured) >= cfg.SLO.Attainment; {
		j.misses++
	}
	return j, nil
}

// lenient returns the judge of a comparison by few requests, in which one more request that happens to be long must not decide.
func (j *Judge) lenient() *Judge {
	j.misses += 1 + j.misses/8
	return j
}

// thinned returns n requests of a trace whose lengths spread as those of all do: sorted by prompt they are taken at equal distances, with
// answers of all lengths in turn. Where requests depend on one another it is the first n.
func thinned(t *traces.Trace, n int, cfg *configs.Config) *traces.Trace {
	all := len(t.Requests)
	if n >= all || t.Waits() || cfg.Cache.Prefix {
		return t.Repeated(n)
	}
	order := make([]int, all)
	for i := range order {
		order[i] = i
	}
	by := func(of func(r *traces.Request) int) func(a, b int) int {
		return func(a, b int) int { return cmp.Or(cmp.Compare(of(&t.Requests[a]), of(&t.Requests[b])), a-b) }
	}
	slices.SortFunc(order, by(func(r *traces.Request) int { return r.Input }))
	var taken []int
	for i := range n {
		block := order[i*all/n : (i+1)*all/n]
		slices.SortFunc(block, by(func(r *traces.Request) int { return r.Output }))
		taken = append(taken, block[i*golden%turns*len(block)/turns])
	}
	slices.Sort(taken)
	thin := &traces.Trace{Name: t.Name, Requests: make([]traces.Request, n)}
	for i, from := range taken {
		r := t.Requests[from]
		r.ID, r.Arrival = i, t.Requests[i].Arrival
		thin.Requests[i] = r
	}
	return thin
}

// Multiples of golden, modulo turns, spread evenly: their ratio is near the golden one.
const golden, turns = 618, 1000

// users says that what a node is offered is a number of users, each of whom waits for an answer before the next request.
func (j *Judge) users() bool { return j.cfg.Arrivals.Kind == traces.ArrivalsClosed }

// Verdict is what a run at a rate says: whether the node holds it, and else why not.
type Verdict struct {
	Met   bool
	Fails []Failure // the most frequent first
	Stay  float64   // mean seconds from arrival to last token; 0 where the run ended early
	Came  int64     // requests that came until the run ended
	// result and measured are of a run whose rate holds.
	result   *system.Result
	measured system.Measured
}

// Holds judges a rate. The run ends with the first request too many that misses its targets; Fails is then of the requests until it.
func (j *Judge) Holds(ctx context.Context, rate float64) (Verdict, error) {
	trace, err := j.arrive(rate)
	if err != nil {
		return Verdict{}, err
	}
	seen := tally{slo: &j.cfg.SLO}
	misses := &system.Misses{From: j.from, To: j.to, Most: int64(j.misses), Missed: seen.add}
	middle := j.middle(trace)
	r, err := j.node.Run(ctx, trace, system.Options{Measure: &middle, Misses: misses})
	if err != nil && !errors.Is(err, system.ErrMissed) {
		return Verdict{}, err
	}
	j.meter.add(misses.Came)
	if err != nil {
		return Verdict{Fails: seen.failures(j.to - j.from), Came: misses.Came}, nil
	}
	m := r.Measured(j.from, j.to, j.served(r, middle))
	v := Verdict{Fails: j.failures(&m, &seen), Stay: m.E2E.Mean / 1e3, Came: misses.Came}
	if v.Met = len(v.Fails) == 0; v.Met {
		v.result, v.measured = r, m
	}
	return v, nil
}

// failures returns why a whole run is not met.
func (j *Judge) failures(m *system.Measured, seen *tally) (all []Failure) {
	if m.Saturated {
		all = append(all, Failure{Name: queueGrows})
	}
	if seen.missed > j.misses {
		all = append(all, seen.failures(m.Requests)...)
	}
	targets := results.NewSLO(&j.cfg.SLO)
	return append(all, list.Map(targets.Missed(&m.TTFT, &m.TBT, &m.TPOT, &m.E2E), func(name string) Failure { return Failure{Name: name} })...)
}

// arrive returns the requests at a rate, in the pattern of all rates; or with a number of users.
func (j *Judge) arrive(rate float64) (*traces.Trace, error) {
	spec := j.cfg.Arrivals
	if j.users() {
		spec.Users = int(rate)
	} else {
		spec.RatePerS = rate
	}
	return j.trace.Arrive(spec, j.cfg.Run.Seed)
}

// middle returns the part of a run whose gaps are measured: that in which the measured requests come, which only the run tells of users.
func (j *Judge) middle(trace *traces.Trace) system.Window {
	if j.users() {
		return system.Window{To: units.Duration(1<<63 - 1)}
	}
	return system.Middle(trace, j.from, j.to)
}

// served returns the time over which the measured requests came.
func (j *Judge) served(r *system.Result, middle system.Window) system.Window {
	if j.users() {
		return system.Window{From: r.Requests[j.from].Request.Arrival, To: r.Requests[j.to-1].Request.Arrival}
	}
	return middle
}

// at runs the node at a rate to its end.
func (j *Judge) at(ctx context.Context, rate float64) (Load, error) {
	trace, err := j.arrive(rate)
	if err != nil {
		return Load{}, err
	}
	middle := j.middle(trace)
	r, err := j.node.Run(ctx, trace, system.Options{Measure: &middle})
	if err != nil {
		return Load{}, err
	}
	j.meter.add(int64(len(trace.Requests)))
	m := r.Measured(j.from, j.to, j.served(r, middle))
	return j.load(rate, r, &m)
}

// load describes a run at a rate.
func (j *Judge) load(rate float64, r *system.Result, m *system.Measured) (Load, error) {
	cfg := *j.cfg
	if j.users() {
		cfg.Arrivals.Users = int(rate)
	} else {
		cfg.Arrivals.RatePerS = rate
	}
	s, err := r.Summary(&cfg)
	if err != nil {
		return Load{}, err
	}
	s.TTFT, s.TBT, s.TPOT, s.E2E, s.Goodput.Attainment, s.Goodput.TokensPerS = m.TTFT, m.TBT, m.TPOT, m.E2E, m.Attainment, m.GoodputTokens
	seen := tally{slo: &j.cfg.SLO}
	for i := range r.Requests[j.from:j.to] {
		if q := &r.Requests[j.from+i]; !q.Attained {
			seen.add(q)
		}
	}
	fails := j.failures(m, &seen)
	l := Load{
		Summary: s,
		System:  j.cfg.Run.System, Model: j.cfg.ModelTitle("tensor_parallel"), GPU: j.cfg.GPUTitle(), Policy: j.cfg.Policy.Name, Trace: j.trace.Name, RatePerS: rate, Attainment: m.Attainment, GoodputTokens: m.GoodputTokens,
		TTFT: m.TTFT, TBT: m.TBT, TPOT: m.TPOT, E2E: m.E2E, Saturated: m.Saturated, Met: len(fails) == 0, Fails: fails,
		Spent: Spent{j.cfg.Node.GPUs, s.EnergyReport.Watts, s.Cost.PerMToken, s.Cost.PerMTokenLow, s.Cost.PerMTokenHigh},
	}
	if j.users() {
		l.Users, l.RatePerS = int(rate), s.Arrivals.RatePerS
	}
	return l, nil
}

// full returns the requests a second that the node serves of a full queue.
func (j *Judge) full(ctx context.Context) (rate float64, err error) {
	r, err := j.node.Run(ctx, j.trace.AtOnce(), system.Options{})
	if err != nil {
		return 0, err
	}
	j.meter.add(int64(len(j.trace.Requests)))
	served, end := 0, units.Duration(0)
	for i := range r.Requests {
		if q := &r.Requests[i]; q.Outcome == results.Served {
			served++
			end = max(end, q.Finish)
		}
	}
	return float64(served) / end.Seconds(), nil
}

// tally counts measured requests by what they miss. A request may miss several targets, and counts for each.
type tally struct {
	slo    *scheduler.SLO
	missed int    // requests
	count  [5]int // of missable
}

// missable are those of the failures of a request. What misses no other target misses that of its gaps.
var missable = [...]string{"TTFT", "TPOT", "E2E", turnedAway, "TBT"}

// add counts a request that missed its targets.
func (t *tally) add(q *results.Request) {
	t.missed++
	if q.Outcome != results.Served {
		t.count[3]++
		return
	}
	over := func(d, target units.Duration) bool { return target > 0 && d > target }
	mean, _ := q.MeanTBT()
	missed := [...]bool{over(q.FirstToken-q.Request.Arrival, t.slo.TTFT), over(mean, t.slo.TPOT), over(q.Finish-q.Request.Arrival, t.slo.E2E)}
	other := false
	for i, m := range missed {
		if m {
			t.count[i]++
			other = true
		}
	}
	if !other {
		t.count[4]++
	}
}

// failures returns the targets that requests of a number missed, the most frequent first.
func (t *tally) failures(of int) (all []Failure) {
	for i, n := range t.count {
		if n > 0 {
			all = append(all, Failure{missable[i], float64(n) / float64(of)})
		}
	}
	slices.SortStableFunc(all, func(a, b Failure) int { return cmp.Compare(b.Share, a.Share) })
	return all
}
