package system

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// drawPolicy draws settings of a policy that gpu+cpu takes.
func drawPolicy(t *rapid.T, name string) []string {
	number := func(key string, low, high int) int { return rapid.IntRange(low, high).Draw(t, key) }
	sets := []string{"policy.name=" + name, "gpu_cpu.policy=" + rapid.SampledFrom(kinds.BatchingPolicies()).Draw(t, "gpu+cpu")}
	set := func(key string, value any) { sets = append(sets, fmt.Sprint("policy.", name, ".", key, "=", value)) }
	attend := []string{kinds.OnHost, kinds.OnHost, kinds.OnGPUs}
	if name == "quest" || name == "lserve" { // pages are not known before the layer that chooses them
		attend = attend[:1]
	}
	sets = append(sets, "gpu_cpu.attend="+rapid.SampledFrom(attend).Draw(t, "attend"))
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
		sets = append(sets, "cpu_offload.overhead="+rapid.SampledFrom([]string{"0s", "20us", "7ms"}).Draw(t, "overhead"), "gpu_cpu.append="+rapid.SampledFrom([]string{kinds.OnHost, kinds.OnGPUs}).Draw(t, "append"))
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

// TestGPUCPULaws runs random small nodes with every policy under all checks. Runs repeat exactly,
// skipped layers change nothing, and memory is empty at the end (a law).
func TestGPUCPULaws(t *testing.T) {
	for _, name := range systemOf("gpu+cpu").Policies() {
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

// TestGPUCPULimits: an empty window means attention of the host to all tokens, which for requests
// in sequence equals FastDecode.
func TestGPUCPULimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		mode := "gpu_cpu.policy=" + rapid.SampledFrom(kinds.BatchingPolicies()).Draw(t, "gpu+cpu")
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

// TestMoreShareIsNoFaster: HGCA with more salient tokens takes no less time if memory holds all
// requests.
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

// ring evicts blocks from a window, token by token, as HGCA's Algorithm 2 does with the sign of the
// eviction corrected, and returns how many tokens have left it at each length.
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

// TestGPUCPULinks: the bytes that links carry in a run equal the closed form of each policy:
// queries, results, keys and values in both directions.
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
		"csattention": {[]string{"policy.csattention.mode=host", "policy.csattention.centroids=32", "policy.csattention.select_group=per-head"},
			in*kv + g*(lists+32*d*2) + steps(func(int) int { return q + kv }), steps(found)},
	} {
		of, _, _ := strings.Cut(name, ",")
		cfg, err := everything().Load(configs.Options{Sets: append([]string{"run.system=gpu+cpu", fmt.Sprint("model.layers=", layers), "model.hidden=1024", "model.heads=8", "model.kv_heads=2",
			"model.head_dim=128", "model.ffn_hidden=4096", "model.tensor_parallel=2", "node.gpus=2", "pcie.generation=3", "policy.name=" + of}, c.sets...)})
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: in, Output: out}}}, false)
		link := float64(2*n.hw.LinkShare()) * r.end.Seconds()
		for _, x := range []struct {
			way  string
			busy float64
			want int
		}{{"down", r.busy.PCIeDown, c.down}, {"up", r.busy.PCIeUp, c.up}} {
			// Each transfer of a layer is rounded to half a picosecond.
			if got, want := x.busy*link, float64(layers*x.want); math.Abs(got-want) > 2*layers*out*float64(n.hw.LinkShare())*1e-12 {
				t.Errorf("%s: %.0f bytes %s, want %.0f", name, got, x.way, want)
			}
		}
	}
}

// TestGPUCPUErrors: it refuses a window that exceeds the GPUs, and modes and memories of other
// systems.
func TestGPUCPUErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		`policy.window.window = 400000: expected 70358 at most`:                                                  {"policy.name=window", "policy.window.window=400000"},
		`policy.window.window = 70000: expected 69358 at most, with the sink`:                                    {"policy.name=window", "policy.window.window=70000", "policy.window.sink=1000"},
		`policy.csattention.mode = "gpu": expected "host" with run.system = gpu+cpu`:                             {"policy.name=csattention"},
		`policy.name = "duo": expected one of dense, window, h2o, quest, lserve, hgca, csattention`:              {"policy.name=duo"},
		`gpu_cpu.attend = "gpus": expected "host" with policy.name = quest`:                                      {"policy.name=quest", "gpu_cpu.attend=gpus"},
		`policy.profile = "none": none: no such file or directory; expected a profile of 'l3lab eval --profile'`: {"policy.name=hgca", "policy.profile=none"},
		`node.memory_capacity = "4GiB": expected room for keys and values in cpu_offload.`:                       {"node.memory_capacity=4GiB", "cpu_offload.host_memory_share=0.0001"},
	} {
		_, err := everything().Load(configs.Options{Sets: append(sets, "run.system=gpu+cpu")})
		if bad := (*input.Error)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", sets, err, want)
		}
	}
	if _, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "policy.name=csattention", "policy.csattention.mode=host"}}); err == nil || !strings.Contains(err.Error(), `expected "gpu" with run.system = gpu-only`) {
		t.Errorf("on the GPUs alone: %v", err)
	}
}

