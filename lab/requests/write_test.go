package requests

import (
	"math"
	"strings"
	"testing"
)

// reported is a report of three requests, of which one has one token and one no time in the queue.
func reported() *Report {
	r := &Report{Log: "a.json", GPU: "h100-sxm", GPUs: 2, Model: "m", Requests: 3, Judged: []Judged{
		{Request{Line: 3, Input: 10, Output: 5, Arrival: 1, Queue: 0.5, TTFT: 2, Latency: 4}, Request{Queue: 0.75, TTFT: 3, Latency: 8}},
		{Request{Line: 4, Input: 20, Output: 1, Arrival: 2, Queue: -1, TTFT: 4, Latency: 4}, Request{Queue: 9, TTFT: 2, Latency: 2}},
		{Request{Line: 6, Input: 30, Output: 3, Arrival: 3, Queue: 0, TTFT: 8, Latency: 10}, Request{Queue: 0.125, TTFT: 8, Latency: 11}},
	}}
	r.sum()
	return r
}

// TestSumByHand: the first token 2, 4 and 8 s after arrival against 3, 2 and 8: 50% late, 50% early, exact. Only requests of several tokens have gaps: 0.5
// and 1 s against 1.25 and 1.5. Queues are in seconds.
func TestSumByHand(t *testing.T) {
	for i, want := range []Metric{
		{Name: "ttft", Unit: "ratio", Requests: 3, Median: 0.5, P90: 0.5, Bias: 0, Measured: 4, Simulated: 3},
		{Name: "tpot", Unit: "ratio", Requests: 2, Median: 0.5, P90: 1.5, Bias: 1, Measured: 0.5, Simulated: 1.25},
		{Name: "e2e", Unit: "ratio", Requests: 3, Median: 0.5, P90: 1, Bias: (1 - 0.5 + 0.1) / 3, Measured: 4, Simulated: 8},
		{Name: "queue", Unit: "s", Requests: 2, Median: 0.125, P90: 0.25, Bias: 0.1875, Measured: 0, Simulated: 0.125},
	} {
		got := reported().Metrics[i]
		same := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
		if got.Name != want.Name || got.Unit != want.Unit || got.Requests != want.Requests || !same(got.Median, want.Median) || !same(got.P90, want.P90) || !same(got.Bias, want.Bias) ||
			got.Measured != want.Measured || got.Simulated != want.Simulated {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestWriteByHand: the table has errors in percent, those of the queue in seconds; the rows have all times; the page has a figure for each time that exists.
func TestWriteByHand(t *testing.T) {
	r := reported()
	var text, rows strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := "3 requests of a.json: m on 2 x h100-sxm||time requests measured simulated median |error| p90 bias|TTFT 3 4 s 3 s 50.0% 50.0% +0.0%|TPOT 2 0.5 s 1.25 s 50.0% 150.0% +100.0%|" +
		"E2E 3 4 s 8 s 50.0% 100.0% +20.0%|QUEUE 2 0 s 0.125 s 0.1 s 0.2 s +0.2 s|"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := r.WriteRows(&rows); err != nil {
		t.Fatal(err)
	}
	if want := "line,input,output,arrival_s,queue_s,ttft_s,e2e_s,simulated_queue_s,simulated_ttft_s,simulated_e2e_s\n" +
		"3,10,5,1.000000,0.500000,2.000000,4.000000,0.750000,3.000000,8.000000\n4,20,1,2.000000,-1.000000,4.000000,4.000000,9.000000,2.000000,2.000000\n" +
		"6,30,3,3.000000,0.000000,8.000000,10.000000,0.125000,8.000000,11.000000\n"; rows.String() != want {
		t.Errorf("got\n%s\nwant\n%s", rows.String(), want)
	}
	if _, err := r.Page(); err != nil {
		t.Error(err)
	}
	r.Metrics = []Metric{{Name: "ttft"}}
	text.Reset()
	if err := r.WriteText(&text); err != nil || !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "TTFT 0 - - - - -") {
		t.Errorf("without requests:\n%s", text.String())
	}
}

// TestSince: a server's version determines its defaults; an unknown version counts as new.
func TestSince(t *testing.T) {
	for version, want := range map[string][2]bool{"0.7.3": {false, false}, "0.8.0": {true, false}, "0.13.1": {true, false}, "0.14": {true, true}, "1.0": {true, true}, "": {true, true}, "main": {true, true}} {
		s := &Server{Version: version}
		if s.caches() != want[0] || s.asynchronous() != want[1] {
			t.Errorf("%q: keeps prefixes %v, asynchronous %v", version, s.caches(), s.asynchronous())
		}
	}
	yes, no := true, false
	s := &Server{Version: "0.20"}
	s.Arguments.Prefix = &no
	if s.caches() {
		t.Error("an argument is not heard")
	}
	s.KV.Prefix = &yes
	if !s.caches() {
		t.Error("the cache's own word is not heard before the argument")
	}
	s.Resolved.Cache.Prefix, s.Resolved.Scheduler.Async = &no, &no
	if s.caches() || s.asynchronous() {
		t.Error("what was resolved is not heard first")
	}
}

// TestLimitsOfRequests: each impossible time and number is refused with its name, value and bounds; the bounds themselves are accepted.
func TestLimitsOfRequests(t *testing.T) {
	good := Request{Input: 1, Output: 2, Arrival: 0, TTFT: minLatency, Latency: 2 * minLatency, Queue: minLatency}
	p := &parser{line: 7}
	for want, change := range map[string]func(r *Request){
		"":                                  func(*Request) {},
		"input tokens = 0: expected 1 to ":  func(r *Request) { r.Input = 0 },
		"output tokens = 0: expected 1 to ": func(r *Request) { r.Output = 0 },
		"arrival = NaN: expected seconds, up to 1e12":                    func(r *Request) { r.Arrival = math.NaN() },
		"arrival = -2e+12: expected seconds, up to 1e12":                 func(r *Request) { r.Arrival = -2e12 },
		"time to the first token = 0: expected ":                         func(r *Request) { r.TTFT, r.Queue = 0, 0 },
		"time to the last token = 0: expected no less than to the first": func(r *Request) { r.Latency = 0 },
		"time to the last token = NaN: expected no less than":            func(r *Request) { r.Latency = math.NaN() },
		" of 2 tokens": func(r *Request) { r.Latency = r.TTFT },
		"time in the queue = 1: expected at most that to the first token": func(r *Request) { r.Queue = 1 },
	} {
		r := good
		change(&r)
		got, err := p.request(r)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "line 7: ")) || err == nil && got.Line != 7 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, r := range []Request{{Input: maxTokens, Output: maxTokens, Arrival: 1e12, TTFT: maxSeconds / 2, Latency: maxSeconds}, {Input: 1, Output: 1, TTFT: minLatency, Latency: minLatency}} {
		if _, err := p.request(r); err != nil {
			t.Error(err)
		}
	}
}
