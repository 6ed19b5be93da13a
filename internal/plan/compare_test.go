package plan

import (
	"cmp"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestCompare: a comparison of knobs looks at each tensor parallelism, and ends with the best first. Of a small model two replicas serve more
// than one on both GPUs, but the first guess is of the latter, and by long steps of the rate it looks as good.
func TestCompare(t *testing.T) {
	o := configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=2", "node.gpus=2", "gpu.preset=h100-sxm", "run.trace=synthetic", "run.requests=60",
		"traces.input_mean=800", "traces.input_std=400", "traces.output_mean=20", "traces.output_std=10", "arrivals.kind=poisson", "slo.ttft=50ms", "gpu_only.policy=chunked-prefill"}}
	cfg, err := AsGiven(o)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Requests(cfg)
	if err != nil {
		t.Fatal(err)
	}
	x, err := (&Search{Precision: 0.02, Tune: true}).Compare(t.Context(), o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.candidates) != 2 || x.candidates[0].point[0] != 1 || x.candidates[1].point[0] != 0 || x.Rate() != x.candidates[0].rate {
		t.Errorf("%+v", x.candidates)
	}
	if !slices.IsSortedFunc(x.candidates, func(a, b candidate) int { return cmp.Compare(b.rate, a.rate) }) {
		t.Errorf("not by rate: %+v", x.candidates)
	}
	kept := x.Kept()
	for i, c := range x.candidates {
		if len(kept.Points) != 2 || !slices.Equal(kept.Points[i], c.point) || kept.Rates[i] != c.rate || kept.Runs[i] != c.n {
			t.Errorf("kept is %+v of %+v", kept, x.candidates)
		}
	}
}
