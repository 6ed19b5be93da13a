package system

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawPolicy draws settings of a policy that gpu+cpu takes.
func drawPolicy(t *rapid.T, name string) []string {
	number := func(key string, low, high int) int { return rapid.IntRange(low, high).Draw(t, key) }
	sets := []string{"policy.name=" + name, "gpu_cpu.policy=" + rapid.SampledFrom(policies()).Draw(t, "gpu+cpu")}
	set := func(key string, value any) { sets = append(sets, fmt.Sprint("policy.", name, ".", key, "=", value)) }
	sets = append(sets, "gpu_cpu.attend="+rapid.SampledFrom([]string{OnHost, OnHost, OnGPUs}).Draw(t, "attend"))
	window := number("window", 1, 400)
	switch name {
	case "window":
		if set("sink", number("sink", 0, 50)); number("none", 0, 4) == 0 {
			window = 0
		}
		set("window", window)
		set("block", number("block", 1, max(1, window)))
	case "hgca":
		set("window", window)
		set("block", number("block", 1, window))
		set("share", float64(number("share", 0, 10))/10)
		set("keep_all", rapid.Bool().Draw(t, "all"))
		set("host_overhead", rapid.SampledFrom([]string{"0s", "20us", "7ms"}).Draw(t, "overhead"))
		sets = append(sets, "gpu_cpu.append="+rapid.SampledFrom([]string{OnHost, OnGPUs}).Draw(t, "append"))
	case "h2o":
		set("heavy", float64(number("heavy", 1, 50))/100)
	case "csattention":
		set("mode", "host")
		set("search", rapid.SampledFrom([]string{"causal", "lagged"}).Draw(t, "search"))
		set("period", number("period", 1, 4))
		set("recent_tokens", number("recent", 1, 64))
	}
	return sets
}

// TestGPUCPULaws runs random small nodes with every policy under every check: they repeat
// themselves, skipped layers change nothing, and the memory is empty at the end (a law).
func TestGPUCPULaws(t *testing.T) {
	for _, name := range gpuCPUSystem.Policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				d := drawBaseline(t)
				node := d.node(t, "gpu+cpu", drawPolicy(t, name)...)
				r := mustRun(t, node, d.trace, false)
				checkTokens(t, r)
				checkIterations(t, r, node.Replicas())
				checkStalls(t, "gpu+cpu", r)
				checkSeats(t, node.cfg, r)
				exact := mustRun(t, node, d.trace, true)
				if got, want := text(t, node.cfg, r), text(t, node.cfg, exact); got != want || r.Tasks != exact.Tasks {
					t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
				}
			})
		})
	}
}

// TestGPUCPULimits: a window of nothing is attention of the host to everything, and for
// requests one after another that is what FastDecode takes.
func TestGPUCPULimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		mode := "gpu_cpu.policy=" + rapid.SampledFrom(policies()).Draw(t, "gpu+cpu")
		dense := mustRun(t, d.node(t, "gpu+cpu", mode), d.trace, false)
		none := mustRun(t, d.node(t, "gpu+cpu", mode, "policy.name=window", "policy.window.window=0"), d.trace, false)
		if got, want := requestsOf(t, none), requestsOf(t, dense); got != want || none.busy != dense.busy {
			t.Fatalf("no window: %+v\n%s\ndense: %+v\n%s", none.busy, got, dense.busy, want)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		d.sets = append(d.sets, "gpu.memory_capacity=80GiB", "batching.max_num_batched_tokens=2000", "node.gpus=2")
		d.trace.Requests = d.trace.Requests[:1]
		fast := d.node(t, "cpu-offload", "cpu_offload.policy=fastdecode")
		alone := d.node(t, "gpu+cpu", "gpu_cpu.policy=prefill-first")
		if got, want := requestsOf(t, mustRun(t, alone, d.trace, false)), requestsOf(t, mustRun(t, fast, d.trace, false)); got != want {
			t.Fatalf("gpu+cpu:\n%s\nfastdecode:\n%s", got, want)
		}
	})
}

