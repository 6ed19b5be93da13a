package l3sim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim"
	"github.com/l3sim/l3sim/traces"
)

// TestRunRefusesRequests: a node refuses requests that no reader of a file accepts, on each system, where a run of them would not
// end, or panic. So are a trace and a configuration that are nil.
func TestRunRefusesRequests(t *testing.T) {
	valid := traces.Request{Input: 8, Output: 2}
	for _, system := range []string{"l3", "gpu-only"} {
		cfg, err := l3sim.Load(l3sim.Options{Sets: []string{"run.system=" + system, "run.model=llama-2-7b", "model.layers=1"}})
		if err != nil {
			t.Fatal(err)
		}
		node, err := l3sim.NewNode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for want, r := range map[string]traces.Request{
			"request 1: Input = 0: ":    {Input: 0, Output: 1},
			"request 1: Input = -5: ":   {Input: -5, Output: 3},
			"request 1: Output = 0: ":   {Input: 1, Output: 0},
			"request 1: Input = 1073":   {Input: 1<<30 + 1, Output: 1},
			"request 1: Output = 922":   {Input: 1, Output: 1<<63 - 1},
			"request 1: Arrival = -":    {Input: 1, Output: 1, Arrival: -5e12},
			"request 1: Arrival = 922":  {Input: 1, Output: 1, Arrival: 1<<63 - 1},
			"request 1: Turn.Think = -": {Input: 1, Output: 1, Turn: &traces.Turn{Waits: true, Think: -1}},
		} {
			_, err := node.Run(t.Context(), &l3sim.Trace{Requests: []traces.Request{valid, r}}, l3sim.RunOptions{})
			var bad *l3sim.Error
			if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", system, err, want)
			}
		}
		if _, err := node.Run(t.Context(), &l3sim.Trace{Requests: []traces.Request{valid}}, l3sim.RunOptions{}); err != nil {
			t.Error(err)
		}
		nobody := traces.Arrivals{Closed: &traces.ClosedLoop{}}
		_, err = node.Run(t.Context(), &l3sim.Trace{Requests: []traces.Request{valid}, Arrivals: nobody}, l3sim.RunOptions{})
		if !errors.As(err, new(*l3sim.Error)) || !strings.Contains(err.Error(), "at least 1 user") {
			t.Errorf("a closed loop without users: %v", err)
		}
		if _, err := node.Run(t.Context(), nil, l3sim.RunOptions{}); !errors.As(err, new(*l3sim.Error)) {
			t.Errorf("a nil trace: %v", err)
		}
	}
	if _, err := l3sim.NewNode(nil); !errors.As(err, new(*l3sim.Error)) {
		t.Errorf("a nil configuration: %v", err)
	}
	if _, err := l3sim.Run(t.Context(), nil); !errors.As(err, new(*l3sim.Error)) {
		t.Errorf("a nil configuration: %v", err)
	}
}
