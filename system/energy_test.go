package system

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"fmt"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/perfetto"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestEnergyLaws: on random nodes the phases and idle time add up to the whole, and the
// GPUs draw at least active idle and at most their limit.
func TestEnergyLaws(t *testing.T) {
	deep.Heavy(t)
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

// TestEnergyByHand: one request on the GPUs takes the energy of its iterations; its prompt counts
// in the phase of prompts.
func TestEnergyByHand(t *testing.T) {
	const input, output = 300, 5
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu.preset=h200-sxm"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), &traces.Trace{Requests: equalLengths(1, input, output)}, Options{})
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

// energyOf runs requests on a node.
func energyOf(t *testing.T, requests []traces.Request, sets ...string) (*Node, *Result) {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: append([]string{"run.model=opt-66b", "rank_pim.placement=balanced"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	n := mustNode(t, cfg)
	return n, mustRun(t, n, &traces.Trace{Requests: requests}, false)
}

// TestEnergyAddsUp: a node of twice the replicas that serves every request twice takes twice the
// energy, of each kind.
func TestEnergyAddsUp(t *testing.T) {
	var twice []traces.Request // dealt to the replicas in turn
	for _, r := range unevenLengths(12) {
		twice = append(twice, r, r)
	}
	for i := range twice {
		twice[i].ID = i
	}
	for _, system := range everyName() {
		_, one := energyOf(t, unevenLengths(12), "run.system="+system, "node.gpus=2", "node.channels=8", "node.memory_capacity=1TiB", "cxl.capacity=1TiB", "cxl.bandwidth=128GB/s")
		n, two := energyOf(t, twice, "run.system="+system, "node.gpus=4", "node.channels=16", "node.memory_capacity=2TiB", "cxl.capacity=2TiB", "cxl.bandwidth=256GB/s")
		if n.Replicas() != 2 || one.end != two.end {
			t.Fatalf("%s: %d replicas take %v, one %v", system, n.Replicas(), two.end, one.end)
		}
		want := one.energy
		want.GPU, want.Prefill, want.Decode, want.Idle = 2*want.GPU, 2*want.Prefill, 2*want.Decode, 2*want.Idle
		for what, c := range map[string][2]float64{
			"all": {two.energy.GPU, want.GPU}, "prefill": {two.energy.Prefill, want.Prefill}, "decode": {two.energy.Decode, want.Decode},
			"idle": {two.energy.Idle, want.Idle}, "a token": {two.energy.Token, want.Token},
		} {
			if math.Abs(c[0]-c[1]) > 1e-9*c[1] {
				t.Errorf("%s: %s takes %v J on two replicas, want %v", system, what, c[0], c[1])
			}
		}
	}
}

// TestEnergyOfPhases: prompts whose first token is their last have no decode energy, and one more
// token has some, without changing that of prompts.
func TestEnergyOfPhases(t *testing.T) {
	for _, system := range everyName() {
		_, prompts := energyOf(t, equalLengths(4, 900, 1), "run.system="+system)
		_, more := energyOf(t, equalLengths(4, 900, 2), "run.system="+system)
		if e := prompts.energy; e.Decode != 0 || e.Prefill <= 0 {
			t.Errorf("%s: prompts alone take %+v", system, e)
		}
		if a, b := prompts.energy, more.energy; b.Decode <= 0 || system == "gpu-only" && b.Prefill != a.Prefill {
			t.Errorf("%s: prompts alone take %+v, with a token more %+v", system, a, b)
		}
	}
}

// TestEnergyOfWaiting: if requests arrive later, the GPUs draw active idle for that time, and
// nothing else changes.
func TestEnergyOfWaiting(t *testing.T) {
	const later = 7 * units.Second
	for _, system := range everyName() {
		requests := unevenLengths(6)
		for i := range requests {
			requests[i].Arrival = 3 * units.Second
		}
		n, soon := energyOf(t, requests, "run.system="+system)
		for i := range requests {
			requests[i].Arrival += later
		}
		_, late := energyOf(t, requests, "run.system="+system)
		a, b, p := soon.energy, late.energy, &n.cfg.GPU.Power
		if b.Prefill != a.Prefill || b.Decode != a.Decode {
			t.Errorf("%s: %+v, later %+v", system, a, b)
		}
		if want := later.Seconds() * float64(n.cfg.Node.GPUs) * p.ActiveIdle; math.Abs(b.Idle-a.Idle-want) > 1e-9*want {
			t.Errorf("%s: waiting takes %v J, want %v", system, b.Idle-a.Idle, want)
		}
	}
}

// TestWattsOnTheTimeline: the power of a replica's GPUs over time integrates to the run's energy,
// from 0, before requests arrive, to the end of the run.
func TestWattsOnTheTimeline(t *testing.T) {
	deep.Heavy(t)
	for i, system := range everyName() {
		if !deep.Case(i, 3) {
			continue
		}
		requests := unevenLengths(12)
		for i := range requests {
			requests[i].Arrival = units.Duration(1+i/6) * 100 * units.Second // the first ones end long before the last
		}
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=opt-66b", "model.layers=5"}})
		if err != nil {
			t.Fatal(err)
		}
		all := Window{To: units.Duration(math.MaxInt64)}
		r, err := mustNode(t, cfg).Run(t.Context(), &traces.Trace{Requests: requests}, Options{Timeline: &all})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		w := timeline.NewWriter(&text)
		WriteTimeline(w, r.Recordings)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		events, faults, err := perfetto.Read(&text)
		if err != nil || len(faults) > 0 {
			t.Fatal(faults, err)
		}
		type value struct{ at, watts float64 } // in seconds
		site, lastSite := 0.0, map[int]value{}
		joules, limit := 0.0, float64(cfg.Model.TensorParallel)*cfg.GPU.Power.Limit
		last := map[int]value{} // of each replica
		until := func(p int, at float64) { joules += (at - last[p].at) * last[p].watts }
		for _, e := range events {
			if e.Name == "power (W)" {
				watts := 0.0
				for _, w := range e.Args {
					watts += w.(float64)
				}
				site += (e.Ts/1e6 - lastSite[e.Pid].at) * lastSite[e.Pid].watts
				lastSite[e.Pid] = value{e.Ts / 1e6, watts}
			}
			if e.Name != "GPU power (W)" || e.Ph != "C" {
				continue
			}
			watts := e.Args["watts"].(float64)
			if at := e.Ts / 1e6; watts <= 0 || watts > limit*(1+1e-9) || at < last[e.Pid].at {
				t.Fatalf("%s: %v W at %v s, after %+v", system, watts, at, last[e.Pid])
			}
			until(e.Pid, e.Ts/1e6)
			last[e.Pid] = value{e.Ts / 1e6, watts}
		}
		for p := range last {
			until(p, r.end.Seconds())
			site += (r.end.Seconds() - lastSite[p].at) * lastSite[p].watts
		}
		if math.Abs(site/r.report.Total-1) > 1e-9 {
			t.Errorf("%s: %v J of all on the timeline, %v in the summary", system, site, r.report.Total)
		}
		if math.Abs(joules/r.energy.GPU-1) > 1e-9 || len(last) != len(r.Recordings) {
			t.Errorf("%s: %v J on the timeline of %d replicas, %v in the summary", system, joules, len(last), r.energy.GPU)
		}
	}
}

// TestEnergyOfCommands: the energy of a node's units in a run is that of the commands of all its steps, with each head run separately. Requests of one
// length decode together: one head in each of the GPUs' 80 channels, and 16 more.
func TestEnergyOfCommands(t *testing.T) {
	deep.Only(t)
	const layers, input, output = 2, 1000, 3
	for _, level := range hbm.Levels() {
		n, r := energyOf(t, equalLengths(4, input, output), "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-sxm-80gb", "hbm_pim.model=commands", "hbm_pim.sub_batches=never",
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

// TestPromptBandOfRun: by hand. prompt_band widens the band of the site's energy by its share of the prompts' joules, at the
// ends of gpu_factor (0.8, 1.2) and pue (1.1, 1.58), and moves nothing else.
func TestPromptBandOfRun(t *testing.T) {
	summary := func(band string) *results.Summary {
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "gpu.power.prompt_band=" + band}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := mustNode(t, cfg).Run(t.Context(), fewRequests(5), Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Summary(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none, some := summary("0"), summary("0.25")
	prompts := some.Energy.Prefill
	less, more := none.EnergyReport.Low-some.EnergyReport.Low, some.EnergyReport.High-none.EnergyReport.High
	wantLess, wantMore := 0.25*0.8*1.1*prompts, 0.25*1.2*1.58*prompts
	if math.Abs(less/wantLess-1) > 1e-6 || math.Abs(more/wantMore-1) > 1e-6 || some.EnergyReport.Total != none.EnergyReport.Total {
		t.Errorf("%g J less and %g more, want %g and %g", less, more, wantLess, wantMore)
	}
}
