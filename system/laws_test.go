package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawNode draws a small system: a model of few layers on a part of the default node's hardware,
// with little memory, and a trace for it.
func drawNode(t *rapid.T) (*configs.Config, *traces.Trace) {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	replicas := 1 << number("log2 replicas", 0, 2)
	ranksets := number("ranksets", 1, 6)
	layers := number("layers", 1, 24)
	channels := number("channels of a replica", 3, 4) * replicas
	// Room for 1 to 40 units a rank, of 256 KiB; a layer of a request takes 2.
	capacity := units.Bytes(channels*ranksets*max(2*layers, number("units a rank", 2, 200))) * 256 * units.KiB
	cfg, err := everything().Load(configs.Options{Sets: []string{
		fmt.Sprint("node.gpus=", 2*replicas), fmt.Sprint("node.channels=", channels), fmt.Sprint("node.ranksets=", ranksets),
		fmt.Sprintf("node.memory_capacity=%q", capacity),
		fmt.Sprint("model.layers=", layers), "model.hidden=1024", "model.heads=8", "model.kv_heads=" + pick("KV heads", "8", "8", "2", "1"), "model.ffn_hidden=4096",
		"model.tensor_parallel=2", "model.experts=" + pick("experts", "0", "0", "3", "40"),
		fmt.Sprint("model.active_experts=", number("active experts", 1, 3)), "model.expert_skew=" + pick("skew", "0.0", "1.5"),
		"scheduler.sub_batches=" + pick("sub-batches", "1", "2"),
		"scheduler.chunking=" + pick("chunking", "true", "false"),
		fmt.Sprint("scheduler.min_prefill_tokens=", number("min prefill", 1, 600)),
		"comm.balance=" + pick("balance", scheduler.Balances()...),
		"scheduler.adaptive=" + pick("adaptive", "true", "false"),
		"comm.concurrent=" + pick("concurrent", "true", "false"), "comm.rotation=" + pick("rotation", "true", "false"),
		"comm.async_prefill=" + pick("async prefill", "true", "false"),
		"predictor.kind=" + pick("predictor", "exact", "exact", "learned"), "predictor.warm_up=8", "predictor.trees=2",
		"memory.admission=" + pick("admission", "final", "current", "max"), "memory.max_tokens=700",
		"memory.history=" + pick("history", "0", "20", "1000"), "batching.max_num_seqs=" + pick("most decode", "0", "0", "2", "9"),
		"dram.preset=" + pick("part", "ddr4-3200-8gb-x8", "ddr4-3200-8gb-x8", "ddr5-4800-16gb-x8"),
		"pim.relayout=" + pick("relayout", "in-flight", "in-flight", "cpu"),
		"pim.mc_buffer=" + pick("buffer", "0B", "4KiB", "64KiB"),
		"pim.transfer_boundary=" + pick("boundary", "head", "row", "chunk"),
		"pim.activation=" + pick("activation", "staggered", "simultaneous"),
		fmt.Sprint("pcie.generation=", number("generation", 3, 6)), fmt.Sprint("pcie.gpus_per_uplink=", number("uplink", 1, 2)),
	}})
	if err != nil {
		t.Fatalf("configuration: %v", err)
	}
	trace := &traces.Trace{Name: "random"}
	for i := range number("requests", 1, 25) {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: number("in", 1, 1500), Output: number("out", 1, 120)})
	}
	return cfg, trace
}

func mustNode(t interface{ Fatal(...any) }, cfg *configs.Config) *Node {
	n, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustRun(t interface{ Fatal(...any) }, node *Node, trace *traces.Trace, exact bool) *Result {
	r, err := node.Run(context.Background(), trace, Options{Exact: exact, Check: !exact})
	if t, ok := t.(*rapid.T); ok && errors.As(err, new(*RejectedError)) {
		t.Skip("nothing is served") // a draw whose requests are all too large has no result to compare
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text returns all output of a run.
func text(t interface{ Fatal(...any) }, cfg *configs.Config, r *Result) string {
	var b bytes.Buffer
	s, err := r.Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := results.WriteRequests(&b, r.Requests); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// fewCases tries a property with slow cases on a single one in a quick run.
func fewCases(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	deep.Cases(t, deep.Of(5, 1, 1), property)
}

// TestNodeLaws runs random small systems, as many as rapid draws for each part, and checks
// invariants of all.
func TestNodeLaws(t *testing.T) {
	parts := deep.Of(1, 4, 11)
	if testing.Short() {
		parts = 1
	}
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, checkNode)
		})
	}
}

