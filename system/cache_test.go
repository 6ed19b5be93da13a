package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// cachingSystems are the systems that can keep prefixes.
var cachingSystems = []string{"l3", "gpu-only", "hbm-pim", "rank-pim"}

// drawTexts gives requests common beginnings: by hashes of few values, or as turns of few conversations; or none.
func drawTexts(t *rapid.T, requests []traces.Request) {
	kind, gap := rapid.SampledFrom([]string{"hashes", "turns", "own"}).Draw(t, "kind"), rapid.SampledFrom([]units.Duration{0, 5, 100, 1000}).Draw(t, "gap")
	longer := rapid.IntRange(1, 3).Draw(t, "longer")
	for i := range requests {
		r := &requests[i]
		r.Arrival, r.Input = units.Duration(i)*gap*units.Millisecond, r.Input*longer
		if kind == "own" {
			continue
		}
		if kind == "turns" {
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
	for i := range 3 * len(trace.Requests) { // the same lengths again, so that more of them begin alike
		r := trace.Requests[i]
		r.ID = len(trace.Requests)
		trace.Requests = append(trace.Requests, r)
	}
	drawTexts(t, trace.Requests)
	c := &cfg.Cache
	c.Prefix = true
	c.PrefixAttention = rapid.SampledFrom([]string{scheduler.PrefixOnGPU, scheduler.PrefixOnDIMM}).Draw(t, "prefix attention")
	c.Placement = rapid.SampledFrom([]string{scheduler.PlaceByPrefix, scheduler.PlaceForBalance}).Draw(t, "placement")
	onGPUs := system == "gpu-only" || system == "hbm-pim"
	if page := cfg.Batching.PageTokens; onGPUs && c.Block%page == 0 {
		c.Block = rapid.SampledFrom([]int{c.Block, page}).Draw(t, "block")
	}
	block := units.Bytes(c.Block*cfg.Replicas()) * cfg.Model.KVBytesPerToken()
	c.Capacity = block * units.Bytes(rapid.SampledFrom([]int{1, 3, 1000, 1000}).Draw(t, "capacity"))
	if onGPUs {
		c.HostCapacity = block * units.Bytes(rapid.SampledFrom([]int{0, 1, 4, 1000}).Draw(t, "host"))
	}
	cfg.Serving.Router = rapid.SampledFrom([]string{scheduler.RouteRoundRobin, scheduler.RoutePrefixAffinity}).Draw(t, "router")
	return cfg, trace
}

// TestCacheLaws runs random nodes that keep prefixes under every check, among them that no block of a request in memory is
// evicted, that all memory is free when the cache is cleared, and that every token of a prompt was found or prefilled.
// Skipped layers change nothing. A cache of no bytes equals none. A cache without shared prefixes changes nothing until a
// request loses its memory, or blocks go to the host.
func TestCacheLaws(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		cfg, trace := drawCaching(t)
		node := mustNode(t, cfg)
		r := mustRun(t, node, trace, false)
		if got, want := text(t, cfg, r), text(t, cfg, mustRun(t, node, trace, true)); got != want {
			t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
		}
		if c := r.cache; c.HitTokens < 0 || c.Peak > int64(cfg.Cache.Capacity) || c.Peak > int64(r.kv.Capacity) {
			t.Fatalf("%+v with %v of memory", c, r.kv.Capacity)
		}
		offloads := cfg.Cache.HostCapacity > 0
		cfg.Cache.Capacity, cfg.Cache.HostCapacity = 0, 0
		none := mustRun(t, mustNode(t, cfg), trace, false)
		cfg.Cache.Prefix = false
		want := requestsOf(t, mustRun(t, mustNode(t, cfg), trace, false))
		if got := requestsOf(t, none); got != want || none.cache.HitTokens > 0 || none.cache.Peak > 0 {
			t.Fatalf("with a cache of no bytes\n%s\nwithout\n%s", got, want)
		}
		shares := func(r traces.Request) bool { return r.Hashes != nil || r.Turn != nil }
		if got := requestsOf(t, r); r.preemptions == 0 && !offloads && !slices.ContainsFunc(trace.Requests, shares) && got != want {
			t.Fatalf("requests that share nothing, and keep their memory, with a cache\n%s\nwithout\n%s", got, want)
		}
	})
}

