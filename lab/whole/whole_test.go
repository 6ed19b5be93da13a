package whole

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestLayouts: texts of the parallelism, by hand.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		text   string
		gpus   int
		want   layout
		reason string
	}{
		{"TP8", 8, layout{8, 8, false, false}, ""},
		{"tp=4", 4, layout{4, 4, false, false}, ""},
		{"TP 4", 0, layout{4, 4, false, false}, ""},
		{"TP1", 1, layout{1, 1, false, false}, ""},
		{"", 1, layout{1, 1, false, false}, ""},
		{"", 8, layout{}, "no parallelism is given"},
		{"TP8 EP8", 8, layout{8, 8, false, true}, ""},
		{"TP8/EP", 8, layout{8, 8, false, true}, ""},
		{"TEP8", 8, layout{8, 8, false, true}, ""},
		{"DEP4", 4, layout{4, 4, true, true}, ""},
		{"DP8 EP8", 8, layout{8, 8, true, true}, ""},
		{"DP8, EP", 8, layout{8, 8, true, true}, ""},
		{"TP8 DP8", 8, layout{8, 8, true, false}, ""},
		{"TP8 DP8 EP8", 8, layout{8, 8, true, true}, ""},
		{"TP8 attention-DP", 8, layout{8, 8, true, false}, ""},
		{"TP8 DP-attention EP8", 8, layout{8, 8, true, true}, ""},
		{"TP4 DP2", 8, layout{8, 4, false, false}, ""},
		{"DP8", 8, layout{8, 1, false, false}, ""},
		{"TP8, DCP 1", 8, layout{8, 8, false, false}, ""},
		{"TP8, DCP 8", 8, layout{}, "contexts divided"},
		{"TP8, decode context parallel 8", 8, layout{}, "contexts divided"},
		{"2 (PP2)", 2, layout{}, "pipelines"},
		{"TP4 PP2", 8, layout{}, "pipelines"},
		{"TP8 (decode instance of a P/D pair)", 8, layout{}, "split server"},
		{"TP8", 4, layout{}, "a layout of 8 GPUs, and the row has 4"},
		{"TP8 EP16", 0, layout{}, "another number of GPUs"},
		{"TP2 DP4 EP8", 8, layout{}, "groups of GPUs"},
		{"TP4 TP8", 8, layout{}, "no number of GPUs"},
		{"TP0", 0, layout{}, "no number of GPUs"},
		{"TP99999", 0, layout{}, "no number of GPUs"},
		{"sharded somehow", 8, layout{}, "no layout that is known"},
		{"TP", 8, layout{}, "no layout that is known"},
	} {
		got, reason := layoutOf(&Row{Parallelism: c.text, GPUs: c.gpus})
		if c.reason == "" && (got != c.want || reason != "") || c.reason != "" && !strings.Contains(reason, c.reason) {
			t.Errorf("%q on %d: %+v, %q", c.text, c.gpus, got, reason)
		}
	}
}

// TestLoads: the quantity of a row that is compared.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		row    Row
		want   load
		reason string
	}{
		{Row{Concurrency: "16", Input: 8, Output: 4, TPOT: 3, OutputRate: 9, Statistic: "median"}, load{metric: TPOT, measured: 3, seats: 16, in: 8, out: 4, median: true}, ""},
		{Row{Concurrency: "~512", Input: 8, Output: 4, OutputRate: 9}, load{metric: OutputRate, measured: 9, seats: 512, in: 8, out: 4}, ""},
		{Row{Concurrency: "all at once (500 prompts)", Input: 8, Output: 4, TPOT: 3, OutputRate: 9}, load{metric: OutputRate, measured: 9, requests: 500, in: 8, out: 4}, ""},
		{Row{Concurrency: "offline, all at once", Input: 8, Output: 4, OutputRate: 9}, load{metric: OutputRate, measured: 9, in: 8, out: 4}, ""},
		{Row{Concurrency: "1", TPOT: 3}, load{metric: TPOT, measured: 3, seats: 1, in: 1, out: shortOutput}, ""},
		{Row{Concurrency: "1", Input: -1, TPOT: 3}, load{}, "input is left out"},
		{Row{Concurrency: "", Input: 8, TPOT: 3}, load{}, "no number of seats"},
		{Row{Concurrency: "many", Input: 8, TPOT: 3}, load{}, "no number of seats"},
		{Row{Concurrency: "8", Input: 8, Output: 1, TPOT: 3}, load{}, "no time between tokens"},
		{Row{Concurrency: "8", Input: 8}, load{}, "neither"},
		{Row{Concurrency: "all at once", Input: 8, OutputRate: 3}, load{}, "output is left out"},
		{Row{Concurrency: "999999", Input: 8, TPOT: 3}, load{}, "above"},
		{Row{Concurrency: "1", TPOT: 3, Speculation: "mtp"}, load{}, "without an accepted length"},
		{Row{Concurrency: "1", TPOT: 3, Speculation: "about 2.5 accepted"}, load{}, "without a chain"},
		{Row{Concurrency: "1", TPOT: 3, Speculation: "mtp 3-1-4, 4.5 accepted"}, load{}, "as many tokens as it verifies"},
	} {
		got, reason := loadOf(&c.row)
		if c.reason == "" && (got != c.want || reason != "") || c.reason != "" && !strings.Contains(reason, c.reason) {
			t.Errorf("%+v: %+v, %q", c.row, got, reason)
		}
	}
}

