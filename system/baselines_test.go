package system

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawn is the random choices for a small node of any system.
type drawn struct {
	sets  []string
	trace *traces.Trace
}

// drawBaseline draws a small model on GPUs with little memory, and a trace for it.
func drawBaseline(t *rapid.T) drawn {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	replicas, ranksets, layers := 1<<number("log2 replicas", 0, 1), number("ranksets", 1, 4), number("layers", 1, 24)
	channels := 4 * replicas
	capacity := units.Bytes(channels*ranksets*max(2*layers, number("units a rank", 2, 200))) * 256 * units.KiB
	d := drawn{sets: []string{
		fmt.Sprint("node.gpus=", 2*replicas), fmt.Sprint("node.channels=", channels), fmt.Sprint("node.ranksets=", ranksets),
		fmt.Sprintf("node.memory_capacity=%q", capacity),
		fmt.Sprint("model.layers=", layers), "model.hidden=1024", "model.heads=8", "model.kv_heads=8", "model.ffn_hidden=4096",
		"model.tensor_parallel=2", "model.experts=" + pick("experts", "0", "0", "6"), "model.active_experts=2",
		"gpu.preset=" + pick("GPU", "a100-paper", "a100-sxm-80gb"),
		"memory.admission=" + pick("admission", "final", "current", "max"), "memory.max_tokens=700",
		"memory.history=" + pick("history", "0", "20", "1000"), "batching.max_num_seqs=" + pick("most decode", "0", "0", "2", "9"),
		fmt.Sprint("batching.max_num_batched_tokens=", number("batch", 64, 2000)), "batching.page_tokens=" + pick("page", "1", "16", "256"),
		"gpu_only.policy=" + pick("gpu-only", "prefill-first", "chunked-prefill"),
		"hbm_pim.sub_batches=" + pick("hbm-pim", "always", "adaptive", "never"),
		fmt.Sprint("hbm_pim.bandwidth_factor=", number("factor", 1, 16)), "hbm_pim.model=" + pick("hbm-pim model", "factor", "commands"),
		"hbm_pim.policy=" + pick("hbm-pim policy", "prefill-first", "chunked-prefill"),
		"rank_pim.policy=" + pick("rank-pim policy", "prefill-first", "chunked-prefill"),
		"rank_pim.placement=" + pick("rank-pim", "random", "balanced"),
		"comm.rotation=" + pick("rotation", "true", "false"),
		"cpu_offload.policy=" + pick("cpu-offload", "neo", "neo", "fastdecode"),
		"cpu_offload.host_memory_share=" + pick("host", "0.1", "1"), "cpu_offload.overhead=" + pick("overhead", "0s", "2us", "20us"),
	}}
	d.trace = &traces.Trace{Name: "random"}
	for i := range number("requests", 1, 25) {
		d.trace.Requests = append(d.trace.Requests, traces.Request{ID: i, Input: number("in", 1, 1500), Output: number("out", 1, 120)})
	}
	// Memory of each GPU: its half of the weights, the activations, and 0.3 to 20 requests of the
	// largest size.
	cfg := d.load(t, "gpu-only")
	m, room := &cfg.Model, units.Bytes(float64(number("room", 3, 200))/10*1620)
	free := m.WeightBytes() + m.ActivationBytes(cfg.Batching.MaxBatchTokens) + room*m.KVBytesPerToken()
	d.sets = append(d.sets, fmt.Sprintf("gpu.memory_capacity=%q", free/2+1+cfg.GPU.MemoryReserve))
	return d
}

// TestUnitsReadWeightsWithinLaws: a run whose units multiply most weights is faster than the GPUs could read all of them, without breaking a
// law.
func TestUnitsReadWeightsWithinLaws(t *testing.T) {
	trace := &traces.Trace{Requests: equalLengths(1, 10, 200)}
	n := nodeOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "hbm_pim.feed_forward=1", "hbm_pim.sub_batches=never")
	r := mustRun(t, n, trace, false)
	m := &n.cfg.Model
	peak := float64(m.TensorParallel) * float64(n.cfg.GPU.MemoryBandwidth)
	if all := float64(m.WeightBytes()) * float64(r.iterations) / peak; r.end.Seconds() >= all {
		t.Errorf("%v s, the GPUs read all weights in %v", r.end.Seconds(), all)
	}
}

