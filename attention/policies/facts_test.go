package policies

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// TestFactsOfPolicies: each policy's description of itself: its other names, its paper, where keys and values may be, and what it may be
// combined with.
func TestFactsOfPolicies(t *testing.T) {
	places := []struct {
		home policy.Homes
		name string
	}{{policy.OnGPUs, "gpus"}, {policy.InHBM, "hbm"}, {policy.InDIMMs, "dimms"}, {policy.OnHost, "host"}, {policy.Fetched, "fetched"}}
	want := map[string]string{
		"dense":       "full none vanilla; Vaswani et al., 2017; gpus hbm dimms host; dense, in order, drafts",
		"window":      "; our own; the split is HGCA's; dimms host; drafts",
		"streaming":   "streamingllm streaming-llm sink; StreamingLLM (Xiao et al., ICLR 2024); gpus hbm; drafts, lossy",
		"h2o":         "heavy-hitter heavy-hitters; H2O (Zhang et al., NeurIPS 2023); gpus host; drafts, lossy",
		"quest":       "; Quest (Tang et al., ICML 2024); gpus hbm dimms host fetched; drafts, lossy",
		"lserve":      "omniserve; LServe (Yang et al., MLSys 2025); gpus hbm dimms host fetched; drafts, lossy",
		"duo":         "duoattention duo-attention; DuoAttention (Xiao et al., ICLR 2025); gpus hbm dimms; in order, drafts, lossy",
		"hgca":        "; HGCA (Deng et al., 2025); dimms host; drafts, lossy",
		"csattention": "; CSAttention, 2025; gpus host; drafts, lossy",
		"dsa":         "deepseek indexer nsa; DeepSeek-V3.2 (2025); gpus hbm dimms fetched; indexed, drafts, lossy",
	}
	for _, p := range builtin {
		var homes, flags []string
		for _, x := range places {
			if p.Homes&x.home == x.home {
				homes = append(homes, x.name)
			}
		}
		for _, x := range []struct {
			is   bool
			name string
		}{{p.Dense, "dense"}, {p.InOrder, "in order"}, {p.Indexed, "indexed"}, {p.Drafts, "drafts"}, {p.Lossy, "lossy"}} {
			if x.is {
				flags = append(flags, x.name)
			}
		}
		if got := fmt.Sprintf("%s; %s; %s; %s", strings.Join(p.Others, " "), p.Source, strings.Join(homes, " "), strings.Join(flags, ", ")); got != want[p.Name] {
			t.Errorf("%s:\ngot  %s\nwant %s", p.Name, got, want[p.Name])
		}
	}
	texts := map[string][3]string{ // by policy: what its heads attend to, what it stores where, and what moves in a step
		"dense": {"everything",
			"keys and values of all tokens", "queries, new keys and values, results, where these are not on the GPUs"},
		"window": {"everything: a sink and a window on the GPUs, the rest elsewhere; merged by log-sum-exp",
			"the window on the GPUs, all older tokens elsewhere", "queries down, results and log-sum-exps up; blocks that leave the window, in the background"},
		"streaming": {"the first tokens and the newest",
			"keys and values of these", "nothing"},
		"h2o": {"the newest tokens and those that collected the most attention; the others are dropped for good",
			"keys and values of these, a sum a token and query head", "nothing"},
		"quest": {"the pages with the highest bounds on their scores, and the newest",
			"keys and values of all tokens, a smallest and a largest key a page", "nothing"},
		"lserve": {"streaming heads: a sink and a window; the others: the best pages, by bounds of their parts, a list for several steps",
			"of streaming heads a sink and a window, of the others all and bounds", "nothing"},
		"duo": {"streaming heads: a sink and a window; the others: everything",
			"of streaming heads a sink and a window, of the others all", "nothing"},
		"hgca": {"a window on the GPUs, and elsewhere older tokens whose average weight is high; merged by log-sum-exp",
			"the window on the GPUs; copies of salient tokens, and with keep_all all older ones, elsewhere", "queries down, results and log-sum-exps up; blocks that leave the window, in the background"},
		"csattention": {"the tokens that tables of the query's nearest centroids find, and the newest",
			"keys and values of all tokens, tables of about three times as much", "nothing with mode \"gpu\"; selected keys and values up with \"host\""},
		"dsa": {"the tokens with the highest scores of the model's own indexer; everything in layers without one",
			"keys and values of all tokens, an index key a token in layers that have an indexer", "the choice, where keys and values are not on the GPUs"},
	}
	for _, p := range builtin {
		if got := [3]string{p.About.Attends, p.About.Stores, p.About.Moves}; got != texts[p.Name] {
			t.Errorf("%q: {%q,\n%q, %q},", p.Name, got[0], got[1], got[2])
		}
	}
	if len(builtin) != len(want) {
		t.Errorf("%d policies", len(builtin))
	}
}

