package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
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
	rate      float64 // requests a second that it must hold; 0: the highest
	trace     *traces.Trace
	precision float64
	done      func()
	mutex     sync.Mutex
	requests  int64 // simulated so far
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

func (s *server) judge(cfg *configs.Config) (*capacity.Judge, error) {
	return capacity.NewJudge(cfg, s.trace)
}

// ran counts runs.
func (s *server) ran(runs int) {
	s.mutex.Lock()
	s.requests += int64(runs * len(s.trace.Requests))
	s.mutex.Unlock()
	for range runs {
		s.done()
	}
}

// Holds is of the interface Trial.
func (s *server) Holds(ctx context.Context, point []int, rate float64) (bool, error) {
	cfg, err := s.load(point)
	if err != nil {
		return false, invalid(err)
	}
	best, err := s.climb(ctx, cfg, rate, 1e9)
	return best > 0, invalid(err)
}

// Climb is of the interface Trial.
func (s *server) Climb(ctx context.Context, point []int, from float64) (float64, error) {
	cfg, err := s.load(point)
	if err != nil {
		return 0, invalid(err)
	}
	best, err := s.climb(ctx, cfg, from, s.precision)
	return best, invalid(err)
}

func (s *server) climb(ctx context.Context, cfg *configs.Config, from, precision float64) (float64, error) {
	j, err := s.judge(cfg)
	if err != nil {
		return 0, err
	}
	best, runs, err := j.Climb(ctx, from, precision)
	s.ran(runs)
	return best, err
}

// invalid returns nil for a point that is not valid, or serves no request: it holds no rate.
func invalid(err error) error {
	if errors.As(err, new(*input.Error)) || errors.As(err, new(*system.RejectedError)) {
		return nil
	}
	return err
}

// start returns the first valid point and the highest rate that it holds, or a rate below all that are tried where it holds none.
// The error is of the configuration as given where no point that changes one knob is valid.
func (s *server) start(ctx context.Context) (point []int, rate float64, err error) {
	point = make([]int, len(s.knobs))
	cfg, err := s.load(point)
	for i := 0; err != nil && i < len(s.knobs); i++ {
		for v := len(s.knobs[i].Values) - 1; err != nil && v > 0; v-- {
			point = make([]int, len(s.knobs))
			point[i] = v
			var other error
			if cfg, other = s.load(point); other == nil {
				err = nil
			}
		}
	}
	if err != nil {
		return nil, 0, err
	}
	search := capacity.Search{Precision: s.precision, Done: func() { s.ran(1) }}
	found, err := search.Find(ctx, cfg, s.trace)
	if err != nil {
		return nil, 0, err
	}
	rate = found.Best.RatePerS
	if rate == 0 {
		rate = found.Tried[0].RatePerS / (1 + s.precision)
	}
	return point, rate, nil
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

// binds measures what binds at a point that holds a rate: each resource is doubled, and each target relaxed to its double, alone. Those
// with which the rate rises by a twentieth and more are returned, the largest gain first.
func (s *server) binds(ctx context.Context, point []int, rate float64) ([]Bind, error) {
	cfg, err := s.load(point)
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
	slices.SortStableFunc(all, func(a, b Bind) int {
		switch {
		case a.Gain > b.Gain:
			return -1
		case a.Gain < b.Gain:
			return 1
		}
		return 0
	})
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
