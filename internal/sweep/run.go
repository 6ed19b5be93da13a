package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// RunOptions set how a plan runs. They change no result.
type RunOptions struct {
	Journal  *Journal             // nil: results stay in memory
	Workers  int                  // points that run in parallel; 0: one per core
	Force    bool                 // also run points that the journal holds
	FailFast bool                 // stop at the first point that fails
	Progress func(done, of int64) // may be nil; calls come from several goroutines
}

// Outcome is the result of a run of a plan.
type Outcome struct {
	Entries []*Entry // by point; nil if the run stopped before it
	Ran     int      // points that this run simulated
	Reused  int      // points with a result from the journal or from an equal point
	Failed  int
	Missing int // points without a result
	Left    int // draws without a result that need not run, since their variants do not count
}

// Run runs the points that the journal does not hold, each once. A point that fails is recorded
// with its error, and other points go on. When ctx ends, Run returns its error; recorded results
// stay. Run also ends with an error if the journal cannot be written, or if a trace has changed
// since the plan was made: these are not errors of a point. Draws run last, and only for each
// point's best variant.
func (p *Plan) Run(ctx context.Context, o RunOptions) (*Outcome, error) {
	r := &runner{plan: p, options: o, done: map[string]*Entry{}, share: map[string]int64{}}
	r.host, _ = os.Hostname() // without a name the entries have no host
	pending := r.pending()
	if o.Journal != nil && len(pending) > 0 && !o.Journal.empty() {
		if err := removeResults(o.Journal.dir); err != nil {
			return r.outcome(), err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.stop = cancel
	r.begin()
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	drawn := slices.IndexFunc(pending, func(x *Point) bool { return x.draw != nil })
	if drawn < 0 {
		drawn = len(pending)
	}
	r.all(ctx, pending[:drawn], workers)
	if ctx.Err() == nil { // otherwise it is unknown which variants count
		r.all(ctx, r.ofBest(pending[drawn:]), workers)
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errFailFast) {
		return r.outcome(), err
	}
	return r.outcome(), nil
}

// all runs points, workers in parallel.
func (r *runner) all(ctx context.Context, points []*Point, workers int) {
	var group errgroup.Group
	group.SetLimit(workers)
	for _, point := range points {
		group.Go(func() error {
			r.run(ctx, point)
			return nil
		})
	}
	_ = group.Wait() // the error that ends the run is the context's cause
}

// ofBest returns the draws of the best variants, and records the others as left out.
func (r *runner) ofBest(draws []*Point) []*Point {
	if r.plan.bands == nil || !r.plan.tries() {
		return draws
	}
	counts := r.plan.counts(r.outcome())
	needed := map[string]bool{}
	r.left = make([]bool, len(r.plan.Points))
	for i := r.plan.count; i < len(r.plan.Points); i++ {
		x := &r.plan.Points[i]
		r.left[i] = !counts(i)
		needed[x.Hash] = needed[x.Hash] || !r.left[i]
	}
	for i := range r.left {
		if x := &r.plan.Points[i]; r.left[i] && !needed[x.Hash] && r.done[x.Hash] == nil {
			r.finished++
		}
	}
	r.report(r.finished)
	return slices.DeleteFunc(draws, func(x *Point) bool { return !needed[x.Hash] })
}

// errFailFast ends a run with RunOptions.FailFast.
var errFailFast = errors.New("a point failed")

// runner is one run of a plan.
type runner struct {
	plan    *Plan
	options RunOptions
	host    string
	stop    context.CancelCauseFunc

	share map[string]int64 // number of points with each hash
	left  []bool           // by point: a draw that need not run; nil: none

	mu       sync.Mutex
	done     map[string]*Entry // by hash
	ran      int
	finished int64 // number of finished points; points that share a result count each
}

// pending returns the points to run, one per address. The results of other points come from the
// journal.
func (r *runner) pending() []*Point {
	var pending []*Point
	for i := range r.plan.Points {
		point := &r.plan.Points[i]
		if r.share[point.Hash]++; r.share[point.Hash] > 1 {
			continue
		}
		if r.options.Journal != nil && !r.options.Force {
			if e := r.options.Journal.entry(point.Hash); e != nil {
				r.done[point.Hash] = e
				continue
			}
		}
		pending = append(pending, point)
	}
	return pending
}

func (r *runner) run(ctx context.Context, point *Point) {
	if ctx.Err() != nil {
		return // left for another run
	}
	e := &Entry{Point: point.Hash, Name: point.Name, Seed: point.Seed, Version: r.plan.Version, Host: r.host, Started: time.Now()}
	if point.draw != nil {
		e.Draw = point.draw.index
	}
	var summary *results.Summary
	config, err := r.plan.Config(point)
	if err != nil && point.Err == nil { // the plan could load the configuration
		err = &unreadableError{err}
	}
	if err == nil {
		summary, err = r.plan.simulate(ctx, point, config)
	}
	if err != nil && ctx.Err() != nil {
		return // interrupted, and so is this point
	}
	if lost := new(unreadableError); errors.As(err, &lost) {
		r.stop(fmt.Errorf("point %s, seed %d: %w", point.Name, point.Seed, lost))
		return
	}
	e.WallS = time.Since(e.Started).Seconds()
	if err != nil {
		e.Status, e.Error = tables.StatusFailed, placeless(err).Error()
	} else {
		e.Status, e.Summary = tables.StatusDone, summary
		summary.WallS = e.WallS
	}
	if r.options.Journal != nil {
		if err := r.options.Journal.record(e); err != nil {
			r.stop(err)
			return
		}
	}
	r.mu.Lock()
	r.done[point.Hash] = e
	r.ran++
	r.finished += r.share[point.Hash]
	finished := r.finished
	r.mu.Unlock()
	if r.options.FailFast && err != nil {
		r.stop(errFailFast)
	}
	r.report(finished)
}

func (p *Plan) simulate(ctx context.Context, point *Point, config *configs.Config) (*results.Summary, error) {
	trace, err := p.cache.trace(config)
	if err != nil {
		return nil, &unreadableError{err}
	}
	return p.Simulate(ctx, point, config, trace)
}

func runNode(ctx context.Context, _ *Point, config *configs.Config, trace *traces.Trace) (*results.Summary, error) {
	node, err := system.NewNode(config)
	if err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if err != nil {
		return nil, err
	}
	return result.Summary(config)
}

// begin counts the points that already have a result.
func (r *runner) begin() {
	for i := range r.plan.Points {
		if e := r.done[r.plan.Points[i].Hash]; e != nil {
			r.finished++
			if r.options.FailFast && e.Status == tables.StatusFailed {
				r.stop(errFailFast)
			}
		}
	}
	r.report(r.finished)
}

// report reports the number of finished points to the caller.
func (r *runner) report(finished int64) {
	if r.options.Progress != nil {
		r.options.Progress(finished, int64(len(r.plan.Points)))
	}
}

// outcome sorts the plan's points by outcome. Points with the same hash share an entry.
func (r *runner) outcome() *Outcome {
	o := &Outcome{Entries: make([]*Entry, len(r.plan.Points)), Ran: r.ran}
	for i := range r.plan.Points {
		e := r.done[r.plan.Points[i].Hash]
		o.Entries[i] = e
		switch {
		case e == nil && r.left != nil && r.left[i]:
			o.Left++
		case e == nil:
			o.Missing++
		case e.Status == tables.StatusFailed:
			o.Failed++
		}
	}
	o.Reused = len(o.Entries) - o.Missing - o.Ran - o.Left
	return o
}

// Estimate is a forecast of a run's time.
type Estimate struct {
	Points int           // number of points that would run
	Wall   time.Duration // their wall time with Workers
	// Workers is the number of points that run at a time, at most the number of cores.
	Workers int
	Probe   time.Duration // time spent on one point to measure the rate
}

const probeLimit = 2 * time.Second // bounds the time of the point that Estimate runs

// Estimate forecasts the time of the points whose hashes done does not hold. It runs the point that
// generates the fewest tokens, for at most two seconds, and assumes the same time for set-up and
// for each token of the others. A point with other hardware or more requests may need several times
// as long.
func (p *Plan) Estimate(ctx context.Context, done map[string]*Entry, workers int) (*Estimate, error) {
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	e := &Estimate{Workers: workers}
	var probe *Point
	tokens, seen := int64(0), map[string]bool{}
	type of struct{ combination, index int }
	drawn, tries := map[of]bool{}, p.tries()
	for i := range p.Points {
		point := &p.Points[i]
		if point.draw != nil && tries { // draws of one variant per combination run
			if drawn[of{point.combination, point.draw.index}] {
				continue
			}
			drawn[of{point.combination, point.draw.index}] = true
		}
		if done[point.Hash] != nil || seen[point.Hash] {
			continue
		}
		seen[point.Hash] = true
		e.Points++
		tokens += point.Tokens
		if point.Err == nil && (probe == nil || point.Tokens < probe.Tokens) {
			probe = point
		}
	}
	if probe == nil {
		return e, nil
	}
	start := time.Now()
	setup, rate, err := p.measure(ctx, probe, probeLimit)
	if err != nil {
		return nil, err
	}
	e.Probe = time.Since(start)
	total := time.Duration(e.Points)*setup + time.Duration(float64(tokens)*rate)
	e.Wall = total / time.Duration(max(1, min(workers, runtime.GOMAXPROCS(0), e.Points)))
	return e, nil
}

// measure runs a point for a limited time and returns the CPU time of its set-up and of a token;
// the latter is in nanoseconds, 0 if none was emitted.
func (p *Plan) measure(ctx context.Context, point *Point, limit time.Duration) (setup time.Duration, perToken float64, err error) {
	config, err := p.Config(point)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	trace, err := p.cache.trace(config)
	if err != nil {
		return 0, 0, err
	}
	node, err := system.NewNode(config)
	if err != nil {
		return 0, 0, nil // the point fails at once
	}
	setup = time.Since(start)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	emitted := make([]atomic.Int64, node.Replicas())
	start = time.Now()
	_, err = node.Run(limited, trace, system.Options{Progress: func(replica int, n int64) { emitted[replica].Store(n) }})
	elapsed := time.Since(start)
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	sum := int64(0)
	for i := range emitted {
		sum += emitted[i].Load()
	}
	if err == nil {
		sum = point.Tokens
	} else if !errors.Is(err, context.DeadlineExceeded) {
		return setup, 0, nil
	}
	if sum == 0 {
		return setup, 0, nil
	}
	// Replicas ran in parallel, as points would.
	cores := float64(min(node.Replicas(), runtime.GOMAXPROCS(0)))
	return setup, float64(elapsed) * cores / float64(sum), nil
}

// unreadableError says that input cannot be read although the user's input is right: the system
// fails, or the file changed or vanished after the plan was made. It is no error of a point: it
// ends planning or the run, and no result records it. It does not unwrap, as its cause may be an
// *input.Error.
type unreadableError struct{ cause error }

func (e *unreadableError) Error() string { return e.cause.Error() }