func drawStripe(t *rapid.T) string {
	return "comm.stripe=" + rapid.SampledFrom([]string{"none", "ranksets", "channels"}).Draw(t, "stripe")
}

// drawUnits draws the place of units in HBM, and what they help with. Each of the 16 channels of a GPU has room for the largest
// request.
func (d *drawn) drawUnits(t *rapid.T) {
	pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
	placement := pick("unit placement", "heads", "channel")
	d.sets = append(d.sets, "hbm_pim.stacks=1", "hbm_pim.placement="+placement, "hbm_pim.feed_forward="+pick("columns of units", "0", "0.3", "1"),
		"hbm_pim.kernel_overhead="+pick("unit kernels", "true", "false"), "hbm_pim.link="+pick("unit link", "1GB/s", "300GB/s"))
	if placement == "channel" || rapid.Bool().Draw(t, "beside") {
		m := &d.load(t, "gpu-only").Model
		beside := m.WeightBytes() + 16*1900*m.KVBytesPerToken() // a page of 256 tokens more than the largest
		d.sets = append(d.sets, fmt.Sprintf("hbm_pim.memory_beside=%q", beside/2+1))
	}
}

// load returns the configuration of a system with further settings.
func (d *drawn) load(t interface{ Fatal(...any) }, system string, sets ...string) *configs.Config {
	all := append(append([]string{"run.system=" + system}, d.sets...), sets...)
	cfg, err := everything().Load(configs.Options{Sets: all})
	if err != nil {
		t.Fatal("configuration:", err)
	}
	return cfg
}

// node returns the node of a system with further settings; L3 has one processing unit per rank.
func (d *drawn) node(t interface{ Fatal(...any) }, system string, sets ...string) *Node {
	if system == "l3" {
		sets = append([]string{"pim.processing_unit=rank"}, sets...)
	}
	return mustNode(t, d.load(t, system, sets...))
}

// requestsOf returns the CSV of a run's requests.
func requestsOf(t *rapid.T, r *Result) string {
	var b bytes.Buffer
	if err := results.WriteRequests(&b, r.Requests); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestBaselineLaws runs random small nodes of the systems that L3 is compared with under all
// checks. Runs repeat exactly, and skipped layers change nothing.
func TestBaselineLaws(t *testing.T) {
	for _, s := range densely() {
		if s.Name == "l3" {
			continue // tested by TestNodeLaws
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				d := drawBaseline(t)
				switch s.Name {
				case "hbm-pim":
					d.drawUnits(t)
				case "rank-pim":
					d.sets = append(d.sets, drawStripe(t), "rank_pim.sub_batches="+rapid.SampledFrom([]string{"never", "always", "adaptive"}).Draw(t, "sub-batches"))
				}
				node := d.node(t, s.Name, fmt.Sprint("gpu_only.async_scheduling=", rapid.Bool().Draw(t, "ahead")))
				cfg := node.cfg
				r := mustRun(t, node, d.trace, false)
				checkTokens(t, r)
				checkIterations(t, r, node.Replicas())
				checkStalls(t, s.Name, r)
				checkSeats(t, cfg, r)
				checkBounds(t, cfg, node, r)
				if r.kv.Peak > r.kv.Capacity {
					t.Fatalf("KV %+v", r.kv)
				}
				exact := mustRun(t, node, d.trace, true)
				if got, want := text(t, cfg, r), text(t, cfg, exact); got != want || r.Tasks != exact.Tasks {
					t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
				}
			})
		})
	}
}

// TestHBMPIMWithoutPIMIsGPUOnly checks that units as fast as the GPUs' memory, with a single batch,
// equal GPUs whose kernel streams without waves of thread blocks, which AttAcc's model has and
// units do not.
func TestHBMPIMWithoutPIMIsGPUOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		d.sets = append(d.sets, "gpu.decode_attention.model=flash", "gpu.all_reduce.skew=0.0") // units have a clock of their own
		plain := mustRun(t, d.node(t, "gpu-only", "gpu_only.policy=prefill-first"), d.trace, false)
		pim := mustRun(t, d.node(t, "hbm-pim", "hbm_pim.model=factor", "hbm_pim.bandwidth_factor=1", "hbm_pim.sub_batches=never", "hbm_pim.policy=prefill-first"), d.trace, false)
		if got, want := requestsOf(t, pim), requestsOf(t, plain); got != want || pim.iterations != plain.iterations {
			t.Fatalf("hbm-pim:\n%s\ngpu-only:\n%s", got, want)
		}
	})
}

