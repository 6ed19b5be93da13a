package traces

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// brief writes each request of a trace as INPUT>OUTPUT@SECONDS, its conversation and turn, the request that it waits for and the seconds of
// thinking after that, and the number of its hashes.
func brief(t *Trace) string {
	var b strings.Builder
	for _, r := range t.Requests {
		fmt.Fprintf(&b, "%d>%d@%g", r.Input, r.Output, r.Arrival.Seconds())
		if r.Turn != nil {
			fmt.Fprintf(&b, " %d.%d", r.Turn.Session, r.Turn.Number)
			for _, a := range r.Turn.After {
				fmt.Fprintf(&b, "<%d.%d", a.Session, a.Number)
			}
			if r.Turn.Waits {
				fmt.Fprintf(&b, "+%g", r.Turn.Think.Seconds())
			}
		}
		if len(r.Hashes) > 0 {
			fmt.Fprintf(&b, " #%d", len(r.Hashes))
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ") + fmt.Sprintf(" (%d failed)", t.Failed)
}

// TestBenchmarksByHand reads this year's files of agents, benchmarks and spans, with expected values computed by hand.
func TestBenchmarksByHand(t *testing.T) {
	for name, want := range map[string]struct{ brief, format, notes string }{
		// The sub-agent starts 13 − (9 + 3) = 1 s after its agent's second turn. The agent's third turn comes 21.5 − (13 + 7) = 1.5 s after
		// the sub-agent's end. A session of one request is no conversation. Each sub-agent and each session has its own hashes.
		"weka.jsonl":           {"130>20@0 0.0 #2; 200>30@9 0.1+6.5 #3; 70>5@13 1.0<0.1+1 #1; 128>6@18 1.1+4 #2; 260>10@21.5 0.2<1.1+1.5 #4; 140>12@301 #2 (1 failed)", "weka", ""},
		"guidellm.json":        {"100>12@0 0.0; 55>4@0.75; 130>8@2.25 0.1 (2 failed)", "guidellm", ""},
		"otel.jsonl":           {"120>40@0 0.0; 7>9@0.5; 180>20@2 0.1 (1 failed)", "otel", "1 span is no inference (gen_ai.operation.name is not chat, text_completion, generate_content): left out"},
		"sglang_summary.jsonl": {"101>11@0; 100>11@0; 100>10@0 (0 failed)", "vllm", "the file has no start_times, so all requests come at once; the benchmark sent 4 a second: --rate 4|the result lists no requests, so 3 of equal lengths stand for them; --save-detailed (vLLM) or --output-details (SGLang) writes each"},
	} {
		got, err := Load("testdata/"+name, 0)
		if err != nil || brief(got) != want.brief || got.Format != want.format || strings.Join(got.Notes, "|") != want.notes {
			t.Errorf("%s: %v\n%v %v\nby hand %v", name, err, brief(got), got.Notes, want)
			continue
		}
		if first, err := Load("testdata/"+name, 2); err != nil || len(first.Requests) != 2 {
			t.Errorf("%s: the first two: %v", name, err)
		}
	}
}

// TestScopesOfHashes: a local hash names a block of one session, a global one a block of all sessions; consecutive turns share the memory
// of their hashes.
func TestScopesOfHashes(t *testing.T) {
	text, err := os.ReadFile("testdata/weka.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string]int64{"local": 2*64 + 64 + 3*64, "global": 2*64 + 64 + 3*64 + 2*64} {
		trace, err := readFirst("f", bytes.NewReader(bytes.ReplaceAll(text, []byte(`"local"`), []byte(`"`+scope+`"`))), 0)
		if err != nil {
			t.Fatal(err)
		}
		if p := trace.prefixes(); p.SharedTokens != want || p.BlockTokens != 64 {
			t.Errorf("%s: %+v, by hand %d tokens shared", scope, p, want)
		}
		r := trace.Requests
		if &r[1].Hashes[0] != &r[1].Hashes[:1][0] || cap(r[1].Hashes) != len(r[1].Hashes) {
			t.Error("hashes that an append would change")
		}
	}
	// The hashes of the first session alone are local: they differ from the global ones of the second.
	first, second, _ := strings.Cut(string(text), "\n")
	if p := must(t, first+"\n"+strings.Replace(second, `"local"`, `"global"`, 1)).prefixes(); p.SharedTokens != 2*64+64+3*64 {
		t.Errorf("a local and a global session: %+v", p)
	}
	if got := brief(must(t, string(text)+" "+string(text))); strings.Count(got, ";") != 11 {
		t.Errorf("objects on one line: %s", got)
	}
}

func must(t *testing.T, text string) *Trace {
	t.Helper()
	trace, err := readFirst("f", strings.NewReader(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestAbsoluteTimes: if the times of a sub-agent are not before its marker, they count from the session's start, as in AgentX.
func TestAbsoluteTimes(t *testing.T) {
	text := `{"block_size": 64, "hash_id_scope": "local", "requests": [{"t": 1, "type": "n", "in": 70, "out": 1, "api_time": 1},
		{"t": 4, "type": "subagent", "status": "async_launched", "requests": [{"t": 4.5, "type": "n", "in": 80, "out": 2}, {"t": 6, "type": "n", "in": 90, "out": 3}]},
		{"t": 5, "type": "n", "in": 100, "out": 4}]}`
	// No turn waits for an asynchronous sub-agent. Its second turn has no recorded time to wait, so it comes at its own time.
	if got, want := brief(must(t, text)), "70>1@0 0.0; 80>2@3.5 1.0<0.0+2.5; 100>4@4 0.1+3; 90>3@5 1.1 (0 failed)"; got != want {
		t.Errorf("%s\nby hand %s", got, want)
	}
}

// TestTurnsOfAgents: which request waits for which, also in a sample with requests missing.
func TestTurnsOfAgents(t *testing.T) {
	trace, err := Load("testdata/weka.jsonl", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(trace.Turns()), "map[0:[1] 1:[2 4] 2:[3] 3:[4]]"; got != want {
		t.Errorf("%s, by hand %s", got, want)
	}
	cut := trace.with(trace.Requests[2:5], trace.Arrivals)
	cut.normalize()
	if got, want := brief(cut), "70>5@13 0.0+1 #1; 128>6@18 0.1+4 #2; 260>10@21.5 1.0<0.1+1.5 #4 (1 failed)"; got != want {
		t.Errorf("%s\nby hand %s", got, want)
	}
	if lost, err := trace.Lost("mooncake"); err != nil || fmt.Sprint(lost) != "[sub-agents]" {
		t.Error(lost, err)
	}
}

// TestBadBenchmarks: each error says where the file is wrong, how, and what is accepted.
func TestBadBenchmarks(t *testing.T) {
	session := func(request string) string {
		return `{"id": "a", "block_size": 64, "hash_id_scope": "local", "requests": [` + request + `]}`
	}
	guide := func(request string) string {
		return `{"benchmarks": [{"requests": {"successful": [` + request + `]}}]}`
	}
	vllm := func(in, out, start string) string {
		text := `{"completed": 3, "total_input_tokens": 9, "total_output_tokens": 3, "input_lens": ` + in + `, "output_lens": ` + out
		if start != "" {
			text += `, "start_times": ` + start
		}
		return text + "}"
	}
	aiperf := func(start, in, out string) string {
		return `{"metadata": {"request_start_ns": ` + start + `}, "metrics": {"input_sequence_length": {"value": ` + in + `}, "output_sequence_length": {"value": ` + out + "}}}\n"
	}
	span := func(attributes string) string {
		return `{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "5", "attributes": [` + attributes + `]}]}]}]}`
	}
	for _, c := range []struct{ text, want string }{
		{session(`{"t": 0, "in": 1.5, "out": 2}`), "f:1: requests[0].in = 1.5: expected a whole number of tokens"},
		{session(`{"t": -1, "in": 1, "out": 2}`), "f:1: requests[0].t = -1: expected seconds"},
		{session(`{"in": 1, "out": 2}`), "f:1: requests[0]: no t; expected t, in and out"},
		{session(`{"t": 0, "in": 70, "out": 2, "hash_ids": [1, 2, 3]}`), "f:1: requests[0].hash_ids = [1, 2, 3]: expected 2 hashes, one for each block of 64 tokens"},
		{session(`{"t": 0, "in": 70, "out": 2, "hash_ids": [1, -2]}`), "f:1: requests[0].hash_ids = [1, -2]: expected an array of whole numbers"},
		{session(`{"t": 0, "in": 70, "out": 2, "think_time": "x"}`), "f:1: requests[0].think_time = x: expected seconds"},
		{session(`{"t": 0, "type": "subagent"}`), "f:1: requests[0]: expected a sub-agent with t and requests"},
		{session(`{"t": 0, "type": "subagent", "requests": [{"t": 0, "in": 1}]}`), "f:1: requests[0].requests[0]: no out; expected t, in and out"},
		{session(`7`), "f:1: requests[0]: no JSON object; expected an object with t, in, out"},
		{strings.Replace(session(""), "local", "world", 1), `f:1: hash_id_scope = "world": expected "local" or "global"`},
		{strings.Replace(session(""), "64", "0", 1), "f:1: block_size = 0: expected 1 to"},
		{session(`{"t": 0, "in": 70, "out": 2}`) + "\n" + strings.Replace(session(""), "64", "16", 1), "f:2: block_size = 16: expected 64, as in the sessions before"},
		{`{"block_size": 64, "requests": 5}`, "f:1: requests: expected an array"},
		{`{"block_size": 64, "requests": [`, "f:1: "},
		{guide(`{"prompt_tokens": 5, "request_start_time": 1}`), "f:1: benchmarks[0].requests.successful[0]: no output_tokens; expected request_start_time, prompt_tokens and output_tokens"},
		{guide(`{"prompt_tokens": 5, "output_tokens": 1, "request_start_time": "now"}`), "f:1: benchmarks[0].requests.successful[0].request_start_time = now: expected seconds"},
		{`{"benchmarks": [{}, {}]}`, "f:1: benchmarks = a second benchmark: expected one; jq"},
		{`{"benchmarks": {}}`, "f:1: benchmarks: expected an array"},
		{`{"benchmarks": [{"requests": []}]}`, "f:1: requests: expected an object"},
		{`{"benchmarks": []}`, "f: expected at least one request"},
		{span(`{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}`), "f:1: no gen_ai.usage.input_tokens; expected a span with startTimeUnixNano, gen_ai.usage.input_tokens and gen_ai.usage.output_tokens"},
		{span(`{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "0"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "1"}}`), "f:1: gen_ai.usage.input_tokens = 0: expected a whole number"},
		{span(`7`), "f:1: attributes: expected a list such as"},
		{`{"resourceSpans": 7}`, "f:1: resourceSpans: expected an array of objects"},
		{`{"resourceSpans": [7]}`, "f:1: resourceSpans: no JSON object"},
		{`{"completed": 3, "total_input_tokens": 2, "total_output_tokens": 9}`, "f:1: total_input_tokens = 2: expected 1 to 16777216 tokens for each of 3 requests"},
		{`{"completed": 3, "total_input_tokens": 9.5, "total_output_tokens": 9}`, "f:1: total_input_tokens: expected a whole number"},
		{`{"completed": 0, "total_input_tokens": 9, "total_output_tokens": 9}`, "f:1: completed = 0: expected at least one request that succeeded"},
		{`[{"completed": 3, "total_input_tokens": 9, "total_output_tokens": 9}]`, "f:1: [: expected one result of a benchmark; jq '.[0]' FILE has the first of several"},
		{`{"completed": 3, "total_input_tokens": 9, "total_output_tokens": 9, "output_lens": [3, 3, 3]}`, "f: input_lens: expected a list of numbers, which --save-detailed writes (vLLM), or --output-details (SGLang)"},
		{vllm("[3, 0, -3]", "[1, 1, 1]", ""), "f:1: input_lens[1] = 0: expected a whole number of tokens from 1 to"},
		{vllm("[3, 3, 3]", `[1, "eleven", 1]`, ""), `f:1: output_lens[1] = "eleven": expected a whole number of tokens`},
		{vllm("[3, 3, 3]", "[1, 1]", ""), "f:1: output_lens = 2 numbers: expected 3, as in input_lens"},
		{vllm("[3, 3, 3]", "[1, 1, 1]", "[1, null, 3]"), "f:1: start_times[1] = null: expected seconds, not negative"},
		{vllm("[3, 3, 3]", "[0, 0, 0]", ""), "f: expected at least one request that succeeded; 3 failed"},
		{vllm("[3, 3, 3]", "[1, 1", ""), "f:1: not JSON: "},
		{aiperf("1", "100", "12") + aiperf("2", `"many"`, "12"), "f:2: metrics.input_sequence_length.value = many: expected a whole number of tokens from 1 to"},
		{aiperf("1", "100", "12") + aiperf("2", "100", "-4"), "f:2: metrics.output_sequence_length.value = -4: expected a whole number of tokens"},
		{aiperf("1", "100", "12") + aiperf(`"noon"`, "100", "12"), "f:2: metadata.request_start_ns = noon: expected nanoseconds, not negative"},
		{aiperf("1", "100", "12") + aiperf("2", "100", "12")[:60], "f:2: the line ends within the object (jq -c . FILE writes one on each line); expected a JSON object with metadata.request_start_ns"},
		{aiperf("1", "100", "12") + `{"metadata": {"request_start_ns": 2}}`, "f:2: no metrics.input_sequence_length.value, no metrics.output_sequence_length.value; expected metadata.request_start_ns"},
		{strings.Replace(session(""), "64", `"big"`, 1), "f:1: block_size = a string: expected a whole number"},
		{strings.Replace(session(""), `"a"`, "7", 1), "f:1: id = a number: expected a string"},
		{`{"benchmarks": [{"metrics": {"request_totals": {"successful": "x"}}}]}`, "f:1: metrics.request_totals.successful = a string: expected a whole number"},
		{guide(`{"prompt_tokens": 5, "request_start_time`), "f:1: "},
		{span(`{"key": "gen_ai.usage.input_tokens", "value": {"arrayValue": 0}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "1"}}`), "f:1: no gen_ai.usage.input_tokens; expected a span with"},
		{span(`{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1"}}, {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "2"}}`), `f:1: attributes: two attributes "gen_ai.usage.input_tokens"; expected one of each name`},
		{span(""), "f: expected at least one request"},
	} {
		if got, err := readFirst("f", strings.NewReader(c.text), 0); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s\ngot %v, %v\nwant %s", c.text, got, err, c.want)
		}
	}
	if _, err := readFirst("f", strings.NewReader(span("")), 0); err != nil {
		if details := strings.Join(err.(*input.Error).Details, "|"); !strings.HasPrefix(details, "1 span is no inference (gen_ai.operation.name is not chat") {
			t.Errorf("details %q", details)
		}
	}
	skipped, err := (Options{SkipBad: true}).Read("f", strings.NewReader(session(`{"t": 0, "in": 70, "out": 2}, {"t": 1}, {"t": 2, "in": 80, "out": 2}`)))
	if err != nil || len(skipped.Requests) != 2 || skipped.Skipped != 1 || !strings.HasPrefix(skipped.FirstBad.Error(), "f:1: requests[1]: ") {
		t.Errorf("%+v, %v", skipped, err)
	}
}

// TestSpansOfSDKs: spans as the exporters of SDKs print them: one JSON object each, with older names of attributes.
func TestSpansOfSDKs(t *testing.T) {
	text := `{
    "name": "execute_tool", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:05.000000Z", "attributes": {"gen_ai.operation.name": "execute_tool"}
}
{"name": "chat", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:06.250000Z", "status": {"status_code": "UNSET"}, "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.completion_tokens": 4}}
{"name": "chat", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:06.750000Z", "status": {"status_code": "ERROR"}, "attributes": {"gen_ai.operation.name": "chat"}}
{"name": "chat", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:07.000000Z", "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 5}}
`
	if got, want := brief(must(t, text)), "30>4@0; 40>5@0.75 (1 failed)"; got != want {
		t.Errorf("%s, by hand %s", got, want)
	}
}

// TestAIPerfWritten: a request without a conversation becomes a session of its own, with a number that no conversation has.
func TestAIPerfWritten(t *testing.T) {
	trace := &Trace{Requests: []Request{{Input: 9, Output: 1}, {ID: 1, Arrival: units.Second, Input: 8, Output: 1, Turn: &Turn{}}, {ID: 2, Arrival: 2 * units.Second, Input: 7, Output: 1},
		{ID: 3, Arrival: 3 * units.Second, Input: 20, Output: 1, Turn: &Turn{Number: 1}}}}
	var text bytes.Buffer
	if err := trace.Write(&text, "aiperf"); err != nil {
		t.Fatal(err)
	}
	if got, want := brief(must(t, text.String())), "9>1@0; 8>1@1 0.0; 7>1@2; 20>1@3 0.1 (0 failed)"; got != want {
		t.Errorf("%s, by hand %s", got, want)
	}
	for _, field := range []string{`"turn_index": 1`, `"request_end_ns": 3000000000`, `"session_num": 2`, `"worker_id"`, `"record_processor_id"`, `"was_cancelled": false`} {
		if !strings.Contains(text.String(), field) {
			t.Errorf("no %s in\n%s", field, text.String())
		}
	}
}
