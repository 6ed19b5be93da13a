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
	coarse      = 1. / 8
	leastCoarse = 200
)

// Tuned is a configuration with the knobs that serve it best.
type Tuned struct {
	Config *configs.Config
	Sets   []string // settings of knobs beyond the configuration as given
	Answer *capacity.Answer
	Binds  []Bind
	// Requests are those of all coarse runs.
	Requests int64
}

// Row finds the knobs of a configuration with which it holds the highest rate of requests within its targets, judges that by all
// requests, and measures what binds. Knobs are compared by runs of fewer requests. The configuration as given is the answer where it
// holds a higher rate by all requests. Where the configuration has a rate, the answer is of that rate.
func (s *Search) Row(ctx context.Context, o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Tuned, error) {
	n := len(trace.Requests)
	t := &server{options: o, rate: cfg.Arrivals.RatePerS, precision: s.Precision, done: s.Done, trace: trace.Repeated(min(n, max(leastCoarse, int(coarse*float64(n)))))}
	if s.Tune {
		t.knobs = Knobs(o, cfg.Run.System, cfg.Node.GPUs)
	}
	start, rate, err := t.start(ctx)
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(t.knobs))
	for i := range t.knobs {
		sizes[i] = len(t.knobs[i].Values)
	}
	best, rate, err := Tune(ctx, sizes, start, rate, s.Precision, t)
	if err != nil {
		return nil, err
	}
	out := &Tuned{}
	if out.Binds, err = t.binds(ctx, best, rate); err != nil {
		return nil, err
	}
	out.Requests = t.requests
	if err := out.judge(ctx, s, t, best, trace); err != nil || key(start) == key(best) {
		return out, err
	}
	given, err := t.load(start)
	if err != nil {
		return nil, err
	}
	j, err := capacity.NewJudge(given, trace)
	if err != nil {
		return nil, err
	}
	if l, err := j.At(ctx, max(out.Answer.Best.RatePerS*(1+s.Precision), t.rate)); err != nil || !l.Met {
		return out, err
	}
	return out, out.judge(ctx, s, t, start, trace)
}

// judge makes a point the answer, judged by all requests.
func (out *Tuned) judge(ctx context.Context, s *Search, t *server, point []int, trace *traces.Trace) (err error) {
	if out.Config, err = t.load(point); err != nil {
		return err
	}
	out.Config.Arrivals.RatePerS, out.Sets = t.rate, t.sets(point)
	search := capacity.Search{Precision: s.Precision, Done: s.Done}
	out.Answer, err = search.Find(ctx, out.Config, trace)
	return err
}