// TestAcceptance: of two drafts after a known token, each accepted with 1/2, a step emits 1 + 1/2 + 1/4.
func TestAcceptance(t *testing.T) {
	d, reason := draftsOf(&Row{Speculation: "mtp 2-1-3, 1.75 accepted"})
	if reason != "" || d.steps != 2 || d.verified != 3 || math.Abs(d.acceptance()-0.5) > 1e-9 {
		t.Errorf("%+v %v %q", d, d.acceptance(), reason)
	}
}

// TestKnown: every model of the table loads, on as many GPUs as hold it, in all of its precisions.
func TestKnown(t *testing.T) {
	k, err := readKnown()
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range k.Model {
		precisions := append(sortedKeys(m.Precision), "fp8", "fp4", "bf16", "int4")
		for _, p := range precisions {
			f, of, both := strings.Cut(p, " ")
			if !both {
				f, of = "vllm", p
			}
			row := &Row{Model: m.Names[0], GPU: "B200", Framework: f, Precision: of, Parallelism: "TP8", Concurrency: "2", Input: 10, Output: 10, TPOT: 1}
			c, err := k.compare(context.Background(), row, configs.Options{})
			if err != nil || c.Predicted == 0 && !strings.Contains(c.Reason, "memory of 8 GPUs") {
				t.Errorf("%s, %s: %+v %v", name, p, c, err)
			}
		}
	}
	for _, c := range [][2]string{{"int4, KV BF16", "int4"}, {"int4, KV FP8", "int4"}, {"fp8 KV", ""}, {"FP8", "fp8"}, {"bf16", "bf16"}} {
		got, kv := precisionOf(c[0])
		if got != c[1] || strings.Contains(strings.ToLower(c[0]), "kv") != (kv != nil) {
			t.Errorf("%q: %q, %v", c[0], got, kv)
		}
	}
}

const header = "source,model,gpu,gpus,precision,framework,parallelism,speculation,input,output,concurrency,ttft_ms,tpot_ms,statistic,output_tok_s_gpu,note\n"

