package system

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// cachingSystems are the systems that can keep prefixes.
var cachingSystems = []string{"l3", "gpu-only", "hbm-pim", "rank-pim"}

// drawTexts has requests begin alike: by hashes of few values, or as turns of few conversations.
func drawTexts(t *rapid.T, requests []traces.Request) {
	turns, gap := rapid.Bool().Draw(t, "turns"), rapid.SampledFrom([]units.Duration{0, 5, 100, 1000}).Draw(t, "gap")
	longer := rapid.IntRange(1, 3).Draw(t, "longer")
	for i := range requests {
		r := &requests[i]
		r.Arrival, r.Input = units.Duration(i)*gap*units.Millisecond, r.Input*longer
		if turns {
			session := rapid.IntRange(0, 2).Draw(t, "session")
			r.Turn = &traces.Turn{Session: session, Number: i}
			continue
		}
		for range (r.Input + traces.BlockTokens - 1) / traces.BlockTokens {
			r.Hashes = append(r.Hashes, rapid.Uint64Range(0, 1).Draw(t, "hash"))
		}
	}
}

// drawCaching draws a node of any system that can keep prefixes, and a trace for it.
func drawCaching(t *rapid.T) (*configs.Config, *traces.Trace) {
	system := rapid.SampledFrom(cachingSystems).Draw(t, "system")
	var cfg *configs.Config
	var trace *traces.Trace
	if system == "l3" {
		cfg, trace = drawNode(t)
	} else {
		d := drawBaseline(t)
		cfg, trace = d.load(t, system), d.trace
	}
	for i := range 3 * len(trace.Requests) { // the same lengths again and again: more of them begin alike
		r := trace.Requests[i]
		r.ID = len(trace.Requests)
		trace.Requests = append(trace.Requests, r)
	}
	drawTexts(t, trace.Requests)
	c := &cfg.Cache
	c.Prefix = true
	c.PrefixAttention = rapid.SampledFrom([]string{scheduler.PrefixOnGPU, scheduler.PrefixOnDIMM}).Draw(t, "prefix attention")
	c.Placement = rapid.SampledFrom([]string{scheduler.PlaceByPrefix, scheduler.PlaceForBalance, scheduler.PlaceCopies}).Draw(t, "placement")
	if c.Placement == scheduler.PlaceCopies {
		c.PrefixAttention = scheduler.PrefixOnGPU
	}
	block := units.Bytes(c.Block*cfg.Replicas()) * cfg.Model.KVBytesPerToken()
	c.Capacity = block * units.Bytes(rapid.SampledFrom([]int{1, 3, 1000, 1000}).Draw(t, "capacity"))
	if system == "gpu-only" || system == "hbm-pim" {
		c.HostCapacity = block * units.Bytes(rapid.SampledFrom([]int{0, 1, 4, 1000}).Draw(t, "host"))
	}
	cfg.Serving.Router = rapid.SampledFrom([]string{scheduler.RouteRoundRobin, scheduler.RoutePrefixAffinity}).Draw(t, "router")
	return cfg, trace
}

// TestCacheLaws runs random nodes that keep prefixes under every check, among them that no block of a request in memory is
// evicted, that all memory is free when the cache is cleared, and that every token of a prompt was found or prefilled.
// Skipped layers change nothing. A cache of no bytes is none.
func TestCacheLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg, trace := drawCaching(t)
		node := mustNode(t, cfg)
		r := mustRun(t, node, trace, false)
		if got, want := text(t, cfg, r), text(t, cfg, mustRun(t, node, trace, true)); got != want {
			t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
		}
		if c := r.cache; c.HitTokens < 0 || c.Peak > int64(cfg.Cache.Capacity) || c.Peak > int64(r.kv.Capacity) {
			t.Fatalf("%+v with %v of memory", c, r.kv.Capacity)
		}
		cfg.Cache.Capacity, cfg.Cache.HostCapacity = 0, 0
		none := mustRun(t, mustNode(t, cfg), trace, false)
		cfg.Cache.Prefix = false
		if got, want := requestsOf(t, none), requestsOf(t, mustRun(t, mustNode(t, cfg), trace, false)); got != want || none.cache.HitTokens > 0 || none.cache.Peak > 0 {
			t.Fatalf("with a cache of no bytes\n%s\nwithout\n%s", got, want)
		}
	})
}

