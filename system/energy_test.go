package system

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestEnergyLaws: on random nodes the phases and idle time add up to the whole, and the
// GPUs draw at least active idle and at most their limit.
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

// energyOf runs requests on a node.
func energyOf(t *testing.T, requests []traces.Request, sets ...string) (*Node, *Result) {
	t.Helper()
	cfg, err := Load(configs.Options{Sets: append([]string{"run.model=opt-66b", "rank_pim.placement=balanced"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	n := mustNode(t, cfg)
	return n, mustRun(t, n, &traces.Trace{Requests: requests}, false)
}

// TestEnergyAddsUp: a node of twice the replicas that serves every request twice takes
// twice the energy, of each kind.
func TestEnergyAddsUp(t *testing.T) {
	var twice []traces.Request // dealt to the replicas in turn
	for _, r := range uneven(12) {
		twice = append(twice, r, r)
	}
	for i := range twice {
		twice[i].ID = i
	}
	for _, system := range Names() {
		_, one := energyOf(t, uneven(12), "run.system="+system, "node.gpus=2", "node.channels=8", "node.memory_capacity=1TiB", "cxl.capacity=1TiB", "cxl.bandwidth=128GB/s")
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

// TestEnergyOfPhases: prompts whose first token is their last have no energy of decoding,
// and a token more has some; the prompts' does not change with it.
func TestEnergyOfPhases(t *testing.T) {
	for _, system := range Names() {
		_, prompts := energyOf(t, equal(4, 900, 1), "run.system="+system)
		_, more := energyOf(t, equal(4, 900, 2), "run.system="+system)
		if e := prompts.energy; e.Decode != 0 || e.Prefill <= 0 {
			t.Errorf("%s: prompts alone take %+v", system, e)
		}
		if a, b := prompts.energy, more.energy; b.Decode <= 0 || system == "gpu-only" && b.Prefill != a.Prefill {
			t.Errorf("%s: prompts alone take %+v, with a token more %+v", system, a, b)
		}
	}
}

// TestEnergyOfWaiting: where requests come later, the GPUs draw active idle for as much
// longer, and nothing else.
func TestEnergyOfWaiting(t *testing.T) {
	const later = 7 * units.Second
	for _, system := range Names() {
		requests := uneven(6)
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

// TestMixedBatchByHand: a sub-batch that prefills and decodes costs the GPUs what package
// gpu says of its iteration.
func TestMixedBatchByHand(t *testing.T) {
	const requests, context, chunk, finished = 24, 3000, 512, 1024
	for _, name := range []string{"h200-sxm", "a100-sxm-80gb"} { // which feels no power limit
		sets := []string{"gpu.preset=" + name}
		cfg, err := Load(configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-70b"}, sets...)})
		if err != nil {
			t.Fatal(err)
		}
		d := newGPUSide(hardwareOf(cfg))
		sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: chunk, Finished: finished, Last: true}}}
		for range requests {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Base: context - 1})
		}
		g := d.stage(sub, d.decodeHere(nil, sub.Decode, 1))
		layers := units.Duration(cfg.Model.Layers)
		took := (g.entry + g.attention() + (layers-1)*g.block + g.exit).Seconds()
		shape := gpu.Shape{Decode: gpu.UniformBatch(requests, context), Prefills: 1, Chunk: chunk, Finished: finished}
		seconds, joules := cfg.GPU.Sustained(gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model).Iteration(shape))
		joules *= float64(cfg.Model.TensorParallel)
		rounded := 4e-12 * float64(layers) // by operations
		if math.Abs(took-seconds) > rounded || math.Abs((g.joules.prefill+g.joules.decode)/joules-1) > 1e-9 {
			t.Errorf("%s: %v s and %+v J, an iteration takes %v s and %v J", sets, took, g.joules, seconds, joules)
		}
		// The prompt has its part of attention, by the kernels alone, and of all else by tokens.
		a := d.gpu.Attention()
		p, w := a.Prompts(1, chunk, finished, 0), a.Decoding(shape.Decode)
		attention := float64(g.attention()) / float64(units.FromSeconds(took))
		want := attention*p.Seconds/(p.Seconds+w.Seconds) + (1-attention)*chunk/(chunk+requests)
		if share := g.joules.prefill / joules; math.Abs(share/want-1) > 1e-9 {
			t.Errorf("%s: %.6f of the energy is the prompt's, want %.6f", sets, share, want)
		}
	}
}

// TestPowerLimitStretchesAll: beyond the power limit a step on the timeline takes its share
// of the operation, and so do the times that NEO's scheduler asks for.
func TestPowerLimitStretchesAll(t *testing.T) {
	cfg, err := Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=llama-3-8b", "gpu.preset=h200-sxm"}})
	if err != nil {
		t.Fatal(err)
	}
	const tokens = 8192
	e := mustNode(t, cfg).replica(0, equal(1, 10, 10), Options{}).engine.(*cpuOffload)
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: tokens, Last: true}}}
	g := e.stage(sub, nil)
	if g.slow < 1.01 {
		t.Fatalf("%d tokens slow the GPUs down by %v", tokens, g.slow)
	}
	var steps units.Duration
	for _, p := range e.parts(opBlock, tokens, 1, 0, g.gpuUse) {
		steps += p.duration
	}
	if d := steps - g.block; d < -4 || d > 4 { // each is rounded
		t.Errorf("the steps of a block take %v, the block %v", steps, g.block)
	}
	c := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
	linear, _ := cfg.GPU.Sustained(c.QKV(tokens).Plus(c.ProjectionFFN(tokens)))
	attention, _ := cfg.GPU.Sustained(c.PrefillAttention(tokens, 0))
	if got := e.Linear(tokens).Seconds(); math.Abs(got/linear-1) > 1e-9 {
		t.Errorf("batched operations take %v s, want %v", got, linear)
	}
	if got := e.Attention(sub, 1).Seconds(); math.Abs(got/attention-1) > 1e-9 || attention <= c.PrefillAttention(tokens, 0).Seconds {
		t.Errorf("attention takes %v s, want %v", got, attention)
	}
}

// TestWattsOnTheTimeline: the power of a replica's GPUs over time is the run's energy, from
// 0, before requests come, to the end of the run.
func TestWattsOnTheTimeline(t *testing.T) {
	for _, system := range Names() {
		requests := uneven(12)
		for i := range requests {
			requests[i].Arrival = units.Duration(1+i/6) * 100 * units.Second // the first ones are done long before the last
		}
		cfg, err := Load(configs.Options{Sets: []string{"run.system=" + system, "run.model=opt-66b", "model.layers=5"}})
		if err != nil {
			t.Fatal(err)
		}
		all := Window{To: units.Duration(math.MaxInt64)}
		r, err := mustNode(t, cfg).Run(t.Context(), &traces.Trace{Requests: requests}, Options{Timeline: &all})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := WriteTimeline(&text, r.Recordings); err != nil {
			t.Fatal(err)
		}
		var file struct {
			Events []timelineEvent `json:"traceEvents"`
		}
		if err := json.Unmarshal(text.Bytes(), &file); err != nil {
			t.Fatal(err)
		}
		type value struct{ at, watts float64 } // in seconds
		site, lastSite := 0.0, map[int]value{}
		joules, limit := 0.0, float64(cfg.Model.TensorParallel)*cfg.GPU.Power.Limit
		last := map[int]value{} // of each replica
		until := func(p int, at float64) { joules += (at - last[p].at) * last[p].watts }
		for _, e := range file.Events {
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
