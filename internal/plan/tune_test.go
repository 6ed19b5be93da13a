package plan

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// surface is a Trial on a made-up function of a grid: a product of an optimum for each axis, and a part that two axes share.
type surface struct {
	mutex sync.Mutex
	rates func(point []int) float64
	runs  int
}

func (s *surface) Holds(_ context.Context, point []int, rate float64) (bool, error) {
	s.mutex.Lock()
	s.runs++
	s.mutex.Unlock()
	return s.rates(point) >= rate, nil
}

func (s *surface) Climb(_ context.Context, point []int, _ float64) (float64, error) {
	return s.rates(point), nil
}

// TestTuneJumpsPairs: where no change of one axis is better, a change of two is found.
func TestTuneJumpsPairs(t *testing.T) {
	s := &surface{rates: func(p []int) float64 {
		switch {
		case p[0] == 2 && p[1] == 3:
			return 5 + float64(p[2])
		case p[0] == 0 && p[1] == 0:
			return 1
		}
		return 0
	}}
	best, rate, err := Tune(t.Context(), []int{4, 5, 3}, []int{0, 0, 0}, 1, 0.02, s)
	if err != nil || !slices.Equal(best, []int{2, 3, 2}) || rate != 7 {
		t.Errorf("%v %v %v", best, rate, err)
	}
	if s.runs > 60 {
		t.Errorf("%d runs of 60 points: one was tried twice", s.runs)
	}
}

// TestTuneTies: rates within the precision are ties, and the point that is there first stays.
func TestTuneTies(t *testing.T) {
	s := &surface{rates: func(p []int) float64 { return 1 + 0.001*float64(p[0]) }}
	best, rate, err := Tune(t.Context(), []int{9}, []int{0}, 1, 0.02, s)
	if err != nil || best[0] != 0 || rate != 1 {
		t.Errorf("%v %v %v", best, rate, err)
	}
}

// randomGrid returns a server of a random GPU, model, trace and targets, with a grid of 500 points and more.
func randomGrid(t *testing.T, seed uint64) *server {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 34))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	some := func(n int, all ...string) []string {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return append([]string{""}, all[:n]...)
	}
	s := &server{precision: 0.02, done: func() {}, options: configs.Options{Sets: []string{
		"run.system=" + pick("gpu-only", "gpu-only", "hbm-pim"), "run.model=" + pick("llama-3-8b", "llama-2-7b", "llama-3-70b"),
		"gpu.preset=" + pick("a100-sxm-80gb", "h100-sxm", "h200-sxm"),
		fmt.Sprintf("slo.ttft=%dms", 200+r.IntN(3000)), fmt.Sprintf("slo.tbt=%dms", 30+r.IntN(150)), "arrivals.kind=poisson", "slo.attainment=0.9",
	}}}
	cfg, err := system.Load(s.options)
	for err != nil {
		t.Fatal(err)
	}
	section := map[string]string{"gpu-only": "gpu_only.policy", "hbm-pim": "hbm_pim.policy"}[cfg.Run.System]
	s.knobs = []Knob{
		{"model.tensor_parallel", []string{"", "1", "2", "4", "8"}}, {section, []string{"", "chunked-prefill"}},
		{"batching.max_num_batched_tokens", some(6, "128", "256", "512", "768", "1024", "1536", "2048", "3072", "4096", "16384")},
		{"batching.max_num_seqs", some(7, "4", "8", "12", "16", "24", "32", "48", "64", "96", "128", "256")},
	}
	s.trace = &traces.Trace{Name: "random", Requests: make([]traces.Request, 100)}
	prompt, answer := 100+r.IntN(3000), 10+r.IntN(60)
	for i := range s.trace.Requests {
		s.trace.Requests[i] = traces.Request{ID: i, Input: 1 + int(float64(prompt)*r.ExpFloat64()), Output: 2 + r.IntN(2*answer)}
	}
	return s
}

// TestTuneRandomGrids: on random grids of more than 500 points, each searched whole for the truth, Tune finds the best point or one within 2%,
// beyond the precision of both, with at most 15% of the requests that the whole grid simulates.
func TestTuneRandomGrids(t *testing.T) {
	deep.Only(t)
	for seed := range uint64(20) {
		s := randomGrid(t, seed)
		sizes := make([]int, len(s.knobs))
		total := 1
		for i := range s.knobs {
			sizes[i] = len(s.knobs[i].Values)
			total *= sizes[i]
		}
		if total < 500 {
			t.Fatalf("%d points", total)
		}
		start, rate, err := s.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		best, _, err := Tune(t.Context(), sizes, start, rate, s.precision, s)
		if err != nil {
			t.Fatal(err)
		}
		spent := s.requests
		s.requests = 0
		find := func(point []int) float64 {
			cfg, err := s.load(point)
			if err != nil {
				return 0
			}
			search := capacity.Search{Precision: s.precision, Done: func() { s.ran(1) }}
			found, err := search.Find(t.Context(), cfg, s.trace)
			if err = invalid(err); err != nil {
				t.Fatal(err)
			}
			if found == nil {
				return 0
			}
			return found.Best.RatePerS
		}
		top, at := 0.0, []int(nil)
		for i := range total {
			point, rest := make([]int, len(sizes)), i
			for axis, n := range sizes {
				point[axis], rest = rest%n, rest/n
			}
			if rate := find(point); rate > top {
				top, at = rate, point
			}
		}
		whole := s.requests
		got, share := find(best), float64(spent)/float64(whole)
		t.Logf("grid %d: %d points, %v holds %.4g of %.4g requests/s (%v), with %.1f%% of the requests", seed, total, best, got, top, at, 100*share)
		if share > 0.15 || got < top/(1.02*(1+s.precision)) || math.IsNaN(got) {
			t.Errorf("grid %d: %v holds %.4g requests/s, %v %.4g; %.1f%% of the requests", seed, best, got, at, top, 100*share)
		}
	}
}