// TestMemoryOfWindows: windows of all requests share the GPU memory that weights leave, and the
// next request waits for a window; the results of lagged searches do the same.
func TestMemoryOfWindows(t *testing.T) {
	for name, c := range map[string]struct {
		sets  []string
		token int // of a request, that the GPUs hold
	}{
		"window":      {[]string{"policy.window.window=500", "policy.window.sink=100"}, 600},
		"hgca":        {[]string{"policy.hgca.window=512"}, 512 + 4}, // 4 bytes for each 512 of a token and head
		"csattention": {[]string{"policy.csattention.mode=host", "policy.csattention.search=lagged", "policy.csattention.select_share=0.25", "policy.csattention.recent_tokens=40"}, 250 + 40},
		// Query heads of a group of eight find different tokens.
		"csattention, grouped":    {[]string{"run.model=llama-3-70b", "policy.csattention.mode=host", "policy.csattention.search=lagged", "policy.csattention.select_share=0.05", "policy.csattention.recent_tokens=40", "policy.csattention.select_group=per-head"}, 400 + 40},
		"csattention, one search": {[]string{"run.model=llama-3-70b", "policy.csattention.mode=host", "policy.csattention.search=lagged", "policy.csattention.select_share=0.05", "policy.csattention.recent_tokens=40"}, 50 + 40},
		"h2o":                     {nil, 0},
	} {
		of, _, _ := strings.Cut(name, ",")
		sets := append([]string{"run.system=gpu+cpu", "run.model=gpt-89b", "policy.name=" + of, "node.gpus=4"}, c.sets...)
		cfg := mustLoad(t, sets...)
		n := mustNode(t, cfg)
		free := n.FreeGPUMemory()
		free -= cfg.Model.ActivationBytes(1000)
		if c.token > 0 { // room for five and a half requests
			cfg = mustLoad(t, append(sets,
				fmt.Sprintf("gpu.memory_reserve=%q", cfg.GPU.MemoryReserve+(free-units.Bytes(c.token*11/2)*cfg.Model.KVBytesPerToken())/4))...)
		}
		r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(20, 1000, 30)}, false)
		if want := map[bool]int{true: 5, false: 20}[c.token > 0]; r.batch.Max != want || r.rejected > 0 {
			t.Errorf("%s: %d requests decode at once, %d rejected; windows for %d fit", name, r.batch.Max, r.rejected, want)
		}
	}
}

// TestHostHoldsWhatIsKept: the host needs memory for the tokens that a policy keeps, whatever the
// prompt; CSAttention's index is three times its keys and values.
func TestHostHoldsWhatIsKept(t *testing.T) {
	peak := func(sets ...string) float64 {
		cfg := mustLoad(t, append(sets, "run.system=gpu+cpu", "run.model=gpt-89b", "node.gpus=4")...)
		r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: equalLengths(1, 8000, 2)}, false)
		return float64(r.kv.Peak) / float64(cfg.Model.KVBytesPerToken())
	}
	for name, c := range map[string]struct {
		sets []string
		want float64 // tokens
	}{
		"dense": {nil, 8001}, "h2o": {nil, 1601 + 1601*4/512.0}, "window": {[]string{"policy.window.window=512", "policy.window.block=128"}, 8001 - 384},
		"hgca":        {[]string{"policy.hgca.share=0.25"}, 1.25 * (8001 - 4096 + 128)},
		"keep":        {[]string{"policy.name=hgca", "policy.hgca.keep_all=false", "policy.hgca.share=0.25"}, 0.25 * (8001 - 4096 + 128)},
		"csattention": {[]string{"policy.csattention.mode=host"}, 8001 + 3*8000 + 128*256/512.0},
	} {
		sets := c.sets
		if name != "keep" {
			sets = append(sets, "policy.name="+name)
		}
		if got := peak(sets...); got < c.want || got > c.want+3*16 { // pages of 16 tokens
			t.Errorf("%s: %v tokens of keys and values, want %v", name, got, c.want)
		}
	}
}
