package system

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestEnergyLaws: on random nodes the phases and idle time add up to the whole, the GPUs
// draw at least active idle and at most their limit, and two replicas take what their
// runs take.
func TestEnergyLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		for _, system := range []string{"gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "l3"} {
			n := d.node(t, system)
			r := mustRun(t, n, d.trace, false)
			e, p := r.energy, &n.cfg.GPU.Power
			if math.Abs(e.Prefill+e.Decode+e.Idle-e.GPU) > 1e-9*e.GPU || min(e.Prefill, e.Decode, e.Idle) < 0 {
				t.Fatalf("%s: %+v", system, e)
			}
			all := float64(n.cfg.Node.GPUs) * r.end.Seconds()
			if low := all * min(p.ActiveIdle, p.Base); e.GPU < low*(1-1e-9) || e.GPU > all*p.Limit*(1+1e-9) {
				t.Fatalf("%s: %v J of %v GPU-seconds", system, e.GPU, all)
			}
			if r.tokens > 0 && math.Abs(e.Token*float64(r.tokens)-e.GPU) > 1e-9*e.GPU {
				t.Fatalf("%s: %v J a token, %d tokens, %v J", system, e.Token, r.tokens, e.GPU)
			}
		}
	})
}

// TestEnergyByHand: one request on the GPUs takes the energy of its iterations, its prompt
// in the phase of prompts.
func TestEnergyByHand(t *testing.T) {
	const input, output = 300, 5
	cfg, err := Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=h200-sxm"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), &traces.Trace{Requests: equal(1, input, output)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
	var prefill, decode, busy float64
	for step := range output {
		x := gpu.Shape{Decode: gpu.UniformBatch(1, input+step)}
		if step == 0 {
			x = gpu.Shape{Prefills: 1, Chunk: input}
		}
		seconds, joules := cfg.GPU.Sustained(g.Iteration(x))
		busy += seconds
		if step == 0 {
			prefill = joules
		} else {
			decode += joules
		}
	}
	idle := (float64(cfg.Node.GPUs)*r.end.Seconds() - busy) * cfg.GPU.Power.ActiveIdle
	for what, c := range map[string][2]float64{"prefill": {r.energy.Prefill, prefill}, "decode": {r.energy.Decode, decode}, "idle": {r.energy.Idle, idle}} {
		if math.Abs(c[0]/c[1]-1) > 1e-6 {
			t.Errorf("%s takes %v J, want %v", what, c[0], c[1])
		}
	}
}

// TestWattsOnTheTimeline: the power of a replica's GPUs over time is the run's energy.
func TestWattsOnTheTimeline(t *testing.T) {
	for _, system := range []string{"gpu-only", "l3", "hbm-pim"} {
		cfg, err := Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=opt-66b"}})
		if err != nil {
			t.Fatal(err)
		}
		all := Window{To: units.Duration(math.MaxInt64)}
		n := mustNode(t, cfg)
		r, err := n.Run(t.Context(), &traces.Trace{Requests: uneven(40)}, Options{Timeline: &all})
		if err != nil {
			t.Fatal(err)
		}
		joules := 0.0
		for _, rec := range r.Recordings {
			for i, s := range rec.Samples {
				joules += s.Watts * (s.End - s.At).Seconds()
				next := r.end
				if i+1 < len(rec.Samples) {
					next = rec.Samples[i+1].At
				}
				joules += s.IdleWatts * (next - s.End).Seconds()
			}
		}
		if math.Abs(joules/r.energy.GPU-1) > 1e-9 {
			t.Errorf("%s: %v J on the timeline, %v in the summary", system, joules, r.energy.GPU)
		}
		var text bytes.Buffer
		if err := WriteTimeline(&text, r.Recordings); err != nil {
			t.Fatal(err)
		}
		var file struct {
			Events []traceEvent `json:"traceEvents"`
		}
		if err := json.Unmarshal(text.Bytes(), &file); err != nil {
			t.Fatal(err)
		}
		counters := 0
		for _, e := range file.Events {
			if e.Name == "GPU power (W)" && e.Phase == "C" {
				counters++
			}
		}
		if counters < int(r.iterations) {
			t.Errorf("%s: %d values of power in %d iterations", system, counters, r.iterations)
		}
	}
}
