package kinds

import (
	"testing"

	"math"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestOffloadIterationByHand: the CPUs' attention keeps the channels busy, and no PIM; vectors,
// prompts and moves keep the links busy. Moves may take what the links have left. An iteration
// takes as long as its transfers, on a timeline, too.
func TestOffloadIterationByHand(t *testing.T) {
	n := rigOf(t, "run.system=cpu-offload", "run.model=gpt-89b")
	e := n.replica(nil).Engine.(*cpuOffload)
	layers := units.Duration(n.cfg.Model.Layers)
	attend := func(tokens float64) units.Duration { // K and V of 96 heads of 128 FP16 elements, 8 channels
		return units.FromSeconds(2 * 96 * 128 * 2 * tokens / (8 * 25.6e9 * 0.8))
	}
	vectors := func(heads, requests int) units.Duration {
		return e.Link.TransferTime(units.Bytes(requests * heads * 128 * 2))
	}
	kv := func(tokens int) units.Duration {
		return e.Link.TransferTime(units.Bytes(tokens) * units.Bytes(layers) * 2 * 96 * 128 * 2)
	}
	b := &scheduler.Batch{Step: 5, Sub: []scheduler.SubBatch{
		{Decode: []scheduler.Decoding{{Base: 40}}, Host: []scheduler.Decoding{{Base: 1000}}},
		{Host: []scheduler.Decoding{{Base: 2000}, {Base: 500}}, Prefill: []scheduler.Chunk{{Tokens: 64, Last: true, Host: true}, {Tokens: 32, Last: true}}},
	}}
	b.Moves.Down.Tokens, b.Moves.Up.Tokens = 100, 300
	down, up := layers*(vectors(3*96, 1)+vectors(3*96, 2))+kv(64), layers*(vectors(96, 1)+vectors(96, 2))

	const start = 3 * units.Second
	compare := func(what string, got, want units.Duration) {
		t.Helper()
		if d := got - want; d < -layers || d > layers { // a picosecond a layer of rounding
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	took := e.Iteration(b)
	end, err := e.Run(b, start)
	if err != nil || end != start+took || e.Check.Err() != nil {
		t.Fatalf("ends at %v, want %v: %v, %v", end, start+took, err, e.Check.Err())
	}
	w := &e.Work
	compare("channels", w.Time[flow.OfChannel], layers*(attend(1005)+attend(2005+505)))
	compare("PIM", w.Time[flow.OfPIM], 0)
	compare("down", w.Time[flow.OfDown], down+kv(100))
	compare("up", w.Time[flow.OfUp], up+kv(300))
	latest, idleUp, idleDown := e.Latest()
	compare("latest", latest, took)
	compare("idle up", idleUp, took-up)
	compare("idle down", idleDown, took-down)
	if _, got := e.Record(start); got != end {
		t.Errorf("the timeline ends at %v, want %v", got, end)
	}

	for _, way := range []struct {
		name string
		wait *units.Duration
		own  units.Duration
	}{{"down", &b.Moves.Down.Wait, down}, {"up", &b.Moves.Up.Wait, up}} {
		*way.wait = took
		if end, err = e.Run(b, start); err != nil {
			t.Fatal(err)
		}
		compare("waiting for a move "+way.name, end-start, took+way.own)
		if _, got := e.Record(start); got != end {
			t.Errorf("waiting for a move %s, the timeline ends at %v, want %v", way.name, got, end)
		}
		*way.wait = 0
	}
}

// TestOffloadBothSidesByHand: requests with different contexts, in each sub-batch. The GPUs attend for theirs, and the host's channels for the
// others. Batched operations are of all tokens. So compared with all requests on the host, only the GPUs' attention is added.
func TestOffloadBothSidesByHand(t *testing.T) {
	n := rigOf(t, "run.system=cpu-offload", "run.model=gpt-89b")
	e := n.replica(nil).Engine.(*cpuOffload)
	layers, a := units.Duration(n.cfg.Model.Layers), gpu.NewModelCost(&n.cfg.GPU.Spec, &n.cfg.Model).Attention()
	of := func(contexts ...int64) (all []scheduler.Decoding) {
		for _, c := range contexts {
			all = append(all, scheduler.Decoding{Base: c - 5})
		}
		return all
	}
	busy := func(subs ...scheduler.SubBatch) (gpus, channels units.Duration) {
		e.Work.Time[flow.OfGPU], e.Work.Time[flow.OfChannel] = 0, 0
		if _, err := e.Run(&scheduler.Batch{Step: 5, Sub: subs}, 0); err != nil {
			t.Fatal(err)
		}
		return e.Work.Time[flow.OfGPU], e.Work.Time[flow.OfChannel]
	}
	gpus, channels := busy(scheduler.SubBatch{Decode: of(700, 2500), Host: of(5000)}, scheduler.SubBatch{Decode: of(9000), Host: of(300, 1100, 40)})
	without, _ := busy(scheduler.SubBatch{Host: of(700, 2500, 5000)}, scheduler.SubBatch{Host: of(9000, 300, 1100, 40)})
	first := a.Decoding(gpu.DecodeBatch{Requests: 2, Tokens: 700 + 2500, Longest: 2500})
	second := a.Decoding(gpu.UniformBatch(1, 9000))
	if got, want := gpus-without, layers*units.FromSeconds(first.Seconds+second.Seconds); got < want-4*layers || got > want+4*layers {
		t.Errorf("the GPUs attend for %v, by hand %v", got, want)
	}
	want := layers * units.FromSeconds(2*96*128*2*(5000+300+1100+40)/(8*25.6e9*0.8)) // K and V of 96 heads of 128 FP16 elements, 8 channels
	if channels < want-4*layers || channels > want+4*layers {
		t.Errorf("channels attend for %v, by hand %v", channels, want)
	}
}

// asked counts the scheduler's calls of the costs.
type asked struct {
	*cpuOffload
	attention, iterations int
}

func (a *asked) Attention(s *scheduler.SubBatch, step int64) units.Duration {
	a.attention++
	return a.cpuOffload.Attention(s, step)
}

func (a *asked) Iteration(b *scheduler.Batch) units.Duration {
	a.iterations++
	return a.cpuOffload.Iteration(b)
}

// TestOffloadAsksLittle: with 24 requests of long outputs, of which the GPUs hold four at once, few iterations predict the time of
// others.
func TestOffloadAsksLittle(t *testing.T) {
	deep.Heavy(t)
	n := rigOf(t, "preset=fair", "run.system=cpu-offload", "run.model=gpt-175b")
	trace, err := traces.Synthetic("openr1", 24, 1, n.cfg.Traces)
	if err != nil {
		t.Fatal(err)
	}
	r, iterations := n.replica(trace.Requests), 0
	a := &asked{cpuOffload: r.Engine.(*cpuOffload)}
	r.Batcher = (&Setup{Hardware: n.Hardware, Requests: trace.Requests}).offloading(a)
	if _, err := r.run(func(*scheduler.Batch, units.Duration, units.Duration) { iterations++ }); err != nil {
		t.Fatal(err)
	}
	if n := a.iterations + a.attention; n == 0 || 2*n > iterations {
		t.Errorf("%d iterations ask %d times what one takes", iterations, n)
	}
}

// TestPowerLimitStretchesAll: above the power limit, a step on the timeline takes its share of the
// operation, and so do the times that NEO's scheduler uses.
func TestPowerLimitStretchesAll(t *testing.T) {
	const tokens = 8192
	n := rigOf(t, "run.system=cpu-offload", "run.model=llama-3-8b", "gpu.preset=h200-sxm")
	cfg, e := n.cfg, n.replica(nil).Engine.(*cpuOffload)
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: tokens, Last: true}}}
	g := e.Stage(sub, nil)
	if g.Slow < 1.01 {
		t.Fatalf("%d tokens slow the GPUs down by %v", tokens, g.Slow)
	}
	var steps units.Duration
	for _, p := range e.Parts(flow.OpBlock, tokens, 1, 0, g.Use) {
		steps += p.Duration
	}
	if d := steps - g.Block; d < -4 || d > 4 { // each is rounded
		t.Errorf("the steps of a block take %v, the block %v", steps, g.Block)
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