// TestMoreShareIsNoFaster: HGCA with more salient tokens takes no less time where memory holds
// all requests.
func TestMoreShareIsNoFaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		d.sets = append(d.sets, "gpu.memory_capacity=80GiB", "node.memory_capacity=1TiB", "policy.name=hgca", "policy.hgca.window=100", "policy.hgca.block=32")
		ends := make([]units.Duration, 0, 5)
		for _, share := range []string{"0.0", "0.1", "0.3", "0.7", "1.0"} {
			ends = append(ends, mustRun(t, d.node(t, "gpu+cpu", "policy.hgca.share="+share), d.trace, false).end)
		}
		if !slices.IsSorted(ends) {
			t.Fatalf("%v with ever more salient tokens", ends)
		}
	})
}

// ring evicts blocks from a window, token by token, as HGCA's Algorithm 2 does with the sign
// of the eviction turned, and returns how many tokens have left it by each length.
func ring(length, window, block, sink int) []int {
	left, held := make([]int, length+1), 0
	out := 0
	for n := 1; n <= length; n++ {
		if held++; held == window {
			held -= block
			out += block
		}
		left[n] = max(out-sink, 0)
	}
	return left
}

// TestGPUCPULinks: what links carry in a run is the closed form of each policy: queries,
// results, keys and values that leave or come.
func TestGPUCPULinks(t *testing.T) {
	const in, out, layers = 700, 150, 3
	const h, g, d = 8, 2, 128 // query heads, KV heads, elements of 2 bytes
	const q, kv = h * d * 2, 2 * g * d * 2
	left, sunk := ring(in+out, 200, 50, 0), ring(in+out, 750, 64, 20)
	steps := func(of func(context int) int) (sum int) {
		for c := in + 1; c < in+out; c++ {
			sum += of(c)
		}
		return sum
	}
	if0 := func(away, n int) int {
		if away == 0 {
			return 0
		}
		return n
	}
	lists := 8 * 32 * max(1, in/4) * 6 // of 32 centroids in 8 subspaces, a quarter of the prompt in each
	found := func(c int) int { return min(c, 4*(in/20)+32) * kv }
	for name, c := range map[string]struct {
		sets     []string
		down, up int
	}{
		"dense": {nil, in*kv + steps(func(int) int { return q + kv }), steps(func(int) int { return q })},
		"window": {[]string{"policy.window.window=750", "policy.window.block=64", "policy.window.sink=20"},
			sunk[in+out-1]*kv + steps(func(c int) int { return if0(sunk[c-1], q) }), steps(func(c int) int { return if0(sunk[c-1], q+4*h) })},
		"hgca": {[]string{"policy.hgca.window=200", "policy.hgca.block=50", "policy.hgca.share=0.25"},
			left[in+out-1]*(kv+4*h) + steps(func(c int) int { return if0(left[c-1], q) }), steps(func(c int) int { return if0(left[c-1], q+4*h) })},
		"dense, loaded": {[]string{"gpu_cpu.attend=gpus"}, in*kv + steps(func(int) int { return kv }), steps(func(c int) int { return c * kv })},
		"hgca, loaded": {[]string{"policy.hgca.window=200", "policy.hgca.block=50", "policy.hgca.share=0.25", "gpu_cpu.attend=gpus"},
			left[in+out-1] * (kv + 4*h), steps(func(c int) int { return (left[c-1] + 3) / 4 * kv })},
		"h2o": {nil, (in/10+in/10)*(kv+4*h) + steps(func(int) int { return q + kv }), steps(func(int) int { return q })},
		"csattention": {[]string{"policy.csattention.mode=host", "policy.csattention.centroids=32"},
			in*kv + g*(lists+32*d*2) + steps(func(int) int { return q + kv }), steps(found)},
	} {
		of, _, _ := strings.Cut(name, ",")
		cfg, err := Load(configs.Options{Sets: append([]string{"run.system=gpu+cpu", fmt.Sprint("model.layers=", layers), "model.hidden=1024", "model.heads=8", "model.kv_heads=2",
			"model.head_dim=128", "model.ffn_hidden=4096", "model.tensor_parallel=2", "node.gpus=2", "pcie.generation=3", "policy.name=" + of}, c.sets...)})
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: in, Output: out}}}, false)
		link := float64(2*n.hw.linkShare()) * r.end.Seconds()
		for _, x := range []struct {
			way  string
			busy float64
			want int
		}{{"down", r.busy.PCIeDown, c.down}, {"up", r.busy.PCIeUp, c.up}} {
			// Each transfer of a layer is rounded to half a picosecond.
			if got, want := x.busy*link, float64(layers*x.want); math.Abs(got-want) > 2*layers*out*float64(n.hw.linkShare())*1e-12 {
				t.Errorf("%s: %.0f bytes %s, want %.0f", name, got, x.way, want)
			}
		}
	}
}

