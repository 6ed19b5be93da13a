package system

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

var (
	nodes     = flag.Int("offload.nodes", deep.Of(10, 100, 100), "random nodes of TestOffloadOnAnyNode, beside those that were slow once")
	firstNode = flag.Uint64("offload.first", 0, "seed of the first of them")
)

// anyNode draws a node of any proportions, and its requests: links of 3 to 128 GB/s; a host of any size whose channels are up
// to 125 times as fast as those of DDR4-3200; lengths that are equal, uniform or skewed, with long prompts, long outputs or
// both.
func anyNode(seed uint64) (sets []string, requests []traces.Request) {
	rng := rand.New(rand.NewPCG(seed, 7))
	of := func(from ...string) string { return from[rng.IntN(len(from))] }
	number := func(low, high int) int { return low + rng.IntN(high-low+1) }
	skewed := func(low, high float64) float64 { return low * math.Exp(rng.Float64()*math.Log(high/low)) }
	replicas, heads := 1<<number(0, 1), 8*number(1, 4)
	sets = []string{
		fmt.Sprint("node.gpus=", 2*replicas), fmt.Sprint("node.channels=", 4*replicas), "node.ranksets=2",
		fmt.Sprintf("node.memory_capacity=%q", units.Bytes(skewed(1, 1500))*16*units.MiB),
		fmt.Sprint("model.layers=", number(1, 32)), fmt.Sprint("model.hidden=", 128*heads), fmt.Sprint("model.heads=", heads),
		fmt.Sprint("model.ffn_hidden=", 512*heads), fmt.Sprint("model.kv_heads=", heads/number(1, 2)), "model.tensor_parallel=2",
		"gpu.preset=" + of("a100-paper", "a100-sxm-80gb"),
		"memory.admission=" + of("final", "current", "max"), "memory.max_tokens=700", "memory.watermark=" + of("0", "0.01", "0.1"),
		fmt.Sprint("batching.max_num_batched_tokens=", int(skewed(64, 4000))), "batching.page_tokens=" + of("1", "16", "256"),
		"gpu_only.policy=" + of("prefill-first", "chunked-prefill"),
		"cpu_offload.host_memory_share=" + of("0.1", "1", "1"), "cpu_offload.overhead=" + of("0s", "2us", "20us"),
		"pcie.latency=" + of("0s", "1us", "5us"), "pcie.generation=" + of("3", "4", "5", "6"), fmt.Sprint("pcie.gpus_per_uplink=", number(1, 2)),
		"dram.tCK=" + of("5ps", "20ps", "100ps", "625ps"),
	}
	length := func(low, high int) func() int {
		if rng.IntN(2) == 0 {
			return func() int { return number(low, high) }
		}
		return func() int { return int(skewed(float64(low), float64(high))) }
	}
	in, out := length(1, 1500), length(1, 150)
	switch rng.IntN(4) {
	case 0: // long prompts
		in, out = length(300, 3000), length(1, 20)
	case 1: // long outputs
		in, out = length(1, 60), length(10, 300)
	case 2: // equal lengths
		i, o := number(1, 1500), number(1, 150)
		in, out = func() int { return i }, func() int { return o }
	}
	for range number(1, number(1, 30)) {
		requests = append(requests, traces.Request{Input: in(), Output: out()})
	}
	return sets, requests
}

// alikeNode draws as anyNode does, but with equal or nearly equal requests, possibly with few that
// may decode at once.
func alikeNode(seed uint64) (sets []string, requests []traces.Request) {
	sets, _ = anyNode(seed)
	rng := rand.New(rand.NewPCG(seed, 10))
	skewed := func(high float64) int { return int(math.Exp(rng.Float64() * math.Log(high))) }
	sets = append(sets, fmt.Sprint("model.layers=", skewed(32)), fmt.Sprint("batching.max_num_seqs=", []int{0, 0, 2, 3, 9}[rng.IntN(5)]))
	requests = slices.Repeat([]traces.Request{{Input: skewed(1500), Output: skewed(40)}}, 3+skewed(150))
	if rng.IntN(3) == 0 {
		for i := range requests {
			if rng.IntN(10) == 0 {
				requests[i].Output = skewed(40)
			}
		}
	}
	return sets, requests
}

