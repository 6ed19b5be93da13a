package results

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/traces"
)

// TestKnownByHand: shares in percent, each by its name; what rounds to 0 is left out, and so is an unknown error.
func TestKnownByHand(t *testing.T) {
	for _, c := range []struct {
		k    Known
		want string
	}{
		{Known{}, ""},
		{Known{Fit: "h100", Measured: 1}, "100% measured (h100)"},
		{Known{Fit: "h100", Measured: .5, Borrowed: .25, DataSheet: .15, Never: .1, Beyond: .05, Error: 7.6},
			"50% measured (h100; expected error 8%), 25% borrowed, 15% from data sheets, 10% never measured, 5% beyond the range measured"},
		{Known{Fit: "h100", Measured: .004, Borrowed: .006, Never: .99}, "1% borrowed, 99% never measured"},
		{Known{Fit: "h100", DataSheet: 1, Error: 3}, "100% from data sheets"},
	} {
		if got := c.k.Text(); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.k, got, c.want)
		}
	}
}

// TestOrderOfLines: the order of lines in a full summary; metrics have as many values as names.
func TestOrderOfLines(t *testing.T) {
	s := &Summary{}
	s.Trace.Requests, s.SimulatedS, s.Iterations = 3, 2, 5
	s.Iteration.Mean, s.Stall.Count, s.RefusedRequests = 1, 1, 1
	s.Arrivals.Kind = "poisson"
	s.SLO.TTFT = 1
	s.GPUTime = Known{Fit: "x", Measured: 1}
	var b bytes.Buffer
	if err := s.WriteFull(&b); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, name := range []string{"GPU time", "input", "output", "arrivals", "throughput", "wall time", "goodput", "TBT", "without stalls", "TTFT", "end to end", "queueing", "TPOT", "in the system",
		"turned away", "mean iteration", "iterations", "stalls", "utilization"} {
		i := strings.Index(b.String()[at:], "\n"+name+" ")
		if i < 0 {
			t.Fatalf("%q is not in its place in\n%s", name, b.String())
		}
		at += i + 1
	}
	if names, values := MetricNames(), s.MetricValues(); len(names) != len(values) || len((*Summary)(nil).MetricValues()) != len(names) {
		t.Errorf("%d names, %d values", len(names), len(values))
	}
	for i, name := range MetricNames() {
		if name == "simulated_s" && s.MetricValues()[i] != 2.0 || name == "iterations" && s.MetricValues()[i] != int64(5) {
			t.Errorf("%s is %v", name, s.MetricValues()[i])
		}
	}
}

// TestPlaceInTheQueue: if all requests arrive at once, the line below TTFT says that it is the place in the queue.
func TestPlaceInTheQueue(t *testing.T) {
	s := &Summary{}
	s.Trace.Requests, s.Arrivals.Kind = 3, traces.ArrivalsAtOnce
	var b bytes.Buffer
	if err := s.WriteFull(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, queueText) })
	if at < 1 || !strings.HasPrefix(lines[at-1], "TTFT ") || !strings.HasPrefix(lines[at+1], "end to end ") {
		t.Errorf("the place in the queue is not below TTFT:\n%s", b.String())
	}
}
