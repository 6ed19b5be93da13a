package system

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawOffload draws a node for cpu-offload on which CPUs and links are fast enough
// beside the GPUs to be of use.
func drawOffload(t *rapid.T) drawn {
	d := drawBaseline(t)
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	d.sets = append(d.sets,
		fmt.Sprintf("node.memory_capacity=%q", units.Bytes(rapid.IntRange(1, 400).Draw(t, "host memory"))*16*units.MiB),
		"pcie.latency="+pick("latency", "0s", "1us", "5us"), "pcie.generation="+pick("generation", "3", "6"),
		"dram.tCK="+pick("tCK", "5ps", "100ps", "625ps"),
	)
	return d
}

// TestWithoutHostMemoryIsGPUOnly checks that a host without memory leaves what
// gpu-only does, to the picosecond.
func TestWithoutHostMemoryIsGPUOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawOffload(t)
		plain := mustRun(t, d.node(t, "gpu-only"), d.trace, false)
		none := mustRun(t, d.node(t, "cpu-offload", "cpu_offload.host_memory_share=0", "cpu_offload.policy=neo"), d.trace, false)
		if got, want := requestsOf(t, none), requestsOf(t, plain); got != want || none.iterations != plain.iterations || none.end != plain.end ||
			none.kv != plain.kv || none.busy != plain.busy || none.fragmentation != plain.fragmentation {
			t.Fatalf("cpu-offload without host memory:\n%s\n%+v\ngpu-only:\n%s\n%+v", got, none, want, plain)
		}
	})
}

// TestOffloadIsNoSlower checks what the CPUs' help costs on the requests that the GPUs
// can hold. Where each place on the GPUs is taken a few times only, a run is mostly
// its end, and who comes last there depends on the order. In longer runs the loss is
// small. Over all nodes help is a gain.
func TestOffloadIsNoSlower(t *testing.T) {
	for _, c := range []struct {
		name        string
		times       int     // the trace
		bound, mean float64 // of what it is slower
	}{{"short", 1, 0.05, 0}, {"long", 20, 0.05, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worst, sum, n := 0.0, 0.0, 0.0
			// The same nodes in every run: a red one is the change's doing.
			for seed := range deep.Of(10, 60, 3000) {
				d := rapid.Custom(drawOffload).Example(seed)
				gpus := d.node(t, "gpu-only")
				fit := gpus.holdable(d.trace.Requests)
				if len(fit) == 0 {
					continue
				}
				d.trace.Requests = slices.Repeat(fit, c.times)
				alone := mustRun(t, gpus, d.trace, false)
				helped := mustRun(t, d.node(t, "cpu-offload", "cpu_offload.policy=neo"), d.trace, false)
				slower := float64(helped.end)/float64(alone.end) - 1
				worst, sum, n = max(worst, slower), sum+slower, n+1
				if slower > c.bound {
					t.Errorf("seed %d: gpu-only takes %v, cpu-offload %v, %.1f%% longer", seed, alone.end, helped.end, 100*slower)
				}
			}
			t.Logf("slower by %.2f%% at most, %.2f%% on average", 100*worst, 100*sum/n)
			if sum > c.mean*n && n >= 50 { // a mean over fewer nodes says little
				t.Errorf("slower by %.2f%% on average", 100*sum/n)
			}
		})
	}
}

// TestFastDecodeDecodesOnTheHost checks that all decode attention is the CPUs': no
// request decodes on the GPUs or moves there.
func TestFastDecodeDecodesOnTheHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawOffload(t)
		node := d.node(t, "cpu-offload", "cpu_offload.policy=fastdecode")
		r := node.replica(0, d.trace.Requests, Options{Check: true})
		for i := range d.trace.Requests {
			r.batcher.Add(int32(i))
		}
		for now, steps := units.Duration(0), 0; ; steps++ {
			b := r.batcher.Next()
			if b.Empty() {
				break
			}
			for s := range b.Sub {
				if len(b.Sub[s].Decode) > 0 {
					t.Fatalf("request %d decodes on the GPUs", b.Sub[s].Decode[0].Request)
				}
			}
			if b.Moves != (scheduler.Moves{}) || b.Decoding() > 1 && len(b.Sub[1].Host) == 0 {
				t.Fatalf("%d requests decode, %d of them in the second sub-batch; moves %+v", b.Decoding(), len(b.Sub[1].Host), b.Moves)
			}
			now, _ = r.engine.Run(b, now)
			r.batcher.Complete(func(int32, int) {})
		}
		if n := r.batcher.Waiting(); n > 0 || r.check.err() != nil {
			t.Fatalf("%d requests wait; %v", n, r.check.err())
		}
	})
}

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
		f := newFlow(withLayers(int(layers)), besideGPU("CPU"), running{check: &checker{}})
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