// gpuCPUOf returns a replica of gpu+cpu for GPT-89B, whose 96 heads share nothing.
func gpuCPUOf(t *testing.T, sets ...string) *gpuCPU {
	t.Helper()
	cfg, err := Load(configs.Options{Sets: append([]string{"run.system=gpu+cpu", "run.model=gpt-89b"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return mustNode(t, cfg).replica(0, equal(1, 10, 10), Options{}).engine.(*gpuCPU)
}

// layerOf runs an iteration and returns what its layers wait for on CPUs and GPUs.
func layerOf(t *testing.T, e *gpuCPU, sub scheduler.SubBatch) (cpu, merge units.Duration) {
	t.Helper()
	if _, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0); err != nil {
		t.Fatal(err)
	}
	k := e.it.Totals().ByKind
	layers := units.Duration(e.model.Layers)
	return k[opHostAttention] / layers, units.Duration(len(e.runs)) * e.staged.layers[0].merge
}

// TestHGCALayer: one layer of HGCA by hand. A request of 10,001 tokens keeps 4,095 − 127 …
// 4,095 on the GPUs; a tenth of the others is salient.
func TestHGCALayer(t *testing.T) {
	e := gpuCPUOf(t, "policy.name=hgca", `policy.hgca.host_overhead="100us"`, "cpu_offload.element_time=0ps")
	const away = (10000-4096)/128*128 + 128
	salient := math.Ceil(0.1 * away)
	channels, link := 8*25.6e9*0.8, 4*0.79*16*16e9*128/130/8
	vector := 96 * 128 * 2.0
	want := 2*5e-6 + 100e-6 + vector/link + (vector+4*96)/link + salient*96*512/channels
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 10001, Prompt: 9000}}}
	got, merge := layerOf(t, e, sub)
	if math.Abs(got.Seconds()/want-1) > 1e-6 {
		t.Errorf("the CPUs take %v s for a layer, want %v s", got.Seconds(), want)
	}
	// The merge comes after both, and the channels carry what the CPUs read.
	g, layers := e.stageRuns(&sub), units.Duration(e.model.Layers)
	want = (g.entry + layers*(max(got, g.layers[0].attention)+merge) + (layers-1)*g.block + g.exit).Seconds()
	if end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0); err != nil || merge == 0 || math.Abs(end.Seconds()/want-1) > 1e-9 {
		t.Errorf("an iteration takes %v, want %v s, with merges of %v; %v", end, want, merge, err)
	}
	// The GPUs attend over the window, whose weights go into averages.
	cost, near := gpu.NewModelCost(&e.cfg.GPU.Spec, &e.cfg.Model), 10001-away
	window := cost.Attention()
	alone := units.FromSeconds(window.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: int64(near), Longest: near, KVHeads: 96, Weights: true}).Seconds) +
		units.FromSeconds(cost.Pass(1, float64(3*4*near*96), 0).Seconds)
	if g.layers[0].attention != alone {
		t.Errorf("the GPUs attend for %v, by hand %v", g.layers[0].attention, alone)
	}
	read := salient * 96 * 512 / channels * float64(layers)
	if bus := e.it.Totals().Bus.Seconds(); math.Abs(bus/read-1) > 1e-6 {
		t.Errorf("the channels carry data for %v s, want %v s", bus, read)
	}
	// Threads take whole heads: 96 heads on the 64 cores of a replica are two each for some.
	e = gpuCPUOf(t, "policy.name=hgca", "cpu_offload.element_time=4ns")
	want = 2*5e-6 + 20e-6 + vector/link + (vector+4*96)/link + 2*salient*256*4e-9
	if got, _ := layerOf(t, e, sub); math.Abs(got.Seconds()/want-1) > 1e-6 {
		t.Errorf("slow cores take %v s for a layer, want %v s", got.Seconds(), want)
	}
	// A request whose window holds everything has nothing to do with the host.
	if got, merge := layerOf(t, e, scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 4096, Prompt: 9}}}); got != 0 || merge != 0 {
		t.Errorf("the CPUs take %v and the merge %v for nothing", got, merge)
	}
}

