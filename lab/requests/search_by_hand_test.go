package requests

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestSearchByHand: a constant moves to the least loss, wherever that is, and stays if nothing is better; the least loss is returned.
func TestSearchByHand(t *testing.T) {
	for _, c := range []struct {
		k           Constant
		least, best float64 // before; where the loss is 0
	}{
		{Constant{Unit: "us", most: 4000}, 9999, 333}, {Constant{Unit: "us", most: 4000}, 9999, 3987}, {Constant{Unit: "us", most: 1000}, 9999, 3}, {Constant{After: 0.9, most: 0.98}, 9, 0.61}, {Constant{After: 0.9, most: 0.98}, 9, 0.97},
	} {
		k := c.k
		runs := 0
		got, err := new(Calibration).search(&k, c.least, func() ([]*Report, float64, error) {
			runs++
			return nil, math.Abs(k.After - c.best), nil
		})
		if err != nil || math.Abs(k.After-c.best) > k.most/1000 || math.Abs(got-math.Abs(k.After-c.best)) > 1e-12 || runs < 8 {
			t.Errorf("%+v: %v with a loss of %v after %d runs, want %v; %v", c.k, k.After, got, runs, c.best, err)
		}
		// The present value is best.
		k = c.k
		if got, err := new(Calibration).search(&k, 0, func() ([]*Report, float64, error) { return nil, 1, nil }); err != nil || got != 0 || k.After != c.k.After {
			t.Errorf("%+v moves to %v with %v, %v", c.k, k.After, got, err)
		}
		// A share without requests is not a candidate, and a failing time ends the search.
		bad := errors.New("bad")
		k = c.k
		if _, err := new(Calibration).search(&k, 1, func() ([]*Report, float64, error) { return nil, 0, bad }); (err == nil) != (c.k.Unit == "") {
			t.Errorf("%+v: %v", c.k, err)
		}
	}
}

// TestJudgeEnds: an interrupted run gives an error and no report.
func TestJudgeEnds(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	server := []string{`gpu.preset="rtx-4090-vllm-0.19"`, `run.model="llama-3.1-8b"`}
	log := planted(t, server...)
	if r, err := Judge(ended, log, configs.Options{Sets: server}); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
