package whole

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"
)

// TestReportTexts: groups by metric and name, each with its own errors; rows that are not judged by reason; and a line for
// each row.
func TestReportTexts(t *testing.T) {
	row := func(line int, model, gpu, metric string, measured, predicted float64) Compared {
		return Compared{Row: Row{Line: line, Model: model, GPU: gpu, Parallelism: "TP8", Framework: "vLLM", Input: 100, Output: 20, Concurrency: "7"}, Metric: metric, Measured: measured, Predicted: predicted, Fit: "fit", Judged: true}
	}
	not := func(line int, reason string, predicted float64) Compared {
		c := row(line, "z", "H100", TPOT, 10, predicted)
		c.Judged, c.Reason = false, reason
		return c
	}
	all := []Compared{
		row(2, "b", "H200", TPOT, 10, 12), row(3, "b", "H200", TPOT, 10, 5), row(4, "a", "H200", OutputRate, 10, 11), row(5, "a", "H100", TPOT, 8, 6),
		not(6, "no fit", 0), not(7, "borrowed, so \"far\"", 13), not(8, "borrowed, so \"far\"", 9), not(9, "no fit", 0), row(10, "b", "H200", TPOT, 10, 11),
	}
	all[2].Parallelism = "TP4, EP4"
	r := report("f.csv", all)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	// Of b on H200: +20%, -50% and +10%. Of a on H100: -25%. The two medians are 20% and 25%.
	want := `5 of 9 rows of f.csv judged, with gpu-only
time between tokens: median 22% over 2 groups (4 rows), the worst 25%
output tokens/s per GPU: median 10% over 1 groups (1 rows), the worst 10%

model GPU parallelism framework metric rows median % p90 % bias % fit
a H100 TP8 vLLM tpot_ms 1 25 25 -25 fit
b H200 TP8 vLLM tpot_ms 3 20 50 +10 fit
a H200 TP4, EP4 vLLM output_tok_s_gpu 1 10 10 +10 fit

not judged:
model GPU parallelism framework rows why
z H100 TP8 vLLM 2 no fit
z H100 TP8 vLLM 2 borrowed, so "far" (tpot_ms off by 20%, median)
`
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(r.Others) != 2 || !slices.Equal(r.Others[0].Lines, []int{6, 9}) || !slices.Equal(r.Others[1].Lines, []int{7, 8}) || r.Groups[1].Worst != -0.5 {
		t.Errorf("%+v, %+v", r.Others, r.Groups)
	}
	text.Reset()
	if err := r.WriteRows(&text); err != nil {
		t.Fatal(err)
	}
	want = `line,model,gpu,parallelism,framework,input,output,concurrency,metric,measured,predicted,error,reason
2,b,H200,TP8,vLLM,100,20,7,tpot_ms,10,12,0.2000,
3,b,H200,TP8,vLLM,100,20,7,tpot_ms,10,5,-0.5000,
4,a,H200,"TP4, EP4",vLLM,100,20,7,output_tok_s_gpu,10,11,0.1000,
5,a,H100,TP8,vLLM,100,20,7,tpot_ms,8,6,-0.2500,
6,z,H100,TP8,vLLM,100,20,7,tpot_ms,10,,,no fit
7,z,H100,TP8,vLLM,100,20,7,tpot_ms,10,13,0.3000,"borrowed, so ""far"""
8,z,H100,TP8,vLLM,100,20,7,tpot_ms,10,9,-0.1000,"borrowed, so ""far"""
9,z,H100,TP8,vLLM,100,20,7,tpot_ms,10,,,no fit
10,b,H200,TP8,vLLM,100,20,7,tpot_ms,10,11,0.1000,
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// TestHostsText: both fits and all four errors of a framework in a line.
func TestHostsText(t *testing.T) {
	const us = units.Microsecond
	var text strings.Builder
	f := HostFit{Framework: "vllm", Groups: 3, Rows: 20, All: gpu.HostSpec{Exposed: 1 * us, Step: 2 * us, Sequence: 3 * us}, Half: gpu.HostSpec{Exposed: 4 * us, Step: 5 * us, Sequence: 6 * us},
		Without: 0.11, With: 0.22, HeldOutWithout: 0.33, HeldOut: 0.44}
	want := `vllm, 3 groups of 20 rows: exposed = "1us", step = "2us", sequence = "3us": median 22% over groups, 11% without; fitted to every second group: "4us", "5us", "6us", the others 44%, 33% without` + "\n"
	if err := WriteHosts(&text, []HostFit{f}); err != nil || text.String() != want {
		t.Errorf("%v, got %swant %s", err, text.String(), want)
	}
}

// TestMeasuredRounds: two seats with six rounds of requests of five tokens. In rounds three to five the tokens come every 1, 2, 3, 4, 5 and 12 s;
// the others, of 100 s each, do not count. By their ends the three rounds last from 10 to 34 s.
func TestMeasuredRounds(t *testing.T) {
	second := func(s float64) units.Duration { return units.FromSeconds(s) }
	result := &system.Result{}
	ends := []float64{5, 6, 8, 10, 14, 15, 20, 22, 30, 34, 50, 60}
	for i, every := range []float64{100, 100, 100, 100, 12, 1, 5, 2, 4, 3, 100, 100} {
		result.Requests = append(result.Requests, results.Request{FirstToken: second(ends[i] - 4*every + 1000), Finish: second(ends[i] + 1000)})
	}
	l := load{seats: 2, in: 7, out: 5}
	if got := l.tpot(result); math.Abs(got-4.5) > 1e-9 {
		t.Errorf("the mean time between tokens is %v s, want 27/6", got)
	}
	l.median = true
	if got := l.tpot(result); math.Abs(got-3.5) > 1e-9 {
		t.Errorf("the median is %v s, want that of 3 and 4", got)
	}
	// Six requests of five tokens in 24 s.
	if got := l.rate(result, nil); math.Abs(got-30./24) > 1e-9 {
		t.Errorf("%v tokens/s, want 30 in 24 s", got)
	}
	l.seats = 0
	var s results.Summary
	s.OutputTokensPerS = 8
	if got := l.rate(result, &s); got != 8 {
		t.Errorf("%v tokens/s of a run at once, want all of its own", got)
	}
}

// TestSettingsOfRows: the keys of rows with all heads on each GPU and with data-parallel attention, for frameworks that divide a prompt's tokens
// and those that do not.
func TestSettingsOfRows(t *testing.T) {
	k, err := readKnown()
	if err != nil {
		t.Fatal(err)
	}
	user := configs.Options{Sets: []string{"run.seed=3"}, Flags: []configs.Flag{{Key: "run.requests", Value: "9"}}}
	for _, c := range []struct {
		gpu, framework, parallelism string
		seats                       int
		sets, flags                 string
		fit                         string
		borrowed                    bool
	}{
		{"H200", "vLLM", "TP8", 16, "max_num_seqs=1024 max_num_batched_tokens=8192 attention_parallel=\"tensor\" expert_parallel=false users=16", "h200-sxm 8 8", "h200-sxm.vllm-", false},
		{"H200", "vLLM", "DP8 EP8", 16, "max_num_seqs=8192 max_num_batched_tokens=65536 attention_parallel=\"data\" expert_parallel=true users=16", "h200-sxm 8 8", "h200-sxm.vllm-", false},
		{"B200", "SGLang", "TP4 DP4", 5, "max_num_seqs=0 max_num_batched_tokens=16384 attention_parallel=\"data\" expert_parallel=false users=5", "b200-sxm 4 4", "b200-sxm.", false},
		{"B200", "TRT-LLM", "TP4 DP2", 0, "max_num_seqs=2048 max_num_batched_tokens=8192 attention_parallel=\"tensor\" expert_parallel=false", "b200-sxm 8 4", "b200-sxm.trtllm-", false},
	} {
		row := &Row{Model: "Qwen3-32B", GPU: c.gpu, Framework: c.framework, Precision: "fp8", Parallelism: c.parallelism}
		r, reason := k.settings(row, &load{seats: c.seats}, user)
		if reason != "" {
			t.Fatal(reason)
		}
		for _, want := range strings.Fields(c.sets) {
			if n := len(slices.DeleteFunc(slices.Clone(r.options.Sets), func(s string) bool { return !strings.HasSuffix(s, "."+want) })); n != 1 {
				t.Errorf("%+v: %d settings %s in %v", c, n, want, r.options.Sets)
			}
		}
		if last := r.options.Sets[len(r.options.Sets)-1]; last != "run.seed=3" || slices.Contains(r.options.Sets, `arrivals.kind="closed-loop"`) != (c.seats > 0) {
			t.Errorf("%+v: %v", c, r.options.Sets)
		}
		of := map[string]string{}
		for _, f := range r.options.Flags {
			of[f.Key] = f.Value
		}
		if got := of["gpu.preset"] + " " + of["node.gpus"] + " " + of["model.tensor_parallel"]; got != c.flags || of["preset"] != "fair" || of["run.system"] != "gpu-only" || of["run.model"] == "" || of["run.requests"] != "9" || of["gpu.fit"] != r.fit {
			t.Errorf("%+v: %v", c, of)
		}
		if !strings.HasPrefix(r.fit, c.fit) || r.borrowed != c.borrowed && c.fit != "b200-sxm." {
			t.Errorf("%+v: fit %s, borrowed %v", c, r.fit, r.borrowed)
		}
	}
	for name, want := range map[string]string{"NVIDIA H200 (SXM)": "h200", "deepseek-ai/DeepSeek-R1": "deepseekr1", "a/b c": "a/bc", " TRT_LLM. ": "trtllm"} {
		if got := plain(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	if name, borrowed := fitOf("no-such-gpu", "vllm"); name != "" || !borrowed {
		t.Errorf("a GPU without fits has %q", name)
	}
}

// TestServerSets: settings of servers hold where all their conditions do, later ones after earlier ones, before the user's.
func TestServerSets(t *testing.T) {
	k := &known{Server: []server{
		{Framework: "sglang", Set: []string{"a"}}, {GPU: []string{"b200-sxm", "gb200"}, Set: []string{"b"}}, {Model: []string{"glm-5.2"}, Set: []string{"c", "d"}},
		{Source: "zai-org/", Set: []string{"e"}}, {Parallelism: "TP8", Set: []string{"f"}}, {Source: "zai-org/", Parallelism: "TP8 DP8", Set: []string{"g"}},
	}}
	for _, c := range []struct{ source, parallelism, framework, gpu, model, want string }{
		{"docs/zai-org/x", "TP8", "sglang", "gb200", "glm-5.2", "a b c d e f"},
		{"docs/zai-org/x", "TP8 DP8", "vllm", "h200-sxm", "glm-5", "e g"},
		{"", "TP8 DP8", "sglang", "b200-sxm", "glm-5", "a b"},
		{"x", "TP8", "sglang2", "b200", "", "f"},
	} {
		if got := strings.Join(k.serverSets(&Row{Source: c.source, Parallelism: c.parallelism}, c.framework, c.gpu, c.model), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	k, err := readKnown()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range k.Server { // what they name is known
		_, framework := k.Framework[s.Framework]
		for _, gpu := range s.GPU {
			if _, ok := k.GPU[gpu]; !ok {
				t.Errorf("%+v: %s", s, gpu)
			}
		}
		for _, model := range s.Model {
			if _, ok := k.Model[model]; !ok {
				t.Errorf("%+v: %s", s, model)
			}
		}
		if s.Framework != "" && !framework || len(s.Set) == 0 {
			t.Errorf("%+v", s)
		}
	}
	row := &Row{Source: "github.com/sgl-project/sglang docs_new/src/snippets/configs/zai-org/glm-5.2-benchmarks.jsx@0", Model: "GLM-5.2", GPU: "B200", GPUs: 8, Framework: "sglang", Precision: "fp8", Parallelism: "TP8 DP8"}
	r, reason := k.settings(row, &load{seats: 1024}, configs.Options{})
	n := len(r.options.Sets)
	if reason != "" || n < 5 || strings.Join(r.options.Sets[n-7:n-2], " ") != `batching.max_num_batched_tokens=16384 model.kv_format="fp8" gpu.memory_share=0.85 batching.max_num_seqs=256 model.expert_parallel=true` {
		t.Errorf("%s: %v", reason, r.options.Sets)
	}
}
