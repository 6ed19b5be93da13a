package traces

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// same reports whether requests are equal, including hashes and turns.
func same(a, b []Request) bool { return reflect.DeepEqual(a, b) }

func TestLoadFormats(t *testing.T) {
	fork := &Text{Turn: 1, From: 1472} // 1,582 tokens are less than the previous prompt with its answer
	for file, want := range map[string][]Request{
		"azure.csv":      {{ID: 0, Arrival: 0, Input: 4808, Output: 10}, {ID: 1, Arrival: 52 * units.Millisecond, Input: 3180, Output: 8}, {ID: 2, Arrival: 98_089 * units.Microsecond, Input: 110, Output: 27}},
		"azure2024.csv":  {{ID: 0, Arrival: 0, Input: 2162, Output: 5}, {ID: 1, Arrival: 996_013 * units.Microsecond, Input: 2399, Output: 6}},
		"plain.csv":      {{ID: 0, Arrival: 0, Input: 3772, Output: 54}, {ID: 1, Arrival: 0, Input: 2015, Output: 156}},
		"arrivals.csv":   {{ID: 0, Arrival: 0, Input: 67, Output: 1731}, {ID: 1, Arrival: 4 * units.Millisecond, Input: 798, Output: 263}},
		"mooncake.jsonl": {{Input: 6758, Output: 500, Hashes: []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}, {ID: 1, Arrival: 2500 * units.Microsecond, Input: 7322, Output: 490}},
		"burstgpt.csv":   {{Input: 472, Output: 18}, {ID: 1, Arrival: 113 * units.Second, Input: 417, Output: 276}},
		"burstgpt_sessions.csv": {
			{Input: 30, Output: 12, Turn: &Turn{}}, {ID: 1, Arrival: 500 * units.Millisecond, Input: 7, Output: 9},
			{ID: 2, Arrival: 60_750 * units.Millisecond, Input: 55, Output: 20, Turn: &Turn{Number: 1}}, {ID: 3, Arrival: 69_500 * units.Millisecond, Input: 8, Output: 3},
		},
		"llmservingsim.jsonl": {
			{Input: 100, Output: 50}, {ID: 1, Arrival: units.Millisecond, Input: 1472, Output: 133, Turn: &Turn{}},
			{ID: 2, Arrival: 2 * units.Millisecond, Input: 150, Output: 80},
			{ID: 3, Arrival: 128_348_767 * units.Nanosecond, Input: 1582, Output: 125, Turn: &Turn{Number: 1, Waits: true, Think: 127_348_767 * units.Nanosecond, Text: fork}},
			{ID: 4, Arrival: 128_348_767 * units.Nanosecond, Input: 1734, Output: 77, Turn: &Turn{Number: 2, Waits: true, Text: fork}},
		},
		"plain.jsonl": {{Input: 67, Output: 1731}, {ID: 1, Arrival: 4 * units.Millisecond, Input: 798, Output: 263}},
		"vllm.json":   {{Input: 12, Output: 9}, {ID: 1, Arrival: 12_500 * units.Nanosecond, Input: 7, Output: 100}},
	} {
		path := filepath.Join("testdata", file)
		got, err := Load(path, 0)
		if err != nil || !same(got.Requests, want) || got.Name != path {
			t.Errorf("%s: got %+v, %v\nwant %+v", file, got, err, want)
		}

		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for how, data := range map[string][]byte{
			"gzip":            zip(t, text),
			"zstd":            zipStandard(t, text),
			"byte-order mark": append([]byte("\ufeff"), text...),
			"CRLF":            bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r"), nil), []byte("\n"), []byte("\r\n")),
			"no final line":   bytes.TrimRight(text, "\r\n"),
		} {
			got, err := readFirst(file, bytes.NewReader(data), 0)
			if err != nil || !same(got.Requests, want) {
				t.Errorf("%s with %s: got %+v, %v", file, how, got, err)
			}
		}
	}
}

