package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// RunOptions says how a plan is carried out. None of it changes a result.
type RunOptions struct {
	Journal  *Journal             // nil: results stay in memory
	Workers  int                  // points that run at a time; 0: one per core
	Force    bool                 // also run points that the journal holds
	FailFast bool                 // stop at the first point that fails
	Progress func(done, of int64) // may be nil; calls come from several goroutines
}

// Outcome is the result of a run of a plan.
type Outcome struct {
	Entries []*Entry // by point; nil where the run stopped before
	Ran     int      // points that this run carried out
	Reused  int      // points with a result from the journal or from an equal point
	Failed  int
	Missing int // points without a result
}

// Run carries out the points that the journal does not hold, each once. A point that fails
// is recorded with its error, and other points go on. When ctx ends, Run returns its error;
// recorded results stay. Run also ends with an error where the journal cannot be written,
// or where a trace has changed since the plan was made: these are not errors of a point.
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
	var group errgroup.Group
	group.SetLimit(workers)
	for _, point := range pending {
		group.Go(func() error {
			r.run(ctx, point)
			return nil
		})
	}
	_ = group.Wait() // the error that ends the run is the context's cause
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errFailFast) {
		return r.outcome(), err
	}
	return r.outcome(), nil
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

	mu       sync.Mutex
	done     map[string]*Entry // by hash
	ran      int
	finished int64 // number of finished points; points that share a result count each
}

// pending returns the points to run, one for each address. It takes the results of other
// points from the journal.
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

// run carries out one point and records it.
func (r *runner) run(ctx context.Context, point *Point) {
	if ctx.Err() != nil {
		return // it runs another time
	}
	e := &Entry{Point: point.Hash, Name: point.Name, Seed: point.Seed, Version: r.plan.Version, Host: r.host, Started: time.Now()}
	var summary *results.Summary
	config, err := r.plan.Config(point)
	if err != nil && point.Err == nil { // the plan had the configuration
		err = &unreadableError{err}
	}
	if err == nil {
		summary, err = r.plan.simulate(ctx, point, config)
	}
	if err != nil && ctx.Err() != nil {
		return // interrupted: so does this one
	}
	if lost := new(unreadableError); errors.As(err, &lost) {
		r.stop(fmt.Errorf("point %s, seed %d: %w", point.Name, point.Seed, lost))
		return
	}
	e.WallS = time.Since(e.Started).Seconds()
	if err != nil {
		e.Status, e.Error = results.StatusFailed, placeless(err).Error()
	} else {
		e.Status, e.Summary = results.StatusDone, summary
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

// simulate runs a point.
func (p *Plan) simulate(ctx context.Context, point *Point, config *configs.Config) (*results.Summary, error) {
	trace, err := p.cache.trace(config)
	if err != nil {
		return nil, &unreadableError{err}
	}
	return p.Simulate(ctx, point, config, trace)
}

// runNode runs a trace on the node of a configuration.
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
			if r.options.FailFast && e.Status == results.StatusFailed {
				r.stop(errFailFast)
			}
		}
	}
	r.report(r.finished)
}

// report tells the caller how many points are done.
func (r *runner) report(finished int64) {
	if r.options.Progress != nil {
		r.options.Progress(finished, int64(len(r.plan.Points)))
	}
}

// outcome sorts the plan's points by what became of them. Points with the same hash share an entry.
func (r *runner) outcome() *Outcome {
	o := &Outcome{Entries: make([]*Entry, len(r.plan.Points)), Ran: r.ran}
	for i := range r.plan.Points {
		e := r.done[r.plan.Points[i].Hash]
		o.Entries[i] = e
		switch {
		case e == nil:
			o.Missing++
		case e.Status == results.StatusFailed:
			o.Failed++
		}
	}
	o.Reused = len(o.Entries) - o.Missing - o.Ran
	return o
}