// TestHostAttention checks the roofline of a replica's share of the host against the
// figures of the default node: GPT-89B has 2 replicas.
func TestHostAttention(t *testing.T) {
	cfg, err := Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=gpt-89b"}})
	if err != nil {
		t.Fatal(err)
	}
	h := newHostCPUs(hardwareOf(cfg), newAttends(hardwareOf(cfg)))
	// 8 channels of 25.6 GB/s at 0.8; K and V of 96 heads of 128 FP16 elements.
	const tokens = 1000
	bytes := 2.0 * 96 * 128 * 2 * tokens
	if got, want := h.attend(tokens).Seconds(), bytes/(8*25.6e9*0.8); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("attention over %d tokens takes %v s, reading them %v s", tokens, got, want)
	}
	// q, k and v of 3 requests go down 4 links of 0.79 times 16 lanes of 16 GT/s, 128b/130b; one result each comes up.
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	want := 2*5e-6 + 20e-6 + bytes/(8*25.6e9*0.8) + 3*(3+1)*96*128*2/link
	if got := h.HostAttention(3, tokens).Seconds(); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("with transfers %v s, want %v s", got, want)
	}
	// With one core it is the elements of K and V that bound, or, where they take no time, 4 operations for two.
	for _, c := range []struct {
		element string
		want    float64
	}{{"390ps", 390e-12 * 2 * 96 * 128 * tokens}, {"0ps", 4 * 96 * 128 * tokens / (72e9 * 0.5)}} {
		for key, value := range map[string]string{"cores": "2", "element_time": c.element} {
			if err := cfg.Set("cpu_offload."+key, value); err != nil {
				t.Fatal(err)
			}
		}
		one := newHostCPUs(hardwareOf(cfg), newAttends(hardwareOf(cfg)))
		if got := one.attend(tokens).Seconds(); math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("one core takes %v s at %s an element, want %v s", got, c.element, c.want)
		}
	}
}

// TestOffloadIterationsAllocateNothing checks the hot path where the CPUs help.
func TestOffloadIterationsAllocateNothing(t *testing.T) {
	cfg, err := Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=gpt-89b", "cpu_offload.max_delay=1"}})
	if err != nil {
		t.Fatal(err)
	}
	var requests []traces.Request
	for i := range 40 {
		requests = append(requests, traces.Request{ID: i, Input: 90, Output: 10_000})
	}
	r := mustNode(t, cfg).replica(0, requests, Options{})
	for i := range requests {
		r.batcher.Add(int32(i))
	}
	now, helped := units.Duration(0), 0
	iterate := func() {
		b := r.batcher.Next()
		helped += len(b.Sub[0].Host) + len(b.Sub[1].Host)
		now, _ = r.engine.Run(b, now)
		r.batcher.Complete(func(int32, int) {})
	}
	for range 100 {
		iterate()
	}
	helped = 0
	n := testing.AllocsPerRun(500, iterate)
	if testing.CoverMode() == "" && n > 0 {
		t.Errorf("%v allocations an iteration", n)
	}
	if helped == 0 {
		t.Error("the CPUs never help")
	}
}

// BenchmarkOffload runs 100 requests on GPUs with little memory beside the
// weights.
func BenchmarkOffload(b *testing.B) {
	cfg, err := Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=opt-66b"}})
	if err != nil {
		b.Fatal(err)
	}
	trace, err := traces.Synthetic("dolphin", 100, 1, cfg.Traces)
	if err != nil {
		b.Fatal(err)
	}
	trace.Requests = mustNode(b, cfg).holdable(trace.Requests)
	b.ReportAllocs()
	node := mustNode(b, cfg)
	var r *Result
	for b.Loop() {
		if r, err = node.Run(context.Background(), trace, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(r.iterations), "ns/iteration")
}

// asked counts what a scheduler asks of the costs.
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

// TestOffloadWaits runs 24 requests of long outputs, of which the GPUs hold four at once. A
// place on the GPUs takes minutes to get, a token on the host seconds at most. Help is worth
// its time, and few iterations ask what others would take.
func TestOffloadWaits(t *testing.T) {
	var ends []units.Duration
	for _, system := range []string{"gpu-only", "cpu-offload"} {
		n := nodeOf(t, "preset=fair", "run.system="+system, "run.model=gpt-175b")
		trace, err := traces.Synthetic("openr1", 24, 1, n.cfg.Traces)
		if err != nil {
			t.Fatal(err)
		}
		r := n.replica(0, trace.Requests, Options{})
		a := &asked{}
		if e, ok := r.engine.(*cpuOffload); ok {
			a.cpuOffload = e
			r.batcher = (&setup{hardware: n.hw, requests: trace.Requests}).offloading(a)
		}
		r.progress = func(int64) {}
		if err := r.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, r.out.end)
		if longest := units.Duration(r.gaps.stalls.Max()); longest > 20*units.Second {
			t.Errorf("%s: a request waits %v for a token", system, longest)
		}
		if n := int64(a.iterations + a.attention); n > 2*r.out.iterations {
			t.Errorf("%d iterations ask %d times what one takes", r.out.iterations, n)
		}
	}
	if ends[1] >= ends[0] {
		t.Errorf("gpu-only takes %v, cpu-offload %v", ends[0], ends[1])
	}
}