// onceIn returns a configuration of one replica with memory for all.
func onceIn(t interface{ Fatal(...any) }, system string, sets ...string) *configs.Config {
	cfg, err := Load(configs.Options{Sets: append([]string{"run.system=" + system, "run.model=llama-3-8b", "node.gpus=1", "node.channels=4", "cache.prefix=true"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// apart has requests come so far apart that each runs alone.
func apart(requests []traces.Request) []traces.Request {
	for i := range requests {
		requests[i].ID, requests[i].Arrival = i, units.Duration(i)*1000*units.Second
	}
	return requests
}

// TestCacheHits: where memory has room for all, each prompt finds the longest beginning, in whole blocks, that any earlier one
// had, up to its last token.
func TestCacheHits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := onceIn(t, rapid.SampledFrom(cachingSystems).Draw(t, "system"), fmt.Sprint("cache.block=", rapid.SampledFrom([]int{512, 1024}).Draw(t, "block")),
			"cache.placement="+rapid.SampledFrom([]string{scheduler.PlaceByPrefix, scheduler.PlaceCopies}).Draw(t, "placement"), "comm.balance=random")
		requests := make([]traces.Request, rapid.IntRange(1, 12).Draw(t, "requests"))
		want := 0
		for i := range requests {
			r := &requests[i]
			*r = traces.Request{Input: rapid.OneOf(rapid.IntRange(1, 4000), rapid.Map(rapid.IntRange(1, 7), func(n int) int { return n * 512 })).Draw(t, "in"), Output: rapid.IntRange(1, 3).Draw(t, "out")}
			for range (r.Input + traces.BlockTokens - 1) / traces.BlockTokens {
				r.Hashes = append(r.Hashes, rapid.Uint64Range(0, 1).Draw(t, "hash"))
			}
			longest := 0
			for j := range i {
				same := 0
				for same < len(r.Hashes) && same < len(requests[j].Hashes) && r.Hashes[same] == requests[j].Hashes[same] {
					same++
				}
				tokens := min(same*traces.BlockTokens, r.Input-1, requests[j].Input)
				longest = max(longest, tokens/cfg.Cache.Block*cfg.Cache.Block)
			}
			want += longest
		}
		trace, err := (&traces.Trace{Name: "x", Requests: apart(requests)}).Arrive(cfg.Arrivals, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRun(t, mustNode(t, cfg), trace, false).cache; got.HitTokens != int64(want) {
			t.Fatalf("%+v, want %d tokens found", got, want)
		}
	})
}

// TestCacheTurns: the turns of a conversation find the prompts and answers before, but for the last token, which no step had as
// input.
func TestCacheTurns(t *testing.T) {
	requests := apart([]traces.Request{{Input: 600, Output: 936}, {Input: 1600, Output: 600}, {Input: 2100, Output: 2}})
	fork := &traces.Text{Turn: 2, From: 1600} // without the answer before
	for i := range requests {
		requests[i].Turn = &traces.Turn{Number: i}
	}
	requests[2].Turn.Text = fork
	for _, system := range cachingSystems {
		cfg := onceIn(t, system)
		r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
		// Of 1,536 tokens 1,535 are there; of 1,600 of the second prompt 1,536 in whole blocks.
		if got, want := r.cache.HitTokens, int64(1024+1536); got != want {
			t.Errorf("%s: %d tokens found, want %d", system, got, want)
		}
	}
}

// prefixTTFT returns the time to the first token of a prompt of 1,500 tokens, of which another one has left 1,024, and that of
// the chunk of 476 tokens of the same prompt that is prefilled in two.
func prefixTTFT(t *testing.T, system string, sets ...string) (hit, chunk units.Duration, r *Result) {
	t.Helper()
	requests := apart([]traces.Request{{Input: 1024, Output: 1, Hashes: []uint64{1, 2}}, {Input: 1500, Output: 1, Hashes: []uint64{1, 2, 3}}})
	cfg := onceIn(t, system, sets...)
	r, err := mustNode(t, cfg).Run(context.Background(), coming(t, cfg, requests), Options{Check: true, Iterations: true})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := &r.Iterations[0], &r.Iterations[len(r.Iterations)-1]; second.PrefixTokens != 1024 || first.PrefixTokens+int(first.Cached) != 0 || second.Cached != 1024*cfg.Model.KVBytesPerToken() {
		t.Errorf("%s: iterations %+v and %+v, with 1,024 tokens of a prefix", system, first, second)
	}
	hit = r.Requests[1].FirstToken - r.Requests[1].Request.Arrival
	cut := onceIn(t, system, "batching.max_batch_tokens=1024", "scheduler.min_prefill_tokens=1024", "cache.prefix=false")
	alone, err := mustNode(t, cut).Run(context.Background(), &traces.Trace{Name: "x", Requests: requests[1:]}, Options{Check: true, Iterations: true})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(alone.Iterations); n != 2 {
		t.Fatalf("%s: %d iterations", system, n)
	}
	return hit, alone.Iterations[1].End - alone.Iterations[1].Start, r
}

// TestPrefixTime: on GPUs the rest of a prompt takes what it does as the second chunk of a prompt that is cut there. On DIMMs
// the prefix comes up in each layer besides: a row of 512 tokens' keys takes 16 activations (114 clocks), tRCD, 2,047 more bursts,
// and tRTP and tRP; values the same; then it crosses the link. The two are one after the other, and attention on the GPUs waits.
func TestPrefixTime(t *testing.T) {
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		if hit, chunk, r := prefixTTFT(t, system); hit != chunk || r.cache.HitTokens != 1024 || r.cache.Transferred != 0 {
			t.Errorf("%s: %v to the first token, the second chunk of a prompt takes %v; %+v", system, hit, chunk, r.cache)
		}
	}
	hit, chunk, r := prefixTTFT(t, "rank-pim")
	cfg := onceIn(t, "rank-pim")
	hidden := 32 * transferTime(newNode(cfg, nil).linkShare(), 1024*cfg.Model.KVBytesPerTokenLayer())
	if got := r.busy.PCIeUp * float64(r.end); hit != chunk || math.Abs(got/float64(hidden)-1) > 1e-9 || r.cache.Transferred != int64(1024*cfg.Model.KVBytesPerToken()) {
		t.Errorf("rank-pim: %v to the first token, the second chunk of a prompt takes %v; links are busy for %v ps, want %v; %+v", hit, chunk, got, hidden, r.cache)
	}
	hit, chunk, r = prefixTTFT(t, "l3")
	cfg = onceIn(t, "l3")
	n := mustNode(t, cfg)
	const layers, heads, rows = 32, 8 / 4, 2 * 2
	clock := n.clock()
	read := clock.Time(heads * rows * (114 + 22 + 2032*4 + 34))
	bytes := units.Bytes(1024) * cfg.Model.KVBytesPerTokenLayer()
	up := transferTime(n.linkShare(), bytes)
	if more := hit - chunk; more != layers*(read+n.devices().upLatency+up) || r.cache.Transferred != int64(layers*bytes) {
		t.Errorf("l3: %v more than a second chunk, want %d times %v and %v; %+v", more, layers, read, up, r.cache)
	}
	// Where the CPU transposes elements, it does so again. The channels carry as much as if all had been written once more.
	cpu, first, r := prefixTTFT(t, "l3", "pim.relayout=cpu")
	again := units.Duration(pim.CPUTranspositionClocks(&cfg.DRAM.Spec, heads*rows*512*4)) * cfg.DRAM.TCK
	if more := cpu - first; more != hit-chunk+layers*again {
		t.Errorf("l3 with transposition: %v more than a second chunk, want %v and %d times %v", more, hit-chunk, layers, again)
	}
	cold := onceIn(t, "l3", "pim.relayout=cpu", "cache.capacity=0B")
	prompts := []traces.Request{{Input: 1024, Output: 1}, {Input: 1500, Output: 1}}
	w := mustRun(t, mustNode(t, cold), coming(t, cold, apart(prompts)), false)
	if got, want := r.busy.Channel*float64(r.end), w.busy.Channel*float64(w.end); math.Abs(got/want-1) > 1e-3 {
		t.Errorf("the channels carry data for %.3f ms, want %.3f", got/1e9, want/1e9)
	}
}

// TestPrefixCopied: a request that goes to another offset than its prefix has it come through the GPUs: the channels carry each of its
// keys and values once more, on their way down, and the next request at that offset finds a copy there.
func TestPrefixCopied(t *testing.T) {
	requests := []traces.Request{{Input: 1024, Output: 9000, Hashes: []uint64{1, 2}}, {Input: 1500, Output: 1, Hashes: []uint64{1, 2, 3}}, {Input: 1600, Output: 1, Hashes: []uint64{1, 2, 4, 5}}}
	for i := range requests {
		requests[i].ID, requests[i].Arrival = i, units.Duration(i)*2*units.Second
	}
	for _, system := range []string{"l3", "rank-pim"} {
		var carried [2]float64
		for i, placement := range []string{scheduler.PlaceByPrefix, scheduler.PlaceCopies} {
			cfg := onceIn(t, system, "cache.placement="+placement, "rank_pim.placement=balanced")
			r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
			carried[i] = r.busy.Channel * float64(r.end)
			if r.cache.HitTokens != 2*1024 || r.cache.Transferred != 2*1024*int64(cfg.Model.KVBytesPerToken()) {
				t.Errorf("%s, %s: %+v", system, placement, r.cache)
			}
			if placement == scheduler.PlaceByPrefix {
				continue
			}
			// 32 layers, 2 heads on a channel, keys and values of 1,024 tokens in 4 bursts each.
			want := float64(32 * 2 * 2 * 1024 * 4 * units.Duration(cfg.DRAM.BurstClocks()) * cfg.DRAM.TCK)
			if more := carried[1] - carried[0]; math.Abs(more/want-1) > 1e-6 {
				t.Errorf("%s: the channels carry data for %.6f ms more, want %.6f", system, more/1e9, want/1e9)
			}
		}
	}
}

// TestPrefixAtHome: where the ranks attend over the prefix for each of a prompt's tokens, they work for as many heads of requests
// with that context, read as many tokens, and nothing comes up.
func TestPrefixAtHome(t *testing.T) {
	const layers, heads, tokens, prefix = 32, 8, 476, 1024
	requests := apart([]traces.Request{{Input: prefix, Output: 1, Hashes: []uint64{1, 2}}, {Input: prefix + tokens, Output: 1, Hashes: []uint64{1, 2, 3}}})
	for _, system := range []string{"l3", "rank-pim"} {
		cfg := onceIn(t, system, "cache.prefix_attention=dimm")
		n := mustNode(t, cfg)
		trace := coming(t, cfg, requests)
		replicas := n.divide(trace, Options{Check: true}, false)
		if err := n.serve(context.Background(), trace, replicas, false); err != nil {
			t.Fatal(err)
		}
		clock, head, first := n.clock(), n.stored.table.InSequence(prefix), n.stored.table.Alone(prefix)
		want := layers * clock.Time(tokens*heads/4*head+first-head)
		b, c := &replicas[0].busy, n.cacheOf(replicas)
		if got := b.pim.Picoseconds(); got != float64(want) || b.heads != layers*heads*tokens || b.tokens != layers*heads*tokens*prefix {
			t.Errorf("%s: ranks work for %v ps, %d heads and %d tokens, want %v", system, got, b.heads, b.tokens, want)
		}
		if c.HitTokens != prefix || c.Transferred != 0 {
			t.Errorf("%s: %+v", system, c)
		}
		// Outputs of 32 query heads, and maximum and sum of the softmax of each, in FP16.
		if got, want := b.pcieUp.Picoseconds(), float64(layers*transferTime(n.linkShare(), tokens*32*(128*2+4))); got != want {
			t.Errorf("%s: outputs take the links %v ps, want %v", system, got, want)
		}
	}
	n := mustNode(t, onceIn(t, "l3", "cache.prefix_attention=dimm"))
	// On the GPUs the chunk is one without anything before it, and a merge. It is cut by the time of the ranks, too.
	d, chunk := n.devices(), scheduler.Chunk{Tokens: tokens, Finished: prefix, Prefix: prefix, Last: true}
	attention := d.gpu.Attention()
	alone := d.promptAttention(&attention, &scheduler.Chunk{Tokens: tokens, Last: true}, 0)
	attention = d.gpu.Attention()
	got, merge := d.promptAttention(&attention, &chunk, 0), sumOf(d.gpu.Merge(tokens))
	if got.time != alone.time+merge.time || merge.time == 0 {
		t.Errorf("attention on the GPUs takes %v, want %v and %v", got.time, alone.time, merge.time)
	}
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{chunk}}
	clock, head := n.clock(), n.stored.at(prefix)
	if more := d.GPU(sub, 0) - d.gpuSide.GPU(sub, 0); more != layers*clock.Time(tokens*heads/4*head) {
		t.Errorf("%v for the ranks in a prompt's time", more)
	}
	groups := make([]groupCost, 4)
	d.reuse(groups, &chunk)
	g := &groups[0]
	parts := int64(0)
	for _, head := range g.heads { // between which a transfer can interrupt
		parts += heads / 4 * head
	}
	if drain := n.stored.table.Alone(prefix) - n.stored.at(prefix); len(g.heads) != tokens || parts+drain != g.clocks {
		t.Errorf("%d heads of %d clocks, %d with the last one's drain of %d", len(g.heads), parts, g.clocks, drain)
	}
}

// TestTierTime: a prefix that made way on the GPUs and went to the host comes back in the iteration that needs it, which takes at
// least as long as the links do for it; what makes way for it goes down at the same time.
func TestTierTime(t *testing.T) {
	const blocks = 40
	requests := make([]traces.Request, 4)
	for i := range requests {
		requests[i] = traces.Request{Input: blocks*512 + 16, Output: 1}
		for b := range blocks + 1 {
			requests[i].Hashes = append(requests[i].Hashes, uint64(i%2*100+b))
		}
	}
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		cfg := onceIn(t, system, "cache.capacity=2560MiB", "cache.host_capacity=2560MiB") // 64 MiB a block
		n := mustNode(t, cfg)
		r := mustRun(t, n, coming(t, cfg, apart(requests)), false)
		bytes := blocks * 512 * cfg.Model.KVBytesPerToken()
		want := transferTime(n.linkShare(), bytes)
		// The second request had the first one's prefix make way, which goes down with the third. That gets it back, and the second
		// one's goes down, too.
		for i, times := range map[int]units.Duration{2: 2, 3: 1} {
			if got := r.Requests[i].FirstToken - r.Requests[i].Request.Arrival; got != times*want {
				t.Errorf("%s: %v to the first token, the links take %d times %v", system, got, times, want)
			}
		}
		if c := r.cache; c.HitTokens != 2*blocks*512 || c.Transferred != 2*int64(bytes) || c.Offloaded != 3*int64(bytes) || c.Peak != int64(bytes) {
			t.Errorf("%s: %+v, %d bytes come back twice", system, c, bytes)
		}
		down, up := r.busy.PCIeDown*float64(r.end), r.busy.PCIeUp*float64(r.end)
		if math.Abs(down/float64(3*want)-1) > 1e-9 || math.Abs(up/float64(2*want)-1) > 1e-9 {
			t.Errorf("%s: links are busy for %.3f and %.3f ms", system, down/1e9, up/1e9)
		}
	}
	none := onceIn(t, "gpu-only", "cache.capacity=2560MiB")
	if c := mustRun(t, mustNode(t, none), coming(t, none, apart(requests)), false).cache; c.HitTokens != 0 || c.Offloaded != 0 {
		t.Errorf("without a host: %+v", c)
	}
}

