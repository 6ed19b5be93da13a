package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// server is a configuration whose knobs are searched: the Trial of its grid.
type server struct {
	options   configs.Options
	knobs     []Knob
	trace     *traces.Trace
	precision float64
	done      func()
	requests  atomic.Int64 // simulated so far
}

// load returns the configuration of a point, with further settings. Its rate is left to judges.
func (s *server) load(point []int, further ...string) (*configs.Config, error) {
	o := s.options
	o.Sets = slices.Concat(o.Sets, s.sets(point), further)
	cfg, err := system.Load(o)
	if err == nil {
		cfg.Arrivals.RatePerS = 0
	}
	return cfg, err
}

// sets returns the settings of a point.
func (s *server) sets(point []int) (all []string) {
	for i, v := range point {
		if v > 0 {
			all = append(all, s.knobs[i].Key+"="+s.knobs[i].Values[v])
		}
	}
	return all
}

// sizes returns the values of each knob.
func (s *server) sizes() []int {
	return list.Map(s.knobs, func(k Knob) int { return len(k.Values) })
}

// Climb is of the interface Trial.
func (s *server) Climb(ctx context.Context, point []int, from float64) (float64, error) {
	cfg, err := s.load(point)
	if err != nil {
		return 0, invalid(err)
	}
	rate, err := s.climb(ctx, cfg, from, s.precision)
	return rate, invalid(err)
}

// climb returns the highest rate that a configuration holds, upwards from one that it may hold. A rate above the answer by more than the
// precision fails.
func (s *server) climb(ctx context.Context, cfg *configs.Config, from, precision float64) (best float64, err error) {
	j, err := capacity.NewJudge(cfg, s.trace)
	if err != nil {
		return 0, err
	}
	for rate, top := from, math.Inf(1); ; {
		met, requests, err := j.Holds(ctx, rate)
		if err != nil {
			return 0, err
		}
		s.requests.Add(requests)
		s.done()
		if met {
			best = rate
		} else {
			top = rate
		}
		switch {
		case best == 0 || top <= (1+precision)*best || best > 1e6*from:
			return best, nil
		case math.IsInf(top, 1):
			rate *= 1.5
		default:
			rate = math.Sqrt(best * top)
		}
	}
}

// invalid returns nil for a point that is not valid, or serves no request: it holds no rate.
func invalid(err error) error {
	if errors.As(err, new(*input.Error)) || errors.As(err, new(*system.RejectedError)) {
		return nil
	}
	return err
}

// find searches the highest rate of a configuration as the command capacity does, near one where that is known.
func (s *server) find(ctx context.Context, cfg *configs.Config, near float64) (*capacity.Answer, error) {
	search := capacity.Search{Precision: s.precision, Near: near, Done: func() {
		s.requests.Add(int64(len(s.trace.Requests)))
		s.done()
	}}
	return search.Find(ctx, cfg, s.trace)
}

// highest returns the highest rate of a configuration; where it holds none, one below all that were tried.
func (s *server) highest(ctx context.Context, cfg *configs.Config) (float64, error) {
	found, err := s.find(ctx, cfg, 0)
	switch {
	case err != nil:
		return 0, err
	case found.Best.RatePerS > 0:
		return found.Best.RatePerS, nil
	}
	return found.Tried[0].RatePerS / (1 + s.precision), nil
}

