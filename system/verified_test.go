package system

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// verifying is the systems whose steps may verify several tokens of a request.
var verifying = []string{"l3", "gpu-only", "hbm-pim", "rank-pim", "cpu-offload", "gpu+cpu"}

// verified loads a small node of a system.
func verified(t interface{ Fatal(...any) }, system string, sets ...string) *configs.Config {
	cfg, err := everything().Load(configs.Options{Sets: append([]string{"run.system=" + system, "run.model=llama-2-7b", "node.gpus=1", "batching.max_num_batched_tokens=2048"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// drawVerified draws settings to combine with drafts: masks by layer or head, or options that need dense attention.
func drawVerified(t *rapid.T, system string) (sets []string) {
	pick := func(name string, of ...string) string { return name + "=" + rapid.SampledFrom(of).Draw(t, name) }
	add := func(more ...string) { sets = append(sets, more...) }
	dense := true
	if slices.Contains([]string{"l3", "gpu-only", "hbm-pim"}, system) {
		masks := rapid.SampledFrom([]string{"none", "none", "layers", "duo", "streaming", "quest", "lserve", "h2o", "csattention"}).Draw(t, "masks")
		switch dense = false; {
		case masks == "layers":
			add(pick("model.window", "1", "64", "700"), pick("model.layer_pattern", "L", "LG", "LLG"))
		case masks == "duo" || masks == "streaming" && system != "l3":
			add("policy.name="+masks, pick("policy."+masks+".window", "64", "500"), pick("policy."+masks+".prefill_window", "0", "900"))
			if masks == "duo" {
				add(pick("policy.duo.stream_device", "gpu", "home"))
			}
		case masks == "quest" || masks == "lserve":
			add(drawVerifiedPages(t, system, masks)...)
		case masks == "h2o" && system == "gpu-only":
			add("policy.name=h2o", pick("policy.h2o.heavy", "0.0", "0.03", "0.4"))
		case masks == "csattention" && system == "gpu-only":
			add(drawVerifiedSearches(t, "gpu")...)
		default:
			dense = true
		}
	}
	if system == "gpu+cpu" && rapid.Bool().Draw(t, "h2o") {
		dense = false
		add("policy.name=h2o", pick("policy.h2o.recent", "0.0", "0.03", "0.4"))
	}
	if system == "gpu+cpu" && dense && rapid.Bool().Draw(t, "csattention") {
		dense = false
		add(drawVerifiedSearches(t, "host")...)
	}
	if slices.Contains([]string{"l3", "gpu+cpu"}, system) && dense && rapid.Bool().Draw(t, "window") { // other devices attend to the rest
		dense = false
		hybrid := rapid.SampledFrom([]string{"window", "hgca"}).Draw(t, "hybrid")
		size := rapid.SampledFrom([]string{"64", "300"}).Draw(t, "window's size")
		add("policy.name="+hybrid, "policy."+hybrid+".window="+size, pick("policy."+hybrid+".block", "1", "50"))
		if hybrid == "hgca" {
			add(pick("policy.hgca.keep_all", "true", "false"), pick("policy.hgca.share", "0.1", "0.7"))
		} else {
			add(pick("policy.window.sink", "0", "30"))
		}
	}
	prefix := dense && system != "cpu-offload" && system != "gpu+cpu" && rapid.Bool().Draw(t, "prefix")
	if prefix {
		add("cache.prefix=true", pick("cache.group_reads", "true", "false"))
	}
	switch system {
	case "l3":
		predictor := pick("predictor.kind", "exact", "learned")
		add(predictor)
		if dense && !prefix {
			add(pick("comm.stripe", "none", "ranksets", "channels"))
		}
		chooses := func(set string) bool { return strings.Contains(set, ".select_device=") } // the ranks choose, and then the GPUs hold none
		if (dense && !prefix || slices.Contains(sets, "policy.name=quest") && !slices.ContainsFunc(sets, chooses)) && predictor == "predictor.kind=exact" {
			add(pick("memory.spare", "off", "decode", "wait"))
		}
	case "gpu-only":
		add(pick("gpu_only.policy", "prefill-first", "chunked-prefill"))
	case "hbm-pim":
		add(pick("hbm_pim.policy", "prefill-first", "chunked-prefill"), pick("hbm_pim.model", "factor", "commands"), pick("hbm_pim.sub_batches", "always", "adaptive", "never"))
	case "rank-pim":
		add(pick("rank_pim.policy", "prefill-first", "chunked-prefill"))
	case "cpu-offload":
		add(pick("cpu_offload.policy", "neo", "fastdecode"), pick("cpu_offload.max_delay", "0.03", "1"), pick("gpu_only.policy", "prefill-first", "chunked-prefill"))
	case "gpu+cpu":
		add(pick("gpu_cpu.attend", "host", "gpus"), pick("gpu_cpu.policy", "prefill-first", "chunked-prefill"))
	}
	return sets
}

// drawVerifiedPages draws a policy that selects pages, small enough for requests of the tests to exceed its budget.
func drawVerifiedPages(t *rapid.T, system, name string) []string {
	pick := func(key string, of ...string) string {
		return "policy." + name + "." + key + "=" + rapid.SampledFrom(of).Draw(t, key)
	}
	overlap := "serving.verified_overlap=" + rapid.SampledFrom([]string{"0.0", "0.65", "1.0"}).Draw(t, "overlap")
	sets := []string{"policy.name=" + name, overlap, pick("page", "16", "64"), pick("budget", "64", "320"), pick("select_group", "sum", "softmax-sum", "max", "per-head")}
	if system == "l3" {
		if by := rapid.SampledFrom([]string{"gpu", "bank", "rank"}).Draw(t, "by"); by != "gpu" {
			sets = append(sets, "policy."+name+".select_device="+by, pick("summary_device", "gpu", "rank"))
		}
	}
	if name == "lserve" {
		return append(sets, pick("reuse", "1", "3", "5"), pick("newest", "append", "replace"), pick("static_sparsity", "0.0", "0.5"), pick("stream_device", "gpu", "home"))
	}
	return append(sets, pick("skip_layers", "0", "2"))
}

// drawVerifiedSearches draws CSAttention with few centroids, so that tables of small memories have room.
func drawVerifiedSearches(t *rapid.T, mode string) []string {
	sets := []string{"policy.name=csattention", "policy.csattention.mode=" + mode}
	for _, x := range [...]struct {
		key string
		of  []string
	}{
		{"centroids", []string{"1", "16"}}, {"select_share", []string{"0.0", "0.05", "0.6"}}, {"recent_tokens", []string{"1", "40"}}, {"period", []string{"1", "3"}},
		{"select_group", []string{"mean", "per-head"}}, {"search", []string{"causal", "lagged"}}, {"token_overlap", []string{"0.0", "0.4", "1.0"}}, {"list_overlap", []string{"0.0", "1.0"}},
	} {
		sets = append(sets, "policy.csattention."+x.key+"="+rapid.SampledFrom(x.of).Draw(t, x.key))
	}
	return sets
}

// TestVerifiedLaws: for any system, number of verified tokens, acceptance, masks, arrivals and small memories, every law holds, every
// token of every request is emitted, and skipped layers take the time of layers run one by one.
func TestVerifiedLaws(t *testing.T) {
	deep.Heavy(t)
	rapid.Check(t, func(t *rapid.T) {
		system := rapid.SampledFrom(verifying).Draw(t, "system")
		pick := func(name string, of ...string) string { return name + "=" + rapid.SampledFrom(of).Draw(t, name) }
		sets := append(drawOnline(t),
			pick("serving.verified_tokens", "1", "2", "3", "4"), pick("serving.acceptance", "0.1", "0.7", "1.0"), pick("serving.draft_time", "0s", "2ms"),
			pick("memory.admission", "final", "current"), pick("memory.history", "0", "1000"), pick("batching.max_num_seqs", "0", "1", "4"),
			pick("gpu.memory_reserve", "1GiB", "64GiB", "65GiB"), pick("node.memory_capacity", "4GiB", "8GiB", "2TiB"))
		if system == "gpu-only" {
			sets = append(sets, pick("gpu_only.async_scheduling", "true", "false"))
		}
		sets = append(sets, drawVerified(t, system)...)
		cfg := verified(t, system, sets...)
		requests := drawRequests(t, 20)
		if cfg.Cache.Prefix {
			drawTexts(t, requests)
		}
		trace, err := (&traces.Trace{Name: "x", Requests: requests}).Arrive(cfg.Arrivals, cfg.Run.Seed)
		if err != nil {
			t.Fatal(err)
		}
		n := mustNode(t, cfg)
		r, exact := mustRun(t, n, trace, false), mustRun(t, n, trace, true)
		checkOnline(t, cfg, r)
		if got, want := text(t, cfg, r), text(t, cfg, exact); got != want {
			t.Fatalf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
		}
	})
}

// TestVerifiedSteps: if every draft is accepted, a request's steps are its tokens after the first divided by those of a step,
// rounded up.
func TestVerifiedSteps(t *testing.T) {
	deep.Heavy(t)
	for _, system := range verifying {
		for k := 1; k <= 4; k++ {
			for i, output := range []int{1, 2, 5, 40, 41, 42, 43} {
				if !deep.Case(i+k, 3) {
					continue
				}
				cfg := verified(t, system, fmt.Sprint("serving.verified_tokens=", k), "serving.acceptance=1.0")
				trace := &traces.Trace{Name: "x", Requests: []traces.Request{{Input: 100, Output: output}}}
				r, err := mustNode(t, cfg).Run(context.Background(), trace, Options{Check: true, Iterations: true})
				if err != nil {
					t.Fatal(err)
				}
				if got, want := len(r.Iterations), 1+(output-1+k-1)/k; got != want {
					t.Errorf("%s, %d tokens a step, output of %d: %d iterations, want %d", system, k, output, got, want)
				}
			}
		}
	}
}

// TestVerifiedOnce: a run without drafts does not depend on their other keys. Drafts that are free and all accepted serve a memory-bound
// GPU nearly as many times faster; units with one set of multipliers gain less, and those with two gain more than with one.
func TestVerifiedOnce(t *testing.T) {
	deep.Heavy(t)
	took := func(system string, sets ...string) float64 {
		trace := &traces.Trace{Name: "x"}
		for i := range 8 {
			trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 2000, Output: 401})
		}
		return mustRun(t, mustNode(t, verified(t, system, sets...)), trace, false).end.Seconds()
	}
	gain := map[string]float64{}
	for _, system := range verifying {
		one, two := took(system), took(system, "serving.verified_tokens=2", "serving.acceptance=1.0")
		if same := took(system, "serving.acceptance=0.3", "serving.draft_time=9ms"); same != one {
			t.Errorf("%s without drafts: %v s, and %v s with other keys of drafts", system, one, same)
		}
		drafts := took(system, "serving.verified_tokens=2", "serving.acceptance=1.0", "serving.draft_time=5ms")
		if more, want := drafts-two, 200*5e-3; more < want-1e-9 || more > want*1.2 {
			t.Errorf("%s: 200 steps of a request with drafts of 5 ms take %v s longer, want %v and some for steps of others alone", system, more, want)
		}
		gain[system] = one / two
	}
	if g := gain["gpu-only"]; g < 1.7 || g > 2 {
		t.Errorf("gpu-only is %v times faster, want nearly 2", g)
	}
	if gain["rank-pim"] > gain["gpu-only"]-0.3 {
		t.Errorf("units with one set of multipliers gain as GPUs do: %v", gain)
	}
	once := took("rank-pim", "serving.verified_tokens=2", "serving.acceptance=1.0", "pim.macs_per_read=2")
	if twice := took("rank-pim", "serving.verified_tokens=2", "serving.acceptance=1.0"); once > 0.8*twice {
		t.Errorf("two sets of multipliers: %v s, one %v s", once, twice)
	}
}

// TestVerifiedRefusals: what is not modelled is refused, with the key and the reason.
func TestVerifiedRefusals(t *testing.T) {
	for _, c := range []struct{ system, set, want string }{
		{"l3", "serving.acceptance=0.0", "serving.acceptance = 0: expected more than 0, at most 1, with serving.verified_tokens = 2"},
		{"gpu-only", "policy.csattention.token_overlap=1.01", "policy.csattention.token_overlap = 1.01: expected 0 (as by chance) to 1"},
		{"l3", "serving.verified_overlap=1.01", "serving.verified_overlap = 1.01: expected 0 (as by chance) to 1"},
		{"l3", "cache.prefix_attention=dimm", `1 with cache.prefix_attention = "dimm"`},
		{"l3", "run.model=llama-3-70b", "serving.verified_tokens = 20: expected 16 at most with the 8 query heads of a KV head of llama-3-70b"},
		{"gpu-only", "serving.verified_tokens=129", "serving.verified_tokens = 129: expected 1 to 128"},
	} {
		tokens, prefix := "2", "cache.prefix=false"
		if strings.Contains(c.set, "cache.") {
			prefix = "cache.prefix=true"
		}
		if strings.Contains(c.set, "70b") {
			tokens = "20"
		}
		_, err := everything().Load(configs.Options{Sets: []string{"run.system=" + c.system, "run.model=llama-2-7b", "serving.verified_tokens=" + tokens, "serving.acceptance=0.5", prefix, c.set}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, want %q", c.system, c.set, err, c.want)
		}
	}
}

// TestVerifiedWindows: each token that a step verifies has its own window. Together they read the window's tokens plus one for each
// draft; memory holds no more than that.
func TestVerifiedWindows(t *testing.T) {
	const window, input, steps = 700, 650, 40
	for _, system := range []string{"l3", "gpu-only", "hbm-pim"} {
		for k := 1; k <= 4; k++ {
			cfg := verified(t, system, fmt.Sprint("serving.verified_tokens=", k), "serving.acceptance=1.0", fmt.Sprint("model.window=", window))
			n := mustNode(t, cfg)
			r := mustRun(t, n, &traces.Trace{Name: "x", Requests: []traces.Request{{Input: input, Output: 1 + k*steps}}}, false)
			want := 0.0
			for i := range steps {
				want += float64(min(input+(i+1)*k, window+k-1)) / steps
			}
			s, err := r.Summary(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Attention.Attended; math.Abs(got/want-1) > 1e-12 {
				t.Errorf("%s, %d tokens a step: a step reads %v tokens, want %v", system, k, got, want)
			}
			// A rank has rows of 512 tokens, HBM pages of 16.
			unit := map[bool]int{true: 512, false: 16}[system == "l3"]
			most := units.Bytes((window+k-1+unit-1)/unit*unit) * cfg.Model.KVBytesPerToken()
			if r.kv.Peak > int64(most) || k > 1 && r.kv.Peak < int64(most)*9/10 {
				t.Errorf("%s, %d tokens a step: %v are held, want %v", system, k, units.Bytes(r.kv.Peak), most)
			}
		}
	}
}

// TestVerifiedGroups: a group's common prefix is read once in a step for all its requests and all their tokens. With k tokens emitted per
// step there are a k-th of the steps, each with the same savings, and time is saved until the arithmetic of all rows limits.
func TestVerifiedGroups(t *testing.T) {
	requests := alike(32, 40, 0, 601)
	requests[0].Output = 1
	for i := range requests[1:] {
		requests[1+i].Arrival = 4 * units.Second
	}
	var spared, took [4]float64
	for k := 1; k <= 3; k++ {
		cfg := onceIn(t, "gpu-only", fmt.Sprint("serving.verified_tokens=", k), "serving.acceptance=1")
		r := mustRun(t, mustNode(t, cfg), coming(t, cfg, requests), false)
		spared[k], took[k] = float64(r.cache.Spared), (r.end - 4*units.Second).Seconds()
		if ratio := spared[1] / spared[k] / float64(k); math.Abs(ratio-1) > 0.02 {
			t.Errorf("%d tokens a step: %v tokens are spared, %v with one", k, spared[k], spared[1])
		}
		if gain := took[1] / took[k]; gain < 0.6*float64(k) || gain > float64(k) {
			t.Errorf("%d tokens a step: a run takes %v s, %v with one", k, took[k], took[1])
		}
	}
}
