package kinds

import (
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// unitsTake returns what the units take for a layer of a sub-batch.
func unitsTake(e *hbmPIM, sub *scheduler.SubBatch) units.Duration {
	e.attend(sub.Decode, 1, false)
	return e.device[0]
}

// TestHBMPIMUnitsHaveNoWaves: the units' time is the bytes over their bandwidth on AttAcc's GPU,
// too, however few heads its SMs have.
func TestHBMPIMUnitsHaveNoWaves(t *testing.T) {
	for _, requests := range []int{1, 7} {
		n := rigOf(t, "preset=paper", "run.system=hbm-pim")
		cfg, e := n.cfg, n.hbm()
		sub := &scheduler.SubBatch{}
		for range requests {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Base: 999})
		}
		b := gpus.DecodeBatch(&e.Attends.Decode(sub.Decode, 0, 1).Attend[0])
		bytes := float64(b.Tokens)*float64(cfg.Model.KVBytesPerTokenLayer()) + float64(2*requests)*float64(cfg.Model.AttentionBytesPerTokenLayer())
		want := bytes / float64(cfg.Model.TensorParallel) / (0.85 * 2.039e12 * 16)
		if got := unitsTake(e, sub); math.Abs(got.Seconds()-want) > 1e-12 { // times are whole picoseconds
			t.Errorf("%d requests: %v, want %v s", requests, got, want)
		}
		// The GPUs do have waves: nine prompts of 12 heads each share one.
		sub.Prefill = []scheduler.Chunk{{Tokens: 500, Finished: 100}}
		prompts := func() units.Duration {
			prefill, _, _ := e.LayerAttention(sub, 0, &gpus.Decoding{})
			return prefill.Took(1)
		}
		one := prompts()
		for len(sub.Prefill) < 10 {
			if got := prompts(); got != one || got == 0 {
				t.Errorf("%d prompts take %v, one takes %v", len(sub.Prefill), got, one)
			}
			sub.Prefill = append(sub.Prefill, sub.Prefill[0])
		}
		if got := prompts(); got != 2*one {
			t.Errorf("10 prompts take %v, want two waves of %v", got, one)
		}
	}
}

// TestPIMAttentionOverhead: units as fast as the GPUs take the time of the GPUs' kernel. Faster
// ones save on everything but its overhead.
func TestPIMAttentionOverhead(t *testing.T) {
	took := func(factor string) (got, seconds, overhead float64) {
		e := rigOf(t, "run.system=hbm-pim", "gpu.preset=a100-sxm-80gb", "hbm_pim.bandwidth_factor="+factor).hbm()
		if unitsTake(e, &scheduler.SubBatch{}) != 0 {
			t.Error("nothing to decode takes time")
		}
		sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 999}}}
		cost := e.units.DecodeBatchCost(gpus.DecodeBatch(&e.Attends.Decode(sub.Decode, 0, 1).Attend[0]))
		return unitsTake(e, sub).Seconds(), cost.Seconds, cost.Overhead
	}
	one, seconds, overhead := took("1")
	four, _, _ := took("4")
	if overhead <= 0 || math.Abs(one-seconds) > 1e-12 || math.Abs((four-overhead)*4-(one-overhead)) > 1e-11 {
		t.Errorf("%v s, four times as fast %v s; the GPUs' kernel takes %v s, %v s of it overhead", one, four, seconds, overhead)
	}
}

// half is a test policy: half of the heads attend on the GPUs.
type half struct{ policy.Costs }

func (h half) Decode(requests []policy.Request, run int) *policy.Step {
	x := h.Costs.Decode(requests, run)
	all := x.Attend[0]
	gpu := policy.Class{Device: policy.GPU, Heads: all.Heads / 2, Tokens: all.Tokens}
	all.Heads -= gpu.Heads
	x.Attend = []policy.Class{all, gpu}
	return x
}

// TestUnitsOfOneRequest: the units' time for one request is that of its heads, all or half of them,
// whatever the earlier calls.
func TestUnitsOfOneRequest(t *testing.T) {
	e := rigOf(t, "run.system=hbm-pim").hbm()
	all := e.Attends.Policy
	times := map[units.Duration]bool{}
	for range 2 {
		for _, context := range []int{1000, 1001, 2, 70_000} {
			for e.Attends.Policy = all; ; e.Attends.Policy = (half{all}) {
				sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: int64(context) - 1}}}
				x := e.Attends.Decode(sub.Decode, 0, 1)
				home := x.Attend[slices.IndexFunc(x.Attend, func(c policy.Class) bool { return c.Device == policy.Home })]
				want, heads, tokens := e.took(gpus.DecodeBatch(&home), e.reads), home.Heads, home.Tokens[0]
				if got := unitsTake(e, sub); got != want || tokens != context {
					t.Errorf("%d heads over %d tokens: %v, want %v", heads, tokens, got, want)
				}
				times[want] = true
				if e.Attends.Policy != all {
					break
				}
			}
		}
	}
	if len(times) != 8 {
		t.Errorf("%d different times, want 8: %v", len(times), times)
	}
}