// runBothWays runs a node under all checks and again layer by layer, with equal results.
func runBothWays(t *rapid.T, cfg *configs.Config, trace *traces.Trace) *Result {
	n := mustNode(t, cfg)
	r, exact := mustRun(t, n, trace, false), mustRun(t, n, trace, true)
	checkTokens(t, r)
	checkIterations(t, r, n.Replicas())
	if got, want := text(t, cfg, r), text(t, cfg, exact); got != want || r.Tasks != exact.Tasks {
		t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
	}
	return r
}

// checkNode draws one small system and checks it.
func checkNode(t *rapid.T) {
	cfg, trace := drawNode(t)
	node := mustNode(t, cfg)
	r := mustRun(t, node, trace, false)
	checkTokens(t, r)
	checkIterations(t, r, node.Replicas())
	checkStalls(t, cfg.Run.System, r)
	checkSeats(t, cfg, r)
	checkMemory(t, cfg, trace, r)
	checkBounds(t, cfg, node, r)
	if got, want := text(t, cfg, mustRun(t, node, trace, false)), text(t, cfg, r); got != want {
		t.Fatalf("the same run twice:\n%s\n%s", want, got)
	}
	exact := mustRun(t, node, trace, true)
	if got, want := text(t, cfg, r), text(t, cfg, exact); got != want || r.Tasks != exact.Tasks {
		t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
	}
}

// checkIterations: the parts of an iteration sum to it, and all iterations to the time of the
// replicas, whose GPUs are busy in the parts that are not waiting.
func checkIterations(t interface{ Fatalf(string, ...any) }, r *Result, replicas int) {
	i := &r.iteration
	if sum := i.Dense + i.Attention + i.Waiting; i.Dense < 0 || i.Attention < 0 || i.Waiting < 0 || math.Abs(sum-i.Mean) > 1e-9*i.Mean {
		t.Fatalf("parts of an iteration that do not sum to it: %+v", *i)
	}
	if busy := r.busy.GPU * r.end.Seconds() * 1e3; math.Abs((i.Dense+i.Attention)*float64(r.iterations)-busy*float64(replicas)) > 1e-6*busy*float64(replicas) {
		t.Fatalf("GPUs are busy for %v ms on %d replicas, in %d iterations of %+v", busy, replicas, r.iterations, *i)
	}
	if i.Mean*float64(r.iterations) > 1e3*r.end.Seconds()*float64(replicas)*(1+1e-9) {
		t.Fatalf("%d iterations of %v ms on %d replicas in %v", r.iterations, i.Mean, replicas, r.end)
	}
}

// checkTokens: every request that is not rejected emits exactly its output, in order of time.
func checkTokens(t *rapid.T, r *Result) {
	var tokens, rejected, gaps int64
	for i := range r.Requests {
		q := &r.Requests[i]
		if q.Rejected() {
			rejected++
			continue
		}
		tokens += int64(q.Request.Output)
		gaps += int64(q.Request.Output - 1)
		if q.FirstToken <= 0 || q.Finish < q.FirstToken || q.Finish > r.end || (q.Request.Output == 1) != (q.Finish == q.FirstToken) {
			t.Fatalf("request %+v", q)
		}
	}
	if r.tokens != tokens || r.tbt.Count() != gaps || r.rejected != rejected {
		t.Fatalf("%d tokens, %d gaps, %d rejected; want %d, %d, %d", r.tokens, r.tbt.Count(), r.rejected, tokens, gaps, rejected)
	}
}

