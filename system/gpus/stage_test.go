package gpus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestPipelineAgainstBarriers compares two schedules of two sub-batches, with the CPUs hidden
// behind the GPUs. In one they alternate as their tasks end. In the other, NEO's (section 3), each
// half of a layer begins when both sides of the previous one have ended. Over stages of any
// proportions both take the same time on average. First come, first served can let the second
// sub-batch run ahead, so that the first is alone at the end.
func TestPipelineAgainstBarriers(t *testing.T) {
	deep.Heavy(t)
	sum, n, worst := 0.0, 0.0, 0.0
	rng := rand.New(rand.NewPCG(1, 2)) // fixed: a mean over few draws says little
	time := func(low, high units.Duration) units.Duration {
		return low + units.Duration(rng.Int64N(int64(high-low)+1))
	}
	for range 5000 {
		layers := units.Duration(1 + rng.IntN(96))
		entry, attention := time(1, 50), time(0, 50)
		x := stage{active: true, Entry: entry, Layers: []layerCost{{Count: int32(layers), Attention: attention}}, Block: time(1, 50)}
		y := stage{active: true, Entry: time(1, 50), Layers: []layerCost{{Count: int32(layers)}}, Block: time(1, 50)}
		x.order = []dataflow.Run{{Kind: 0, Count: 1}, {Kind: 1, Count: int32(layers)}}
		y.order = x.order
		x.Exit, y.Exit = x.Block+time(0, 50), y.Block+time(0, 50)
		x.Beside(time(0, y.Block), 0)
		y.Beside(time(0, attention+x.Block), 0)
		deviceX, deviceY := x.Layers[0].Device, y.Layers[0].Device
		// Batch 1 computes its block while the CPUs attend for batch 0. Batch 0 computes its attention
		// and its next block while the CPUs attend for batch 1.
		barriers := x.Entry + max(y.Entry, deviceX) + attention + max(x.Exit, deviceY) + y.Exit +
			(layers-1)*(max(attention+x.Block, deviceY)+max(y.Block, deviceX))
		f := flow.New(&flow.Hardware{Config: &configs.Config{Model: llm.Model{Layers: int(layers)}}}, BesideGPU("CPU"), flow.Running{Check: &flow.Checker{}})
		x.Lay(&f, 0, flow.OpHostAttention)
		y.Lay(&f, 1, flow.OpHostAttention)
		end, err := f.Run(0)
		ratio := float64(end) / float64(barriers)
		sum, n, worst = sum+ratio, n+1, max(worst, ratio)
		if ratio > 1.5 || err != nil || f.Check.Err() != nil {
			t.Fatalf("%.2f times the time with barriers; %v; %v; %+v, %+v", ratio, err, f.Check.Err(), x, y)
		}
	}
	t.Logf("%.3f times the time with barriers on average, %.3f at most", sum/n, worst)
	if sum > 1.01*n {
		t.Errorf("%.3f times the time with barriers on average", sum/n)
	}
}

// TestMixedBatchByHand: a sub-batch that prefills and decodes takes the GPUs the time that package
// gpu gives for its iteration.
func TestMixedBatchByHand(t *testing.T) {
	const requests, context, chunk, finished = 24, 3000, 512, 1024
	for _, name := range []string{"h200-sxm", "a100-sxm-80gb"} { // which stays below its power limit
		sets := []string{"gpu.preset=" + name}
		h := gpusOf(t, "gpu.preset="+name, "run.model=llama-3-70b")
		cfg, d := h.Config, New(h)
		sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: chunk, Finished: finished, Last: true}}}
		for range requests {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Base: context - 1})
		}
		g := d.Stage(sub, d.DecodeHere(nil, sub.Decode, 1))
		layers := units.Duration(cfg.Model.Layers)
		took := (g.Entry + g.attention() + (layers-1)*g.Block + g.Exit).Seconds()
		shape := gpu.Shape{Decode: gpu.UniformBatch(requests, context), Prefills: 1, Chunk: chunk, Finished: finished}
		seconds, joules := cfg.GPU.Sustained(gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model).Iteration(shape))
		joules *= float64(cfg.Model.TensorParallel)
		rounded := 4e-12 * float64(layers) // by operations
		if math.Abs(took-seconds) > rounded || math.Abs((g.Joules.Prefill+g.Joules.Decode)/joules-1) > 1e-9 {
			t.Errorf("%s: %v s and %+v J, an iteration takes %v s and %v J", sets, took, g.Joules, seconds, joules)
		}
		// The prompt gets its part of attention by the kernels alone, and of everything else by tokens.
		a := d.ModelCost.Attention()
		p, w := a.Prompts(1, chunk, finished, 0), a.Decoding(shape.Decode)
		attention := float64(g.attention()) / float64(units.FromSeconds(took))
		want := attention*p.Seconds/(p.Seconds+w.Seconds) + (1-attention)*chunk/(chunk+requests)
		if share := g.Joules.Prefill / joules; math.Abs(share/want-1) > 1e-9 {
			t.Errorf("%s: %.6f of the energy is the prompt's, want %.6f", sets, share, want)
		}
	}
}