// TestMoreMemoryIsNoSlower checks that a GPU with unlimited memory is no slower on the requests
// that a smaller one can hold. Larger batches can waste part of a tile or of a wave, which costs at
// most a few percent.
func TestMoreMemoryIsNoSlower(t *testing.T) {
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		small := d.node(t, "gpu-only")
		d.trace.Requests = small.holdable(d.trace.Requests)
		if len(d.trace.Requests) == 0 {
			t.Skip("no request fits")
		}
		finite := mustRun(t, small, d.trace, false)
		infinite := mustRun(t, d.node(t, "gpu-only", `gpu.memory_capacity="1024TiB"`), d.trace, false)
		if infinite.preemptions > 0 {
			t.Fatalf("%d preemptions in a petabyte", infinite.preemptions)
		}
		slower := float64(infinite.end)/float64(finite.end) - 1
		worst = max(worst, slower)
		if slower > 0.05 {
			t.Fatalf("%v in finite memory, %v in a petabyte", finite.end, infinite.end)
		}
	})
	t.Logf("slower by %.2f%% at most", 100*worst)
}

// TestRankPIMIsL3WithoutItsTechniques checks that L3 with one processing unit per rank, one batch
// and links that take no time comes close to rank-pim. The remaining difference is that L3 prefills
// beside decoding requests.
func TestRankPIMIsL3WithoutItsTechniques(t *testing.T) {
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		for i := range d.trace.Requests { // prompts take almost no time
			r := &d.trace.Requests[i]
			r.Input, r.Output = 1+r.Input%32, 200+r.Output
		}
		d.sets = append(d.sets, "batching.max_num_batched_tokens=2048", "memory.admission=final", drawStripe(t))
		rank := mustRun(t, d.node(t, "rank-pim", "rank_pim.placement=balanced", "rank_pim.policy=prefill-first"), d.trace, false)
		l3 := mustRun(t, d.node(t, "l3", `pim.processing_unit="rank"`, "scheduler.sub_batches=1", "comm.balance=least-loaded",
			`pcie.latency="0s"`, "pcie.generation=6", "pcie.lanes=16", "scheduler.min_prefill_tokens=2048"), d.trace, false)
		if l3.rejected != rank.rejected {
			t.Fatalf("%d rejected, %d", l3.rejected, rank.rejected)
		}
		if l3.end == 0 {
			t.Skip("no request fits")
		}
		off := math.Abs(float64(rank.end)/float64(l3.end) - 1)
		worst = max(worst, off)
		if off > 0.05 {
			t.Fatalf("rank-pim takes %v, l3 so reduced %v", rank.end, l3.end)
		}
	})
	t.Logf("apart by %.1f%% at most", 100*worst)
}

// TestHBMPIMCapacity: units that take a part of the memory leave as much as smaller GPUs have, and
// take nothing from other systems.
func TestHBMPIMCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		cfg := d.load(t, "hbm-pim")
		capacity := 4 * (cfg.GPU.MemoryCapacity / 3) // three quarters of it are the drawn capacity
		larger, smaller := fmt.Sprintf("gpu.memory_capacity=%q", capacity), fmt.Sprintf("gpu.memory_capacity=%q", capacity/4*3)
		part := d.node(t, "hbm-pim", larger, "hbm_pim.capacity_share=0.75")
		whole := d.node(t, "hbm-pim", smaller)
		if part.memory != whole.memory || part.FreeGPUMemory() != whole.FreeGPUMemory() {
			t.Fatalf("three quarters of %v: KV %+v, want %+v", capacity, part.memory, whole.memory)
		}
		if got, want := d.node(t, "gpu-only", larger, "hbm_pim.capacity_share=0.75").memory, d.node(t, "gpu-only", larger).memory; got != want {
			t.Fatalf("gpu-only has %+v, without units %+v", got, want)
		}
	})
}