// TestPrefixAffinity: a request goes to the replica that has its prefix, unless more is left to do there than the prefix saves.
func TestPrefixAffinity(t *testing.T) {
	requests := []traces.Request{
		{Input: 2000, Output: 300, Hashes: []uint64{7, 8, 9, 10}}, {Input: 1500, Output: 300, Hashes: []uint64{1, 2, 3}},
		{Input: 1600, Output: 2, Hashes: []uint64{1, 2, 3, 4}},
	}
	for i := range requests {
		requests[i].ID, requests[i].Arrival = i, units.Duration(i)*units.Millisecond
	}
	for _, c := range []struct {
		router string
		wait   units.Duration
		want   int64
	}{{scheduler.RoutePrefixAffinity, 1000 * units.Second, 1024}, {scheduler.RouteLeastOutstanding, 1000 * units.Second, 0}, {scheduler.RouteRoundRobin, 1000 * units.Second, 0}} {
		cfg, err := Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=2", "cache.prefix=true", "serving.router=" + c.router}})
		if err != nil {
			t.Fatal(err)
		}
		requests[2].Arrival = c.wait
		if r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false); r.cache.HitTokens != c.want {
			t.Errorf("%s: %d tokens found, want %d", c.router, r.cache.HitTokens, c.want)
		}
	}
}

