package plan

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestFewest: of rows that differ only in the number of GPUs, the one with the fewest that holds the rate remains. Rows that differ in
// anything else, including prices and memory, all remain.
func TestFewest(t *testing.T) {
	row := func(name string, gpus int, met bool, change func(r *Row)) *Row {
		r := &Row{Load: Load{System: "l3", Model: "llama", GPU: "h100", Policy: "fcfs", Spent: Spent{GPUs: gpus}, Met: true, Trace: name}, Asked: &Asked{RatePerS: 5, Met: met}, Ranksets: 4, Configured: 1 << 40, Prices: "list"}
		if change != nil {
			change(r)
		}
		return r
	}
	r := &Report{Rows: []*Row{
		row("8 GPUs", 8, true, nil), row("4 GPUs", 4, true, nil), row("2 GPUs", 2, true, nil), row("1 GPU", 1, false, nil),
		row("prices", 4, true, func(r *Row) { r.Prices = "own" }), row("memory", 4, true, func(r *Row) { r.Configured = 2 << 40 }),
		row("ranksets", 4, true, func(r *Row) { r.Ranksets = 6 }), row("policy", 4, true, func(r *Row) { r.Policy = "srpt" }),
		row("gpu", 4, true, func(r *Row) { r.GPU = "h200" }), row("model", 4, true, func(r *Row) { r.Model = "gpt" }), row("system", 4, true, func(r *Row) { r.System = "hbm-pim" }),
		row("layout", 4, true, func(r *Row) { r.TensorParallel, r.MemoryGiB = 4, 9 }), // a knob
	}}
	r.Fewest()
	var got []string
	for _, x := range r.Rows {
		got = append(got, x.Trace)
	}
	// One GPU does not hold the rate: its row says how much it does.
	if want := []string{"2 GPUs", "1 GPU", "prices", "memory", "ranksets", "policy", "gpu", "model", "system"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRankOfRows: rows that hold the load come first, then those that hold less, those that hold nothing, and those that no board holds;
// within each kind the best by the column, ties in order.
func TestRankOfRows(t *testing.T) {
	row := func(name string, usd, rate, highest float64, met bool) *Row {
		return &Row{Load: Load{System: name, RatePerS: rate, Met: highest > 0, Spent: Spent{USD: usd}}, Asked: &Asked{RatePerS: 9, Met: met}, Highest: highest}
	}
	beyond := row("boards", 0.1, 9, 9, true)
	beyond.BeyondBoards = true
	rows := []*Row{beyond, row("none", 0.2, 0, 0, false), row("less", 0.3, 4, 4, false), row("dear", 3, 9, 9, true), row("more", 0.4, 8, 8, false), row("cheap", 1, 9, 9, true), row("same", 1, 9, 9, true)}
	for by, want := range map[string]string{
		"usd_per_million_output_tokens": "cheap same dear less more none boards",
		"rate_per_s":                    "dear cheap same more less none boards",
	} {
		r := &Report{Rows: append([]*Row{}, rows...)}
		if err := r.Rank(by); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range r.Rows {
			got = append(got, x.System)
		}
		if strings.Join(got, " ") != want || r.By != by {
			t.Errorf("by %s: %v, want %s", by, got, want)
		}
	}
	if err := (&Report{}).Rank("usd"); err == nil || !strings.Contains(err.Error(), "--by") {
		t.Error(err)
	}
}

// TestColumns: each ranking column has the number that its name says.
func TestColumns(t *testing.T) {
	latency := func(p50, p99 float64) results.Latency { return results.Latency{P50: p50, P99: p99} }
	r := &Row{Load: Load{RatePerS: 1, Measured: system.Measured{Attainment: 2, GoodputTokens: 3, TTFT: latency(4, 5), TBT: latency(6, 7), TPOT: latency(8, 9), E2E: latency(10, 11)}, Spent: Spent{GPUs: 12, Watts: 13, USD: 14, USDLow: 15, USDHigh: 16}}}
	want := map[string]float64{"usd_per_million_output_tokens": 14, "usd_per_million_output_tokens_low": 15, "usd_per_million_output_tokens_high": 16, "rate_per_s": 1, "gpus": 12, "site_power_mean_w": 13,
		"attainment": 2, "goodput_tokens_per_s": 3, "ttft_p50_ms": 4, "ttft_p99_ms": 5, "tbt_p50_ms": 6, "tbt_p99_ms": 7, "tpot_p99_ms": 9, "e2e_p99_ms": 11}
	for _, c := range Columns {
		if got, ok := want[c]; !ok || r.number(c) != got {
			t.Errorf("%s is %v", c, r.number(c))
		}
	}
	if len(Columns) != len(want) {
		t.Errorf("%v", Columns)
	}
}

// TestNodes: the fewest nodes that hold the rate together; 0 if one holds nothing.
func TestNodes(t *testing.T) {
	for _, x := range []struct {
		asked, holds Load
		known        float64 // highest known rate of the load
		want         int
		highest      float64
	}{
		{Load{RatePerS: 10}, Load{RatePerS: 3}, 0, 4, 3},
		{Load{RatePerS: 9}, Load{RatePerS: 3}, 0, 3, 3},
		{Load{RatePerS: 3.1}, Load{RatePerS: 3}, 0, 2, 3},
		{Load{RatePerS: 100, Users: 50}, Load{RatePerS: 30, Users: 20}, 0, 3, 20},
		{Load{RatePerS: 9}, Load{}, 0, 0, 0},
		{Load{RatePerS: 2, Met: true}, Load{RatePerS: 2, Met: true}, 6.5, 1, 6.5},
	} {
		x.holds.Met = x.want > 0
		r := &Row{Tried: []Load{x.holds}, Asked: &Asked{RatePerS: x.asked.RatePerS, Users: x.asked.Users}, Highest: x.known}
		r.settle(x.asked.offered())
		if r.Asked.Nodes != x.want || r.Highest != x.highest || r.Asked.RatePerS != x.asked.RatePerS || r.Asked.Users != x.asked.Users {
			t.Errorf("%+v: %d nodes of %v", x, r.Asked.Nodes, r.Highest)
		}
	}
}

// TestVLLMFlags: the flags of a GPU server for its layout, chunk, batch limit, format of keys and values, policy and cache of prefixes.
func TestVLLMFlags(t *testing.T) {
	for want, sets := range map[string][]string{
		"--tensor-parallel-size 4 --max-num-batched-tokens 1024 --max-num-seqs 64 --gpu-memory-utilization 1 --kv-cache-dtype auto --no-enable-prefix-caching":                                                 {"model.tensor_parallel=4", "batching.max_num_seqs=64", "gpu_only.policy=chunked-prefill"},
		"--tensor-parallel-size 2 --max-num-batched-tokens 1024 --gpu-memory-utilization 1 --kv-cache-dtype auto --data-parallel-size 2 --no-enable-prefix-caching":                                            {"model.tensor_parallel=2", "batching.max_num_seqs=0", "gpu_only.policy=chunked-prefill"},
		"--tensor-parallel-size 1 --max-num-batched-tokens 1024 --max-num-seqs 8 --gpu-memory-utilization 0.85 --kv-cache-dtype fp8 --data-parallel-size 4 --no-enable-prefix-caching":                         {"model.tensor_parallel=1", "batching.max_num_seqs=8", "model.kv_format=fp8", "gpu.memory_share=0.85", "gpu_only.policy=chunked-prefill"},
		"--tensor-parallel-size 4 --max-num-batched-tokens 1024 --max-num-seqs 8 --gpu-memory-utilization 1 --kv-cache-dtype auto --no-enable-chunked-prefill --max-model-len 1024 --no-enable-prefix-caching": {"model.tensor_parallel=4", "batching.max_num_seqs=8", "gpu_only.policy=prefill-first"},
		"--tensor-parallel-size 4 --max-num-batched-tokens 1024 --max-num-seqs 8 --gpu-memory-utilization 1 --kv-cache-dtype auto --enable-prefix-caching":                                                     {"model.tensor_parallel=4", "batching.max_num_seqs=8", "gpu_only.policy=chunked-prefill", "cache.prefix=true"},
		"--tensor-parallel-size 2 --max-num-batched-tokens 1024 --max-num-seqs 30 --gpu-memory-utilization 1 --kv-cache-dtype auto --enable-expert-parallel --no-enable-prefix-caching":                        {"run.model=mixtral-8x7b", "model.tensor_parallel=2", "batching.max_num_seqs=30", "gpu_only.policy=chunked-prefill", "model.expert_parallel=true"},
		"--tensor-parallel-size 1 --max-num-batched-tokens 256 --max-num-seqs 8 --gpu-memory-utilization 1 --kv-cache-dtype auto --data-parallel-size 4 --enable-expert-parallel --no-enable-prefix-caching":   {"run.model=mixtral-8x7b", "model.tensor_parallel=4", "batching.max_num_seqs=30", "gpu_only.policy=chunked-prefill", "model.attention_parallel=data", "model.expert_parallel=true", "batching.max_num_batched_tokens=1022"},
		"--tensor-parallel-size 1 --max-num-batched-tokens 1024 --max-num-seqs 30 --gpu-memory-utilization 1 --kv-cache-dtype auto --no-enable-prefix-caching":                                                 {"run.model=qwen3-30b-a3b", "model.tensor_parallel=1", "batching.max_num_seqs=30", "gpu_only.policy=chunked-prefill", "model.attention_parallel=data", "model.expert_parallel=true"},
	} {
		cfg, err := system.Load(configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=4", "batching.max_num_batched_tokens=1024"}, sets...)})
		if err != nil {
			t.Fatal(err)
		}
		if got := vllm(cfg); got != want {
			t.Errorf("%v: %s, want %s", sets, got, want)
		}
	}
}

// TestWholePrompts: without chunks vLLM takes no request longer than an iteration, 1,024 tokens: two of four are. With chunks it takes all, and
// with an iteration as long as the model's context it needs no limit of its own.
func TestWholePrompts(t *testing.T) {
	trace := &traces.Trace{}
	for _, output := range []int{24, 1, 25, 5000} {
		trace.Requests = append(trace.Requests, traces.Request{Input: 1000, Output: output})
	}
	for _, x := range []struct {
		policy, tokens, share string
		limited               bool
	}{{"prefill-first", "1024", "50%", true}, {"prefill-first", "8192", "", false}, {"chunked-prefill", "1024", "", false}} {
		cfg, err := system.Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "gpu_only.policy=" + x.policy, "batching.max_num_batched_tokens=" + x.tokens}})
		if err != nil {
			t.Fatal(err)
		}
		if note := wholeNote(cfg, trace); (note == "") != (x.share == "") || !strings.Contains(note, x.share) {
			t.Errorf("%+v: %q", x, note)
		}
		if flags := vllm(cfg); strings.Contains(flags, "--max-model-len") != x.limited {
			t.Errorf("%+v: %s", x, flags)
		}
	}
}

