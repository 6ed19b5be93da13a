package system

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawOffload draws a node for cpu-offload on which CPUs and links are fast enough to be of use.
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

// TestWithoutHostMemoryIsGPUOnly checks that cpu-offload without host memory equals gpu-only, to
// the picosecond.
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

// TestOffloadIsNoSlower checks what the CPUs' help costs on the requests that the GPUs can hold. If each place
// on the GPUs is used only a few times, a run is mostly its end, and its last requests depend on the order. In
// longer runs the loss is small, and over all nodes help is a gain. The longer runs repeat each request 20
// times, shuffled: without shuffling, a memory for two requests falls into one of several lasting rhythms, and
// the host may influence only which one.
func TestOffloadIsNoSlower(t *testing.T) {
	deep.Heavy(t)
	slow := []int{926, 2543, 2803} // seeds with which requests of the host waited for a forecast, with a loss of up to 18%
	for _, c := range []struct {
		name        string
		times       int     // repeats of the trace
		bound, mean float64 // of the loss
	}{{"short", 1, 0.05, 0}, {"long", 20, 0.05, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worst, sum, n := 0.0, 0.0, 0.0
			// The same nodes in every run, so that a failure comes from a change.
			for k := range len(slow) + deep.Of(10, 60, 3000) {
				seed := k - len(slow)
				if seed < 0 {
					seed = slow[k]
				}
				d := rapid.Custom(drawOffload).Example(seed)
				gpus := d.node(t, "gpu-only")
				fit := gpus.holdable(d.trace.Requests)
				if len(fit) == 0 {
					continue
				}
				d.trace.Requests = slices.Repeat(fit, c.times)
				if c.times > 1 {
					rand.New(rand.NewPCG(uint64(seed), 0)).Shuffle(len(d.trace.Requests), func(i, j int) {
						d.trace.Requests[i], d.trace.Requests[j] = d.trace.Requests[j], d.trace.Requests[i]
					})
				}
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

// TestFastDecodeDecodesOnTheHost checks that the CPUs compute all decode attention: no request
// decodes on the GPUs or moves there.
func TestFastDecodeDecodesOnTheHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawOffload(t)
		node := d.node(t, "cpu-offload", "cpu_offload.policy=fastdecode")
		r := node.replica(0, d.trace.Requests, Options{Check: true})
		for i := range d.trace.Requests {
			r.assembly.Batcher.Add(int32(i))
		}
		for now, steps := units.Duration(0), 0; ; steps++ {
			b := r.assembly.Batcher.Next()
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
			now, _ = r.assembly.Engine.Run(b, now)
			r.assembly.Batcher.Complete(func(int32, int) {})
		}
		if n := r.assembly.Batcher.Waiting(); n > 0 || r.check.Err() != nil {
			t.Fatalf("%d requests wait; %v", n, r.check.Err())
		}
	})
}

// TestOffloadIterationsAllocateNothing checks the hot path with help of the CPUs.
func TestOffloadIterationsAllocateNothing(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=gpt-89b", "cpu_offload.max_delay=1"}})
	if err != nil {
		t.Fatal(err)
	}
	var requests []traces.Request
	for i := range 40 {
		requests = append(requests, traces.Request{ID: i, Input: 90, Output: 10_000})
	}
	r := mustNode(t, cfg).replica(0, requests, Options{})
	for i := range requests {
		r.assembly.Batcher.Add(int32(i))
	}
	now, helped := units.Duration(0), 0
	iterate := func() {
		b := r.assembly.Batcher.Next()
		helped += len(b.Sub[0].Host) + len(b.Sub[1].Host)
		now, _ = r.assembly.Engine.Run(b, now)
		r.assembly.Batcher.Complete(func(int32, int) {})
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

// TestWaitsAreChecked plants a request on the host that seems to sit out and gets no turn: a checked run breaks the law of
// waits.
func TestWaitsAreChecked(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=gpt-89b", "cpu_offload.max_delay=1"}})
	if err != nil {
		t.Fatal(err)
	}
	requests := slices.Repeat([]traces.Request{{Input: 90, Output: 10_000}}, 40)
	for _, planted := range []bool{false, true} {
		r := mustNode(t, cfg).replica(0, requests, Options{Check: true})
		for i := range requests {
			r.assembly.Batcher.Add(int32(i))
		}
		now := units.Duration(0)
		for range 60 {
			r.iteration.batch = r.assembly.Batcher.Next()
			now, _ = r.assembly.Engine.Run(r.iteration.batch, now)
			hosts := slices.Clone(r.assembly.Batcher.Host.Decoding)
			for i := range hosts {
				r.assembly.Batcher.Host.Decoding[i].Runs = hosts[i].Runs && !planted
			}
			r.checkIteration(now)
			copy(r.assembly.Batcher.Host.Decoding, hosts)
			r.assembly.Batcher.Complete(func(int32, int) {})
		}
		if broken := r.fault != nil && strings.Contains(r.fault.Error(), `law "waits"`); broken != planted || len(r.assembly.Batcher.Host.Decoding) == 0 {
			t.Errorf("planted %v: %v, %d requests on the host", planted, r.fault, len(r.assembly.Batcher.Host.Decoding))
		}
	}
}

// BenchmarkOffload runs 100 requests on GPUs with little memory beside the
// weights.
func BenchmarkOffload(b *testing.B) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=cpu-offload", "run.model=opt-66b"}})
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

// TestOffloadWaits runs 24 requests of long outputs, four of which fit the GPUs. A place on the
// GPUs takes minutes to get, a token on the host at most seconds. Help pays.
func TestOffloadWaits(t *testing.T) {
	deep.Heavy(t)
	var ends []units.Duration
	for _, system := range []string{"gpu-only", "cpu-offload"} {
		n := nodeOf(t, "preset=fair", "run.system="+system, "run.model=gpt-175b", "memory.admission=final") // without preemptions, whose stalls are longer
		trace, err := traces.Synthetic("openr1", 24, 1, n.cfg.Traces)
		if err != nil {
			t.Fatal(err)
		}
		r := n.replica(0, trace.Requests, Options{})
		if err := r.run(context.Background()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, r.out.end)
		if longest := units.Duration(r.gaps.stalls.Max()); longest > 20*units.Second {
			t.Errorf("%s: a request waits %v for a token", system, longest)
		}
	}
	if ends[1] >= ends[0] {
		t.Errorf("gpu-only takes %v, cpu-offload %v", ends[0], ends[1])
	}
}