func zip(t interface{ Fatal(...any) }, text []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestPublicTraces reads the published files of docs/reference/traces.md from the folder that L3SIM_TRACES names; they are too large for
// testdata, which has excerpts (TestLoadFormats).
func TestPublicTraces(t *testing.T) {
	folder := os.Getenv("L3SIM_TRACES")
	if folder == "" {
		t.Skip("L3SIM_TRACES names no folder of public traces")
	}
	// Requests and sums of tokens as Python's csv and json modules count them.
	want := map[string]struct {
		requests      int
		input, output int64
	}{
		"azure/AzureLLMInferenceTrace_code.csv":                     {8819, 18059974, 245896},
		"azure/AzureLLMInferenceTrace_conv.csv":                     {19366, 22361870, 4088665},
		"llmservingsim/sharegpt-llama-3.1-8b-300-sps10.lengths.csv": {300, 257239, 195753},
		"servegen/deepseek_r1_hour.csv":                             {10005, 14897745, 24636802},
		"vidur/arxiv_summarization_2000.csv":                        {1999, 5076657, 624960},
		"mooncake/conversation_trace.jsonl":                         {12031, 144793823, 4122048},
	}
	for file, w := range want {
		var options Options
		if strings.HasPrefix(file, "llmservingsim") {
			options.Columns = Columns{Arrival: "arrival_time_ns", Input: "input_toks", Output: "output_toks", Unit: "ns"}
		}
		trace, err := options.Load(filepath.Join(folder, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		m := trace.Moments()
		if m.Requests != w.requests || m.InputTokens != w.input || m.OutputTokens != w.output {
			t.Errorf("%s: got %+v, want %+v", file, m, w)
		}
		if !slices.IsSortedFunc(trace.Requests, func(a, b Request) int { return int(a.Arrival - b.Arrival) }) {
			t.Errorf("%s: arrivals are not in order", file)
		}
	}
}

func TestLoadSortsArrivals(t *testing.T) {
	got, err := readFirst("x", strings.NewReader("num_prefill_tokens,arrived_at,num_decode_tokens\n1,5,1\n2,3,1\n3,5,1\n4,3,1\n"), 0)
	want := []Request{{ID: 0, Arrival: 0, Input: 2, Output: 1}, {ID: 1, Arrival: 0, Input: 4, Output: 1}, {ID: 2, Arrival: 2 * units.Second, Input: 1, Output: 1}, {ID: 3, Arrival: 2 * units.Second, Input: 3, Output: 1}}
	if err != nil || !same(got.Requests, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestReadLimits: the latest arrival and the largest number of requests are accepted.
func TestReadLimits(t *testing.T) {
	const latest = "num_prefill_tokens,num_decode_tokens,arrived_at\n1,2,0\n1,2,9223371\n"
	trace, err := readFirst("f", strings.NewReader(latest), 2)
	if err != nil || len(trace.Requests) != 2 || trace.Requests[1].Arrival != 9223371*units.Second {
		t.Errorf("got %+v, %v", trace, err)
	}
	for n, want := range map[int]string{
		MaxRequests: "run.requests = 10000000: expected 1 to 2, the number of requests in f", MaxRequests + 1: "run.requests = 10000001: expected 1 to 10000000",
		-1: "run.requests = -1: expected 1 to 10000000",
	} {
		if _, err := readFirst("f", strings.NewReader(latest), n); err == nil || err.Error() != want {
			t.Errorf("%d requests: got %v, want %s", n, err, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	const plain = "num_prefill_tokens,num_decode_tokens,arrived_at\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f: expected at least one request"},
		{"header only", azure, "f: expected at least one request"},
		{"unknown header", "a,b\n1,2\n", `f:1: "a,b": expected a header with the columns of a known format, or their names in --columns`},
		{"too late", "arrival_s,input_tokens,output_tokens\n1000000000000,1,2\n", `f:2: arrival_s = "1000000000000": expected seconds`},
		{"too far", plain + "1,2,0\n1,2,9223372\n", `f:3: expected an arrival within 106 days`},
		{"misspelt column", "num_prefill_tokens,num_decode_token\n1,2\n", `f:1: expected a column num_decode_tokens; did you mean "num_decode_token"?`},
		{"no timestamp", "ContextTokens,GeneratedTokens\n1,2\n", "f:1: expected a column TIMESTAMP"},
		{"column twice", "num_prefill_tokens,num_decode_tokens,num_decode_tokens\n1,2,3\n", "f:1: num_decode_tokens: expected one column"},
		{"too few fields", plain + "1,2\n", "f:2: wrong number of fields"},
		{"bare quote", plain + "1,2\"3,4\n", "f:2: bare \" in non-quoted-field"},
		{"no tokens", plain + "1,1,0\n0,2,0\n", `f:3: num_prefill_tokens = "0": expected a whole number of tokens from 1`},
		{"fraction", plain + "1,2.5,0\n", `f:2: num_decode_tokens = "2.5": expected a whole number`},
		{"too many tokens", plain + "99999999999999999999,1,0\n", `f:2: num_prefill_tokens = "99999999999999999999"`},
		{"negative arrival", plain + "1,2,-1\n", `f:2: arrived_at = "-1": expected seconds`},
		{"infinite arrival", plain + "1,2,Inf\n", `f:2: arrived_at = "Inf"`},
		{"not a number", plain + "1,2,NaN\n", `f:2: arrived_at = "NaN"`},
		{"not a date", azure + "yesterday,1,2\n", `f:2: TIMESTAMP = "yesterday": expected a time such as`},
		{"a year apart", azure + "2023-01-01 00:00:00,1,2\n2024-01-01 00:00:00,1,2\n", "f:3: expected an arrival within 106 days"},
		{"negative ns", "arrival_ns,input_tokens,output_tokens\n-5,1,2\n", `f:2: arrival_ns = "-5": expected nanoseconds`},
		{"broken JSON", "{\"timestamp\": 0,\n", "f:1: the line ends within the object (jq -c . FILE writes one on each line); expected a JSON object with timestamp"},
		{"JSON type", `{"timestamp": 0, "input_length": "five", "output_length": 1}`, `f:1: input_length = five: expected a whole number of tokens from 1`},
		{"JSON field missing", "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1}\n{\"timestamp\": 0, \"input_length\": 5}\n", "f:2: no output_length; expected timestamp, input_length and output_length"},
		{"JSON no tokens", `{"timestamp": 0, "input_length": 5, "output_length": 0}`, "f:1: output_length = 0: expected"},
		{"JSON negative time", `{"timestamp": -1, "input_length": 5, "output_length": 1}`, "f:1: timestamp = -1: expected milliseconds"},
		{"truncated gzip", string(zip(t, []byte(plain+strings.Repeat("1,2,3\n", 100))))[:40], "f: unexpected EOF"},
		{"a large window of zstd", "\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", "f: window size exceeded"},
		{"the largest window of zstd", "\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00", "f: expected at least one request"},
		{"truncated zstd", string(zipStandard(t, []byte(plain+strings.Repeat("1,2,3\n", 100))))[:20], "unexpected EOF"},
		{"broken gzip", "\x1f\x8bxxxxxxxxxxxxxxxx", "f: gzip: invalid header"},
	} {
		trace, err := readFirst("f", strings.NewReader(c.text), 0)
		var bad *input.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s: got %+v, %v, want an input.Error", c.name, trace, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got  %s\nwant %s", c.name, err, c.want)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load("openr2", 0)
	var bad *input.Error
	if !errors.As(err, &bad) || !errors.Is(err, fs.ErrNotExist) || bad.Nearest != "openr1" || bad.Value != `"openr2"` {
		t.Errorf("got %v", err)
	}
	folder := t.TempDir()
	if _, err := Load(folder, 0); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), folder+": ") || strings.Count(err.Error(), folder) > 1 {
		t.Errorf("a folder: got %v", err)
	}
}

// TestTokenBounds: in every format, the least and the most tokens of a request are accepted, and one beyond is refused.
func TestTokenBounds(t *testing.T) {
	for format, c := range map[string]string{
		"azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,%d,%d\n", "plain": "num_prefill_tokens,num_decode_tokens\n%d,%d\n",
		"own": "arrival_ns,input_tokens,output_tokens\n0,%d,%d\n", "mooncake": `{"timestamp": 0, "input_length": %d, "output_length": %d}`,
	} {
		for _, n := range []int{-1, 0, 1, maxTokens, maxTokens + 1} {
			for _, tokens := range [][2]int{{n, 5}, {5, n}} {
				trace, err := readFirst("f", strings.NewReader(fmt.Sprintf(c, tokens[0], tokens[1])), 0)
				if good := n >= 1 && n <= maxTokens; (err == nil) != good || good && (trace.Requests[0].Input != tokens[0] || trace.Requests[0].Output != tokens[1]) {
					t.Errorf("%s, %v: %+v, %v", format, tokens, trace, err)
				}
			}
		}
	}
}

// TestArrivalBounds: the longest span of arrivals is the whole seconds that an int64 of picoseconds holds.
func TestArrivalBounds(t *testing.T) {
	const last = 9_223_371
	for _, first := range []int{0, 1_700_000_000} {
		for _, c := range []struct {
			nanoseconds int
			good        bool
		}{{last * 1_000_000_000, true}, {last*1_000_000_000 + 999_999_999, true}, {(last + 1) * 1_000_000_000, false}} {
			text := fmt.Sprintf("arrival_ns,input_tokens,output_tokens\n%d,1,1\n%d,2,2\n", first*1_000_000_000+c.nanoseconds, first*1_000_000_000)
			trace, err := readFirst("f", strings.NewReader(text), 0)
			if c.good && (err != nil || trace.Requests[1].Arrival != units.Duration(c.nanoseconds)*units.Nanosecond) ||
				!c.good && (err == nil || err.Error() != "f:3: expected an arrival within 106 days of all before it") {
				t.Errorf("%d ns from %d s: %+v, %v", c.nanoseconds, first, trace, err)
			}
		}
	}
}

// TestArrivalsKeepTheFilesOrder: requests that arrive at the same time stay in the
// order of the file, however many there are.
func TestArrivalsKeepTheFilesOrder(t *testing.T) {
	var text strings.Builder
	text.WriteString("arrived_at,num_prefill_tokens,num_decode_tokens\n")
	const n = 1000
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,1\n", 3-i%3, i+1)
	}
	trace, err := readFirst("f", strings.NewReader(text.String()), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < n; i++ {
		a, b := trace.Requests[i-1], trace.Requests[i]
		if a.Arrival > b.Arrival || a.Arrival == b.Arrival && a.Input > b.Input || b.ID != i {
			t.Fatalf("%+v before %+v", a, b)
		}
	}
}

// requestsOf has the line of one request in each format, and the text before the first one.
var requestsOf = map[string]struct{ first, request, huge string }{
	"azure": {"TIMESTAMP,ContextTokens,GeneratedTokens\n", "2023-11-16 18:17:03.9799600,7,9\n", "2023-11-16 18:17:03.9799600,HUGE,9\n"},
	"plain": {"arrived_at,num_prefill_tokens,num_decode_tokens\n", "0.5,7,9\n", "HUGE,7,9\n"},
	"own":   {"input_tokens,output_tokens,arrival_ns\n", "7,9,500\n", "7,HUGE,500\n"},
	"mooncake": {"", `{"timestamp": 500, "input_length": 7, "output_length": 9, "hash_ids": [1]}` + "\n",
		`{"timestamp": 500, "input_length": HUGE, "output_length": 9}` + "\n"},
}

// TestReadStops: if n requests are asked for, nothing after the nth is read, whether it is wrong, endless or cut short.
func TestReadStops(t *testing.T) {
	for format, of := range requestsOf {
		for _, n := range []int{1, 3} {
			trace, err := readFirst("f", io.MultiReader(strings.NewReader(of.first+strings.Repeat(of.request, n)+"wrong\n"), failing{}), n)
			if err != nil || len(trace.Requests) != n || trace.Requests[n-1].Input != 7 {
				t.Errorf("%s, %d: %+v, %v", format, n, trace, err)
			}
		}
		// As many requests as the file has, one more, and a negative number.
		three := of.first + strings.Repeat(of.request, 3)
		if trace, err := readFirst("f", strings.NewReader(three), 3); err != nil || len(trace.Requests) != 3 {
			t.Errorf("%s: %+v, %v", format, trace, err)
		}
		for n, want := range map[int]string{4: "run.requests = 4: expected 1 to 3, the number of requests in f", -1: "expected 1 to", MaxRequests + 1: "expected 1 to 10000000"} {
			if _, err := readFirst("f", strings.NewReader(three), n); !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d of 3: %v", format, n, err)
			}
		}
	}
	// The first n of the file, sorted by arrival.
	trace, err := readFirst("f", strings.NewReader("num_prefill_tokens,arrived_at,num_decode_tokens\n1,5,1\n2,3,1\n3,1,1\n"), 2)
	if want := []Request{{ID: 0, Arrival: 0, Input: 2, Output: 1}, {ID: 1, Arrival: 2 * units.Second, Input: 1, Output: 1}}; err != nil || !same(trace.Requests, want) {
		t.Errorf("got %+v, %v", trace, err)
	}
}

// failing is a stream that cannot be read.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("read on") }

// cycle repeats a text endlessly.
type cycle struct {
	text string
	at   int
}

func (c *cycle) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], c.text[c.at:])
		n += k
		c.at = (c.at + k) % len(c.text)
	}
	return n, nil
}