// TestShareIsWhole: shares add up to the whole, however long that is.
func TestShareIsWhole(t *testing.T) {
	for _, took := range []units.Duration{0, 1, 7, 1<<60 + 1} {
		var x GPUIteration
		x.share(took, &[partCount]float64{1, 0, 1e-9, 3, 0.1, 0.2, 0, 0.7, 0})
		if x.Total() != took || x[PartSmall] != 0 {
			t.Errorf("shares of %d are %v", took, x)
		}
	}
}

// TestIterationPartsOfLServe: each group has what its name says, and nothing else.
func TestIterationPartsOfLServe(t *testing.T) {
	h := gpusOf(t, `gpu.preset="a100-sxm-80gb"`, "node.gpus=2", "run.model=llama-3-8b", "policy.name=lserve")
	side := New(h)
	const context = 131_073 // its step makes a list, as the first after the prompt
	decode := []policy.Request{{Prompt: context - 1, Context: context}}
	x := IterationsOf(h).Parts(decode)
	step := side.Attends.Policy.Decode(decode, 0)
	s := selection(&step.Choose[0])
	scores := side.ModelCost.Select(s)
	s.Keep = 0
	only := side.ModelCost.Select(s)
	attention, a := 0.0, side.ModelCost.Attention()
	for _, b := range addBatches(nil, step.Attend) {
		attention += a.Decoding(b).Seconds
	}
	for p, want := range map[IterationPart]float64{
		PartScores: 32 * only.Seconds, PartChoice: 32 * (scores.Seconds - only.Seconds), PartDecodeAttention: 32 * attention,
		PartPrefillAttention: 0, PartMerge: 0, PartAllReduce: 0,
	} {
		if got := x[p].Seconds(); got < want*0.9999 || got > want*1.0001 {
			t.Errorf("%v take %g s, want %g", p, got, want)
		}
	}
	if x[PartPasses] <= 0 || x[PartSmall] <= 0 || x[PartProducts] < 7*units.Millisecond {
		t.Errorf("%v", x)
	}
	// Between two lists nothing is scored.
	later := IterationsOf(h).Parts([]policy.Request{{Prompt: context - 1, Context: context + 1}})
	if later[PartScores] != 0 || later[PartChoice] != 0 || later[PartDecodeAttention] < x[PartDecodeAttention]*99/100 {
		t.Errorf("%v", later)
	}
}

// TestWindowsOfTokens: the tokens of the prompt, the later ones and all of them are counted
// separately.
func TestWindowsOfTokens(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b")
	m := &h.Config.Model
	token := int64(m.KVBytesPerToken()) / int64(m.Layers*m.KVHeads)
	for _, c := range []struct {
		held          policy.Held
		tokens        int
		ofPrompt, all float64
	}{
		{policy.Held{}, 0, 0, 1}, {policy.Held{Share: 0.5}, 0, 0, 0.5}, {policy.Held{Most: 7}, 7, 0, 0},
		{policy.Held{OfPrompt: true}, 0, 1, 0}, {policy.Held{OfPrompt: true, Share: 0.25}, 0, 0.25, 0}, {policy.Held{OfPrompt: true, Share: 0.25, Most: 9}, 9, 0, 0},
		{policy.Held{AfterPrompt: true}, 0, -1, 1}, {policy.Held{AfterPrompt: true, Share: 0.5}, 0, -0.5, 0.5}, {policy.Held{AfterPrompt: true, Most: 3}, 3, 0, 0},
	} {
		c.held.Device, c.held.Heads, c.held.Bytes = policy.GPU, m.KVHeads, token
		tokens, ofPrompt, all := Windows(h, holding{held: []policy.Held{c.held}, layers: m.Layers})
		if tokens != c.tokens || ofPrompt != c.ofPrompt || all != c.all {
			t.Errorf("%+v: %d tokens, %v of the prompt, %v of all; want %d, %v, %v", c.held, tokens, ofPrompt, all, c.tokens, c.ofPrompt, c.all)
		}
	}
}

// holding is a policy that holds given tokens.
type holding struct {
	policy.Costs
	held   []policy.Held
	layers int
}

func (h holding) Runs() []int { return []int{h.layers} }

func (h holding) Memory(int) (decoding, filling []policy.Held) { return h.held, h.held }