// onceSlow is seeds of nodes that were slower with the host's help than the bound allows. In the first five, nearly equal requests begin
// and end together on the GPUs alone; after the host had helped once, they no longer did. Other causes: prompts that the GPUs alone ran
// together went to the host (783948), whose transfers took longer than they did (789321, 782842), or whose steps took the GPUs as long
// (601496). Steps waited for a swap in (774024). A request for which the host had no memory went before earlier ones (776286). GPUs
// without other work waited for a swap in, for its last step (780018). A request refused by the forecast asked again too late (787266):
// requests that begin together need most memory together; the GPUs alone had preempted one of the first three and so got out of step,
// and with the host's help they kept step. In 500796, a single prompt on the host decides for good which requests are together: 17%
// slower in one order, and not in others.
var onceSlow = []uint64{50898, 201278, 201716, 201841, 700121, 783948, 789321, 782842, 601496, 774024, 776286, 500796, 780018, 787266}

// alikeOnceSlow is the same for alikeNode. In 772202 to 772743, prompts ran separately that the GPUs alone ran together; those of 772136
// took seats (max_num_seqs) from the GPUs, those of 772743 moved up to the GPUs at once. Those from 770195 on asked too late, as 787266.
// Some are still slower in one draw, by up to 28%, if few short requests are in step or out of step, but not in the mean of others.
var alikeOnceSlow = []uint64{229, 1136, 4506, 9196, 16838, 20892, 28302, 53468, 772202, 774489, 777144, 772136, 772743, 770195, 771542, 771596, 771624, 774083, 778588, 778635, 778819, 780890, 786934, 787271, 787319, 787578}

// anyNodes returns a drawn node, whose GPUs have room for 0.7 to 14 of the largest requests, with
// its GPUs alone and with the host's help, and the requests that the GPUs can hold.
func anyNodes(t *testing.T, draw func(uint64) ([]string, []traces.Request), seed uint64) (alone, helped *Node, requests []traces.Request) {
	sets, requests := draw(seed)
	load := func(system string) *configs.Config {
		cfg, err := everything().Load(configs.Options{Sets: append([]string{"run.system=" + system}, sets...)})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return cfg
	}
	cfg := load("gpu-only")
	m, largest := &cfg.Model, 0
	for i := range requests {
		largest = max(largest, batching.KVTokens(&requests[i]))
	}
	room := float64(max(largest, cfg.Batching.PageTokens)) * 0.7 * math.Exp(3*rand.New(rand.NewPCG(seed, 8)).Float64())
	free := m.WeightBytes() + m.ActivationBytes(cfg.Batching.MaxBatchTokens) + units.Bytes(max(room, float64(cfg.Batching.PageTokens)))*m.KVBytesPerToken()
	sets = append(sets, fmt.Sprintf("gpu.memory_capacity=%q", free/2+1+cfg.GPU.MemoryReserve))
	alone = newNode(load("gpu-only"), kinds.CommandTables{})
	return alone, newNode(load("cpu-offload"), kinds.CommandTables{}), alone.holdable(requests)
}

// anyOrders is the number of further orders of requests to run if one order is slower than the
// bound.
const anyOrders = 8

// otherOrder returns requests in another order, at the same arrivals, with some more at the end. Equal requests have no other order:
// each is then made a little shorter, in prompt and output.
func otherOrder(requests []traces.Request, seed, order uint64) []traces.Request {
	rng := rand.New(rand.NewPCG(seed, 100+order))
	other := slices.Clone(requests)
	rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
	for range order + 1 {
		other = append(other, requests[rng.IntN(len(requests))])
	}
	alike := allAlike(requests)
	for i := range other {
		other[i].Arrival = requests[min(i, len(requests)-1)].Arrival
		if alike {
			other[i].Input, other[i].Output = shorter(rng, other[i].Input), shorter(rng, other[i].Output)
		}
	}
	return other
}