// checkStalls: gaps with and without a stall add up to all gaps, in number and sum, and only
// preemptions stall requests if nothing else can.
func checkStalls(t *rapid.T, system string, r *Result) {
	all, stalls := r.tbt.Milliseconds(), float64(r.stall.Count)
	parts := float64(r.tbtDecode.Mean*(float64(r.tbt.Count())-stalls)) + float64(r.stall.Mean*stalls)
	if sum := all.Mean * float64(r.tbt.Count()); math.Abs(sum-parts) > 1e-9*sum {
		t.Fatalf("gaps of %v ms in all, of their parts %v: %+v, %d of %+v, %+v", sum, parts, all, r.tbt.Count(), r.tbtDecode, r.stall)
	}
	if all.Max != max(r.tbtDecode.Max, r.stall.Max) || r.stall.Count > r.tbt.Count() {
		t.Fatalf("%+v of %d gaps, %+v and %+v of the parts", all, r.tbt.Count(), r.tbtDecode, r.stall)
	}
	if system != "cpu-offload" && (r.stall.Count > r.preemptions || r.preemptions == 0 && r.tbtDecode != all) {
		t.Fatalf("%d preemptions and %+v", r.preemptions, r.stall)
	}
}

// checkSeats: no more requests decode at once than allowed.
func checkSeats(t *rapid.T, cfg *configs.Config, r *Result) {
	if most := cfg.Batching.MaxNumSeqs * cfg.Replicas(); most > 0 && r.batch.Max > most {
		t.Fatalf("%d requests decode at once, %d may", r.batch.Max, most)
	}
}

// checkMemory: the peak is at least the largest served request and at most the capacity. Empty
// memory at the end is the scheduler's law.
func checkMemory(t *rapid.T, cfg *configs.Config, trace *traces.Trace, r *Result) {
	if r.kv.Peak > r.kv.Capacity || units.Bytes(r.kv.Capacity) > cfg.Node.MemoryCapacity {
		t.Fatalf("KV %+v of %v", r.kv, cfg.Node.MemoryCapacity)
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		n := units.Bytes(q.Request.Input+q.Request.Output-1) * cfg.Model.KVBytesPerToken()
		if !q.Rejected() && n > units.Bytes(r.kv.Peak) {
			t.Fatalf("request %d holds %v, the peak is %v", i, n, r.kv.Peak)
		}
	}
}

// checkBounds: no run is faster than the PIM's bandwidth for keys and values, or than the GPUs'
// reads of the weights once an iteration.
func checkBounds(t *rapid.T, cfg *configs.Config, node *Node, r *Result) {
	h := node.Hardware(r.trace.Moments())
	var read float64 // bytes of KV
	for i := range r.Requests {
		if q := &r.Requests[i]; !q.Rejected() {
			steps := float64(q.Request.Output - 1)
			read += (float64(q.Request.Input)*steps + steps*(steps+1)/2) * float64(cfg.Model.KVBytesPerToken())
		}
	}
	if bound := units.FromSeconds(read / float64(h.Attention)); r.end < bound {
		t.Fatalf("the run takes %v, reading all KV at the peak of the PIM %v", r.end, bound)
	}
	perIteration := float64(cfg.Model.Layers) * float64(cfg.Model.ActiveLayerWeightBytes()) / float64(h.HBM) * float64(h.Replicas)
	// Replicas iterate in parallel.
	if bound := units.FromSeconds(perIteration * float64(r.iterations) / float64(h.Replicas)); r.end < bound {
		t.Fatalf("%d iterations take %v, reading the weights at the peak of HBM %v", r.iterations, r.end, bound)
	}
	for name, share := range map[string]float64{
		"gpu": r.busy.GPU, "pim": r.busy.PIM, "down": r.busy.PCIeDown, "up": r.busy.PCIeUp, "channel": r.busy.Channel,
	} {
		if share < 0 || share > 1 {
			t.Fatalf("%s is busy for %v of the time", name, share)
		}
	}
}

func TestRejectsWhatCannotFit(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"node.memory_capacity=16GiB"}})
	if err != nil {
		t.Fatal(err)
	}
	trace := &traces.Trace{Requests: []traces.Request{{ID: 0, Input: 10, Output: 20}, {ID: 1, Input: 100_000, Output: 2}, {ID: 2, Input: 1, Output: 1}}}
	r := mustRun(t, mustNode(t, cfg), trace, false)
	if r.rejected != 1 || !r.Requests[1].Rejected() || r.tokens != 21 {
		t.Errorf("rejected %d, tokens %d: %+v", r.rejected, r.tokens, r.Requests)
	}
}

