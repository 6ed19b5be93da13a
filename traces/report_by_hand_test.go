package traces

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestReportByHand: four requests in 6 s, of two conversations; three of them have hashes of 100 tokens.
func TestReportByHand(t *testing.T) {
	const s = units.Second
	trace := &Trace{
		Name: "mine", Format: "own", Failed: 5, Skipped: 6, Unordered: 7, HashTokens: 100, Reading: Reading{Times: "at", Unit: "s", Hashes: "ids", Session: "chat"},
		Requests: []Request{
			{Input: 250, Output: 10, Hashes: []uint64{1, 2, 3}, Turn: &Turn{Session: 4}},
			{ID: 1, Arrival: s, Input: 300, Output: 30, Hashes: []uint64{1, 2, 9}, Turn: &Turn{Session: 4, Number: 1}},
			{ID: 2, Arrival: 3 * s, Input: 150, Output: 20, Hashes: []uint64{1, 2}, Turn: &Turn{Session: 8}},
			{ID: 3, Arrival: 6 * s, Input: 100, Output: 40},
		},
	}
	r := NewReport(trace)
	if r.File != "mine" || r.Format != "own" || r.Requests != 4 || r.Failed != 5 || r.Skipped != 6 || r.Unordered != 7 || r.DurationS != 6 || r.RatePerS != 0.5 {
		t.Errorf("%+v", r)
	}
	if want := (Lengths{Tokens: 800, Mean: 200, Std: r.Input.Std, Min: 100, P25: 100, Median: 150, P75: 250, P90: 300, P95: 300, P99: 300, Max: 300}); r.Input != want || r.Input.Std < 79.05 || r.Input.Std > 79.06 {
		t.Errorf("%+v, by hand %+v", r.Input, want)
	}
	if want := (conversationsStats{2, 1.5, 2}); *r.Conversations != want {
		t.Errorf("%+v, by hand %+v", *r.Conversations, want)
	}
	// The second request shares 200 tokens with the first, and the third all of its 150. Four of eight blocks are distinct.
	if want := (prefixStats{Requests: 3, BlockTokens: 100, Blocks: 8, DistinctBlocks: 4, SharingRequests: 2, SharedTokens: 350, SharedShare: 0.5}); *r.Prefixes != want {
		t.Errorf("%+v, by hand %+v", *r.Prefixes, want)
	}
	const text = `mine, own: 4 requests, 7 out of order in 6 s, 0.5 a second, burstiness %.3f
times: at, s
hashes: ids, blocks of 100 tokens
conversations: chat

tokens  total  mean   std   min  p25  median  p75  p90  p95  p99  max
prompt  800    200.0  79.1  100  100  150     250  300  300  300  300
output  100    25.0   11.2  10   10   20      30   40   40   40   40

2 conversations: 1.50 turns on average, at most 2

prefixes: 2 of 3 requests share 50.0%% of all prompt tokens; 4 of 8 blocks of 100 tokens are distinct
`
	write := func(r *Report) string {
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got, want := write(r), fmt.Sprintf(text, r.Burstiness); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	// Gaps of 1, 2 and 3 s have a standard deviation of √(2/3) s and a mean of 2 s.
	if r.Burstiness < 0.4082 || r.Burstiness > 0.4083 {
		t.Errorf("burstiness %v", r.Burstiness)
	}
	for _, c := range []struct {
		change func(r *Report)
		want   string
	}{
		{func(r *Report) { r.Reading.Guessed = true }, "times: at, s (a guess)\n"}, {func(r *Report) { r.Reading.Times = "" }, "times: none\n"}, {func(r *Report) { r.Unordered = 0 }, ": 4 requests in 6 s"},
		{func(r *Report) { r.DurationS = 0 }, ", 7 out of order, all at once\n"}, {func(r *Report) { r.Requests = 1 }, "own: 1 request,"}, {func(r *Report) { r.Reading.Hashes = "" }, "times: at, s\nconversations: chat"},
		{func(r *Report) { r.Reading.Session = "" }, "tokens\n\ntokens"}, {func(r *Report) { r.Conversations = nil }, "100 tokens\n\ntokens"}, {func(r *Report) { r.Prefixes = nil }, "times: at, s\nconversations"},
		{func(r *Report) { c := *r.Conversations; c.Count = 1; r.Conversations = &c }, "\n1 conversation: "},
	} {
		other := *r
		if c.change(&other); !strings.Contains(write(&other), c.want) {
			t.Errorf("%s\nwant %q", write(&other), c.want)
		}
	}
	other := *r
	other.Conversations, other.Prefixes = nil, nil
	if got := write(&other); strings.Contains(got, "prefixes") || strings.Contains(got, "conversation") || strings.Contains(got, "hashes") {
		t.Error(got)
	}
}

// TestRepeatedByHand: a trace that is repeated or cut keeps its description. Its requests begin at 0, and each round starts one mean gap
// after the last request.
func TestRepeatedByHand(t *testing.T) {
	trace := &Trace{Name: "x", HashTokens: 16, Failed: 99, Notes: []string{"odd"}, Requests: []Request{{Input: 1, Arrival: 10}, {ID: 1, Input: 2, Arrival: 12}, {ID: 2, Input: 3, Arrival: 16}}}
	for n, want := range map[int][]int64{-1: nil, 0: nil, 2: {10, 12}, 3: {10, 12, 16}, 5: {0, 2, 6, 9, 11}} { // a span of 6 and a gap of 3
		got := trace.Repeated(n)
		if len(got.Requests) != len(want) || got.HashTokens != 16 || got.Name != "x" || len(got.Notes) != 1 || got.Failed != 0 {
			t.Errorf("%d: %+v", n, got)
		}
		for i, at := range want {
			if q := got.Requests[i]; int64(q.Arrival) != at || q.ID != i || q.Input != 1+i%3 {
				t.Errorf("%d: request %d %+v, by hand at %d", n, i, q, at)
			}
		}
	}
	if got := (&Trace{Requests: []Request{{Input: 4, Arrival: 9}}}).Repeated(3).Requests; got[2].Arrival != 0 || got[2].ID != 2 {
		t.Errorf("one again and again %+v", got)
	}
	var none *Trace
	if len(none.Repeated(3).Requests)+len((&Trace{}).Repeated(3).Requests) != 0 || none.OutputTokens() != 0 || none.Waits() {
		t.Error("of no trace there are requests")
	}
}

// TestRoundedByHand: arrivals are rounded to the nearest multiple, halves up, and the latest ones down.
func TestRoundedByHand(t *testing.T) {
	const latest = units.Duration(1<<63 - 1)
	for _, c := range [][3]units.Duration{{0, 10, 0}, {4, 10, 0}, {5, 10, 10}, {14, 10, 10}, {15, 10, 20}, {7, 1, 7}, {latest - 5, 10, latest / 10 * 10}, {latest, 10, latest / 10 * 10}, {latest - 7, 10, latest / 10 * 10}} {
		if got := rounded(c[0], c[1]); got != c[2] {
			t.Errorf("%d to %d: %d, by hand %d", c[0], c[1], got, c[2])
		}
	}
}

// TestNamesWithinByHand: the last word of a dotted name decides what a field is, and a less nested field goes before a more nested one.
func TestNamesWithinByHand(t *testing.T) {
	for path, want := range map[string]string{"usage.prompt_tokens": "prompt_tokens", "metrics.isl.value": "isl", "value": "value", "a.b.value": "b", "a.value.c": "c", "created.$date": "created", "n.$numberLong": "n", "$t": "$t"} {
		if got := stem(path); got != plainName(want) {
			t.Errorf("%s: %s, by hand %s", path, got, want)
		}
	}
	for path, want := range map[string]string{"nginx.requestTime": "request_time", "log.request_time_ms": "request_time", "queue_time_s": "queue_time", "a.queueTime.value": "queue_time", "ms": "ms", "time_ms_us": "time_ms"} {
		if got := withoutUnit(path); got != want {
			t.Errorf("%s without its unit: %s, by hand %s", path, got, want)
		}
	}
	gaps := []string{"iat", "iat_ms", "interarrival", "time_since_last_request", "since_prev", "since_previous_s", "interArrivalTime", "delta_ts", "diff_timestamp", "request_gap_ms", "arrival_interval", "inter_arrived", "gap_time", "inter_arrivals"}
	others := []string{"arrival", "since", "last_time", "delta", "gap", "interval_ms", "inter_token_latency", "arrival_time", "since_start", "previous_request", "diff_tokens", ""}
	for i, name := range append(gaps, others...) {
		if got := holdsGaps(name); got != (i < len(gaps)) {
			t.Errorf("%q holds times between arrivals: %v", name, got)
		}
	}
	known := []string{plainName("isl"), plainName("prompt_tokens")}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"prompt_tokens", "isl"}, "isl"}, {[]string{"isl", "prompt_tokens"}, "isl"}, {[]string{"a.b.isl", "a.isl", "b.isl"}, "a.isl"}, {[]string{"a.isl", "isl"}, "isl"}, {[]string{"isl", "a.isl"}, "isl"},
		{[]string{"a.isl", "prompt_tokens"}, "a.isl"}, {[]string{"other"}, ""}, {nil, ""},
	} {
		if got := (&sample{nested: c.names}).findName(known); got != c.want {
			t.Errorf("of %v %q, by hand %q", c.names, got, c.want)
		}
	}
	for text, want := range map[string][2]string{"1,234": {"1234", "1.234"}, "1,5": {"1,5", "1.5"}, "1,234,567.5": {"1234567.5", "1234567.5"}, "7": {"7", "7"}, "1,2,3": {"1,2,3", "1,2,3"}, "1,234.5": {"1234.5", "1234.5"}} {
		if a, b := number(text, ','), number(text, ';'); a != want[0] || b != want[1] {
			t.Errorf("%s: %s and %s, by hand %v", text, a, b, want)
		}
	}
}

