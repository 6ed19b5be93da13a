package requests

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

const logs = "testdata/llmservingsim"

// TestDenseLogs fixes the median errors reached on servers of dense models, with GPUs fitted only to tables of
// kernels.
func TestDenseLogs(t *testing.T) {
	for _, c := range []struct {
		log, gpu string
		most     map[string]float64
	}{
		// The aims are 4, 2 and 3%. Without the prefix cache, in which preempted requests find their keys, this log is above.
		{"RTX4090_Llama-3.1-8B", "rtx-4090-vllm-0.19", map[string]float64{ttft: 0.0104, tpot: 0.0155, latency: 0.0099}},
		{"RTXPRO6000_Llama-3.1-8B", "rtx-pro-6000-server-vllm-0.19", map[string]float64{ttft: 0.0364, tpot: 0.007, latency: 0.0111}},
		// The link between the cards is the one with which the log's authors simulate this server.
		{"RTXPRO6000_Qwen3-32B", "rtx-pro-6000-server-vllm-0.19", map[string]float64{ttft: 0.0155, tpot: 0.0063, latency: 0.0097}},
	} {
		log, err := Read(filepath.Join(logs, c.log, "requests.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Judge(t.Context(), log, configs.Options{Sets: []string{`gpu.preset="` + c.gpu + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Metrics {
			if m.Requests != 300 {
				t.Errorf("%s: %s of %d requests", c.log, m.Name, m.Requests)
			}
			if most, bounded := c.most[m.Name]; bounded && !(m.Median <= most) {
				t.Errorf("%s: %s is %.4f off in the median, at most %.4f before", c.log, m.Name, m.Median, most)
			}
			if m.Median <= 0 || m.P90 < m.Median || math.Abs(m.Worst) < m.P90 || m.Measured <= 0 || m.Simulated <= 0 {
				t.Errorf("%s: %+v", c.log, m)
			}
		}
	}
}

// TestExpertParallel: one-GPU engines that share a mixture's experts are GPUs of one replica with data-parallel attention, with the seats and
// tokens of all; the median errors reached. Other layouts of several engines are refused.
func TestExpertParallel(t *testing.T) {
	log, err := Read(logs + "/RTXPRO6000_Qwen3-30B-A3B-Instruct-2507/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	sets := log.settings(configs.Options{}).Sets
	for _, want := range []string{`model.attention_parallel="data"`, "model.expert_parallel=true", "node.gpus=2", "model.tensor_parallel=2", "batching.max_num_seqs=256", "batching.max_num_batched_tokens=4096"} {
		if !slices.Contains(sets, want) {
			t.Errorf("%s is not in %q", want, sets)
		}
	}
	r, err := Judge(t.Context(), log, configs.Options{Sets: []string{`gpu.preset="rtx-pro-6000-server-vllm-0.19"`, `run.model="qwen3-30b-a3b"`}})
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{ttft: 0.285, tpot: 0.2, latency: 0.206}
	for _, m := range r.Metrics {
		if bound, bounded := most[m.Name]; bounded && !(m.Median <= bound) {
			t.Errorf("%s is %.4f off in the median, at most %.4f before", m.Name, m.Median, bound)
		}
	}
	for text, says := range map[string]string{
		`"data_parallel_size":2,"tensor_parallel_size":2,"enable_expert_parallel":true`: "meta.json: engine_kwargs.data_parallel_size = 2: expected 1, or engines of one GPU with enable_expert_parallel",
		`"data_parallel_size":2`:  "meta.json: engine_kwargs.data_parallel_size = 2: expected 1",
		`"data_parallel_size":-1`: "meta.json: engine_kwargs.data_parallel_size = -1: expected 0 to",
	} {
		if _, err := parseServer("meta.json", []byte(`{"engine_kwargs":{`+text+`}}`)); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	server, err := parseServer("meta.json", []byte(`{"engine_kwargs":{"tensor_parallel_size":4,"enable_expert_parallel":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	sets = (&Log{Server: server}).settings(configs.Options{}).Sets
	if !slices.Contains(sets, "model.expert_parallel=true") || !slices.Contains(sets, "node.gpus=4") || slices.Contains(sets, `model.attention_parallel="data"`) {
		t.Errorf("one engine of four GPUs: %q", sets)
	}
}

// sample is a request of each format: 10 tokens in, 3 out, 0.5 s to the first and 1.5 s to the last, the second one 1 s later.
var sample = map[format]string{
	servingSim: `{"request_id":"a","input_toks":10,"output_toks":3,"arrival_time":100,"queued_ts":5,"scheduled_ts":5.25,"first_token_ts":5.5,"last_token_ts":6.5}
{"request_id":"b","input_toks":10,"output_toks":3,"arrival_time":101,"queued_ts":6.125,"scheduled_ts":6.25,"first_token_ts":6.5,"last_token_ts":7.5}
`,
	vllmBench: `{"input_lens":[10,10,7],"output_lens":[3,3,0],"start_times":[20,21,22],"ttfts":[0.5,0.5,0],
"itls":[[0.5,0.5],[0.75,0.25],[]],"errors":["","","refused"],"model_id":"m"}`,
	aiPerf: `{"metadata":{"x_request_id":"w","benchmark_phase":"warmup","request_start_ns":1},"metrics":{}}
{"metadata":{"x_request_id":"a","benchmark_phase":"profiling","request_start_ns":2000000000},"metrics":{"input_sequence_length":{"value":10,"unit":"tokens"},"output_sequence_length":{"value":3,"unit":"tokens"},"time_to_first_token":{"value":500,"unit":"ms"},"inter_chunk_latency":{"value":[500,500],"unit":"ms"},"request_latency":{"value":1.5,"unit":"sec"}},"error":null}
{"metadata":{"x_request_id":"f","benchmark_phase":"profiling","request_start_ns":2500000000},"metrics":{},"error":{"code":499,"type":"RequestCancellationError","message":"cancelled"}}
{"metadata":{"x_request_id":"b","benchmark_phase":"profiling","request_start_ns":3000000000},"metrics":{"input_sequence_length":{"value":10,"unit":"tokens"},"output_sequence_length":{"value":3,"unit":"tokens"},"time_to_first_token":{"value":500,"unit":"ms"},"request_latency":{"value":1.5,"unit":"sec"}},"error":null}
`,
}

// TestFormats: the three formats give the same requests, except for the queue.
func TestFormats(t *testing.T) {
	for want, text := range sample {
		log, f, err := parse("log", []byte(text))
		if err != nil || f != want || len(log.Requests) != 2 {
			t.Errorf("%s: read as %s: %v", want, f, err)
			continue
		}
		for i, r := range log.Requests {
			if r.Input != 10 || r.Output != 3 || r.Arrival != float64(i) || math.Abs(r.TTFT-0.5) > 1e-9 || math.Abs(r.Latency-1.5) > 1e-9 {
				t.Errorf("%s: request %d: %+v", want, i, r)
			}
			if q := map[bool]float64{true: 0.25, false: -1}[f == servingSim]; r.Queue != q {
				t.Errorf("%s: request %d queued for %g s, want %g", want, i, r.Queue, q)
			}
		}
	}
}

// wrong are refused texts and their errors.
var wrong = []struct{ name, text, says string }{
	{"nothing", "", "log:1: expected a request in JSON"},
	{"no JSON", "abc", "log:1: expected JSON with keys input_toks"},
	{"another object", `{"a":1}`, "log:1: format: expected keys input_toks"},
	{"a missing key", strings.Replace(sample[servingSim], `"queued_ts":6.125,`, "", 1), "log:2: queued_ts: expected a value in every request"},
	{"an unknown key", strings.Replace(sample[servingSim], `"queued_ts":6.125`, `"queuedts":6.125`, 1), `log:2: queuedts: expected one of request_id`},
	{"a text for a number", strings.Replace(sample[servingSim], `"queued_ts":6.125`, `"queued_ts":"6"`, 1), "log:2: queued_ts = string: expected float64"},
	{"NaN", strings.Replace(sample[servingSim], `"queued_ts":6.125`, `"queued_ts":NaN`, 1), "log:2: invalid character 'N'"},
	{"a name twice", strings.Replace(sample[servingSim], `"b"`, `"a"`, 1), `log:2: request_id = "a": expected a name of its own; the request on line 1 has it`},
	{"a cut file", sample[servingSim][:len(sample[servingSim])-20], "log:2: the file ends within a value"},
	{"no tokens", strings.Replace(sample[servingSim], `"output_toks":3`, `"output_toks":0`, 1), "log:1: output tokens = 0: expected 1 to"},
	{"times that go back", strings.Replace(sample[servingSim], `"last_token_ts":7.5`, `"last_token_ts":6`, 1), "log:2: time to the last token"},
	{"scheduled before queued", strings.Replace(sample[servingSim], `"scheduled_ts":6.25`, `"scheduled_ts":6`, 1), "log:2: scheduled_ts = 6: expected a time from"},
	{"lists of other lengths", strings.Replace(sample[vllmBench], `[20,21,22]`, `[20,21]`, 1), "log:1: start_times = 2: expected as many as ttfts, 3"},
	{"no times of sending", strings.Replace(sample[vllmBench], `"start_times":[20,21,22],`, "", 1), "log:1: start_times: expected a time of each request: neither SGLang nor this version"},
	{"a list for a value", strings.Replace(sample[aiPerf], `{"value":500,"unit":"ms"}`, `{"value":[500],"unit":"ms"}`, 1), "log:2: metrics.time_to_first_token"},
	{"a metric that lacks", strings.Replace(sample[aiPerf], `"time_to_first_token"`, `"time_to_second_token"`, 1), "log:2: metrics.time_to_first_token"},
	{"a negative gap", strings.Replace(sample[vllmBench], `0.75`, `-0.75`, 1), "log:1: itls = -0.75"},
	{"text behind", sample[vllmBench] + "{}", "log:2: expected nothing behind the object"},
	{"another unit", strings.Replace(sample[aiPerf], `"unit":"ms"`, `"unit":"h"`, 1), "log:2: metrics.time_to_first_token = h"},
	{"half a token", strings.Replace(sample[aiPerf], `"value":10`, `"value":10.5`, 1), "log:2: metrics.input_sequence_length = 10.5"},
	{"no request", strings.Split(sample[aiPerf], "\n")[0], "log: expected at least one request"},
}

// TestWrongLogs: errors in a log name file and line.
func TestWrongLogs(t *testing.T) {
	for _, c := range wrong {
		_, _, err := parse("log", []byte(c.text))
		if !errors.As(err, new(*input.Error)) || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for text, says := range map[string]string{
		"{":                                      "meta.json: unexpected end",
		`{"engine_kwargs":{"max_num_seqs":"2"}}`: "meta.json: engine_kwargs.max_num_seqs = string: expected int",
		`{"engine_kwargs":{"max_num_seqs":-2}}`:  "meta.json: engine_kwargs.max_num_seqs = -2: expected 0 to",
	} {
		if _, err := parseServer("meta.json", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAsynchronous: a server forms iterations ahead if its log says so, else from vLLM 0.14 on.
func TestAsynchronous(t *testing.T) {
	for text, want := range map[string]bool{
		`{"vllm_version":"0.19.0"}`: true, `{"vllm_version":"0.14.1"}`: true, `{"vllm_version":"0.13.0"}`: false, `{"vllm_version":"1.0"}`: true, `{}`: true,
		`{"vllm_version":"0.19.0","resolved_config":{"scheduler_config":{"async_scheduling":false}}}`: false,
		`{"vllm_version":"0.11.0","resolved_config":{"scheduler_config":{"async_scheduling":true}}}`:  true,
	} {
		s, err := parseServer("meta.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		log := &Log{Server: s}
		set := fmt.Sprintf("gpu_only.async_scheduling=%t", want)
		if sets := log.settings(configs.Options{}).Sets; s.asynchronous() != want || !slices.Contains(sets[len(servers):], set) {
			t.Errorf("%s: %v", text, sets)
		}
	}
}

// TestPrefixCaching: a server keeps prefixes, in its pages, unless its log or version says otherwise or the run cannot.
func TestPrefixCaching(t *testing.T) {
	for _, c := range []struct {
		meta  string
		given []string
		block int // 0: no cache
	}{
		{`{}`, nil, 16},
		{`{"vllm_version":"0.7.3"}`, nil, 0},
		{`{"vllm_version":"0.7.3","engine_kwargs":{"enable_prefix_caching":true}}`, nil, 16},
		{`{"kv_cache":{"enable_prefix_caching":true,"block_size":32}}`, nil, 32},
		{`{"kv_cache":{"enable_prefix_caching":false,"block_size":784}}`, nil, 0},
		{`{"kv_cache":{"block_size":784}}`, nil, 0}, // does not divide the cache's blocks
		{`{"engine_kwargs":{"enable_prefix_caching":false}}`, nil, 0},
		{`{"resolved_config":{"cache_config":{"enable_prefix_caching":false}},"kv_cache":{"enable_prefix_caching":true}}`, nil, 0},
		{`{}`, []string{"batching.page_tokens=64"}, 64},
		{`{}`, []string{"model.window=128"}, 0},
		{`{}`, []string{"policy.name=quest"}, 0},
		{`{}`, []string{"cache.prefix=false"}, 0},
	} {
		s, err := parseServer("meta.json", []byte(c.meta))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := (&Log{Server: s}).load(configs.Options{Sets: append([]string{`run.model="llama-3.1-8b"`, "model.tensor_parallel=1"}, c.given...)})
		if err != nil {
			t.Errorf("%s, %v: %v", c.meta, c.given, err)
			continue
		}
		block := 0
		if cfg.Cache.Prefix {
			block = cfg.Cache.Block
		}
		if block != c.block {
			t.Errorf("%s, %v: blocks of %d tokens, want %d", c.meta, c.given, block, c.block)
		}
	}
}

// TestMetrics: errors of -0.5, 0 and 0.5 have the median 0.5, no errors 0.
func TestMetrics(t *testing.T) {
	m := Metric{Unit: "ratio"}
	if m.sum(); m.Requests != 0 || m.Median != 0 || m.P90 != 0 || m.Bias != 0 {
		t.Errorf("of nothing: %+v", m)
	}
	for _, s := range []float64{1, 2, 3.5} {
		m.add(2, s)
	}
	if m.sum(); m.Requests != 3 || m.Median != 0.5 || m.P90 != 0.75 || math.Abs(m.Bias-0.25/3) > 1e-12 || m.Measured != 2 || m.Simulated != 2 {
		t.Errorf("%+v", m)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range sample {
		f.Add([]byte(text))
	}
	for _, c := range wrong {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log, _, err := parse("log", text)
		if err != nil {
			if !errors.As(err, new(*input.Error)) {
				t.Fatal(err)
			}
			return
		}
		for _, r := range log.Requests {
			if !(r.Arrival >= 0 && r.Latency >= r.TTFT && r.TTFT > 0) || r.Line < 1 || r.Input < 1 || r.Output < 1 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func FuzzServer(f *testing.F) {
	text, err := os.ReadFile(logs + "/RTX4090_Llama-3.1-8B/" + MetaName)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := parseServer("meta.json", text); err != nil && !errors.As(err, new(*input.Error)) {
			t.Fatal(err)
		}
	})
}
