package requests

import (
	"math"
	"strings"
	"testing"
)

// TestPageByHand: each metric that some request has becomes a figure, in order; those without requests are left out.
func TestPageByHand(t *testing.T) {
	r := reported()
	one := Metric{Name: "one", Requests: 1, pairs: []pair{{1, 2}}}
	r.Metrics = append(append([]Metric{{Name: "none"}, one}, r.Metrics...), Metric{Name: "nothing"}, Metric{Name: "last", Requests: 1, pairs: []pair{{2, 3}}})
	page, err := r.Page()
	if err != nil {
		t.Fatal(err)
	}
	var svg strings.Builder
	if err := page.Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, title := range []string{"ONE", "TTFT", "TPOT", "E2E", "QUEUE", "LAST"} {
		next := strings.Index(svg.String()[at:], ">"+title+"<")
		if next < 0 {
			t.Errorf("no figure of %s behind those before it", title)
			continue
		}
		at += next
	}
	if strings.Contains(svg.String(), ">NONE<") || strings.Contains(svg.String(), ">NOTHING<") {
		t.Error("figures of metrics without requests")
	}
	// The table continues after a metric without requests.
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i, name := range []string{"NONE", "ONE", "TTFT", "TPOT", "E2E", "QUEUE", "NOTHING", "LAST"} {
		if cells := strings.Fields(lines[3+i]); cells[0] != name || (cells[1] == "0") != (name == "NONE" || name == "NOTHING") {
			t.Errorf("line %d: %s, want %s", i, lines[3+i], name)
		}
	}
}

// TestLinesOfObjects: each object is identified by its first line, however many lines it and earlier ones take.
func TestLinesOfObjects(t *testing.T) {
	p := &parser{text: []byte("\n{\"a\":\n1}\n\n\n{\"a\": 2} {\"a\": 3}\n{\n\n\"a\": 4\n}\n{\"a\": 5}\n")}
	for i, line := range []int{2, 6, 6, 7, 11} {
		var v struct {
			A int `json:"a"`
		}
		if ok, err := p.object(&v, true); !ok || err != nil || v.A != i+1 || p.line != line {
			t.Errorf("object %d is %d on line %d, want line %d; %t, %v", i+1, v.A, p.line, line, ok, err)
		}
	}
	if ok, err := p.object(&struct{}{}, true); ok || err != nil {
		t.Errorf("behind the last: %t, %v", ok, err)
	}
}

// TestOffByHand: a request's error is the logarithms of its time to the first token and of the rest. A request of one token has no rest, and a time of 0 no
// logarithm.
func TestOffByHand(t *testing.T) {
	ln := math.Log
	for _, c := range []struct {
		measured, simulated Request
		sum                 float64
		times               int
	}{
		{Request{Output: 2, TTFT: 1, Latency: 3}, Request{TTFT: 2, Latency: 8}, ln(2) + ln(3), 2},
		{Request{Output: 2, TTFT: 4, Latency: 10}, Request{TTFT: 1, Latency: 3}, ln(4) + ln(3), 2},
		{Request{Output: 1, TTFT: 1, Latency: 3}, Request{TTFT: 2, Latency: 8}, ln(2), 1},
		{Request{Output: 5, TTFT: 0, Latency: 3}, Request{TTFT: 2, Latency: 8}, ln(2), 1},
		{Request{Output: 5, TTFT: 1, Latency: 1}, Request{TTFT: 0, Latency: 8}, 0, 0},
	} {
		j := Judged{c.measured, c.simulated}
		if sum, times := j.off(); math.Abs(sum-c.sum) > 1e-12 || times != c.times {
			t.Errorf("%+v: %v of %d times, want %v of %d", j, sum, times, c.sum, c.times)
		}
	}
}

// TestCalibrationTexts: the table has all percentiles of all logs, and the configuration each log and each constant with its unit.
func TestCalibrationTexts(t *testing.T) {
	c := &Calibration{Share: 0.25, Runs: 17, Constants: []Constant{{Key: "a.b", Before: 1.5, After: 20.26, Unit: "us"}, {Key: "c", Before: 0.9, After: 0.8125}}, Logs: []CalibratedLog{
		{Log: "x.json", Model: "m", GPU: "g", Fitted: 2, Held: 6, Percentiles: []Percentile{{"ttft", 50, 0.125, 0.5, -0.25}, {"e2e", 99, 3, -0.0625, 0.03}}},
		{Log: "y.json", Model: "n", GPU: "h", Fitted: 3, Held: 9, Percentiles: []Percentile{{"tpot", 90, 0.02, 1, 0}}},
	}}
	var text, config strings.Builder
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := "a.b: 1.5 -> 20.26 us|c: 0.9 -> 0.8125|fitted to the first 25% of the requests in 17 runs; errors below are of the others||" +
		"model requests time percentile measured error before after|m 6 TTFT p50 0.125 s +50.0% -25.0%|m 6 E2E p99 3 s -6.2% +3.0%|n 9 TPOT p90 0.02 s +100.0% +0.0%|"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := c.WriteTOML(&config); err != nil {
		t.Fatal(err)
	}
	if want := "# Fitted by l3lab calibrate. Errors of held-out requests are in its report.\n# x.json: m on g, 2 requests fitted, 6 held out\n# y.json: n on h, 3 requests fitted, 9 held out\n\n" +
		"a.b = \"20.3us\"\nc = 0.8125\n"; config.String() != want {
		t.Errorf("got\n%s\nwant\n%s", config.String(), want)
	}
}