// allAlike says whether all requests have the same lengths.
func allAlike(requests []traces.Request) bool {
	return !slices.ContainsFunc(requests, func(r traces.Request) bool { return r.Input != requests[0].Input || r.Output != requests[0].Output })
}

// shorter draws a length that is shorter by up to a tenth, or for five tokens or more by at most
// one.
func shorter(rng *rand.Rand, tokens int) int {
	most := tokens / 10
	if tokens >= 5 {
		most = max(most, 1)
	}
	return tokens - rng.IntN(most+1)
}

// slowerThan returns how much longer requests take on one node than on another, and the time of an iteration there, as shares of their
// time.
func slowerThan(t *testing.T, alone, helped *Node, requests []traces.Request) (slower, iteration float64) {
	gpus := serve(t, alone, requests)
	return float64(serve(t, helped, requests).end)/float64(gpus.end) - 1, float64(alone.Replicas()) / float64(gpus.iterations)
}

// inOtherOrders is the mean of slowerThan over other orders of requests.
func inOtherOrders(t *testing.T, alone, helped *Node, requests []traces.Request, seed uint64) (slower, iteration float64) {
	for order := range uint64(anyOrders) {
		s, i := slowerThan(t, alone, helped, otherOrder(requests, seed, order))
		slower, iteration = slower+s/anyOrders, iteration+i/anyOrders
	}
	return slower, iteration
}

// overTime spreads arrivals over about the time that the GPUs alone take for all requests.
func overTime(t *testing.T, alone *Node, requests []traces.Request, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	gap := float64(serve(t, alone, requests).end) / float64(len(requests)) * (0.5 + rng.Float64())
	var at units.Duration
	for i := range requests {
		requests[i].Arrival = at
		at += units.Duration(rng.ExpFloat64() * gap)
	}
}

// TestOffloadOnAnyNode checks on any node that the CPUs' help costs almost nothing, and gains much where it can: for requests that
// arrive together, and over time; each once, where the last requests decide, and eight times. A run of a few iterations may take one
// more, since the host's requests begin at other times than their group. A few requests fall into a rhythm: those together on the
// GPUs stay together. The rhythm depends on the order of requests, or on a token of equal ones, and so does the time of the GPUs
// alone, by up to a third. A node is therefore too slow only if it is so in the mean of several draws.
func TestOffloadOnAnyNode(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		name   string
		draw   func(seed uint64) ([]string, []traces.Request)
		first  []uint64
		times  int
		spread bool
		mean   float64 // least mean share of time saved
	}{
		{"once", anyNode, onceSlow, 1, false, 0.01},
		{"eight times", anyNode, onceSlow, 8, false, 0.05},
		{"once, over time", anyNode, onceSlow, 1, true, 0.002},
		{"eight times, over time", anyNode, onceSlow, 8, true, 0.01},
		{"alike", alikeNode, alikeOnceSlow, 1, false, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			worst, best, sum, again := 0.0, 0.0, 0.0, 0
			for n := -len(c.first); n < *nodes; n++ {
				seed := *firstNode + uint64(n)
				if n < 0 {
					seed = c.first[n+len(c.first)]
				}
				gpus, both, fit := anyNodes(t, c.draw, seed)
				requests := slices.Repeat(fit, c.times)
				if len(requests) == 0 {
					continue // neither does anything
				}
				if c.spread {
					overTime(t, gpus, requests, seed)
				}
				slower, iteration := slowerThan(t, gpus, both, requests)
				if n >= 0 { // the others were chosen because they were slow
					best, sum = min(best, slower), sum+slower
				}
				if one := slower; one > 0.05+iteration {
					again++
					if slower, iteration = inOtherOrders(t, gpus, both, requests, seed); slower > 0.05+iteration {
						t.Errorf("seed %d: %.2f%% slower than the GPUs alone, %.2f%% in the mean of other orders, of which an iteration takes %.2f%%",
							seed, 100*one, 100*slower, 100*iteration)
					}
				}
				worst = max(worst, slower)
			}
			mean := sum / float64(*nodes)
			t.Logf("slower by %.2f%% at most and %.2f%% on average, at best %.2f%%; %d nodes in other orders, too", 100*worst, 100*mean, 100*best, again)
			if *nodes >= 100 && (mean > -c.mean || best > -0.2) {
				t.Errorf("slower by %.2f%% on average, at best %.2f%%", 100*mean, 100*best)
			}
		})
	}
}

