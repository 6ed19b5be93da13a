package system

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/traces"
)

// commandUnits returns the units of a node whose attention takes its commands.
func commandUnits(t *testing.T, sets ...string) *hbmPIM {
	t.Helper()
	n, err := NewNode(mustLoad(t, append([]string{"run.system=hbm-pim", "gpu.preset=a100-sxm-80gb", "hbm_pim.model=commands"}, sets...)...))
	if err != nil {
		t.Fatal(err)
	}
	return n.divide(&traces.Trace{Requests: equal(1, 10, 10)}, Options{}, false)[0].engine.(*hbmPIM)
}

// TestCommandsOnNode: what the units take beyond the fixed overhead is the clocks of their commands on the busiest channel, at the clock
// at which the stacks have the GPU's bandwidth: the bandwidth over the GPUs' is the factor that the commands alone have.
func TestCommandsOnNode(t *testing.T) {
	for _, set := range [][]string{{"run.model=gpt-175b"}, {"run.model=gpt-175b", "hbm_pim.power_limit=false"}, {"run.model=gpt-175b", "hbm_pim.rules=jedec"},
		{"run.model=gpt-175b", "hbm_pim.level=bg"}, {"run.model=gpt-175b", "hbm_pim.level=buffer"}, {"run.model=llama-3-8b"}, {"run.model=llama-3-8b", "hbm_pim.queries_per_read=4"}} {
		if len(set) > 1 && !deep.On() {
			continue
		}
		e := commandUnits(t, set...)
		m := e.model
		perGPU := m.KVHeads / m.TensorParallel
		// As many requests as give each of the 80 channels eight heads.
		b := gpu.DecodeBatch{Requests: 8 * 80 / perGPU / int(e.reads), Longest: 2048}
		b.Tokens = int64(b.Requests) * 2048
		load := hbm.StackLoad(hbm.Shape{HeadDim: m.HeadDim, ElementBytes: 2}, 2048, 8*hbm.Channels)
		spec := hbm.Spec{Level: hbm.Bank, Rules: hbm.AttAcc, Rate: 5200, PowerLimited: true}
		for _, s := range set {
			switch s {
			case "hbm_pim.level=bg":
				spec.Level = hbm.BankGroup
			case "hbm_pim.level=buffer":
				spec.Level = hbm.Buffer
			case "hbm_pim.power_limit=false":
				spec.PowerLimited = false
			case "hbm_pim.rules=jedec":
				spec.Rules, spec.Rate = hbm.JEDEC, 6400
			}
		}
		run, err := hbm.Measure(spec, load, nil)
		if err != nil {
			t.Fatal(err)
		}
		factor := float64(load.PlainClocks(8, 2048)) / float64(run.Clocks)
		bytes := float64(b.Tokens) * float64(perGPU) * e.reads * float64(2*m.HeadDim*2)
		want := bytes / float64(e.hw.GPU.MemoryBandwidth) / factor
		got := e.took(b, e.reads).Seconds() - e.units.DecodeBatchCost(b).Overhead
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%v: %v s, commands give %v s, %.2f times the bandwidth", set, got, want, factor)
		}
	}
}

// TestCommandsGrow: a longer request never makes a batch faster, nor do more requests; and one
// head of many channels takes as long as one in each.
func TestCommandsGrow(t *testing.T) {
	e := commandUnits(t, "run.model=gpt-175b")
	seconds := func(requests, tokens, longest int) float64 {
		return e.commands(gpu.DecodeBatch{Requests: requests, Tokens: int64(tokens), Longest: longest}, 1)
	}
	if one, six := seconds(1, 1000, 1000), seconds(6, 6000, 1000); one != six {
		t.Errorf("72 heads take %v s, 12 on as many channels %v", six, one)
	}
	if six, seven := seconds(6, 6000, 1000), seconds(7, 7000, 1000); seven <= six {
		t.Errorf("84 heads on 80 channels take %v s, 72 take %v", seven, six)
	}
	if even, long := seconds(2, 2000, 1000), seconds(2, 2000, 1900); long <= even {
		t.Errorf("a request of 1,900 tokens and one of 100 take %v s, two of 1,000 %v", long, even)
	}
	if seconds(0, 0, 0) != 0 {
		t.Error("nothing takes time")
	}
}

// TestEnergyOfCommands: what a node's units take in a run is what the commands of all its steps take, each head run by itself. Requests of one length decode
// together: one head in each channel of the GPUs' 80, and 16 beyond.
func TestEnergyOfCommands(t *testing.T) {
	deep.Only(t)
	const layers, input, output = 2, 1000, 3
	for _, level := range hbm.Levels() {
		n, r := energyOf(t, equal(4, input, output), "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-sxm-80gb", "hbm_pim.model=commands", "hbm_pim.sub_batches=never",
			"hbm_pim.level="+level, fmt.Sprint("model.layers=", layers))
		m, spec := &n.cfg.Model, hbm.Spec{Level: hbm.Level(level), Rules: hbm.AttAcc, Rate: 5200, PowerLimited: true, NoRefresh: true}
		e := n.cfg.Energy.At(energy.Mid)
		costs := hbm.CostsOf(&e)
		want := 0.0
		for step := 1; step < output; step++ {
			run, err := hbm.Measure(spec, hbm.StackLoad(hbm.Shape{HeadDim: m.HeadDim, ElementBytes: 2}, input+step, hbm.Channels), nil)
			if err != nil {
				t.Fatal(err)
			}
			want += float64(4*m.KVHeads*layers) * run.Tally(spec).Joules(costs.Each(spec.Level))
		}
		if got := r.report.Components.HBMPIM; math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s: %v J, by commands %v J", level, got, want)
		}
	}
}
