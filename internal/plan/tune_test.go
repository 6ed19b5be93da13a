package plan

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// surface is a Trial on a made-up function of a grid.
type surface struct {
	rates func(point []int) float64
	runs  atomic.Int64
}

func (s *surface) Climb(_ context.Context, point []int, from float64) (float64, error) {
	s.runs.Add(1)
	if rate := s.rates(point); rate >= from {
		return rate, nil
	}
	return 0, nil
}

// TestTuneCrossesValleys: where no change of one or two axes is better, the best is found, and no point runs twice.
func TestTuneCrossesValleys(t *testing.T) {
	s := &surface{rates: func(p []int) float64 {
		switch {
		case p[0] == 2 && p[1] == 3 && p[2] == 1:
			return 7
		case p[0] == 0 && p[1] == 0:
			return 1 + float64(p[2])
		}
		return 0
	}}
	best, err := Tune(t.Context(), []int{4, 5, 3}, candidate{[]int{0, 0, 0}, 1}, 0.02, s)
	if err != nil || len(best) < 2 || !slices.Equal(best[0].point, []int{2, 3, 1}) || best[0].rate != 7 || best[1].rate > 3 {
		t.Errorf("%v %v", best, err)
	}
	if s.runs.Load() != 59 {
		t.Errorf("%d runs of 59 points beside the start", s.runs.Load())
	}
}

// TestTuneTies: rates within the precision are ties, and the point that is there first stays.
func TestTuneTies(t *testing.T) {
	s := &surface{rates: func(p []int) float64 { return 1 + 0.001*float64(p[0]) }}
	best, err := Tune(t.Context(), []int{9}, candidate{[]int{0}, 1}, 0.02, s)
	if err != nil || len(best) != 1 || best[0].rate != 1 {
		t.Errorf("%v %v", best, err)
	}
}

var firstGrid = flag.Uint64("grid.first", 100, "seed of the first random grid")

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

// sampled is the points of a random grid that are searched for the truth, but for a long run, which searches all.
const sampled = 40

// TestTuneRandomGrids: on random grids of more than 500 points, searched beside for the truth, the best point or one within 2% is
// found, with at most 15% of the requests that a search of each point simulates. Of a sample of points the requests
// are multiplied.
func TestTuneRandomGrids(t *testing.T) {
	deep.Only(t)
	for seed := *firstGrid; seed < *firstGrid+uint64(deep.Of(0, 1, 20)); seed++ {
		s := randomGrid(t, seed)
		total := volume(s.sizes())
		if total < 500 {
			t.Fatalf("%d points", total)
		}
		best, err := s.tune(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.decide(t.Context(), best, 0)
		if err != nil {
			t.Fatal(err)
		}
		spent := s.requests.Swap(0)
		top, truth := 0.0, []int(nil)
		points := rand.New(rand.NewPCG(seed, 35)).Perm(total)
		if !deep.Long() {
			points = points[:sampled]
		}
		for _, i := range points {
			cfg, err := s.load(place(s.sizes(), i))
			if err != nil {
				continue
			}
			found, err := s.find(t.Context(), cfg, 0)
			if err = invalid(err); err != nil {
				t.Fatal(err)
			}
			if found != nil && found.Best.RatePerS > top {
				top, truth = found.Best.RatePerS, place(s.sizes(), i)
			}
		}
		share, rate := float64(spent)/float64(s.requests.Load())*float64(len(points))/float64(total), got.Answer.Best.RatePerS
		t.Logf("grid %d: %d points, %v holds %.4g of %.4g requests/s (%v), with %.1f%% of the requests", seed, total, got.point, rate, top, truth, 100*share)
		if !(share <= 0.15 && rate >= top/1.02) {
			t.Errorf("grid %d: %v holds %.4g requests/s, %v %.4g; %.1f%% of the requests", seed, got.point, rate, truth, top, 100*share)
		}
	}
}