func TestCancel(t *testing.T) {
	cfg, err := everything().Load(configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	node := mustNode(t, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	trace, err := traces.Synthetic("openr1", 50, 1, cfg.Traces)
	if err != nil {
		t.Fatal(err)
	}
	_, err = node.Run(ctx, trace, Options{Progress: func(int, int64) { cancel() }})
	if err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestPeakOfSums compares the maximum of the sum of several replicas' functions with explicit sums at every time.
func TestPeakOfSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const span = 12
		var sums [span]int64
		replicas := make([]*replica, rapid.IntRange(1, 5).Draw(t, "replicas"))
		for i := range replicas {
			replicas[i] = &replica{}
			value := int64(0)
			for now := range sums {
				for range rapid.IntRange(0, 2).Draw(t, "changes") {
					value = rapid.Int64Range(0, 9).Draw(t, "value")
					replicas[i].tallied.kvUnits.set(units.Duration(now), value)
				}
				sums[now] += value
			}
		}
		if got, want := maxOfSum(replicas, func(r *replica) *steps { return &r.tallied.kvUnits }), slices.Max(sums[:]); got != want {
			t.Fatalf("peak %d, want %d of %v", got, want, sums)
		}
	})
}

func TestSteps(t *testing.T) {
	replicas := []*replica{{}, {}}
	a, b := &replicas[0].out.batch, &replicas[1].out.batch
	a.set(0, 2)
	a.set(10, 5)
	a.set(10, 1) // the last value at an instant counts
	b.set(5, 3)
	b.set(10, 4)
	if got := maxOfSum(replicas, func(r *replica) *steps { return &r.out.batch }); got != 5 {
		t.Errorf("maximum of the sum %d, want 5", got)
	}
	if got, want := meanBatch(replicas, 20), (2*10+1*10+3*5+4*10)/20.0; got != want {
		t.Errorf("mean of the sum %v, want %v", got, want)
	}
}

// BenchmarkRun runs 100 requests on each system, on l3 also layer by layer. The compiler optimises
// the program by its profile: .ci/profile.
func BenchmarkRun(b *testing.B) {
	for _, s := range densely() {
		b.Run(s.Name, func(b *testing.B) { benchmarkRun(b, s.Name, Options{}) })
	}
	b.Run("l3/exact", func(b *testing.B) { benchmarkRun(b, "l3", Options{Exact: true}) })
}

func benchmarkRun(b *testing.B, system string, o Options) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=" + system}})
	if err != nil {
		b.Fatal(err)
	}
	trace, err := traces.Synthetic("openr1", 100, 1, cfg.Traces)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var r *Result
	node := mustNode(b, cfg)
	for b.Loop() {
		if r, err = node.Run(context.Background(), trace, o); err != nil {
			b.Fatal(err)
		}
	}
	perRun := func(n int64, unit string) { b.ReportMetric(float64(n), unit+"/run") }
	perRun(r.tokens, "tokens")
	perRun(r.iterations, "iterations")
	perRun(r.Tasks, "tasks")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(r.iterations), "ns/iteration")
}

// TestIterationsAllocateNothing checks the hot path of every system: forming,
// costing and running an iteration.
func TestIterationsAllocateNothing(t *testing.T) {
	for _, s := range densely() {
		t.Run(s.Name, func(t *testing.T) { checkAllocations(t, s.Name) })
	}
}

func checkAllocations(t *testing.T, system string, sets ...string) {
	cfg, err := everything().Load(configs.Options{Sets: append(sets, "run.system="+system)})
	if err != nil {
		t.Fatal(err)
	}
	node := mustNode(t, cfg)
	var requests []traces.Request
	for i := range 20 {
		requests = append(requests, traces.Request{ID: i, Input: 90, Output: 10_000})
	}
	r := node.replica(0, requests, Options{})
	for i := range requests {
		r.assembly.Batcher.Add(int32(i))
	}
	now := units.Duration(0)
	iterate := func() {
		b := r.assembly.Batcher.Next()
		now, _ = r.assembly.Engine.Run(b, now)
		r.assembly.Batcher.Complete(func(int32, int) {})
	}
	for range 100 {
		iterate()
	}
	if n := testing.AllocsPerRun(500, iterate); n > 0 {
		t.Errorf("%v allocations an iteration", n)
	}
}

// nodeOf returns the node of the default configuration with some keys set.
func nodeOf(t interface{ Fatal(...any) }, sets ...string) *Node {
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return mustNode(t, cfg)
}
