package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestCompare: a comparison of knobs tries each tensor parallelism and ends with the best first. For a small model two replicas serve more
// than one on both GPUs; the first guess is the single replica, which coarse steps of the rate do not separate.
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
	x, err := (&Search{Precision: 0.02, Tune: true}).Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(x.Candidates) != 2 || x.Candidates[0].Point[0] != 1 || x.Candidates[1].Point[0] != 0 || x.Rate() != x.Candidates[0].Rate {
		t.Errorf("%+v", x.Candidates)
	}
	if !slices.IsSortedFunc(x.Candidates, func(a, b Candidate) int { return cmp.Compare(b.Rate, a.Rate) }) {
		t.Errorf("not by rate: %+v", x.Candidates)
	}
	text, err := json.Marshal(x.Candidates)
	if err != nil {
		t.Fatal(err)
	}
	var kept []Candidate
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	for i, c := range x.Candidates {
		if len(kept) != 2 || !slices.Equal(kept[i].Point, c.Point) || kept[i].Rate != c.Rate || kept[i].Requests != c.Requests {
			t.Errorf("kept is %+v of %+v", kept, x.Candidates)
		}
	}
}