// tune returns the best points. The error is of the configuration as given where no point is valid.
func (s *server) tune(ctx context.Context) ([]candidate, error) {
	var given error
	for i := range volume(s.sizes()) {
		point := place(s.sizes(), i)
		cfg, err := s.load(point)
		if given = cmp.Or(given, err); err != nil {
			continue
		}
		rate, err := s.highest(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return Tune(ctx, s.sizes(), candidate{point, rate}, s.precision, s)
	}
	return nil, given
}

// decide judges the best points by all requests, and returns the one with the highest rate. At a given rate it is the first that holds it.
func (s *server) decide(ctx context.Context, best []candidate, given float64) (out *Tuned, err error) {
	for _, c := range best {
		cfg, err := s.load(c.point)
		if err != nil {
			return nil, err
		}
		if out != nil && given == 0 {
			held, err := s.climb(ctx, cfg, out.Answer.Best.RatePerS*(1+s.precision), math.Inf(1))
			if err != nil {
				return nil, err
			}
			if held == 0 {
				continue
			}
		}
		near := c.rate
		if len(s.knobs) == 0 { // nothing was compared by fewer requests: the answer is that of a search alone
			near = 0
		}
		cfg.Arrivals.RatePerS = given
		answer, err := s.find(ctx, cfg, near)
		if err != nil {
			return nil, err
		}
		if out == nil || answer.Best.Met && (!out.Answer.Best.Met || answer.Best.RatePerS > out.Answer.Best.RatePerS) {
			out = &Tuned{Config: cfg, Sets: s.sets(c.point), Answer: answer, point: c.point}
		}
		if given > 0 && answer.Best.Met {
			break
		}
	}
	return out, nil
}

// Bind is a resource or a target that binds: with more of it the rate rises.
type Bind struct {
	Name string  `json:"name"`
	Gain float64 `json:"gain"` // by which the rate rises, relative
}

// String returns the bind as people read it.
func (b Bind) String() string { return fmt.Sprintf("%s +%.0f%%", b.Name, 100*b.Gain) }

// least is the least gain that a bind has.
const least = 0.05

// binds measures what binds at a point, at the highest rate that it holds: each resource is doubled, and each target relaxed to its double, alone. Those
// with which the rate rises by a twentieth and more are returned, the largest gain first.
func (s *server) binds(ctx context.Context, point []int) ([]Bind, error) {
	cfg, err := s.load(point)
	if err != nil {
		return nil, err
	}
	rate, err := s.highest(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var all []Bind
	for _, more := range doubled(cfg) {
		other, err := s.load(point, more.sets...)
		if err != nil {
			continue // twice as much is not valid: nobody can have it
		}
		best, err := s.climb(ctx, other, rate*(1+least), least)
		if err = invalid(err); err != nil {
			return nil, err
		}
		if best > 0 {
			all = append(all, Bind{more.name, best/rate - 1})
		}
	}
	slices.SortStableFunc(all, func(a, b Bind) int { return cmp.Compare(b.Gain, a.Gain) })
	return all, nil
}

type resource struct {
	name string
	sets []string
}

// doubled returns the resources and targets of a configuration, with the settings that double each.
func doubled(c *configs.Config) (all []resource) {
	add := func(name string, sets ...string) { all = append(all, resource{name, sets}) }
	of := func(key string, v any) string { return fmt.Sprintf("%s=%v", key, v) }
	add("GPU memory", of("gpu.memory_capacity", 2*c.GPU.MemoryCapacity))
	add("GPU compute", of("gpu.peak_16bit", 2*c.GPU.Peak16), of("gpu.peak_8bit", 2*c.GPU.Peak8))
	add("GPU bandwidth", of("gpu.memory_bandwidth", 2*c.GPU.MemoryBandwidth))
	if s := c.Run.System; s != "gpu-only" && s != "hbm-pim" {
		add("DIMM memory", of("node.memory_capacity", 2*c.Node.MemoryCapacity))
		add("ranksets", of("node.ranksets", 2*c.Node.Ranksets))
		add("link", of("pcie.lanes", 2*c.PCIe.Lanes))
	}
	if n := c.Batching.MaxNumSeqs; n > 0 {
		add("batch limit", of("batching.max_num_seqs", 2*n))
	}
	add("prefill chunk", of("batching.max_num_batched_tokens", 2*c.Batching.MaxBatchTokens))
	add("smaller chunk", of("batching.max_num_batched_tokens", max(c.Batching.MaxBatchTokens/4, 1)))
	for _, t := range []struct {
		key string
		of  *scheduler.Tail
	}{
		{"", &scheduler.Tail{TTFT: c.SLO.TTFT, TBT: c.SLO.TBT, TPOT: c.SLO.TPOT, E2E: c.SLO.E2E}},
		{"p50.", &c.SLO.P50}, {"p90.", &c.SLO.P90}, {"p95.", &c.SLO.P95}, {"p99.", &c.SLO.P99},
	} {
		for _, target := range []struct {
			name, key string
			of        units.Duration
		}{{"TTFT", "ttft", t.of.TTFT}, {"TBT", "tbt", t.of.TBT}, {"TPOT", "tpot", t.of.TPOT}, {"E2E", "e2e", t.of.E2E}} {
			if target.of > 0 {
				add("target "+target.name, of("slo."+t.key+target.key, 2*target.of))
			}
		}
	}
	return all
}
