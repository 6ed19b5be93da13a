package plan

import (
	"github.com/l3sim/l3sim/internal/deep"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/kinds"
)

// capacity finds the highest rate of a fixed node with all requests, as the command capacity does.
func capacity(t *testing.T, sets ...string) *Row {
	t.Helper()
	o := configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=2", "node.gpus=1", "model.tensor_parallel=1", "gpu.preset=h100-sxm",
		"run.trace=synthetic", "run.requests=500", "traces.input_mean=1500", "traces.input_std=700", "traces.output_mean=60", "traces.output_std=30", "slo.ttft=200ms", "slo.tbt=5ms",
		"arrivals.kind=poisson", "memory.admission=current", "memory.history=0"}, sets...)}
	return rowOf(t, &Search{Precision: 0.02}, o)
}

// rowOf returns a search's row for a node and its own requests.
func rowOf(t *testing.T, s *Search, o configs.Options) *Row {
	t.Helper()
	cfg, err := AsGiven(o)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Requests(cfg)
	if err != nil {
		t.Fatal(err)
	}
	row, err := s.Row(t.Context(), o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// TestBinds: doubling a resource that binds raises the highest rate by its gain, and doubling any other by less than the least gain.
// A node whose GPUs hold few keys and values is bound by their memory.
func TestBinds(t *testing.T) {
	deep.Only(t)
	tight := []string{"gpu.memory_capacity=4.25GiB", "gpu.memory_share=1", "traces.output_mean=600", "traces.output_std=300", "slo.ttft=2s", "slo.tbt=50ms"}
	for _, sets := range [][]string{nil, tight} {
		found := capacity(t, sets...)
		if sets != nil && !slices.ContainsFunc(found.Binds, func(b Bind) bool { return b.Name == "GPU memory" }) {
			t.Errorf("%v: binds %v", sets, found.Binds)
		}
		for _, r := range kinds.Of(found.Config).Planning.AllResources() {
			double := slices.Clone(sets)
			for _, key := range r.Keys {
				if text, ok := times(found.Config, key, 2); ok {
					double = append(double, key+"="+text)
				}
			}
			gain := 0.0
			if i := slices.IndexFunc(found.Binds, func(b Bind) bool { return b.Name == r.Name }); i >= 0 {
				gain = found.Binds[i].Gain
			}
			// A search finds a rate to 2%.
			rise := capacity(t, double...).RatePerS/found.RatePerS - 1
			if least, most := gain-0.02*(1+gain), next(gain)+0.02*(1+next(gain)); len(double) > len(sets) && (gain > 0 && rise < least || rise > most) {
				t.Errorf("%v: twice of %s gives %+.1f%%, binds say %v", sets, r.Name, 100*rise, found.Binds)
			}
		}
	}
}

// TestOwnResources: resources of a system other than its GPUs bind, too. Keys and values for every head and small layers make
// L3's ranksets the bottleneck.
func TestOwnResources(t *testing.T) {
	deep.Only(t)
	found := capacity(t, "run.system=l3", "node.ranksets=2", "run.model=llama-2-7b", "model.context=100000", "run.requests=200",
		"traces.input_mean=6000", "traces.input_std=2000", "traces.output_mean=200", "traces.output_std=50", "slo.ttft=4s", "slo.tbt=8ms")
	if !slices.ContainsFunc(found.Binds, func(b Bind) bool { return b.Name == "ranksets" }) {
		t.Errorf("binds %v", found.Binds)
	}
}

// next returns the next larger gain of the list, or the first.
func next(gain float64) float64 {
	above := 100.0
	for _, x := range gains {
		if x > gain {
			above = min(above, x)
		}
	}
	return above
}

// TestNothingBindsWithRoom: if the rate asked for holds and the highest one is not searched, nothing binds.
func TestNothingBindsWithRoom(t *testing.T) {
	found := capacity(t, "arrivals.rate_per_s=1", "slo.ttft=2s", "slo.tbt=50ms")
	row := Row{Load: found.Load, Binds: found.Binds, Asked: &Asked{Met: true}}
	if !found.Met || len(found.Binds) > 0 || row.binding() != "nothing at this rate" {
		t.Errorf("%v %v %v, %v, %s", found.Asked != nil, found.next != nil, found.Highest, found.Binds, row.binding())
	}
}