// TestRead: malformed files are refused with the line, the column and what was expected.
func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"":            "f.csv: expected a header line",
		"model,gpu\n": `f.csv:1: columns = model,gpu: expected model,gpu,gpus,precision,framework,parallelism,speculation,input,output,concurrency,tpot_ms,output_tok_s_gpu; "gpus" is missing`,
		header:        "f.csv: expected at least one row after the header",
		header + ",m,H200,8,fp8,vllm,TP8,,1k,9,1,,3,mean,,\n":    `f.csv:2: input = "1k": expected a whole number from 0`,
		header + ",m,H200,8,fp8,vllm,TP8,,9,9,1,,fast,mean,,\n":  `f.csv:2: tpot_ms = "fast": expected milliseconds above 0`,
		header + ",m,H200,8,fp8,vllm,TP8,,9,9,1,,-3,mean,,\n":    `f.csv:2: tpot_ms = "-3": expected milliseconds above 0`,
		header + ",m,H200,0,fp8,vllm,TP8,,9,9,1,,3,mean,,\n":     `f.csv:2: gpus = "0": expected a whole number from 1`,
		header + ",m,H200,8,fp8,vllm,TP8,,9,9,1,,3,mean,NaN,\n":  `f.csv:2: output_tok_s_gpu = "NaN": expected tokens`,
		header + ",m,H200,8,fp8,vllm,TP8,,9,9,1,soon,3,mean,,\n": `f.csv:2: ttft_ms = "soon": expected milliseconds`,
		header + ",m,H200,8\n":                                   "f.csv:2: ",
		strings.Replace(header, "note", "model", 1):              "f.csv:1: model: expected each column once",
	} {
		if _, err := parse("f.csv", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestUnknown: a row that cannot run is reported with its reason, whatever its other columns.
func TestUnknown(t *testing.T) {
	text := header +
		",GLM-4.6,B200,8,bf16,sglang,TP8,,1024,1024,1,,14.9,mean,,\n" +
		",MiniMax-M2.7,GB300,2,fp8,sglang,TP2,,1000,1000,1,,8,mean,,\n" +
		",,,,,,,,,,,,,,,\n" +
		",Qwen3-32B,H200,1,fp8,mystery,TP1,,100,100,1,,8,mean,,\n" +
		",Qwen3-32B,H200,1,fp3,vllm,TP1,,100,100,1,,8,mean,,\n" +
		",DeepSeek-R1,L40S,1,fp8,vllm,TP1,,100,100,1,,8,mean,,\n" +
		",Qwen3-32B,H100,1,fp8,sglang,TP1,,100,100,1,,8,mean,,\n" +
		",Qwen3-32B,H200,5,fp8,vllm,TP5,,100,100,1,,8,mean,,\n"
	rows, err := parse("f.csv", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Judge(context.Background(), "f.csv", rows, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"no configuration of \"GLM-4.6\"", "no fit of the GPU \"GB300\"", "concurrency is left out", "framework \"mystery\" is not known", "precision \"fp3\"", "the memory of 1 GPUs does not hold it", "kernels borrowed", "no such layout"}
	if r.Judged != 0 || len(r.Others) != len(want) {
		t.Fatalf("%d judged, %+v", r.Judged, r.Others)
	}
	for i, o := range r.Others {
		if !strings.Contains(o.Reason, want[i]) {
			t.Errorf("row %v: %q, want %q", o.Lines, o.Reason, want[i])
		}
	}
	if b := r.Others[6]; b.Metric != TPOT || b.Median == 0 {
		t.Errorf("borrowed kernels: %+v", b)
	}
	var out bytes.Buffer
	if err := r.WriteText(&out); err != nil || strings.Count(out.String(), "\n") < len(want) {
		t.Errorf("%v\n%s", err, out.String())
	}
	if b, err := json.Marshal(r); err != nil || !bytes.Contains(b, []byte(`"groups":[]`)) {
		t.Errorf("%s %v", b, err)
	}
}

// TestReport: groups by hand.
func TestReport(t *testing.T) {
	row := func(gpu, metric string, measured, predicted float64) Compared {
		return Compared{Row: Row{Model: "m", GPU: gpu}, Metric: metric, Measured: measured, Predicted: predicted, Judged: true}
	}
	r := report("f", []Compared{row("a", TPOT, 10, 11), row("b", OutputRate, 10, 15), row("a", TPOT, 10, 6), row("a", TPOT, 10, 12), row("c", TPOT, 10, 20)})
	if len(r.Groups) != 3 || r.Judged != 5 {
		t.Fatalf("%+v", r)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if g := r.Groups[0]; g.GPU != "a" || g.Rows != 3 || !near(g.Median, 0.2) || !near(g.Bias, 0.1) || !near(g.P90, 0.4) || !near(g.Worst, -0.4) {
		t.Errorf("%+v", g)
	}
	if s := r.Summary[0]; s.Groups != 2 || s.Rows != 4 || !near(s.Median, 0.6) || !near(s.Worst, 1) {
		t.Errorf("%+v", s)
	}
	var out bytes.Buffer
	if err := r.WriteRows(&out); err != nil || strings.Count(out.String(), "\n") != 6 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestClosedLoop: in a loop of one seat, the time between tokens is that of decode steps, and tokens a second agree; a request that
// waits for another one's prompt takes longer.
func TestClosedLoop(t *testing.T) {
	k, err := readKnown()
	if err != nil {
		t.Fatal(err)
	}
	run := func(edit func(*Row)) float64 {
		row := &Row{Model: "Qwen3-32B", GPU: "H200", GPUs: 1, Framework: "vllm", Precision: "fp8", Parallelism: "TP1", Concurrency: "1", Input: 4000, Output: 50, TPOT: 1, OutputRate: 1}
		edit(row)
		c, err := k.compare(context.Background(), row, configs.Options{})
		if err != nil || !c.Judged {
			t.Fatalf("%+v %v", c, err)
		}
		return c.Predicted
	}
	one, many := run(func(*Row) {}), run(func(r *Row) { r.Concurrency = "16" })
	rate := run(func(r *Row) { r.TPOT = 0 })
	if want := 1e3 / one; rate > want || rate < 0.5*want {
		t.Errorf("%v ms between tokens and %v tokens/s", one, rate)
	}
	if many < 1.2*one {
		t.Errorf("%v ms with 16 seats, %v with one", many, one)
	}
	if both := run(func(r *Row) { r.GPUs, r.Parallelism, r.TPOT, r.Concurrency = 2, "DP2", 0, "2" }); math.Abs(both/rate-1) > 0.01 {
		t.Errorf("two replicas: %v tokens/s and GPU, one: %v", both, rate)
	}
	drafted := run(func(r *Row) { r.Speculation = "eagle 3-1-4, 3.5 accepted" })
	if drafted > one/2 || drafted < one/3.5 {
		t.Errorf("%v ms with drafts, %v without", drafted, one)
	}
}
