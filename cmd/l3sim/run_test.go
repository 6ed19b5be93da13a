package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestInWindow: a window that begins after the run's end is empty, and the error gives the end in milliseconds.
func TestInWindow(t *testing.T) {
	f := &runFlags{window: "1500ms:2s"}
	w := &system.Window{From: 1500 * units.Millisecond, To: 2 * units.Second}
	if err := f.inWindow(w, 1.501); err != nil {
		t.Error(err)
	}
	if err := f.inWindow(w, 1.25); err == nil || !strings.HasSuffix(err.Error(), "--timeline-window = 1500ms:2s: expected a part of the run, which ends at 1250ms") {
		t.Errorf("%v", err)
	}
	if err := f.inWindow(w, 1.5); err == nil {
		t.Error("the window begins at the end of the run")
	}
	for _, none := range []*system.Window{nil, {}} { // no timeline, or a window that the run chooses
		if err := (&runFlags{}).inWindow(none, 1); err != nil {
			t.Error(err)
		}
	}
}

// TestNoteWindow: the note of a chosen window covers all replicas of the run, in whatever order they end; each run has its own.
func TestNoteWindow(t *testing.T) {
	recording := func(run string, from, to units.Duration, decoding ...int) *system.Recording {
		r := &system.Recording{Run: run, Window: system.Window{From: from * units.Second, To: to * units.Second}}
		for _, n := range decoding {
			r.Samples = append(r.Samples, system.Sample{Decoding: n})
		}
		return r
	}
	recordings := []*system.Recording{recording("l3", 2, 9, 3, 5), recording("l3", 1, 4, 4), recording("gpu-only", 7, 8, 1)}
	for window, want := range map[string]string{
		"": ": l3: the timeline shows 1s:9s, where up to 5 requests decode; --timeline-window shows another part\n" +
			": gpu-only: the timeline shows 7s:8s, where up to 1 request decodes; --timeline-window shows another part\n",
		"1s:2s": "",
	} {
		var b bytes.Buffer
		a := &app{&cli.App{Stderr: &b}}
		if a.noteWindow(&runFlags{window: window}, recordings); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
}

// TestTimeTable: requests over 100 s in parts of one second: two in the first, one in part 50 and one in the last.
func TestTimeTable(t *testing.T) {
	trace := &traces.Trace{Requests: []traces.Request{
		{Input: 10, Output: 2}, {Arrival: units.Second / 2, Input: 30, Output: 4}, {Arrival: 101 * units.Second / 2, Input: 7, Output: 8}, {Arrival: 200 * units.Second / 2, Input: 5, Output: 6},
	}}
	for stretch, rate := range map[units.Duration]float64{1: 1, 4: 0.25} { // parts of 4 s have as many requests
		stretched := &traces.Trace{Requests: append([]traces.Request{}, trace.Requests...)}
		for i := range stretched.Requests {
			stretched.Requests[i].Arrival *= stretch
		}
		table := timeTable(stretched)
		if len(table.Rows) != 100 {
			t.Fatalf("%d rows", len(table.Rows))
		}
		for part, want := range map[int][3]float64{0: {2 * rate, 20, 3}, 50: {rate, 7, 8}, 99: {rate, 5, 6}} {
			at, _ := table.Float(part, timeColumn)
			arrivals, _ := table.Float(part, rateColumn)
			in, _ := table.Float(part, inputColumn)
			out, _ := table.Float(part, outputColumn)
			if got := [3]float64{arrivals, in, out}; got != want || at != (float64(part)+0.5)*float64(stretch) {
				t.Errorf("at %v s: %v, by hand %v", at, got, want)
			}
		}
		if arrivals, _ := table.Float(1, rateColumn); arrivals != 0 {
			t.Errorf("%v a second where none come", arrivals)
		}
	}
}