// TestReadBounds: endless text, compressed or not, gives a readable error that names the line, and takes no more memory than the bounds
// allow.
func TestReadBounds(t *testing.T) {
	deep.Heavy(t)
	for format, of := range requestsOf {
		huge := strings.Repeat("9", 1<<20)
		for what, c := range map[string]struct {
			first, rest, want string
		}{
			"zeros":        {"", "\x00", "f:1: "},
			"a long field": {of.first + of.request, strings.Replace(strings.TrimSpace(of.huge), "HUGE", strings.Repeat("9", 20<<20), 1), "longer than the 16 MiB that a line may have"},
			"a long value": {of.first + of.request, strings.Replace(of.huge, "HUGE", huge, 1), "9... ("},
			"requests":     {of.first, of.request, "expected at most 1000000 requests; run.requests = N (--requests N) reads the first N alone"},
		} {
			if (format != "mooncake" || what == "requests") && !deep.On() {
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readFirst("f", io.MultiReader(strings.NewReader(c.first), &cycle{text: c.rest}), 0)
			runtime.ReadMemStats(&after)
			if bad := new(input.Error); !errors.As(err, &bad) || bad.File != "f" || bad.Line == 0 || len(err.Error()) > 2000 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: got %.300s", format, what, fmt.Sprint(err))
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 2<<30 {
				t.Errorf("%s, %s: %d MiB", format, what, used>>20)
			}
		}
	}
}

// readFirst reads the first n requests of a file, or all if n is 0.
func readFirst(name string, r io.Reader, n int) (*Trace, error) {
	return Options{Requests: n}.Read(name, r)
}

// Load reads the first n requests of the file at path, or all if n is 0.
func Load(path string, n int) (*Trace, error) { return Options{Requests: n}.Load(path) }