// TestLastRequestOfAFullHost has a node whose host has room for 229 tokens of the 297 of its second request, which decodes there. When the
// first has ended, the GPUs are empty and to stay saves time until the host is full.
func TestLastRequestOfAFullHost(t *testing.T) {
	_, helped, fit := anyNodes(t, anyNode, 305695)
	requests := slices.Repeat(fit, 2)
	requests[1].Arrival = 375 * units.Millisecond
	if r := serve(t, helped, requests); r.tokens != int64(2*requests[0].Output) {
		t.Errorf("%d tokens of two requests of %d", r.tokens, requests[0].Output)
	}
}

// tenthSlower is an engine whose iterations take a tenth longer.
type tenthSlower struct{ kinds.Engine }

func (e tenthSlower) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	end, err := e.Engine.Run(b, start)
	return end + e.Core().Pause((end-start)/10), err
}

// TestOtherDrawsJudge: further draws of equal requests neither hide a system that is a tenth slower nor reject one that is as fast.
func TestOtherDrawsJudge(t *testing.T) {
	deep.Heavy(t)
	const seed = 787266
	alone, _, fit := anyNodes(t, anyNode, seed)
	requests := slices.Repeat(fit, 8)
	slow, system := *alone, *alone.system
	system.Assemble = func(s *kinds.Setup) kinds.Assembly {
		a := alone.system.Assemble(s)
		a.Engine = tenthSlower{a.Engine}
		return a
	}
	slow.system = &system
	if same, _ := inOtherOrders(t, alone, alone, requests, seed); same != 0 {
		t.Errorf("%.2f%% slower than itself", 100*same)
	}
	if slower, iteration := inOtherOrders(t, alone, &slow, requests, seed); slower < 0.09 || slower > 0.11 || slower <= 0.05+iteration {
		t.Errorf("%.2f%% slower, want a tenth", 100*slower)
	}
}

func serve(t *testing.T, n *Node, requests []traces.Request) *Result {
	requests = slices.Clone(requests)
	for i := range requests {
		requests[i].ID = i
	}
	r, err := n.Run(context.Background(), &traces.Trace{Name: "random", Requests: requests}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOffloadKeepsPairs checks a node whose GPUs have two seats: alone they run prompts and steps
// of two requests in turn. When the host took a prompt in between, each later iteration had one
// prompt and one step, 6% longer per request.
func TestOffloadKeepsPairs(t *testing.T) {
	var ends []float64
	for _, system := range []string{"gpu-only", "cpu-offload"} {
		cfg, err := everything().Load(configs.Options{Sets: []string{
			"run.system=" + system, "node.gpus=2", "node.channels=4", "node.ranksets=1", `node.memory_capacity="16MiB"`,
			"model.layers=2", "model.hidden=1024", "model.heads=8", "model.kv_heads=8", "model.ffn_hidden=4096", "model.tensor_parallel=2",
			"gpu.preset=a100-sxm-80gb", `gpu.memory_capacity="833070.081kB"`, "memory.admission=final", "memory.max_tokens=700", "memory.history=0",
			"batching.max_num_seqs=2", "batching.max_num_batched_tokens=64", "batching.page_tokens=1", "gpu_only.policy=chunked-prefill",
			"cpu_offload.host_memory_share=0.1", "cpu_offload.overhead=0s", "pcie.latency=0s", "pcie.generation=3", "dram.tCK=5ps",
		}})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, serve(t, newNode(cfg, kinds.CommandTables{}), slices.Repeat([]traces.Request{{Input: 1, Output: 2}}, 20)).end.Seconds())
	}
	if ends[1] > 1.05*ends[0] {
		t.Errorf("gpu-only takes %v s, cpu-offload %v s", ends[0], ends[1])
	}
}