// TestTurnsOfFilesByHand: turns of sessions, given by the request that they continue or by a delay after the previous turn. Invalid delays
// are errors.
func TestTurnsOfFilesByHand(t *testing.T) {
	load := func(text string) (*Trace, error) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Options{}.Load(path)
	}
	trace, err := load(`{"session_id": "a", "input_length": 10, "output_length": 2, "timestamp": 1000}
{"session_id": "b", "input_length": 20, "output_length": 2, "timestamp": 1500}
{"session_id": "a", "input_length": 30, "output_length": 2, "delay": 250}
{"session_id": "a", "input_length": 40, "output_length": 2, "delay": 50}
`)
	if err != nil {
		t.Fatal(err)
	}
	const ms = units.Millisecond
	for i, want := range []struct {
		input, session, number int
		arrival, think         units.Duration
		waits                  bool
	}{{10, 0, 0, 0, 0, false}, {30, 0, 1, 250 * ms, 250 * ms, true}, {40, 0, 2, 300 * ms, 50 * ms, true}, {20, 1, 0, 500 * ms, 0, false}} {
		q := trace.Requests[i]
		if want.session == 1 && q.Turn == nil { // a conversation of one turn
			want.session = -1
		}
		if q.Input != want.input || q.Arrival-trace.Requests[0].Arrival != want.arrival || q.Turn != nil && (q.Turn.Number != want.number || q.Turn.Waits != want.waits || q.Turn.Think != want.think) {
			t.Errorf("request %d: %+v %+v, by hand %+v", i, q, q.Turn, want)
		}
	}
	for _, delay := range []string{`"soon"`, `1e300`, `-5`} {
		if _, err := load(`{"session_id": "a", "input_length": 10, "output_length": 2, "timestamp": 1000}
{"session_id": "a", "input_length": 30, "output_length": 2, "delay": ` + delay + `}
`); err == nil || !strings.Contains(err.Error(), "x.jsonl:2: delay") {
			t.Errorf("%s: %v", delay, err)
		}
	}
	// A file that gives its own unit and block size; a number that is no valid block size is ignored.
	for block, want := range map[string]int{"500": 500, "1": 1, "0": BlockTokens, "-3": BlockTokens, "1e3": BlockTokens, "100000000": BlockTokens} {
		trace, err = load(strings.ReplaceAll(`{"timestamp": 1, "input_length": 500, "output_length": 2, "hash_ids": [1], "timestamp_unit": "s", "block_size": 7x}
{"timestamp": 3, "input_length": 500, "output_length": 2, "hash_ids": [1], "timestamp_unit": "s", "block_size": 7x}
`, "7x", block))
		if want == 1 && err != nil { // 500 blocks in place of one
			continue
		}
		if err != nil || trace.HashBlock() != want || trace.Reading.Unit != "seconds" || trace.Requests[1].Arrival-trace.Requests[0].Arrival != 2*units.Second {
			t.Errorf("blocks of %s: %+v, %v", block, trace, err)
		}
	}
}