// TestRoundUp: a suggested number of requests is rounded up to two digits.
func TestRoundUp(t *testing.T) {
	for n, want := range map[int]int{7: 7, 99: 99, 100: 100, 101: 110, 2500: 2500, 2501: 2600, 9901: 10_000, 123_456: 130_000} {
		if got := roundUp(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}

// TestMarks: a rate that differs from the requested one has a mark and the share that holds.
func TestMarks(t *testing.T) {
	for want, r := range map[string]Row{
		"3.142":      {Load: Load{RatePerS: 3.14159, Met: true}},
		"0 ✗":        {},
		"9":          {Load: Load{RatePerS: 9, Met: true}, Asked: &Asked{RatePerS: 9, Met: true}},
		"4 of 9 ✗":   {Load: Load{RatePerS: 4, Met: true}, Asked: &Asked{RatePerS: 9}},
		"0 of 9 ✗":   {Asked: &Asked{RatePerS: 9}},
		"4.5 ✗":      {Load: Load{RatePerS: 4.5, Users: 20, Met: true}, Asked: &Asked{RatePerS: 9, Users: 50}},
		"9.5":        {Load: Load{RatePerS: 9.5, Users: 50, Met: true}, Asked: &Asked{RatePerS: 9.5, Users: 50, Met: true}},
		"4 of 9.5 ✗": {Load: Load{RatePerS: 4, Met: true}, Asked: &Asked{RatePerS: 9.5}},
	} {
		if got := r.rate(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// described is a report of two rows with a different number in each cell.
func described() *Report {
	row := func(gpu string, usd float64) *Row {
		return &Row{Load: Load{System: "L3", Model: "Llama", GPU: gpu, Policy: "FCFS", RatePerS: 2.5, Met: true, Measured: system.Measured{Attainment: 0.9912, TTFT: results.Latency{P50: 1, P99: 1234.4}, TBT: results.Latency{P50: 2, P99: 45.67}},
			Spent: Spent{GPUs: 8, Watts: 6789, USD: usd, USDLow: usd / 2, USDHigh: usd * 2}},
			Highest: 2.5, TensorParallel: 4, Ranksets: 6, MemoryGiB: 1024, Prices: "list", Called: []string{"l3", "llama", gpu, "fcfs"}, Limit: []Failure{{"TTFT", 0.02}, {"TBT", 0.01}}, Binds: []Bind{{"ranksets", 1}, {"link", 0.25}, {"GPU memory", 0.05}}}
	}
	return &Report{Rows: []*Row{row("h100", 1.5), row("h200", 3)}, Measured: 2000, Target: 0.99, SLO: results.SLO{TTFT: 2000, TBTPercentile: 99}, Trace: results.Trace{Name: "some"}}
}

// table returns the lines of a report's table, without alignment spaces.
func table(t *testing.T, r *Report) (all []string) {
	t.Helper()
	var b strings.Builder
	if err := r.writeTable(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

// TestTable: each cell is below its title. A model and a policy that all rows share are above the table; shared ranksets, memory, prices
// and users are left out, except users that were asked for.
func TestTable(t *testing.T) {
	r := described()
	want := []string{"some, 2000 requests measured at each rate; 99% of them within TTFT 2000 ms", "model llama; policy fcfs", "",
		"# system gpu GPUs TP requests/s attainment kW USD/Mtoken low-high TTFT p99 TBT p99 ms limit binds",
		"1 l3 h100 8 4 2.5 99.12% 6.8 1.50 0.75-3.00 1234 45.7 TTFT ranksets +100% or more, link +25%",
		"2 l3 h200 8 4 2.5 99.12% 6.8 3.00 1.50-6.00 1234 45.7 TTFT ranksets +100% or more, link +25%"}
	if got := table(t, r); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	x := r.Rows[1]
	x.Called, x.Ranksets, x.MemoryGiB, x.Prices, x.Limit, x.Binds, x.BeyondSlot = []string{"l3", "gpt", "h200", "srpt"}, 8, 2048.4, "own", nil, nil, true
	want = []string{want[0], "", "", "# system model gpu policy GPUs TP ranksets memory GiB prices requests/s attainment kW USD/Mtoken low-high TTFT p99 TBT p99 ms limit binds",
		"1 l3 llama h100 fcfs 8 4 6 1024 list 2.5 99.12% 6.8 1.50 0.75-3.00 1234 45.7 TTFT ranksets +100% or more, link +25%",
		"2 l3 ‡ gpt h200 srpt 8 4 8 2048 own 2.5 99.12% 6.8 3.00 1.50-6.00 1234 45.7 - nothing alone",
		results.Limits{Slot: true}.Legend()}
	if got := table(t, r); !reflect.DeepEqual(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	r = described()
	r.Rows[1].Highest, r.Rows[1].Met, r.Rows[1].RatePerS = 0, false, 0
	if got, want := table(t, r)[5], "2 l3 h200 8 4 0 ✗ 99.12% 6.8 - - 1234 45.7 TTFT ranksets +100% or more, link +25%"; got != want {
		t.Errorf("%q, want %q: what holds nothing costs nothing known", got, want)
	}
	r = described()
	for i, users := range []int{40, 40} {
		r.Rows[i].Users = users
	}
	if got := table(t, r); !strings.Contains(got[3], " TP users requests/s ") || !strings.Contains(got[4], " 8 4 40 2.5 ") {
		t.Errorf("%q", got)
	}
}

// TestChart: cost rises upwards and the time between tokens to the right, from the least to the largest of all rows; the best row is on top
// if two share a place. Rows that hold nothing, or cost nothing, have no place.
func TestChart(t *testing.T) {
	row := func(tbt, usd, highest float64) *Row {
		return &Row{Load: Load{Measured: system.Measured{TBT: results.Latency{P99: tbt}}, Spent: Spent{USD: usd}}, Highest: highest}
	}
	r := &Report{Rows: []*Row{row(30, 1, 2), row(10, 12, 2), row(20, 4, 2), row(10, 12, 2), row(99, 99, 0), row(99, 0, 2)}}
	var b strings.Builder
	r.WriteChart(&b)
	field := make([]string, 12)
	field[0] = "2"                                // 12 USD, 10 ms
	field[11] = strings.Repeat(" ", 59) + "1"     // 1 USD, 30 ms
	field[12-1-3] = strings.Repeat(" ", 30) + "3" // 4 USD are 3 of the 11 lines above the lowest; 20 ms are 29.5 of the 59 columns
	want := "\nUSD/Mtoken, 1.00 to 12.00 upwards, over TBT p99, 10.0 to 30.0 ms to the right\n"
	for _, line := range field {
		want += "|" + line + "\n"
	}
	want += "+" + strings.Repeat("-", 60) + "\n"
	if b.String() != want {
		t.Errorf("%s\nwant%s", b.String(), want)
	}
	b.Reset()
	if (&Report{Rows: r.Rows[4:]}).WriteChart(&b); b.String() != "" {
		t.Errorf("a chart of nothing: %s", b.String())
	}
}

// TestExplain: the explanation of a row that does not hold the load.
func TestExplain(t *testing.T) {
	slo := &results.SLO{TTFT: 2000, TBT: 50}
	low := Load{Measured: system.Measured{TTFT: results.Latency{P50: 1, P99: 3100, Max: 4200}, TBT: results.Latency{P50: 60, P99: 71, Max: 82}}}
	for want, r := range map[string]Row{
		"": {Load: Load{Met: true}},
		"fails 9 requests/s: TTFT missed by 20%, queue grows (attainment 80.0%); holds 4, so that 3 such nodes hold it together; doubled alone, these would help: link +25%": {
			Load: Load{Met: true, RatePerS: 4}, Highest: 4, Asked: &Asked{RatePerS: 9, Nodes: 3, Attainment: 0.8, Fails: []Failure{{"TTFT", 0.2}, {queueGrows, 0}}}, Binds: []Bind{{"link", 0.25}}},
		"fails 50 users: TBT missed by 1.5% (attainment 98.5%); holds 20, so that 3 such nodes hold it together; no resource would help if doubled alone": {
			Load: Load{Met: true, RatePerS: 4, Users: 20}, Highest: 20, Asked: &Asked{RatePerS: 9, Users: 50, Nodes: 3, Attainment: 0.985, Fails: []Failure{{"TBT", 0.015}}}},
		"no rate meets the targets: even where no request waits for another, TTFT missed by 100%. There TTFT is up to 4.20 s and TBT up to 82.0 ms; the target of TBT, 50.0 ms, is below the 60.0 ms between tokens of an empty node; no resource would help if doubled alone": {
			Load: low, Alone: true, Limit: []Failure{{"TTFT", 1}}},
		"no rate meets the targets: at the lowest that was tried, TTFT missed by 100%. There TTFT is up to 4.20 s and TBT up to 82.0 ms; the target of TBT, 50.0 ms, is below the 60.0 ms between tokens of an empty node; no resource would help if doubled alone": {
			Load: low, Limit: []Failure{{"TTFT", 1}}},
		"fails 9 requests/s: queue grows (attainment 0.0%); no rate meets the targets: at the lowest that was tried, TTFT missed by 100%. There TTFT is up to 4.20 s and TBT up to 82.0 ms; the target of TBT, 50.0 ms, is below the 60.0 ms between tokens of an empty node; no resource would help if doubled alone": {
			Load: low, Limit: []Failure{{"TTFT", 1}}, Asked: &Asked{RatePerS: 9, Fails: []Failure{{queueGrows, 0}}}},
	} {
		if got := r.explain(slo); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
