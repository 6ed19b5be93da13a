package traces

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// readText reads a text and returns what TestUnderstand compares, the number of requests left out, and the notes; or the error.
func readText(o Options, text string) string {
	trace, err := o.Read("f", strings.NewReader(text))
	if err != nil {
		return "error " + err.Error()
	}
	return fmt.Sprintf("%s, %d failed, %d skipped%s", readBack(trace), trace.Failed, trace.Skipped, strings.Join(append([]string{""}, trace.Notes...), ": "))
}

// TestBenchmarksAndSpansAtTheirEdges: fields of GuideLLM's reports, of spans and of benchmarks' results that another version or exporter
// lacks or writes differently.
func TestBenchmarksAndSpansAtTheirEdges(t *testing.T) {
	guide := func(totals, requests string) string {
		return `{"benchmarks": [{"requests": {` + requests + `}, "metrics": {"x": 1` + totals + `}}]}`
	}
	const (
		two = `"successful": [{"prompt_tokens": 3, "output_tokens": 1, "request_start_time": 5, "start_time": 1}, {"prompt_tokens": 4, "output_tokens": 1, "request_start_time": 7.5, "start_time": 2}]`
		old = `"total": [{"x": 1}], "successful": [{"prompt_tokens": 3, "output_tokens": 1, "start_time": 5}, {"prompt_tokens": 4, "output_tokens": 1, "start_time": 7}]`
	)
	span := func(at, rest string) string {
		return fmt.Sprintf(`{"startTimeUnixNano": "%s000000000", %s}`, at, rest)
	}
	list := func(pairs ...string) string {
		var all []string
		for i := 0; i < len(pairs); i += 3 {
			all = append(all, fmt.Sprintf(`{"key": "%s", "value": {"%s": %s}}`, pairs[i], pairs[i+1], pairs[i+2]))
		}
		return `"attributes": [` + strings.Join(all, ", ") + `]`
	}
	tokens := func(in, out string) string {
		return list("gen_ai.usage.input_tokens", "intValue", `"`+in+`"`, "gen_ai.usage.output_tokens", "doubleValue", out)
	}
	bare := func(at, attributes string) string {
		return `{"trace_id": "0x1", "start_time": "2026-01-02T03:04:` + at + `Z", "attributes": {` + attributes + "}}\n"
	}
	const sizes = `"gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 1`
	resource := func(spans string) string {
		return `{"resourceSpans": [{}, {"scopeSpans": [{"spans": [` + spans + `]}, {"scope": 1}]}]}`
	}
	sums := func(n, in, out int) string {
		return fmt.Sprintf(`{"completed": %d, "total_input_tokens": %d, "total_output_tokens": %d}`, n, in, out)
	}
	const means = ": the result lists no requests, so %d of equal lengths stand for them; --save-detailed (vLLM) or --output-details (SGLang) writes each"
	for _, c := range []struct {
		text string
		o    Options
		want string
	}{
		{guide("", two), Options{}, "guidellm; 3@0 4@2.5; request_start_time seconds, 0 failed, 0 skipped"},
		{guide("", old), Options{}, "guidellm; 3@0 4@2; start_time seconds, 0 failed, 0 skipped"},
		{guide("", two), Options{Requests: 1}, "guidellm; 3@0; request_start_time seconds, 0 failed, 0 skipped"},
		{guide(`, "request_totals": {"successful": 2}`, two), Options{}, "guidellm; 3@0 4@2.5; request_start_time seconds, 0 failed, 0 skipped"},
		{guide(`, "request_totals": {"successful": 3}`, two), Options{}, "guidellm; 3@0 4@2.5; request_start_time seconds, 0 failed, 0 skipped: the report lists 2 of 3 requests that succeeded; without --sample-requests it lists all"},
		{guide(`, "request_totals": {"successful": 2}`, two+`, "errored": [{}, {}], "incomplete": [{}]`), Options{}, "guidellm; 3@0 4@2.5; request_start_time seconds, 3 failed, 0 skipped"},
		{guide(`, "request_totals": 5`, two), Options{}, "error f:1: "},
		{guide("", two) + "{}", Options{}, "error f:1: "},
		{guide("", `"successful": 5`), Options{}, "error f:1: requests.successful: expected an array"},
		{guide("", `"successful": null, `+strings.Replace(old, "total", "x", 1)), Options{}, "guidellm; 3@0 4@2; start_time seconds, 1 failed, 0 skipped"},
		{guide("", `"successful": [`), Options{}, "error f:1: "},
		// Spans without a time, of a failed request, of no inference, and with values of each kind.
		{resource(span("5", tokens("3", "1")) + "," + span("7", tokens("4", "1"))), Options{}, "otel; 3@0 4@2; startTimeUnixNano nanoseconds, 0 failed, 0 skipped"},
		{resource(span("5", tokens("3", "1")) + "," + span("7", tokens("4", "1"))), Options{Requests: 1}, "otel; 3@0; startTimeUnixNano nanoseconds, 0 failed, 0 skipped"},
		{resource(span("5", tokens("3", "1")) + "," + span("7", `"x": 1`) + "," + span("8", list("gen_ai.operation.name", "stringValue", `"embeddings"`, "gen_ai.usage.input_tokens", "intValue", `"3"`))), Options{},
			"otel; 3@0; startTimeUnixNano nanoseconds, 0 failed, 0 skipped: 2 spans are no inference (gen_ai.operation.name is not chat, text_completion, generate_content): left out"},
		{resource(span("5", tokens("3", "1")) + "," + span("6", `"status": {"code": 2}, `+tokens("4", "1")) + "," + span("7", `"status": {"code": 1}, `+tokens("5", "1")) + "," +
			span("8", `"status": {"status_code": "StatusCode.ERROR"}, `+tokens("6", "1")) + "," + span("9", list("gen_ai.operation.name", "stringValue", `"text_completion"`, "error.type", "stringValue", `"timeout"`))), Options{},
			"otel; 3@0 5@2; startTimeUnixNano nanoseconds, 3 failed, 0 skipped"},
		{resource(span("5", list("gen_ai.operation.name", "stringValue", `"generate_content"`, "gen_ai.usage.input_tokens", "intValue", "3", "gen_ai.usage.output_tokens", "stringValue", `"1"`))), Options{},
			"otel; 3@0; startTimeUnixNano nanoseconds, 0 failed, 0 skipped"},
		{resource(span("5", tokens("3", "1")) + `, {` + tokens("4", "1") + `}`), Options{SkipBad: true}, "otel; 3@0; startTimeUnixNano nanoseconds, 0 failed, 1 skipped"},
		{resource(span("5", `"attributes": "x"`)), Options{}, "error f:1: attributes: expected a list such as"},
		{bare("05", sizes) + bare("06.5", sizes), Options{}, "otel; 3@0 3@1.5; startTimeUnixNano nanoseconds, 0 failed, 0 skipped"},
		{bare("05", sizes) + bare("06", sizes+`, `+sizes) + bare("07", sizes), Options{}, `error f:2: attributes: two fields "gen_ai.usage.input_tokens"; expected names with values`},
		{bare("05", sizes) + bare("06", sizes+`, "x": [1], "error.type": null`), Options{}, "otel; 3@0 3@1; startTimeUnixNano nanoseconds, 0 failed, 0 skipped"},
		{bare("05", sizes) + "7\n" + bare("07", sizes), Options{}, "error f:2: no JSON object"},
		{bare("05", sizes) + "7\n" + bare("07", sizes), Options{SkipBad: true}, "otel; 3@0 3@2; startTimeUnixNano nanoseconds, 0 failed, 1 skipped"},
		{bare("05", sizes) + "{", Options{}, "error f:2: "},
		// Totals of a benchmark: 1 and 16,777,216 tokens a request are legal; a remainder goes to the first requests.
		{sums(3, 3, 8), Options{}, "vllm; 1@0 1@0 1@0;  , 0 failed, 0 skipped" + fmt.Sprintf(means, 3)},
		{sums(3, 11, 3), Options{}, "vllm; 4@0 4@0 3@0;  , 0 failed, 0 skipped" + fmt.Sprintf(means, 3)},
		{sums(3, 11, 3), Options{Requests: 2}, "vllm; 4@0 4@0;  , 0 failed, 0 skipped" + fmt.Sprintf(means, 3)},
		{sums(2, 2*maxTokens, 2), Options{}, "vllm; 16777216@0 16777216@0;  , 0 failed, 0 skipped" + fmt.Sprintf(means, 2)},
		{sums(2, 2*maxTokens+1, 2), Options{}, "error f:1: total_input_tokens = 33554433: expected 1 to 16777216 tokens for each of 2 requests (completed)"},
		{sums(2, 2, 2*maxTokens+1), Options{}, "error f:1: total_output_tokens = 33554433"},
		{sums(2, 2, 1), Options{}, "error f:1: total_output_tokens = 1: expected"},
		{sums(maxWhole+1, 2*maxWhole, 2*maxWhole), Options{}, "error f:1: total_input_tokens = 2000000: expected 1 to 16777216 tokens for each of 1000001 requests"},
		{`{"input_lens": [5, 6, 7], "output_lens": [7, 8, 9]}`, Options{Requests: 2}, "vllm; 5@0 6@0;  , 0 failed, 0 skipped"},
		{`{"request_rate": 4, "input_lens": [5], "output_lens": [7]}`, Options{}, "vllm; 5@0;  , 0 failed, 0 skipped: the file has no start_times, so all requests come at once; the benchmark sent 4 a second: --rate 4"},
		// Escaped names, and the limit of a file that has to be read as a whole.
		{`{"input_toke\u006es": 3, "output_tokens": 1}`, Options{}, "l3sim; 3@0;  , 0 failed, 0 skipped"},
		{"input_tokens,output_tokens\n3,1\n4,1\n", Options{Most: 2}, "l3sim; 3@0 4@0;  , 0 failed, 0 skipped"},
		{"input_tokens,output_tokens\n3,1\n4,1\n5,1\n", Options{Most: 2}, "error f:4: expected at most 2 requests; run.requests = N (--requests N) reads the first N alone"},
		{"input_tokens,output_tokens\n3,1\n4,1\n5,1\n", Options{Most: 2, Requests: 3}, "l3sim; 3@0 4@0 5@0;  , 0 failed, 0 skipped"},
	} {
		if got := readText(c.o, c.text); got != c.want && (!strings.HasPrefix(c.want, "error ") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
	for most, want := range map[int]string{maxWhole: "run.requests = N", maxWhole + 1: "--window FROM:TO reads a part"} {
		c := collector{options: Options{Most: most}, found: most}
		if err := c.add(row{input: 1, output: 1, timed: true}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("more than %d requests: %v, want %q", most, err, want)
		}
	}
}

// TestParquetColumnsOfEveryKind: one column of each physical type of numbers and of texts. An unknown compression is an error if its column
// is read.
func TestParquetColumnsOfEveryKind(t *testing.T) {
	type row struct {
		F32 float32 `parquet:"f32"`
		F64 float64 `parquet:"f64"`
		I32 int32   `parquet:"i32"`
		I64 int64   `parquet:"i64"`
		U32 uint32  `parquet:"u32"`
		LZ4 int32   `parquet:"lz4,lz4"`
	}
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{{0.1, 0.25, 3, 4, 5, 6}, {1.35, 2.75, 3, 4, 5, 6}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, in, out, want string
	}{
		{"f32", "i32", "i64", "3@0 3@1.25; f32 seconds"}, {"f64", "i64", "i32", "4@0 4@2.5; f64 seconds"}, {"i32", "u32", "i64", "5@0 5@0; i32 seconds"},
		{"f64", "lz4", "i32", "error f: group 1 of rows: expected another compression than LZ4"}, {"lz4", "i32", "i32", "error f: group 1 of rows: expected another compression than LZ4"},
	} {
		got := readText(Options{Columns: Columns{Arrival: c.at, Input: c.in, Output: c.out, Unit: "s"}}, file.String())
		if !strings.HasPrefix(strings.TrimPrefix(got, "parquet; "), c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestReadingByHand: what a trace reports of each column that it used, each with a name of its own.
func TestReadingByHand(t *testing.T) {
	columns := Columns{Arrival: "at", Input: "in", Output: "out", Session: "who", Unit: "ms"}
	for _, c := range []struct {
		text string
		o    Options
		want Reading
	}{
		{"who,at,in,out\nx,5,3,1\nx,9,4,1\n", Options{Columns: columns}, Reading{Input: "in", Output: "out", Times: "at", Unit: "milliseconds", Session: "who"}},
		{"who,at,in,out\n,5,3,1\n,9,4,1\n", Options{Columns: columns}, Reading{Input: "in", Output: "out", Times: "at", Unit: "milliseconds"}},
		{"isl,osl\n3,1\n", Options{}, Reading{Input: "isl", Output: "osl"}},
		{`{"timestamp": 5, "session_id": "a", "hash_ids": [1], "input_length": 3, "output_length": 1}` + "\n" + `{"timestamp": 6, "session_id": "a", "hash_ids": [1], "input_length": 3, "output_length": 1}`, Options{},
			Reading{Input: "input_length", Output: "output_length", Times: "timestamp", Unit: "milliseconds", Hashes: "hash_ids", Session: "session_id"}},
	} {
		trace, err := c.o.Read("f", strings.NewReader(c.text))
		if err != nil || trace.Reading != c.want {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", c.text, trace, err, c.want)
		}
	}
	// Of several columns of times the one with the surest name counts, in any order.
	times := map[string]string{"arrival": "1", "created_at": "2", "timestamp": "3", "time": "4"}
	for _, c := range [][]string{{"time", "timestamp", "arrival", "created_at"}, {"arrival", "created_at", "timestamp", "time"}, {"timestamp", "created_at", "time"}, {"created_at", "time", "timestamp"}, {"time", "timestamp"}} {
		rows := strings.Join(c, ",") + ",input_tokens,output_tokens\n"
		best := ""
		for second := range 3 {
			for _, name := range c {
				rows += times[name] + fmt.Sprint(second) + ","
				if best == "" || times[name] < times[best] {
					best = name
				}
			}
			rows += "3,1\n"
		}
		if trace, err := (Options{}).Read("f", strings.NewReader(rows)); err != nil || trace.Reading.Times != best {
			t.Errorf("%v: times of %+v, %v; want %s", c, trace, err, best)
		}
	}
}

// TestTokensByHand: numbers of tokens as files write them. Zeros after a point are no fraction, but three of them may mean thousands.
func TestTokensByHand(t *testing.T) {
	for text, want := range map[string]int{
		"7": 7, "7.0": 7, "7.00": 7, "7.0000": 7, "7.": 7, "1,024": 1024, "1,024.0": 1024, "16777216": maxTokens, "16777216.0": maxTokens,
		"7.000": 0, "7.05": 0, "7.5": 0, "7.50": 0, "7.0.0": 0, "0": 0, "-7": 0, "": 0, "x": 0, "16777217": 0, "1,02": 0, "1e3": 0,
	} {
		if got, ok := parseTokens(text); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, ok, want)
		}
	}
}

// TestValuesOfFooters: skipping a value of any type of Thrift's compact protocol takes exactly its bytes, and stops at structs nested
// deeper than 32 or lists that are too long.
func TestValuesOfFooters(t *testing.T) {
	for name, c := range map[string]struct {
		kind byte
		text string
	}{
		"byte": {thriftByte, "\x05"}, "16 bits": {thriftI16, "\x05"}, "32 bits": {thriftI32, "\x85\x01"}, "64 bits": {thriftI64, "\x85\x85\x01"}, "true": {thriftTrue, "\x01"}, "double": {thriftDouble, "12345678"},
		"text": {thriftBinary, "\x03abc"}, "no text": {thriftBinary, "\x00"}, "list": {thriftList, "\x25\x05\x85\x01"}, "list of a length of its own": {thriftList, "\xf5\x03\x05\x06\x07"}, "set": {thriftSet, "\x18\x01a"},
		"map": {thriftMap, "\x02\x85\x01a\x05\x02bc\x85\x01"}, "map of none": {thriftMap, "\x00"},
		"struct": {thriftStruct, "\x15\x07\x18\x02ab\x11\x05\x09\x01\x00"}, // 32 bits, a text, a boolean, and a field whose number follows
	} {
		w := walker{text: []byte(c.text + "!")}
		if w.skip(c.kind, 0); w.err != nil || string(w.text) != "!" {
			t.Errorf("%s: %q is left, %v", name, w.text, w.err)
		}
	}
	nested := func(n int) error { // structs within a struct
		w := walker{text: []byte(strings.Repeat("\x1c", n) + strings.Repeat("\x00", n+1))}
		w.skip(thriftStruct, 0)
		return w.err
	}
	if a, b := nested(maxThriftDepth), nested(maxThriftDepth+1); a != nil || b == nil || !strings.Contains(b.Error(), "nests too deep") {
		t.Errorf("%v and %v", a, b)
	}
	w := walker{text: []byte("\x0d!")}
	if w.skip(13, 0); w.err == nil || !strings.Contains(w.err.Error(), "unknown type 13") {
		t.Error(w.err)
	}
	for more, bad := range []string{"", "too many elements"} {
		w := walker{text: []byte("!"), elements: maxElements - 1 + more}
		if w.skipAll(1, 0, thriftByte); (w.err != nil) != (bad != "") || bad != "" && !strings.Contains(w.err.Error(), bad) {
			t.Errorf("%d elements: %v", maxElements+more, w.err)
		}
	}
}

// TestArrivalLimitsByHand: users and their thinking time at the limits of what is legal, and the errors beyond.
func TestArrivalLimitsByHand(t *testing.T) {
	for _, c := range []struct {
		change func(s *ArrivalSpec)
		want   string
	}{
		{func(*ArrivalSpec) {}, ""},
		{func(s *ArrivalSpec) { s.Users = 1_048_576 }, ""}, {func(s *ArrivalSpec) { s.Users = 1_048_577 }, "users = 1048577: expected 0 to 1048576"}, {func(s *ArrivalSpec) { s.Users = -1 }, "users = -1: expected 0 to 1048576"},
		{func(s *ArrivalSpec) { s.ThinkTime = 86_400 * units.Second }, ""}, {func(s *ArrivalSpec) { s.ThinkTime = 86_401 * units.Second }, "expected 0s to 86400s"}, {func(s *ArrivalSpec) { s.ThinkTime = -1 }, "expected 0s to 86400s"},
		{func(s *ArrivalSpec) { s.Kind, s.Users = ArrivalsClosed, 0 }, "users = 0: expected at least 1 with arrivals.kind = \"closed-loop\""},
		{func(s *ArrivalSpec) { s.Kind, s.Users = ArrivalsClosed, 1 }, ""},
		{func(s *ArrivalSpec) { s.RatePerS, s.Scale = 2, 3 }, "scale = 3: expected 1 with arrivals.rate_per_s"},
		{func(s *ArrivalSpec) { s.Kind, s.RatePerS = ArrivalsAtOnce, 2 }, "expected 0 with arrivals.kind = \"" + ArrivalsAtOnce + "\", which has no rate of its own"},
		{func(s *ArrivalSpec) { s.Window = "5s:3s" }, "expected two times, the later one last"}, {func(s *ArrivalSpec) { s.Window = "3s:5s" }, ""},
	} {
		s := ArrivalSpec{Kind: ArrivalsTrace, ThinkDistribution: ThinkFixed, CV: 1, Users: 3, Scale: 1}
		c.change(&s)
		check := input.Check{}
		if s.Check(&check); (check.Err() == nil) != (c.want == "") || c.want != "" && !strings.Contains(check.Err().Error(), c.want) {
			t.Errorf("%+v: %v, want %q", s, check.Err(), c.want)
		}
	}
}

// TestOtherKindsByHand: files that are no traces are recognised by their first bytes, and the error says how to make a trace of them.
func TestOtherKindsByHand(t *testing.T) {
	for begin, want := range map[string][2]string{
		"\xff\xfe\x00\x00t\x00\x00\x00": {"text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE"}, "\x00\x00\xfe\xff\x00": {"text in UTF-32", "iconv -f UTF-32"}, "\xff\xfet\x00": {"text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE"},
		"\xfe\xff\x00t": {"text in UTF-16", "iconv -f UTF-16 "}, "PK\x03\x04\x00": {"a zip archive or an Excel file", "unzip -p FILE"}, "BZh91AY": {"a file packed by bzip2", "bzip2 -dc FILE"}, "\xfd7zXZ\x00": {"a file packed by xz", "xz -dc FILE"},
		"\x04\x22\x4d\x18d": {"a file packed by lz4", "lz4 -dc FILE"}, "\x1f\x8b\x08\x00": {"a file packed twice by gzip", "gzip -dc FILE"}, "\x28\xb5\x2f\xfd\x00": {"a file packed twice", "zstd -dc FILE"},
		strings.Repeat("a", 257) + "ustar": {"a tar archive", "tar -xOf FILE"}, "ARROW1\x00": {"an Arrow or Feather file", ""}, "SQLite format 3\x00": {"an SQLite database", ""}, "ORC\x01": {"an ORC file", ""},
		"\x89HDF\r\n": {"an HDF5 file", ""}, "Obj\x01\x02": {"an Avro file", ""}, "\x80\x04\x95": {"a Python pickle", ""}, "version https://git-lfs.github.com/spec/v1": {"a pointer of Git LFS", "git lfs pull"}, "<!DOCTYPE html>": {"HTML or XML", ""},
		"t\x00,\x00": {"text in UTF-16 without a mark", "iconv -f UTF-16LE"}, "\x00t\x00,": {"text in UTF-16 without a mark", "iconv -f UTF-16BE"}, "abc\x00": {"no text", ""},
		"a,b\n": {"", ""}, strings.Repeat("a", 256) + "ustar": {"", ""}, "PK": {"", ""}, "": {"", ""}, "{": {"", ""},
	} {
		name, instead := otherKind([]byte(begin))
		if !strings.HasPrefix(name, want[0]) || !strings.HasPrefix(instead, want[1]) || (name == "") != (want[0] == "") || (instead == "") != (want[1] == "") {
			t.Errorf("%.20q is %q, %q; want %q, %q", begin, name, instead, want[0], want[1])
		}
	}
	for begin, want := range map[string]string{"abc\x00": "no text", "ORC\x01": "an ORC file", "BZh91AY": "a file packed by bzip2"} {
		want = "error f: " + want + ": expected CSV, JSON lines, Parquet or one object of vLLM's benchmark, in UTF-8, packed by gzip or zstd or not"
		if strings.HasPrefix(begin, "BZ") {
			want += "; bzip2 -dc FILE unpacks it"
		}
		if got := readText(Options{}, begin); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	var none *Trace
	if none.OutputTokens() != 0 || len(none.AtOnce().Requests) != 0 {
		t.Error("no trace has requests")
	}
	if x := Equal("x", 3, 7, 2); x.OutputTokens() != 6 || x.Name != "x" || x.Requests[2].ID != 2 || x.Requests[2].Input != 7 || x.Requests[2].Output != 2 || len(x.Requests) != 3 {
		t.Errorf("%+v", x)
	}
}