// gpusOf returns the default node with keys and values on the GPUs, and some keys set.
func gpusOf(t interface{ Fatal(...any) }, sets ...string) *flow.Hardware {
	cfg, err := configs.New(policies.Builtin(), configs.System{Name: "gpu-only"}).Load(configs.Options{Sets: append([]string{"run.system=gpu-only"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return &flow.Hardware{Config: cfg, KV: flow.Place{Name: "on its GPUs", InGPUs: true, Keeps: true}, GPUShare: 1}
}

// TestStageIsRemembered: GPUs that have staged other batches give the same stage for a batch as new
// ones.
func TestStageIsRemembered(t *testing.T) {
	h := gpusOf(t, "gpu.preset=h200-sxm", "run.model=llama-3-70b")
	used, rng := New(h), rand.New(rand.NewPCG(3, 4))
	for range 300 {
		sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, rng.IntN(12))}
		for i := range sub.Decode {
			sub.Decode[i].Base = int64(rng.IntN(5000))
		}
		if rng.IntN(3) == 0 {
			sub.Prefill = []scheduler.Chunk{{Tokens: 1 + rng.IntN(8), Last: rng.IntN(2) == 0}}
		}
		var here []gpu.DecodeBatch
		if rng.IntN(3) == 0 {
			here = used.DecodeHere(nil, sub.Decode, 1)
		}
		fresh := New(h)
		want, got := fresh.Stage(sub, here), used.Stage(sub, here)
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%d decode, %d prompts, %d here: %+v, want %+v", len(sub.Decode), len(sub.Prefill), len(here), got, want)
		}
		got.Beside(1, 1) // a system's change of a stage only affects that stage
	}
}

// TestStageByHand: one sub-batch, in 3 layers, 2 that attend otherwise, 4 that equal the first, and one that equals the second kind. Selection comes first. Then the GPUs and the device
// attend at the same time, or the device first. Then outputs are merged, and the block follows; the device may compute part of it beside the GPUs. The last layer's block is the exit.
func TestStageByHand(t *testing.T) {
	for mask := range 64 {
		has := func(bit int, of units.Duration) units.Duration { return units.Duration(mask>>bit&1) * of }
		g := stage{active: true, Entry: 1_000_003, Block: 50_000, Exit: 400_000, order: []dataflow.Run{{Kind: 0, Count: 1}, {Kind: 1, Count: 3}, {Kind: 2, Count: 2}, {Kind: 1, Count: 4}, {Kind: 2, Count: 1}}}
		if mask>>5 > 0 {
			g.Shared = sharedFFN{Projection: 7000, GPUs: has(0, 11_000), Device: 17_000 - has(1, 9000)}
		}
		network := g.Shared.Projection + max(g.Shared.GPUs, g.Shared.Device) - g.Shared.before()
		want := g.Entry + 10*network + 9*g.Block + g.Exit + 7*700 + 2*1400 // the work for the next layer in all blocks but the last
		for i, count := range []int32{7, 3} {
			l := layerCost{
				Count: count, Attention: has(0, 130) << i, Device: has(1, 170) >> i, Merge: has(2, 23), Chooses: has(3, 31), DeviceFirst: mask>>4&1 > 0, Next: 700 << i,
			}
			g.Layers = append(g.Layers, l)
			both := max(l.Attention, l.Device)
			if l.DeviceFirst {
				both = l.Device + l.Attention
			}
			want += units.Duration(count) * (l.Chooses + both + l.Merge)
		}
		f := flow.New(&flow.Hardware{Config: &configs.Config{Model: llm.Model{Layers: 10}}}, BesideGPU("CPU"), flow.Running{Check: &flow.Checker{}})
		g.Lay(&f, 0, flow.OpHostAttention)
		if end, err := f.Run(0); end != want || err != nil || f.Check.Err() != nil {
			t.Errorf("%06b: ends at %d, by hand %d; %v; %v; %+v", mask, end, want, err, f.Check.Err(), g)
		}
		if sub := &f.Iteration.Sub[0]; !slices.Equal(sub.Order, g.order) || len(sub.Kinds) != 3 || sub.Kinds[0].Count != 1 || sub.Kinds[1].Count != 7 || sub.Kinds[2].Count != 3 {
			t.Errorf("%06b: %v, %v", mask, sub.Kinds, sub.Order)
		}
	}
}

// TestSharedOperations: the projection waits for attention, both parts of the feed-forward network for the projection, and the rest of the block for both parts; all are of one sub-batch.
func TestSharedOperations(t *testing.T) {
	for _, gpus := range []units.Duration{11_000, 0} {
		g := stage{Shared: sharedFFN{Projection: 7000, GPUs: gpus, Device: 17_000}}
		f := flow.New(&flow.Hardware{Config: &configs.Config{Model: llm.Model{Layers: 1}}}, BesideGPU("CPU"), flow.Running{})
		f.Iteration.Add(OnGPU, 5)
		waits := func(r dataflow.Range) []int32 { return f.Iteration.After[r.From:r.To] }
		rest := waits(g.share(&f, 3, f.Iteration.Wait(0)))
		type op struct {
			on, kind, group int
			took            units.Duration
			after           string
		}
		var got []op
		for _, o := range f.Iteration.Ops[1:] {
			got = append(got, op{int(o.Resource), int(o.Kind), int(o.Group), o.Last, fmt.Sprint(waits(o.After))})
		}
		want, last := []op{{int(OnGPU), int(flow.OpProjection), 3, 7000, "[0]"}, {int(OnDevice), int(flow.OpUnitFeedForward), 3, 17_000, "[1]"}}, "[2]"
		if gpus > 0 {
			want, last = append(want, op{int(OnGPU), int(flow.OpFeedForward), 3, gpus, "[1]"}), "[3 2]"
		}
		if !slices.Equal(got, want) || fmt.Sprint(rest) != last {
			t.Errorf("%v, the rest waits for %v; by hand %v and %s", got, rest, want, last)
		}
	}
}
