package system

import (
	"context"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestHostTime: exposed host time adds to each iteration, in every system that runs the model. Host work that kernels hide adds nothing;
// if it is longer, the iteration ends with it.
func TestHostTime(t *testing.T) {
	for _, name := range []string{"gpu-only", "l3"} {
		run := func(sets ...string) (took units.Duration, iterations int64, waits float64) { // waits: seconds for which the GPUs wait for the host
			o := configs.Options{Preset: "dgx-h200-l3", Sets: append([]string{"run.system=" + name, "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "node.channels=2"}, sets...)}
			cfg, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			node, err := NewNode(cfg)
			if err != nil {
				t.Fatal(err)
			}
			trace, err := traces.Equal("t", 1, 100, 10).Arrive(cfg.Arrivals, 1)
			if err != nil {
				t.Fatal(err)
			}
			r, err := node.Run(context.Background(), trace, Options{Check: true})
			if err != nil {
				t.Fatal(err)
			}
			s, err := r.Summary(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return r.Requests[0].Finish, s.Iterations, float64(s.Waits.GPU.Host * s.SimulatedS)
		}
		plain, n, none := run()
		if exposed, m, waits := run("gpu.host.exposed=100us"); m != n || exposed != plain+units.Duration(n)*100*units.Microsecond || math.Abs(waits-none-float64(n)*100e-6) > 1e-9 {
			t.Errorf("%s: %v with 100us exposed in %d iterations, %v without in %d; the host is waited for %v s, %v s without", name, exposed, m, plain, n, waits, none)
		}
		if hidden, _, _ := run("gpu.host.step=10us", "gpu.host.sequence=10us"); hidden != plain {
			t.Errorf("%s: %v with hidden work, %v without", name, hidden, plain)
		}
		if bound, _, _ := run("gpu.host.step=40ms", "gpu.host.sequence=10ms"); bound != units.Duration(n)*50*units.Millisecond {
			t.Errorf("%s: %v with steps of 50ms, want %d of them", name, bound, n)
		}
	}
}