// TestPagesOnHBMPIM: the GPUs choose pages before the units read them. What the units read, and what they keep
// apart for streaming heads, takes the time of as many tokens in order. Each query head's own pages are read
// separately.
func TestPagesOnHBMPIM(t *testing.T) {
	const context = 60_001 // a list is made in the first decode step
	engine := func(sets ...string) *hbmPIM {
		return rigOf(t, append(sets, "run.system=hbm-pim", "run.model=llama-3-8b", "policy.name=lserve", "hbm_pim.sub_batches=never", "hbm_pim.queries_per_read=2")...).hbm()
	}
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: context - 1, Prompt: context - 1}}}
	e := engine()
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{sub}}
	end, err := e.Run(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := e.StageRuns(&sub)
	want := g.Entry + g.Exit - g.Block
	for run, layers := range e.Attends.Runs {
		retrieval, streaming := 0, 0
		for _, c := range e.Attends.Decode(sub.Decode, run, 1).Attend {
			if c.Page > 0 {
				retrieval = c.Heads
				if c.Tokens[0] > 4096 || c.Tokens[0] <= 4032 {
					t.Errorf("%d tokens of a budget of 4096", c.Tokens[0])
				}
			} else {
				streaming = c.Heads
			}
		}
		part := func(tokens, heads int, reads float64) units.Duration {
			return e.took(gpu.DecodeBatch{Requests: 1, Tokens: int64(tokens), Longest: tokens, KVHeads: heads}, reads)
		}
		tokens := context - (context+63)/64*64 + 4096
		device := part(tokens, retrieval, e.reads) + part(384, streaming, e.reads)
		if e.device[run] != device || retrieval+streaming != 8 {
			t.Errorf("run %d: %v on the units, want %v for %d and %d heads", run, e.device[run], device, retrieval, streaming)
		}
		l := &g.Layers[run]
		if l.Chooses <= 0 || l.Attention <= 0 {
			t.Errorf("run %d: pages are chosen in %v, statistics kept in %v", run, l.Chooses, l.Attention)
		}
		want += units.Duration(layers) * (l.Chooses + max(device, l.Attention) + g.Block)
		if own := engine("policy.lserve.select_group=per-head"); run == 0 {
			own.attend(sub.Decode, 1, false)
			if each := part(tokens, retrieval, 4) + part(384, streaming, e.reads); own.device[0] != each {
				t.Errorf("each query head for itself: %v on the units, want %v", own.device[0], each)
			}
		}
	}
	if end != want {
		t.Errorf("a step of one request takes %v, want %v", end, want)
	}
	if none := engine("policy.lserve.static_sparsity=0", "policy.lserve.budget=65536"); none != nil {
		none.attend(sub.Decode, 1, false)
		if all := none.took(none.one(context), none.reads); none.device[0] != all || none.Decoding[0].Chooses.Seconds != 0 {
			t.Errorf("a budget for everything: %v on the units, %v dense", none.device[0], all)
		}
	}
}

// commandUnits returns the units of a node whose attention time is computed from its commands.
func commandUnits(t *testing.T, sets ...string) (*hbmPIM, *configs.Config) {
	t.Helper()
	n := rigOf(t, append([]string{"run.system=hbm-pim", "gpu.preset=a100-sxm-80gb", "hbm_pim.model=commands"}, sets...)...)
	return n.hbm(), n.cfg
}

// TestCommandsOnNode: beyond the fixed overhead, the units take the clocks of their commands on the busiest channel, at the clock at
// which the stacks have the GPU's bandwidth. The ratio of their bandwidth to the GPUs' is that of the commands alone.
func TestCommandsOnNode(t *testing.T) {
	for _, set := range [][]string{{"run.model=gpt-175b"}, {"run.model=gpt-175b", "hbm_pim.power_limit=false"}, {"run.model=gpt-175b", "hbm_pim.rules=jedec"},
		{"run.model=gpt-175b", "hbm_pim.level=bg"}, {"run.model=gpt-175b", "hbm_pim.level=buffer"}, {"run.model=llama-3-8b"}, {"run.model=llama-3-8b", "hbm_pim.queries_per_read=4"}, {"run.model=llama-3-8b", "model.value_dim=32"}} {
		if len(set) > 1 && set[1] != "model.value_dim=32" && !deep.On() {
			continue
		}
		e, cfg := commandUnits(t, set...)
		m := e.Model
		perGPU := m.KVHeads / m.TensorParallel
		// Enough requests for eight heads in each of the 80 channels.
		b := gpu.DecodeBatch{Requests: 8 * 80 / perGPU / int(e.reads), Longest: 2048}
		b.Tokens = int64(b.Requests) * 2048
		load := hbm.StackLoad(hbm.Shape{HeadDim: m.HeadDim, ElementBytes: 2, ValueDim: m.ValueDim}, 2048, 8*hbm.Channels)
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
		bytes := float64(b.Tokens) * float64(perGPU) * e.reads * float64(2*(m.HeadDim+m.HeadsOf(false).Value))
		want := bytes / float64(cfg.GPU.MemoryBandwidth) / factor
		got := e.took(b, e.reads).Seconds() - e.units.DecodeBatchCost(b).Overhead
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%v: %v s, commands give %v s, %.2f times the bandwidth", set, got, want, factor)
		}
	}
}

// TestCommandsGrow: longer requests or more of them never make a batch faster. One head of many
// channels takes as long as one head in each.
func TestCommandsGrow(t *testing.T) {
	e, _ := commandUnits(t, "run.model=gpt-175b")
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
