package system

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// hgcaOne is the machine of HGCA with one GPU and all keys and values on the host.
func hgcaOne(t *testing.T, sets ...string) *configs.Config {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: append([]string{`preset="hgca"`, "run.system=gpu+cpu", "node.gpus=1", "model.tensor_parallel=1", "run.model=opt-13b"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestHostAttentionIsARuns: a decode step of gpu+cpu takes a step of the GPUs without attention,
// plus the host's time in each layer.
func TestHostAttentionIsARuns(t *testing.T) {
	cfg := hgcaOne(t)
	h := kinds.NewHostAttention(cfg)
	const in = 5000
	r := mustRun(t, mustNode(t, cfg), &traces.Trace{Name: "one", Requests: []traces.Request{{Input: in, Output: 2}}}, false)
	alone := kinds.NewGPUIterations(hgcaOne(t, "run.system=gpu-only"))
	step := alone.Parts([]policy.Request{{Prompt: in, Context: in + 1}})
	want := step.Total() - step[gpus.PartDecodeAttention] + units.Duration(cfg.Model.Layers)*h.OnCPUs(1, 1, in+1)
	if got := r.Requests[0].Finish - r.Requests[0].FirstToken; got < want-units.Microsecond || got > want+units.Microsecond {
		t.Errorf("a step takes %v, want %v", got, want)
	}
}

// TestHostAttentionByHand: bytes over bandwidths, for the link and for the host's memory.
func TestHostAttentionByHand(t *testing.T) {
	cfg := hgcaOne(t)
	h := kinds.NewHostAttention(cfg)
	const tokens = 100_000
	bytes := float64(tokens * 2 * 2 * 5120)
	all, transfer := h.Loaded(1, 1, tokens)
	if got, want := transfer.Seconds(), bytes/(16*0.79*1.969e9)+5e-6; got < 0.999*want || got > 1.001*want {
		t.Errorf("a transfer takes %v s, want %v", got, want)
	}
	if gpu := (all - transfer).Seconds(); gpu < bytes/768e9 || gpu > 1.5*bytes/768e9 {
		t.Errorf("attention on the GPU takes %v s of at least %v", gpu, bytes/768e9)
	}
	if got := float64(h.Bandwidth()); got < 281e9 || got > 282e9 {
		t.Errorf("the host reads %v B/s", got)
	}
	if got, want := h.OnCPUs(1, 1, tokens).Seconds(), bytes/(0.8*281.3e9); got < want || got > 1.05*want {
		t.Errorf("the CPUs attend in %v s, want about %v", got, want)
	}
	// 64 queries take 4·64·tokens·5,120 operations at half of 64 cores of 38.4 GFLOP/s.
	if got, want := h.OnCPUs(1, 64, tokens).Seconds(), 4*64*tokens*5120/(0.5*64*38.4e9); got < want || got > 1.05*want {
		t.Errorf("the CPUs append in %v s, want about %v", got, want)
	}
	if one, two := h.OnCPUs(1, 8, tokens), h.OnCPUs(2, 8, tokens); two < one*19/10 || two > 2*one {
		t.Errorf("two requests take %v, one %v", two, one)
	}
}

// TestIterationPartsAreARun: the parts of a run's iterations add up to its end, to the picosecond.
func TestIterationPartsAreARun(t *testing.T) {
	for _, name := range systemOf("gpu-only").Policies() {
		sets := []string{"run.system=gpu-only", `gpu.preset="a100-sxm-80gb"`, "node.gpus=2", "run.model=llama-3-8b", "model.layers=5", "model.tensor_parallel=2", "policy.name=" + name}
		if name == "dsa" {
			sets = append(sets, policySets(name)...)
		}
		cfg := mustLoad(t, sets...)
		trace := &traces.Trace{Name: "equal", Requests: []traces.Request{{Input: 7001, Output: 6}, {ID: 1, Input: 901, Output: 6}}}
		r := mustRun(t, mustNode(t, cfg), trace, false)
		iterations := kinds.NewGPUIterations(cfg)
		prompts := []scheduler.Chunk{{Tokens: 7001, Last: true}, {Request: 1, Tokens: 901, Last: true}}
		first := iterations.Parts(nil, prompts...)
		end := first.Total()
		for step := 1; step < 6; step++ {
			x := iterations.Parts([]policy.Request{{Prompt: 7001, Context: 7001 + step}, {Prompt: 901, Context: 901 + step}})
			end += x.Total()
		}
		if got := r.Requests[0].Finish; got != end {
			t.Errorf("%s: a run ends after %v, its iterations take %v", name, got, end)
		}
	}
}