// TestRangesOfKeys: each range includes both ends, and excludes the numbers next to them. Dependent keys are set, too.
func TestRangesOfKeys(t *testing.T) {
	const most, beyond = "16777216", "16777217"
	for _, c := range []struct{ key, with, in, out string }{
		{"csattention.subspaces", "", "1 512", "0 513"}, {"csattention.centroids", "", "1 65536", "0 65537"}, {"csattention.iterations", "", "0 1000", "-1 1001"},
		{"csattention.table_share", "", "0 1", "-0.001 1.001"}, {"csattention.select_share", "", "0 1", "-0.001 1.001"}, {"csattention.recent_tokens", "", "1 " + most, "0 " + beyond},
		{"csattention.select_group", "", "mean per-head", "max"}, {"csattention.weight", "", "one norm", "two"}, {"csattention.search", "", "causal lagged", "none"},
		{"csattention.period", "", "1 65536", "0 65537"}, {"csattention.mode", "", "gpu host", "rank"},
		{"h2o.heavy", "h2o.recent=0", "0 1", "-0.001 1.001"}, {"h2o.recent", "h2o.heavy=0", "0 1", "-0.001 1.001"}, {"h2o.recent", "h2o.heavy=0.25", "0.75", "0.751"},
		{"hgca.window", "hgca.block=1", "1 " + most, "-1 " + beyond}, {"hgca.beta", "", "0 1000000", "-0.001 1000001"}, {"hgca.alpha", "", "0 1", "-0.001 1.001"},
		{"hgca.prompt_queries", "", "1 " + most, "0 " + beyond}, {"hgca.pin_sinks", "", "0 " + most, "-1 " + beyond}, {"hgca.share", "", "0 1", "-0.001 1.001"},
		{"hgca.block", "hgca.window=100", "1 100", "0 101"},
		{"lserve.logical_page", "lserve.page=65536 lserve.budget=65536", "1 65536", "0 65537"}, {"lserve.logical_page", "lserve.page=96 lserve.budget=96", "48 32 96", "64 192"},
		{"lserve.reuse", "", "1 65536", "0 65537"}, {"lserve.newest", "", "append replace", "other"},
		{"quest.skip_layers", "", "0 65536", "-1 65537"}, {"quest.budget", "quest.page=1", "1 " + most, "0 " + beyond}, {"quest.page", "quest.budget=" + most, "1 65536", "0 65537"},
		{"quest.budget", "quest.page=64", "64", "63"}, {"quest.select_device", "", "gpu bank rank", "host"}, {"quest.top_k_latency", "", "0 4096", "-1 4097"},
		{"quest.select_group", "", "sum softmax-sum max per-head", "mean"}, {"quest.select_precision", "", "fp32 fp16", "fp8"}, {"quest.summary_device", "quest.select_device=rank", "gpu rank", "host"},
		{"quest.layout", "", "row quad", "column"},
		{"window.sink", "", "0 " + most, "-1 " + beyond}, {"window.window", "window.block=1", "0 1 " + most, "-1 " + beyond}, {"window.block", "window.window=64", "1 64", "0 65"},
		{"duo.static_sparsity", "", "0 1", "-0.001 1.001"}, {"duo.stream_device", "", "gpu home", "rank"}, {"duo.sink", "", "0 " + most, "-1 " + beyond}, {"duo.window", "", "1 " + most, "0 " + beyond},
		{"duo.prefill_window", "", "0 " + most, "-1 " + beyond}, {"lserve.static_sparsity", "", "0 1", "-0.001 1.001"}, {"streaming.sink", "", "0 " + most, "-1 " + beyond}, {"streaming.window", "", "1 " + most, "0 " + beyond},
	} {
		name, _, _ := strings.Cut(c.key, ".")
		for i, v := range strings.Fields(c.in + " " + c.out) {
			s, bad := New(name), i >= len(strings.Fields(c.in))
			for _, set := range append(strings.Fields(c.with), c.key+"="+v) {
				key, text, _ := strings.Cut(set, "=")
				if err := specSchema(Builtin()).Set(&s, key, text); err != nil {
					t.Fatal(err)
				}
			}
			if errs := input.Faults(&s); (len(errs) > 0) != bad || bad && errs[0].Key != c.key {
				t.Errorf("%s = %s with %q: %v", c.key, v, c.with, errs)
			}
		}
	}
}

// TestDuoStreams: of two heads without gates the last one streams, and the other keeps everything.
func TestDuoStreams(t *testing.T) {
	s := New("duo")
	v, err := policy.NewValues(&s, policy.Shape{Layers: 1, KVHeads: 2, QueryHeads: 2, Dim: 8, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	keeps, streams := v.NewState(0, 0, 10).(*streamingState).streaming, v.NewState(0, 1, 10).(*streamingState).streaming
	if keeps != (Streaming{Window: 10}) || streams != (Streaming{Sink: 128, Window: 256}) {
		t.Errorf("the first head keeps %+v, the second %+v", keeps, streams)
	}
}