// TestHGCAProfile: heads with shares of their own. The host's memory reads the mean share of a
// layer; slow cores wait for the heads with most.
func TestHGCAProfile(t *testing.T) {
	const heads, layers = 8, 2
	spec := policy.New("hgca")
	profile := policy.Profile{
		Model:    policy.ProfileModel{Name: "gpt-89b", Layers: layers, Heads: heads, KVHeads: heads, HeadDim: 128},
		Policy:   spec,
		Measured: policy.ProfileMeasured{Prompt: 10, Last: 20000, Contexts: []int{11, 10000}},
	}
	for i := range heads * layers { // the first layer has 0.1 and one head of 0.5, the second half of it
		share := 0.1 / float64(1+i/heads)
		if i%heads == 0 {
			share *= 5
		}
		profile.Heads = append(profile.Heads, policy.ProfileHead{Share: []float64{0.9, share}, Rows: []float64{1, 1}})
	}
	path := filepath.Join(t.TempDir(), "profile.toml")
	var text strings.Builder
	if err := profile.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	sets := []string{"policy.name=hgca", "policy.profile=" + path, "policy.hgca.host_overhead=0s", "pcie.latency=0s", "model.layers=2", "model.heads=8", "model.kv_heads=8", "model.head_dim=128"}
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 10001, Prompt: 9000}}}
	const away = (10000-4096)/128*128 + 128
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	moved := 2 * (2*heads*128*2 + 4*heads) / link // both layers
	tokens := func(share float64) float64 {       // of a head
		return math.Floor((math.Round(5*share*away) + (heads-1)*math.Round(share*away)) / heads)
	}
	e := gpuCPUOf(t, append(sets, "cpu_offload.element_time=0ps", "cpu_offload.core_flops=1e15FLOP/s")...)
	got, _ := layerOf(t, e, sub)
	want := moved + (tokens(0.1)+tokens(0.05))*heads*512/(8*25.6e9*0.8)
	if math.Abs(2*got.Seconds()/want-1) > 1e-6 {
		t.Errorf("two layers take %v s, want %v s", 2*got.Seconds(), want)
	}
	e = gpuCPUOf(t, append(sets, "cpu_offload.element_time=40ns")...)
	got, _ = layerOf(t, e, sub)
	want = moved + (math.Round(0.5*away)+math.Round(0.25*away))*256*40e-9
	if math.Abs(2*got.Seconds()/want-1) > 1e-6 {
		t.Errorf("two layers take %v s on slow cores, want %v s", 2*got.Seconds(), want)
	}
	// Shorter contexts have the share of their own.
	if got := e.decode([]scheduler.Decoding{{Base: 9000, Prompt: 9}}, 1, 0); got.Attend[1].Tokens[0] != int(math.Ceil(0.9*((9000-1-4096)/128*128+128))) {
		t.Errorf("%+v", got.Attend)
	}
	_, err := Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "policy.name=hgca", "policy.profile=" + path}})
	if err == nil || !strings.Contains(err.Error(), `policy.profile = "`) || !strings.Contains(err.Error(), `model.name = "gpt-175b", not "gpt-89b"`) {
		t.Errorf("another model's: %v", err)
	}
}

// TestLoads: keys and values that come up take the longer of the link's time and the GPUs',
// and the GPUs attend as they do where they hold them.
func TestLoads(t *testing.T) {
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 20001, Prompt: 9}}}
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	for set, want := range map[string]float64{"pcie.efficiency=0.79": 48 * 20001 * 96 * 512 / link, "pcie.efficiency=1.0,pcie.generation=6,pcie.lanes=16,policy.name=h2o": 0} {
		e := gpuCPUOf(t, append(strings.Split(set, ","), "gpu_cpu.attend=gpus")...)
		end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		alone := &gpuOnly{gpuSide: newGPUSide(hardwareOf(e.cfg))}
		alone.decodeRuns(sub.Decode, 0)
		g := alone.stageRuns(&sub)
		layers := units.Duration(e.model.Layers)
		gpus := g.entry + layers*g.layers[0].attention + (layers-1)*g.block + g.exit
		if want > 0 && math.Abs(end.Seconds()/want-1) > 1e-6 || want == 0 && end != gpus || e.work.time[ofPIM] > 0 || e.it.Totals().ByKind[opHostAttention] > 0 {
			t.Errorf("%s: an iteration takes %v, want %v s, or %v on the GPUs", set, end, want, gpus)
		}
	}
}

