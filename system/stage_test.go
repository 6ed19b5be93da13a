package system

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestPipelineAgainstBarriers compares two sub-batches that take turns as their tasks
// end with NEO's layers, in which each half begins when both sides of the one before
// have ended (section 3), where the CPUs hide behind the GPUs. Over stages of any
// proportions the two take as long on average; serving in the order of asking can let the second
// sub-batch run ahead and leave the first one alone at the end.
func TestPipelineAgainstBarriers(t *testing.T) {
	sum, n, worst := 0.0, 0.0, 0.0
	rng := rand.New(rand.NewPCG(1, 2)) // fixed: a mean over few draws says little
	time := func(low, high units.Duration) units.Duration {
		return low + units.Duration(rng.Int64N(int64(high-low)+1))
	}
	for range 5000 {
		layers := units.Duration(1 + rng.IntN(96))
		entry, attention := time(1, 50), time(0, 50)
		x := stage{active: true, entry: entry, layers: []layerCost{{count: int32(layers), attention: attention}}, block: time(1, 50)}
		y := stage{active: true, entry: time(1, 50), layers: []layerCost{{count: int32(layers)}}, block: time(1, 50)}
		x.exit, y.exit = x.block+time(0, 50), y.block+time(0, 50)
		x.beside(time(0, y.block), 0)
		y.beside(time(0, attention+x.block), 0)
		deviceX, deviceY := x.layers[0].device, y.layers[0].device
		// Batch 1 computes its block while the CPUs attend for batch 0, and batch 0 its
		// attention and its next block while they attend for batch 1.
		barriers := x.entry + max(y.entry, deviceX) + attention + max(x.exit, deviceY) + y.exit +
			(layers-1)*(max(attention+x.block, deviceY)+max(y.block, deviceX))
		f := newFlow(&hardware{Config: &configs.Config{Model: llm.Model{Layers: int(layers)}}}, besideGPU("CPU"), running{check: &checker{}})
		x.lay(&f, 0, opHostAttention)
		y.lay(&f, 1, opHostAttention)
		end, err := f.run(0)
		ratio := float64(end) / float64(barriers)
		sum, n, worst = sum+ratio, n+1, max(worst, ratio)
		if ratio > 1.5 || err != nil || f.check.err() != nil {
			t.Fatalf("%.2f times the time with barriers; %v; %v; %+v, %+v", ratio, err, f.check.err(), x, y)
		}
	}
	t.Logf("%.3f times the time with barriers on average, %.3f at most", sum/n, worst)
	if sum > 1.01*n {
		t.Errorf("%.3f times the time with barriers on average", sum/n)
	}
}

// TestMixedBatchByHand: a sub-batch that prefills and decodes costs the GPUs what package
// gpu says of its iteration.
func TestMixedBatchByHand(t *testing.T) {
	const requests, context, chunk, finished = 24, 3000, 512, 1024
	for _, name := range []string{"h200-sxm", "a100-sxm-80gb"} { // which feels no power limit
		sets := []string{"gpu.preset=" + name}
		h := gpusOf(t, "gpu.preset="+name, "run.model=llama-3-70b")
		cfg, d := h.Config, newGPUSide(h)
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

// TestShareIsWhole: shares add up to what is shared, however long that is.
func TestShareIsWhole(t *testing.T) {
	for _, took := range []units.Duration{0, 1, 7, 1<<60 + 1} {
		var x GPUIteration
		x.share(took, &[partCount]float64{1, 0, 1e-9, 3, 0.1, 0.2, 0, 0.7, 0})
		if x.Total() != took || x[PartSmall] != 0 {
			t.Errorf("shares of %d are %v", took, x)
		}
	}
}

// TestIterationPartsOfLServe: each group has what it is named after, and nothing else.
func TestIterationPartsOfLServe(t *testing.T) {
	h := gpusOf(t, `gpu.preset="a100-sxm-80gb"`, "node.gpus=2", "run.model=llama-3-8b", "policy.name=lserve")
	side := newGPUSide(h)
	const context = 131_073 // its step makes a list: the first after the prompt
	decode := []policy.Request{{Prompt: context - 1, Context: context}}
	x := iterationsOf(h).Parts(decode)
	step := side.policy.Decode(decode, 0)
	s := selection(&step.Choose[0])
	scores := side.gpu.Select(s)
	s.Keep = 0
	only := side.gpu.Select(s)
	attention, a := 0.0, side.gpu.Attention()
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
	later := iterationsOf(h).Parts([]policy.Request{{Prompt: context - 1, Context: context + 1}})
	if later[PartScores] != 0 || later[PartChoice] != 0 || later[PartDecodeAttention] < x[PartDecodeAttention]*99/100 {
		t.Errorf("%v", later)
	}
}

// TestWindowsOfTokens: tokens of the prompt, those since and all of them are counted apart.
func TestWindowsOfTokens(t *testing.T) {
	h := gpusOf(t, "run.model=llama-3-8b")
	m := &h.Model
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
		tokens, ofPrompt, all := windows(h, holding{held: []policy.Held{c.held}, layers: m.Layers})
		if tokens != c.tokens || ofPrompt != c.ofPrompt || all != c.all {
			t.Errorf("%+v: %d tokens, %v of the prompt, %v of all; want %d, %v, %v", c.held, tokens, ofPrompt, all, c.tokens, c.ofPrompt, c.all)
		}
	}
}

// holding is a policy of which a test knows what it holds.
type holding struct {
	policy.Costs
	held   []policy.Held
	layers int
}

func (h holding) Runs() []int { return []int{h.layers} }

func (h holding) Memory(int) (decoding, filling []policy.Held) { return h.held, h.held }

// gpusOf returns the default node with keys and values on the GPUs, and with some keys set.
func gpusOf(t interface{ Fatal(...any) }, sets ...string) *hardware {
	cfg, err := configs.New(policy.Builtin(), configs.System{Name: "gpu-only"}).Load(configs.Options{Sets: append([]string{"run.system=gpu-only"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return &hardware{Config: cfg, kv: place{name: "on its GPUs", inGPUs: true, keeps: true}, gpuShare: 1}
}
