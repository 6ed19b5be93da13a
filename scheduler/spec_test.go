package scheduler

import (
	"testing"

	"github.com/l3sim/l3sim/input"
)

func TestPredictorSpec(t *testing.T) {
	good := PredictorSpec{Kind: PredictLearned, WarmUp: 64, RefitEvery: 256, Window: 1024, Trees: 32, MaxDepth: 12, MinLeaf: 2}
	if errs := input.Faults(&good); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	bad := PredictorSpec{Kind: "leaned", WarmUp: 0, RefitEvery: 0, Window: 3, Trees: 0, MaxDepth: 65, MinLeaf: 0, Noise: -0.1}
	errs := input.Faults(&bad)
	keys := map[string]bool{}
	for _, e := range errs {
		keys[e.Key] = true
	}
	for _, key := range []string{"kind", "warm_up", "refit_every", "window", "trees", "max_depth", "min_leaf", "noise"} {
		if !keys[key] {
			t.Errorf("%s is not reported", key)
		}
	}
	if errs[0].Nearest != PredictLearned {
		t.Errorf("nearest kind %q", errs[0].Nearest)
	}
}
