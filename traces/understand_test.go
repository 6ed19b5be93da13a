package traces

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// readBack returns what TestUnderstand compares: the format, the prompts and their seconds, and how times, blocks and conversations were
// read.
func readBack(t *Trace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;", t.Format)
	for _, r := range t.Requests {
		fmt.Fprintf(&b, " %d@%g", r.Input, r.Arrival.Seconds())
		if r.Turn != nil {
			fmt.Fprintf(&b, "/%d.%d", r.Turn.Session, r.Turn.Number)
			if r.Turn.Waits {
				fmt.Fprintf(&b, "+%g", r.Turn.Think.Seconds())
			}
		}
	}
	r := t.Reading
	if fmt.Fprintf(&b, "; %s %s", r.Times, r.Unit); r.Guessed {
		b.WriteString("?")
	}
	if r.Hashes != "" {
		fmt.Fprintf(&b, " %d", t.HashBlock())
	}
	return b.String()
}

// TestUnderstand reads files of other programs by the names and values of their columns.
func TestUnderstand(t *testing.T) {
	const lengths = ",input_tokens,output_tokens\n"
	two := func(name, first, second string) string { return name + lengths + first + ",3,1\n" + second + ",4,1\n" }
	for _, c := range []struct{ text, columns, want, note string }{
		// Names of times without a unit; the values tell it.
		{two("created_time", "0", "9000"), "", "l3sim; 3@0 4@9; created_time milliseconds?", "a guess by their size, so that the first 2 come at 0.111 a second; --columns unit=s reads seconds"},
		{two("submitted_at", "0.5", "12.0"), "", "l3sim; 3@0 4@11.5; submitted_at seconds?", "--columns unit=ms reads milliseconds"},
		{two("Start Time", "100", "107"), "", "l3sim; 3@0 4@7; Start Time seconds?", "guess"},
		{two("requestTime", "0", "250"), "", "l3sim; 3@0 4@0.25; requestTime milliseconds?", "come at 4 a second"},
		{two("ts", "5", "90000005"), "", "l3sim; 3@0 4@90; ts microseconds?", "guess"},
		{two("arrived", "1", "3"), "", "l3sim; 3@0 4@2; arrived seconds?", "guess"},
		{two("arrival_clock", "1", "3"), "", "l3sim; 3@0 4@2; arrival_clock seconds?", "guess"},
		// Names that include the unit.
		{two("request_start_ns", "0", "1000000000"), "", "l3sim; 3@0 4@1; request_start_ns nanoseconds", ""},
		{two("arrival (ms)", "0", "1"), "", "l3sim; 3@0 4@0.001; arrival (ms) milliseconds", ""},
		{two("timeInSeconds", "0", "1"), "", "l3sim; 3@0 4@1; timeInSeconds seconds", ""},
		{two("arrival_us", "0", "1"), "", "l3sim; 3@0 4@1e-06; arrival_us microseconds", ""},
		// Seconds since 1970, and parts of them.
		{two("created", "1700000000", "1700000001.5"), "", "l3sim; 3@0 4@1.5; created seconds", ""},
		{two("timestamp", "1700000000000", "1700000001500"), "", "l3sim; 3@0 4@1.5; timestamp milliseconds", ""},
		{two("t", "1700000000000000", "1700000001500000"), "", "l3sim; 3@0 4@1.5; t microseconds", ""},
		{two("time", "1700000000000000000", "1700000001500000000"), "", "l3sim; 3@0 4@1.5; time nanoseconds", ""},
		{"arrived_at,num_prefill_tokens,num_decode_tokens\n1700000000000,3,1\n1700000001500,4,1\n", "", "vidur; 3@0 4@1.5; arrived_at milliseconds", "by their size"},
		// Dates.
		{two("created_at", "2026-01-02T03:04:05Z", "2026-01-02T05:04:06.5+02:00"), "", "l3sim; 3@0 4@1.5; created_at dates", ""},
		{two("date", "2026/01/02 03:04", "2026/01/02 03:05"), "", "l3sim; 3@0 4@60; date dates", ""},
		{two("ts", "2026-01-02 03:04:05.25 UTC", "2026-01-02 03:04:05.75 UTC"), "", "l3sim; 3@0 4@0.5; ts dates", ""},
		{two("ts", "2026-01-02 03:04:05+0000", "2026-01-02 03:04:05+00"), "", "l3sim; 3@0 4@0; ts dates", ""},
		// The surer name counts, and durations do not.
		{"start_time,created_at,prompt_tokens,completion_tokens\n7,0,3,1\n9,1,4,1\n", "", "csv; 3@0 4@1; created_at seconds?", "guess"},
		{"time_ms,isl,osl\n523,3,1\n217,4,1\n440,4,1\n", "", "csv; 3@0 4@0 4@0;  ", ""},
		// No column is named like a time.
		{"id,tick,isl,osl\n1,0.5,3,1\n2,0.75,4,1\n", "", "csv; 3@0 4@0;  ", "so all requests come at once; tick may: --columns arrival=tick,input=isl,output=osl,unit=s"},
		{"day,n,isl,osl\n2026-01-02 03:04:05,9,3,1\n2026-01-02 03:04:06,11,4,1\n", "", "csv; 3@0 4@0;  ", "day, n may: --columns arrival=day,input=isl,output=osl"},
		{"id,tick,isl,osl\n1,0.5,3,1\n2,0.75,4,1\n", "arrival=tick", "csv; 3@0 4@0.25; tick seconds", ""},
		{two("tick", "0", "250"), "arrival=tick", "l3sim; 3@0 4@250; tick seconds", "by their size they are rather milliseconds, which --columns unit=ms reads"},
		{two("tick", "0", "250"), "arrival=tick,unit=s", "l3sim; 3@0 4@250; tick seconds", ""},
		{two("tick_ms", "0", "250"), "arrival=tick_ms", "l3sim; 3@0 4@0.25; tick_ms milliseconds", ""},
		{",timestamp,prompt_len,output_len\n0,0.0,100.0,20.0\n1,1.5,200.0,30.0\n", "", "csv; 100@0 200@1.5; timestamp seconds?", "guess"}, // pandas' index
		{"prompt,created_at,isl,osl\n" + strings.Repeat("x", 2<<20) + ",5,3,1\ny,7,4,1\n", "", "csv; 3@0 4@2; created_at seconds?", "a guess, as the first rows have none"},
		{"prompt,created_at,isl,osl\n" + strings.Repeat("x", 50_000) + ",5,3,1\ny,7,4,1\n", "", "csv; 3@0 4@2; created_at seconds?", "a guess by their size"},
		{"timestamp,isl,osl\n5,3,1\n5,4,1\n", "", "csv; 3@0 4@0; timestamp seconds?", ""},
		{"time,isl,osl\n-1.5,3,1\n0,4,1\n", "", "error f:2: time = \"-1.5\": expected seconds, not negative", ""},
		{"date,isl,osl\n01/02/2026 03:04:05,3,1\n01/02/2026 03:04:06,4,1\n", "", "csv; 3@0 4@0;  ", "not read, as neither times in s, ms, us or ns nor dates such as 2026-01-02T03:04:05: date (01/02/2026 03:04:05)"},
		{"arrival_minutes,isl,osl\n0,3,1\n1,4,1\n", "", "csv; 3@0 4@0;  ", "not read, as neither times in s, ms, us or ns nor dates such as 2026-01-02T03:04:05: arrival_minutes (0)"},
		{"inter_arrival_s,isl,osl\n0,3,1\n1.5,4,1\n0.5,4,1\n", "", "csv; 3@0 4@0 4@0;  ", "inter_arrival_s (0: times between arrivals must be added up)"},
		// Names that contain "arrival" and are no times of arrival.
		{two("arrival_delta", "0", "20"), "", "l3sim; 3@0 4@0;  ", "arrival_delta (0: times between arrivals must be added up)"},
		{two("arrivalInterval", "0", "20"), "", "l3sim; 3@0 4@0;  ", "times between arrivals must be added up"},
		{two("iat_ms", "0", "20"), "", "l3sim; 3@0 4@0;  ", "iat_ms (0: times between arrivals must be added up)"},
		{two("timestamp_diff", "0", "20"), "", "l3sim; 3@0 4@0;  ", "times between arrivals must be added up"},
		{two("arrival_rate", "2", "3"), "", "l3sim; 3@0 4@0;  ", "not read, as neither times in s"},
		{two("arrival_order", "1", "2"), "", "l3sim; 3@0 4@0;  ", "arrival_order (1)"},
		{two("hour", "0", "1"), "", "l3sim; 3@0 4@0;  ", "not read, as neither times in s, ms, us or ns nor dates such as 2026-01-02T03:04:05: hour (0)"},
		{two("arrival_min", "0", "2.5"), "", "l3sim; 3@0 4@0;  ", "arrival_min (0)"},
		{two("ttft_min", "7", "5"), "", "l3sim; 3@0 4@0;  ", ""},
		{two("request_created_at", "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"), "", "l3sim; 3@0 4@1; request_created_at dates", ""},
		{two("ts", "1.70000E+12", "1.70001E+12"), "", "l3sim; 3@0 4@10000; ts milliseconds", "arrivals in ts are rounded: 1.70000E+12 has too few digits"},
		{two("ts", "1.7000000005E+09", "1.7000000015E+09"), "", "l3sim; 3@0 4@1; ts seconds", ""},
		{two("queue_time_ms", "50", "20"), "", "l3sim; 3@0 4@0;  ", "queue_time_ms (50: times of arrival rise, durations do not)"},
		{two("request_time", "1.5", "0.5"), "", "l3sim; 3@0 4@0;  ", "request_time (1.5: times of arrival rise, durations do not)"},
		{two("queue_time", "1.5", "2"), "", "l3sim; 3@0 4@0.5; queue_time seconds?", "guess"},
		{two("time_since_last", "0", "2"), "", "l3sim; 3@0 4@0;  ", "times between arrivals must be added up"},
		{two("timestamp", "20260102030405", "20260102030535"), "", "l3sim; 3@0 4@90; timestamp dates", ""},
		{two("timestamp", "20260102T030405Z", "20260102T030406Z"), "", "l3sim; 3@0 4@1; timestamp dates", ""},
		{two("date", "20260102", "20260103"), "", "l3sim; 3@0 4@0;  ", "date (20260102: a day)"},
		{two("timestamp", "1700000000", "1700000001000"), "", "l3sim; 3@0 4@", "arrivals in timestamp mix seconds and milliseconds since 1970"},
		{"created_at,prompt_eval_count,eval_count\n2026-01-02T03:04:05.5Z,3,1\n", "", "csv; 3@0; created_at dates", ""},          // Ollama's
		{`{"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}}`, "", "jsonl; 3@0;  ", ""}, // Gemini's
		{`{"meta": {"billed_units": {"input_tokens": 3, "output_tokens": 1}, "tokens": {"input_tokens": 80, "output_tokens": 1}}}`, "", "jsonl; 3@0;  ", "prompts are read from meta.billed_units.input_tokens, whose numbers differ from those of meta.tokens.input_tokens"},
		// Numbers of tokens of something other than a request, and other programs' names.
		{two("num_model_requests,arrival_s", "5,0", "1,1"), "", "l3sim; 3@0 4@1; arrival_s seconds", "num_model_requests is above 1, so a row sums up several requests"},
		{two("num_requests,arrival_s", "1,0", "1,1"), "", "l3sim; 3@0 4@1; arrival_s seconds", ""},
		{`{"usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 0}}`, "", "jsonl; 9@0;  ", "usage.input_tokens leaves out the tokens of usage.cache_read_input_tokens, which are part of the prompt"},
		{`{"usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 0}}`, "", "jsonl; 9@0;  ", ""},
		{`{"usage": {"prompt_tokens": 9, "completion_tokens": 1, "cache_read_input_tokens": 7}}`, "", "jsonl; 9@0;  ", ""}, // LiteLLM's sum
		{"prompt_tokens,input_tokens,output_tokens\n8,3,1\n8,4,1\n", "", "l3sim; 3@0 4@0;  ", "prompts are read from input_tokens, whose numbers differ from those of prompt_tokens; --columns input=prompt_tokens,output=output_tokens reads these"},
		{"prompt_tokens,input_tokens,output_tokens\n3,3,1\n4,4,1\n", "", "l3sim; 3@0 4@0;  ", ""},
		{"prompt_tokens,input_tokens,output_tokens\n8,3,1\n8,4,1\n", "input=prompt_tokens,output=output_tokens", "csv; 8@0 8@0;  ", ""},
		{"arrival_timestamp,prompt_size,token_size\n1,3,1\n2.5,4,1\n", "", "csv; 3@0 4@1.5; arrival_timestamp seconds?", "guess"}, // Splitwise's
		{"created_at,tokens_prompt,tokens_completion\n2026-01-02 03:04:05,3,1\n", "", "csv; 3@0; created_at dates", ""},
		{"ts,prompt_tokens,max_tokens\n0,3,1\n", "", "error f:1: \"ts,prompt_tokens,max_tokens\": expected a column of output tokens beside prompt_tokens, or its name: --columns input=prompt_tokens,output=NAME", ""},
		{`{"completion_tokens": 3}`, "", "error f:1: \"completion_tokens\": expected a column of prompt tokens beside completion_tokens, or its name: --columns input=NAME,output=completion_tokens", ""},
		// Forms of CSV.
		{"sep=;\nts;isl;osl\n0;3;1\n", "", "error f:1: \"sep=;\": expected a header with the columns; sed 1d FILE", ""},
		{"ts,isl,osl\r0,3,1\r1,4,1\r", "", "error f:1: lines that end in a carriage return alone: expected line feeds; tr '\\r' '\\n' < FILE", ""},
		{"ts,isl,osl\r", "", "error f: expected at least one request", ""},
		{"# by hand, 2026\n# more\narrival_s;isl;osl\n0;3;1\n", "", "csv; 3@0; arrival_s seconds", ""},
		{"ts;isl;osl\n0;1.000;1\n", "", "error f:2: isl = \"1.000\": expected a whole number", ""},
		{`{"requests": [{"ts": 0, "isl": 1, "osl": 1}]}`, "", "error f:1: \"requests\": expected requests as lines or one array; jq -c '.requests[]' FILE writes those of this file so", ""},
		{"submitted_at;Prompt Tokens;Completion Tokens\n0,5;1.024;1\n", "", "error f:2: Prompt Tokens = \"1.024\": expected a whole number", ""},
		{"submitted_at;Prompt Tokens;Completion Tokens\n0,5;24;1\n1,75;25;1\n", "", "csv; 24@0 25@1.25; submitted_at seconds?", "guess"},
		{"input_tokens\toutput_tokens\tarrival_s\n\"1,024\"\t12.0\t1\n5\t6\t2\n", "", "l3sim; 1024@0 5@1; arrival_s seconds", ""},
		{"\"arrival_s\",\"input_tokens\",\"output_tokens\"\r\n\"1,000.5\",\"7\",\"8\"\r\n", "", "l3sim; 7@0; arrival_s seconds", ""},
		{"0.5,12,13\n0.7,14,15\n", "", "error f:1: \"0.5,12,13\": expected a first line that names the columns, such as arrival_s,input_tokens,output_tokens", ""},
		{"\xff\xfea\x00", "", "error f: text in UTF-16: expected CSV", ""},
		{"PK\x03\x04", "", "error f: a zip archive or an Excel file: expected CSV", ""},
		{"t\x00,\x00", "", "error f: text in UTF-16 without a mark: expected CSV, JSON lines, Parquet or one object of vLLM's benchmark, in UTF-8, packed by gzip or zstd or not; iconv -f UTF-16LE -t UTF-8 FILE", ""},
		{"\x00t\x00,", "", "error f: text in UTF-16 without a mark: expected CSV, JSON lines, Parquet or one object of vLLM's benchmark, in UTF-8, packed by gzip or zstd or not; iconv -f UTF-16BE", ""},
		{"t,i\x00", "", "error f: no text: expected CSV", ""},
		{"\xff\xfe\x00\x00", "", "error f: text in UTF-32: expected CSV", ""},
		{"<!DOCTYPE html>", "", "error f: HTML or XML", ""},
		{"version https://git-lfs.github.com/spec/v1\n", "", "error f: a pointer of Git LFS", ""},
		{"trace.csv" + strings.Repeat("\x00", 248) + "ustar", "", "error f: a tar archive", ""},
		// Mooncake's names with times in seconds, and with the unit given by the user.
		{`{"timestamp": 0.0, "input_length": 6, "output_length": 5}` + "\n" + `{"timestamp": 0.5, "input_length": 8, "output_length": 8}` + "\n" + `{"timestamp": 2.0, "input_length": 7, "output_length": 6}`, "",
			"mooncake; 6@0 8@0.5 7@2; timestamp seconds?", "come at 1 a second; --columns unit=ms reads milliseconds"},
		{`{"timestamp": 0, "input_length": 6, "output_length": 5}` + "\n" + `{"timestamp": 40, "input_length": 8, "output_length": 8}` + "\n" + `{"timestamp": 90, "input_length": 7, "output_length": 6}`, "",
			"mooncake; 6@0 8@0.04 7@0.09; timestamp milliseconds", ""},
		{`{"timestamp": 0, "input_length": 6, "output_length": 5}` + "\n" + `{"timestamp": 3, "input_length": 8, "output_length": 8}` + "\n" + `{"timestamp": 7, "input_length": 7, "output_length": 6}`, "",
			"mooncake; 6@0 8@0.003 7@0.007; timestamp milliseconds?", "come at 286 a second; --columns unit=s reads seconds"},
		{`{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}` + "\n" + `{"timestamp": 9, "input_length": 800, "output_length": 8, "hash_ids": [1, 3]}`, "unit=s",
			"mooncake; 600@0 800@9; timestamp seconds 512", ""},
		{`{"timestamp": "1753780607550317897", "input_length": 6, "output_length": 5}` + "\n" + `{"timestamp": "1753780608550317897", "input_length": 6, "output_length": 5}`, "",
			"mooncake; 6@0 6@1; timestamp nanoseconds", "since 1970"},
		// Hashes of blocks of other sizes.
		{`{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 12, "type": "text", "turn": 1, "hash_ids": [1, 2, 3]}` + "\n" +
			`{"chat_id": 2, "parent_chat_id": 1, "timestamp": 31.25, "input_length": 75, "output_length": 20, "type": "text", "turn": 2, "hash_ids": [1, 2, 4, 5, 6]}`, "",
			"bailian; 40@0/0.0 75@30.75/0.1; timestamp seconds 16", ""},
		{`{"timestamp": 0, "input_length": 200, "output_length": 30, "hash_ids": [5, 6, 7, 8]}` + "\n" + `{"timestamp": 8000, "input_length": 190, "output_length": 10, "hash_ids": [5, 6, 9]}`, "",
			"mooncake; 200@0 190@8; timestamp milliseconds 64", ""},
		{`{"timestamp": 0, "input_length": 200, "output_length": 30, "hash_ids": [5, 6, 7]}` + "\n" + `{"timestamp": 8000, "input_length": 63, "output_length": 10, "hash_ids": []}`, "",
			"mooncake; 200@0 63@8; timestamp milliseconds 64", ""}, // whole blocks alone
		{`{"timestamp": 0, "input_length": 20, "output_length": 30, "hash_ids": [5]}`, "block=32", "mooncake; 20@0; timestamp milliseconds 32", ""},
		{`{"timestamp": 0, "input_length": 20, "output_length": 30, "hash_ids": [5]}`, "block=4", "error f:1: hash_ids = [5]: expected 5 hashes, one for each block of 4 tokens of the prompt; --columns block=N", ""},
		{`{"timestamp": 0, "input_length": 140, "output_length": 30, "hash_ids": [5, 6, 7]}`, "", "mooncake; 140@0; timestamp milliseconds 64", ""},
		{`{"timestamp": 0, "input_length": 290, "output_length": 30, "hash_ids": [5, 6, 7]}` + "\n" + `{"timestamp": 9, "input_length": 101, "output_length": 30, "hash_ids": [5, 6]}`, "",
			"error f:1: hash_ids = [5, 6, 7]: expected --columns block=N, the tokens that a hash names: by their numbers in all lines at least 97 and at most 100", ""},
		{`{"timestamp": 0, "input_length": 300, "output_length": 30, "hash_ids": [5, 6, 7]}` + "\n" + `{"timestamp": 9, "input_length": 101, "output_length": 30, "hash_ids": [5, 6]}`, "",
			"error f:1: hash_ids = [5, 6, 7]: expected --columns block=N, the tokens that a hash names: by their numbers in all lines at least 100 and at most 100", ""},
		{`{"t": 0, "a": 20, "b": 30, "hash_ids": [5, 6]}`, "arrival=t,input=a,output=b", "mooncake; 20@0; t seconds 16", ""},
		// NVIDIA Dynamo's names, and turns that wait.
		{`{"session_id": "a", "input_tokens": 40, "output_tokens": 4, "created_time": 1000, "hash_ids": [1, 2, 3]}` + "\n" + `{"session_id": "a", "input_tokens": 60, "output_tokens": 5, "delay_ms": 250, "hash_ids": [1, 2, 3, 4]}`, "",
			"mooncake; 40@0/0.0 60@0.25/0.1+0.25; created_time milliseconds? 16", "guess"},
		{`{"session_id": 7, "input_length": 40, "output_length": 4}` + "\n" + `{"session_id": 7, "input_length": 60, "output_length": 5, "delay": 1500}`, "", "mooncake; 40@0/0.0 60@1.5/0.1+1.5;  ", ""},
		{`{"isl": 40, "osl": 4, "arrival_time": 0.5}` + "\n" + `{"isl": 60, "osl": 5, "arrival_time": 0.75}`, "", "jsonl; 40@0 60@0.25; arrival_time seconds?", "guess"},
		// OpenAI's usage, nested fields, arrays.
		{`{"id": "x", "created": 1700000000, "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}}` + "\n" + `{"id": "y", "created": 1700000003, "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9}}`, "",
			"jsonl; 9@0 8@3; created seconds", ""},
		{`{"a": {"in": 9, "out": 1, "at": 3}}`, "input=a.in,output=a.out,arrival=a.at", "jsonl; 9@0; a.at seconds", ""},
		{`[{"prompt_tokens": 9, "completion_tokens": 1},` + "\n" + ` {"prompt_tokens": 8, "completion_tokens": 1}]`, "", "jsonl; 9@0 8@0;  ", ""},
		{`{"metadata": {"session_num": 0, "request_start_ns": 1700000000000000000, "benchmark_phase": "warmup"}, "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "output_sequence_length": {"value": 120}}, "error": null}` + "\n" +
			`{"metadata": {"session_num": 1, "request_start_ns": 1700000000500000000, "benchmark_phase": "profiling"}, "metrics": {"input_sequence_length": {"value": 300}, "output_sequence_length": {"value": 80}}}` + "\n" +
			`{"metadata": {"session_num": 2, "request_start_ns": 1700000000600000000}, "metrics": {"input_sequence_length": {"value": 300}}, "error": {"code": 500}}` + "\n" +
			`{"metadata": {"session_num": 3, "request_start_ns": 1700000001500000000}, "metrics": {"input_sequence_length": {"value": 400}, "output_sequence_length": {"value": 80}}}`, "",
			"aiperf; 300@0 400@1; metadata.request_start_ns nanoseconds", "1 request is left out, of the warm-up"},
		// Fields that the first request lacks, objects in place of numbers, and texts.
		{`{"isl": 3, "osl": 1}` + "\n" + `{"isl": 4, "osl": 1, "timestamp": 5}`, "", "error f:1: no timestamp; expected timestamp, isl and osl", ""},
		{`{"version": 1}` + "\n" + `{"isl": 4, "osl": 1}`, "", "error f:1: no isl, no osl; expected isl and osl", ""},
		{`{"isl": {"value": 4, "unit": "tokens"}, "osl": {"$numberLong": "7"}, "createdAt": {"$date": {"$numberLong": "1700000000000"}}}`, "", "jsonl; 4@0; createdAt.$date.$numberLong milliseconds", ""},
		{`{"isl": 4, "osl": 1, "created_at": {"seconds": 1700000000, "nanos": 5}}`, "", "jsonl; 4@0;  ", "created_at (an object)"},
		{`{"timestamp": 1, "conversation": [{"role": "user"}]}`, "", "error f:1: \"timestamp\", \"conversation\": expected lengths in tokens", ""},
		{`{"meta": {"n": 1}, "data": {"rows": [{"isl": 1, "osl": 1}]}}`, "", "error f:1: \"meta\", \"data\": expected requests as lines or one array; jq -c '.data.rows[]' FILE", ""},
		{`{'isl': 1}`, "", "error f:1: not JSON: invalid character", ""},
		{`{"isl": 1, "osl": 1},` + "\n" + `{"isl": 1, "osl": 1}`, "", "error f:1: a comma behind the object (sed 's/,$//' FILE leaves them out)", ""},
		{`[]`, "", "error f:1: [: expected an array of objects, a request each", ""},
		// JSON as Python writes it.
		{`{"request_rate": Infinity, "x": -Infinity, "y": [NaN], "s": "NaN\"Infinity", "input_lens": [64, 90], "output_lens": [9, 5], "errors": ["", ""]}`, "", "vllm; 64@0 90@0;  ", ""},
		{`{"request_rate": 4.0, "input_lens": [64, 90], "output_lens": [9, 5]}`, "", "vllm; 64@0 90@0;  ", "the benchmark sent 4 a second: --rate 4"},
		{`{"score": NaN, "input_tokens": 3, "output_tokens": 1}` + "\n" + `{"score": "x` + "\n" + `{"score": -Infinity, "input_tokens": 3, "output_tokens": 1}`, "", "error f:2:", ""},
		{`{"input_tokens": NaN, "output_tokens": 1}`, "", "error f:1: no input_tokens; expected input_tokens and output_tokens", ""},
		{`{"input_tokens": Nan, "output_tokens": 1}`, "", "error f:1:", ""},
	} {
		var o Options
		if c.columns != "" {
			var err error
			if o.Columns, err = ParseColumns(c.columns); err != nil {
				t.Fatal(err)
			}
		}
		trace, err := o.Read("f", strings.NewReader(c.text))
		got := ""
		if err != nil {
			got = "error " + err.Error()
		} else {
			got = readBack(trace)
		}
		if strings.Contains(c.note, " mix ") && strings.HasPrefix(got, c.want) {
			got = c.want // of any unit
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
		if err == nil && (len(trace.Notes) > 0) != (c.note != "") || err == nil && !strings.Contains(strings.Join(trace.Notes, "\n"), c.note) {
			t.Errorf("%s\ngot the notes %q, want %s", c.text, trace.Notes, c.note)
		}
	}
}

// TestParquetTimes: the type of a column gives the unit of its times, and dates may be text.
func TestParquetTimes(t *testing.T) {
	type typed struct {
		At     time.Time `parquet:"created_at,timestamp(microsecond)"`
		Input  int32     `parquet:"prompt_tokens"`
		Output int64     `parquet:"completion_tokens"`
	}
	type text struct {
		At     string  `parquet:"ts"`
		Text   string  `parquet:"prompt"`
		Input  float64 `parquet:"isl"`
		Output int64   `parquet:"osl"`
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var one, other bytes.Buffer
	if err := parquet.Write(&one, []typed{{at, 3, 1}, {at.Add(1500 * time.Millisecond), 4, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := parquet.Write(&other, []text{{"2026-01-02 03:04:05", "x", 3, 1}, {"2026-01-02 03:04:06.5", "y", 4, 1}}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[*bytes.Buffer]string{&one: "parquet; 3@0 4@1.5; created_at microseconds", &other: "parquet; 3@0 4@1.5; ts dates"} {
		if trace, err := readFirst("f", file, 0); err != nil || readBack(trace) != want {
			t.Errorf("got %+v, %v, want %s", trace, err, want)
		}
	}
}

// TestParquetTypes: numbers are read by their type. Decimals and days are not whole numbers; a time of day and a timestamp have the unit of
// their type, whatever the column's name. Fields within groups are read, and prefixes and conversations in Parquet are reported lost.
func TestParquetTypes(t *testing.T) {
	type lengths struct {
		Input  int64 `parquet:"prompt_tokens"`
		Output int64 `parquet:"completion_tokens"`
	}
	two := []lengths{{3, 1}, {4, 1}}
	write := func(rows any) string {
		var b bytes.Buffer
		w := parquet.NewWriter(&b, parquet.SchemaOf(reflect.Zero(reflect.TypeOf(rows).Elem()).Interface()))
		for i := range reflect.ValueOf(rows).Len() {
			if err := w.Write(reflect.ValueOf(rows).Index(i).Interface()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	type decimal struct {
		Input  int32 `parquet:"prompt_tokens,decimal(2:9)"`
		Output int64 `parquet:"completion_tokens"`
	}
	type whole struct {
		Input  int32 `parquet:"prompt_tokens,decimal(0:9)"`
		Output int64 `parquet:"completion_tokens"`
	}
	type decimalTime struct {
		At     int64 `parquet:"arrival_s,decimal(3:18)"`
		Input  int64 `parquet:"input_tokens"`
		Output int64 `parquet:"output_tokens"`
	}
	type day struct {
		At     int32 `parquet:"created_at,date"`
		Input  int64 `parquet:"prompt_tokens"`
		Output int64 `parquet:"completion_tokens"`
	}
	type clockTime struct {
		At     int32 `parquet:"time,time(millisecond)"`
		Input  int64 `parquet:"prompt_tokens"`
		Output int64 `parquet:"completion_tokens"`
	}
	type stamp struct {
		At     time.Time `parquet:"arrival_s,timestamp(millisecond)"`
		Input  int64     `parquet:"input_tokens"`
		Output int64     `parquet:"output_tokens"`
	}
	type group struct {
		Created int64   `parquet:"created"`
		Usage   lengths `parquet:"usage"`
	}
	type hashes struct {
		Session string  `parquet:"session_id"`
		Input   int64   `parquet:"prompt_tokens"`
		Output  int64   `parquet:"completion_tokens"`
		Hashes  []int64 `parquet:"hash_ids"`
	}
	at := time.UnixMilli(2500)
	for _, c := range []struct{ file, want, note string }{
		{write([]decimal{{300, 1}}), "error f: prompt_tokens: expected a column of whole numbers or reals, such as this decimal cast to DOUBLE", ""},
		{write([]whole{{3, 1}}), "parquet; 3@0;  ", ""},
		{write([]decimalTime{{2500, 3, 1}}), "error f: arrival_s: expected a column of whole numbers or reals", ""},
		{write([]day{{20000, 3, 1}, {20001, 4, 1}}), "parquet; 3@0 4@0;  ", "created_at (a day)"},
		{write([]clockTime{{5, 3, 1}, {2505, 4, 1}}), "parquet; 3@0 4@2.5; time milliseconds", ""},
		{write([]stamp{{at, 3, 1}, {at.Add(time.Second), 4, 1}}), "parquet; 3@0 4@1; arrival_s milliseconds", ""},
		{write([]group{{1700000000, two[0]}, {1700000003, two[1]}}), "parquet; 3@0 4@3; created seconds", ""},
		{write([]hashes{{"a", 3, 1, []int64{1}}}), "parquet; 3@0;  ", "hash_ids and session_id: not read from Parquet; JSON lines keep hashes of prefixes and conversations"},
	} {
		trace, err := readFirst("f", strings.NewReader(c.file), 0)
		got := ""
		if err != nil {
			got = "error " + err.Error()
		} else {
			got = readBack(trace)
		}
		if !strings.HasPrefix(got, c.want) || err == nil && (got != c.want || !strings.Contains(strings.Join(trace.Notes, "\n"), c.note)) {
			t.Errorf("got  %s\nwant %s, %s", got, c.want, c.note)
		}
	}
}

// TestBlocks finds the block size from the numbers of hashes of many prompts, whether or not a partial last block has a hash.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom(blockSizes).Draw(t, "size")
		whole := rapid.Bool().Draw(t, "whole")
		var b blocks
		for range 400 {
			tokens := rapid.IntRange(1, 20*size).Draw(t, "tokens")
			n := (tokens + size - 1) / size
			if whole {
				n = tokens / size
			}
			if n > 0 && !b.add(tokens, n) {
				t.Fatalf("%d tokens, %d hashes: %+v", tokens, n, b)
			}
			b.lines += min(n, 1)
		}
		if b.size() != size {
			t.Fatalf("%d tokens a block, want %d: %+v", b.size(), size, b)
		}
	})
}

// TestChain: chained hashes are equal if and only if all text up to the end of the block is.
func TestChain(t *testing.T) {
	a, b, c := []uint64{1, 2, 3, 4}, []uint64{1, 2, 9, 4}, []uint64{2, 1, 3, 4}
	for _, ids := range [][]uint64{a, b, c} {
		chain(ids, 0)
	}
	if a[1] != b[1] || a[2] == b[2] || a[3] == b[3] || a[2] == c[2] || a[3] == c[3] {
		t.Errorf("got %v, %v, %v", a, b, c)
	}
}

// TestMooncakeAgain: times that look like seconds, and blocks of other sizes than 512 tokens, are read back as they were written.
func TestMooncakeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &Trace{Format: "mooncake", HashTokens: rapid.SampledFrom([]int{0, 8, 16, 64, 1024}).Draw(t, "block")}
		at := units.Duration(0)
		for i := range rapid.IntRange(1, 40).Draw(t, "requests") {
			r := Request{ID: i, Arrival: at, Input: rapid.IntRange(1, 300).Draw(t, "tokens"), Output: 1}
			for k := range (r.Input + want.HashBlock() - 1) / want.HashBlock() {
				r.Hashes = append(r.Hashes, uint64(k))
			}
			want.Requests = append(want.Requests, r)
			at += units.Duration(rapid.Int64Range(0, int64(10*units.Millisecond)).Draw(t, "gap"))
		}
		var text bytes.Buffer
		if err := want.Write(&text, "mooncake"); err != nil {
			t.Fatal(err)
		}
		got, err := readFirst("f", bytes.NewReader(text.Bytes()), 0)
		if err != nil || !same(got.Requests, want.Requests) || got.HashBlock() != want.HashBlock() {
			t.Fatalf("got %+v, %v\n%s", got, err, text.Bytes())
		}
	})
}

// TestSampleOfObjects looks at the first 256 objects, of an array or of lines. A nested field is named with dots, to a depth of mostNested.
// Numbers are kept as they are written.
func TestSampleOfObjects(t *testing.T) {
	rows := []string{`{"t": 1.50, "in": {"n": 10, "deep": {"m": {"k": {"lost": 1}, "kept": 2}}}, "who": "a", "list": [1]}`, `{"t": 2, "in": {"n": 11}, "who": "b"}`, `{"t": 3e2, "late": 7}`}
	want := map[string][]string{"t": {"1.50", "2", "3e2"}, "in.n": {"10", "11"}, "in.deep.m.kept": {"2"}, "who": {"a", "b"}, "late": {"7"}}
	for _, between := range []string{",", " ,\r\n\t", "\n", ""} {
		got := objectSample([]byte(strings.Join(rows, between) + "]"))
		if !reflect.DeepEqual(got.values, want) {
			t.Errorf("with %q between: %v, want %v", between, got.values, want)
		}
		if names := []string{"t", "in", "who", "list"}; !slices.Equal(got.names, names) {
			t.Errorf("with %q between, names %q, want %q", between, got.names, names)
		}
	}
	long := objectSample([]byte(strings.Repeat(`{"a": 1},`, 256+1)))
	if n := len(long.values["a"]); n != 256 {
		t.Errorf("%d objects are looked at, want %d", n, 256)
	}
	if cut := objectSample([]byte(`{"a": 1}, {"a": 2}, {"a": `)); len(cut.values["a"]) != 2 {
		t.Errorf("of a text that ends within an object %v, want two", cut.values["a"])
	}
}