// TestPromptsGoDown: an iteration that prefills takes at least as long as its keys and values
// take on the links.
func TestPromptsGoDown(t *testing.T) {
	e := gpuCPUOf(t, "pcie.efficiency=0.001")
	end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{{Prefill: []scheduler.Chunk{{Tokens: 1000, Last: true}}}}}, 0)
	want := 48 * 1000 * 96 * 512 / (4 * 0.001 * 16 * 16e9 * 128 / 130 / 8)
	if err != nil || math.Abs(end.Seconds()/want-1) > 1e-6 {
		t.Errorf("1,000 tokens take %v, their way down %v s; %v", end, want, err)
	}
}

// TestAppend: a prompt that comes in two pieces, as a second turn comes after a first. The
// second attends on the host over what has left the window: keys and values are read once, and
// each of its tokens takes four operations for each of their elements.
func TestAppend(t *testing.T) {
	const first, second = 6000, 500
	const away = (first-4096)/128*128 + 128
	piece := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: second, Finished: first, Last: true}}}
	host := gpuCPUOf(t, "policy.name=hgca")
	got, merge := layerOf(t, host, piece)
	vector, link := 96*128*2.0, 4*0.79*16*16e9*128/130/8
	want := 2*5e-6 + 20e-6 + second*(2*vector+4*96)/link + 4.0*second*away*96*128/(72e9*0.5*64)
	if math.Abs(got.Seconds()/want-1) > 1e-6 || merge == 0 {
		t.Errorf("the CPUs take %v s for a layer, want %v s; the merge %v", got.Seconds(), want, merge)
	}
	behind := func(e *gpuCPU) units.Duration { return e.staged.layers[0].attention }
	onGPUs := gpuCPUOf(t, "policy.name=hgca", "gpu_cpu.append=gpus")
	if got, merge := layerOf(t, onGPUs, piece); got != 0 || merge != 0 {
		t.Errorf("on the GPUs the CPUs take %v and the merge %v", got, merge)
	}
	if behind(host) >= behind(onGPUs) {
		t.Errorf("the GPUs attend for %v beside the host, alone for %v", behind(host), behind(onGPUs))
	}
	// A whole run: the same request in one piece has no append.
	run := func(most string) *Result {
		cfg, err := Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=gpt-89b", "policy.name=hgca", "batching.max_num_batched_tokens=" + most}})
		if err != nil {
			t.Fatal(err)
		}
		return mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: []traces.Request{{Input: first + second, Output: 2}}}, false)
	}
	pieces, one := run(fmt.Sprint(first)), run(fmt.Sprint(first+second))
	layers := 48.0
	if more := (pieces.Requests[0].FirstToken - one.Requests[0].FirstToken).Seconds(); more < 0.9*layers*(want-100e-6) {
		t.Errorf("in two pieces the first token comes %v s later; the append alone takes %v s", more, layers*want)
	}
}

// TestGPUCPUErrors: a window that the GPUs cannot hold, modes and memories of others.
func TestGPUCPUErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		`policy.window.window = 400000: expected 70358 at most`:                                                  {"policy.name=window", "policy.window.window=400000"},
		`policy.window.window = 70000: expected 69358 at most, with the sink`:                                    {"policy.name=window", "policy.window.window=70000", "policy.window.sink=1000"},
		`policy.csattention.mode = "gpu": expected "host" with run.system = gpu+cpu`:                             {"policy.name=csattention"},
		`policy.name = "quest": expected one of dense, window, h2o, hgca, csattention`:                           {"policy.name=quest"},
		`policy.profile = "none": none: no such file or directory; expected a profile of 'l3lab eval --profile'`: {"policy.name=hgca", "policy.profile=none"},
		`node.memory_capacity = "4GiB": expected room for keys and values in cpu_offload.`:                       {"node.memory_capacity=4GiB", "cpu_offload.host_memory_share=0.0001"},
	} {
		_, err := Load(configs.Options{Sets: append(sets, "run.system=gpu+cpu")})
		if bad := (*input.Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", sets, err, want)
		}
	}
	if _, err := Load(configs.Options{Sets: []string{"run.system=gpu-only", "policy.name=csattention", "policy.csattention.mode=host"}}); err == nil || !strings.Contains(err.Error(), `expected "gpu" with run.system = gpu-only`) {
		t.Errorf("on the GPUs alone: %v", err)
	}
}