// TestCacheErrors: what a cache does not fit together with is said.
func TestCacheErrors(t *testing.T) {
	for sets, want := range map[string]string{
		"run.system=cpu-offload":                           `cache.prefix = true: expected false with run.system = cpu-offload`,
		"policy.name=window":                               `cache.prefix = true: expected false with policy.name = window`,
		"comm.stripe=channels":                             `cache.prefix = true: expected false with comm.stripe = "channels"`,
		"cache.block=700":                                  `cache.block = 700: expected a multiple of 512, at most 1048576`,
		"model.kv_bits=8":                                  `cache.block = 512: expected a multiple of the 960 tokens of an allocation unit of a rank`,
		"cache.prefix_attention=host":                      `cache.prefix_attention = "host": expected`,
		"serving.router=prefix-afinity":                    `did you mean "prefix-affinity"?`,
		"cache.capacity=-1GiB":                             `cache.capacity`,
		"cache.placement=copy,cache.prefix_attention=dimm": `cache.placement = "copy": expected "prefix" or "balance" with prefix_attention = "dimm"`,
		"cache.placement=balanced":                         `did you mean "balance"?`,
		"cache.host_capacity=1GiB":                         `cache.host_capacity = "1GiB": expected 0B with run.system = l3, whose keys and values are in the DIMMs`,
		"run.system=gpu-only,cache.host_capacity=4TiB":     `cache.host_capacity = "4TiB": expected at most node.memory_capacity, 2TiB`,
		"run.system=gpu+cpu,cache.block=512":               `which has no such cache`,
	} {
		_, err := Load(configs.Options{Sets: append([]string{"cache.prefix=true"}, strings.Split(sets, ",")...)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sets, err, want)
		}
	}
}