// onceIn returns a configuration of one replica with memory for all.
func onceIn(t interface{ Fatal(...any) }, system string, sets ...string) *configs.Config {
	cfg, err := everything().Load(configs.Options{Sets: append([]string{"run.system=" + system, "run.model=llama-3-8b", "node.gpus=1", "node.channels=4", "cache.prefix=true"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// apart makes requests arrive so far apart that each runs alone.
func apart(requests []traces.Request) []traces.Request {
	for i := range requests {
		requests[i].ID, requests[i].Arrival = i, units.Duration(i)*1000*units.Second
	}
	return requests
}

// TestCacheHits: if memory holds all, each prompt finds the longest beginning, in whole blocks, of any earlier one, without
// its last token.
func TestCacheHits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		system, blocks := rapid.SampledFrom(cachingSystems).Draw(t, "system"), []int{512, 1024}
		if system == "gpu-only" || system == "hbm-pim" {
			blocks = append(blocks, 16, 128)
		}
		cfg := onceIn(t, system, fmt.Sprint("cache.block=", rapid.SampledFrom(blocks).Draw(t, "block")), "comm.balance=random")
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

// TestCacheTurns: the turns of a conversation find earlier prompts and answers, except the last token of an answer, which was
// never an input.
func TestCacheTurns(t *testing.T) {
	deep.Heavy(t)
	requests := apart([]traces.Request{{Input: 600, Output: 936}, {Input: 1600, Output: 600}, {Input: 2100, Output: 2}})
	fork := &traces.Text{Turn: 2, From: 1600} // without the answer before
	for i := range requests {
		requests[i].Turn = &traces.Turn{Number: i}
	}
	requests[2].Turn.Text = fork
	for _, system := range cachingSystems {
		cfg := onceIn(t, system)
		r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
		// Of 1,536 tokens 1,535 are cached; of 1,600 of the second prompt 1,536, in whole blocks.
		if got, want := r.cache.HitTokens, int64(1024+1536); got != want {
			t.Errorf("%s: %d tokens found, want %d", system, got, want)
		}
	}
}

// TestPrefixAffinity: a request goes to the replica with its prefix, unless the replica has more work left than the prefix
// saves.
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
		cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=2", "cache.prefix=true", "serving.router=" + c.router}})
		if err != nil {
			t.Fatal(err)
		}
		requests[2].Arrival = c.wait
		if r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false); r.cache.HitTokens != c.want {
			t.Errorf("%s: %d tokens found, want %d", c.router, r.cache.HitTokens, c.want)
		}
	}
}

// TestCacheErrors: settings that exclude a cache are refused.
func TestCacheErrors(t *testing.T) {
	for sets, want := range map[string]string{
		"run.system=cpu-offload":                       `cache.prefix = true: expected false with run.system = cpu-offload`,
		"policy.name=window":                           `cache.prefix = true: expected false with policy.name = window`,
		"comm.stripe=channels":                         `cache.prefix = true: expected false with comm.stripe = "channels"`,
		"cache.block=700":                              `cache.block = 700: expected a multiple of 512, at most 1048576`,
		"model.kv_bits=8":                              `cache.block = 512: expected a multiple of the 960 tokens of an allocation unit of a rank`,
		"cache.prefix_attention=host":                  `cache.prefix_attention = "host": expected`,
		"serving.router=prefix-afinity":                `did you mean "prefix-affinity"?`,
		"cache.capacity=-1GiB":                         `cache.capacity`,
		"cache.placement=copy":                         `cache.placement = "copy": expected one of balance, prefix`,
		"cache.group_reads=often":                      `cache.group_reads`,
		"cache.group_read=true":                        `did you mean "cache.group_reads"?`,
		"cache.placement=balanced":                     `did you mean "balance"?`,
		"cache.host_capacity=1GiB":                     `cache.host_capacity = "1GiB": expected 0B with run.system = l3, whose keys and values are in the DIMMs`,
		"run.system=gpu-only,cache.host_capacity=4TiB": `cache.host_capacity = "4TiB": expected at most node.memory_capacity, 2TiB`,
		"run.system=gpu+cpu,cache.block=512":           `which has no such cache`,
	} {
		_, err := everything().Load(configs.Options{Sets: append([]string{"cache.prefix=true"}, strings.Split(sets, ",")...)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sets, err, want)
		}
	}
}

// TestPreemptedComputesLess: when memory is full and no request begins like another, preempted requests find what they computed
// in a prefix cache. They prefill less, and all end earlier.
func TestPreemptedComputesLess(t *testing.T) {
	deep.Heavy(t)
	run := func(sets ...string) *Result {
		sets = append([]string{"gpu.memory_capacity=18GiB", "memory.admission=current", "memory.history=0", "memory.watermark=0", "cache.block=16"}, sets...)
		cfg := onceIn(t, "gpu-only", sets...)
		trace := &traces.Trace{Name: "x"}
		for i := range 60 {
			trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 60, Output: 900})
		}
		return mustRun(t, mustNode(t, cfg), trace, true)
	}
	without, with := run("cache.prefix=false"), run()
	if without.preemptions == 0 || with.preemptions == 0 {
		t.Fatalf("%d and %d requests lost their memory", without.preemptions, with.preemptions)
	}
	if with.cache.HitTokens != 0 { // tokens of prompts that were not computed before
		t.Errorf("%d tokens are found of prompts that share nothing", with.cache.HitTokens)
	}
	if ratio := with.end.Seconds() / without.end.Seconds(); ratio > 0.99 {
		t.Errorf("with a prefix cache the run takes %.3f of its time without", ratio)
	}
}
