package plan

import (
	"context"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/traces"
)

// Search is how servers are searched.
type Search struct {
	Precision float64 // largest ratio between an answer and a rate above it that fails, less 1
	Tune      bool    // search the knobs; else the configuration is taken as given
	Done      func()  // told of every run, from several goroutines
}

const (
	// coarse is the share of the requests that runs have which only compare knobs, and leastCoarse the fewest of them.
	coarse      = 1. / 12
	leastCoarse = 200
)

// Tuned is a configuration with the knobs that serve it best.
type Tuned struct {
	Config *configs.Config
	Sets   []string // settings of knobs beyond the configuration as given
	Answer *capacity.Answer
	Binds  []Bind
	point  []int // of the grid of knobs
}

// Row finds the knobs of a configuration with which it holds the highest rate of requests within its targets, and measures what binds.
// Knobs are compared by runs of fewer requests, and the best few judged by all. Where the configuration has a rate, the answer is of that rate.
func (s *Search) Row(ctx context.Context, o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Tuned, error) {
	n := len(trace.Requests)
	fewer := trace.Repeated(min(n, max(leastCoarse, int(coarse*float64(n)))))
	t := &server{options: o, precision: s.Precision, done: s.Done, trace: fewer}
	if s.Tune {
		t.knobs = Knobs(o, cfg)
	}
	best, err := t.tune(ctx)
	if err != nil {
		return nil, err
	}
	t.trace = trace
	out, err := t.decide(ctx, best, cfg.Arrivals.RatePerS)
	if err != nil {
		return nil, err
	}
	t.trace = fewer
	out.Binds, err = t.binds(ctx, out.point)
	return out, err
}
