package timeline

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
)

// TestEventsByHand: each kind of event is written with its phase, its process and its time in microseconds with three
// decimals.
func TestEventsByHand(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	w.Process(3, "node")
	w.Track(Track{3, 4}, "GPU")
	w.Slice(Track{3, 4}, &Slice{Name: "s", Category: "c", Start: 1_234_000, End: 5_000_000, Args: Args{"k": 1}})
	w.Counters(5, "load", 7_654_321_000, Args{"v": 2})
	a := &Async{Process: 6, Category: "request", ID: "r8"}
	w.Begin(a, "prefill", 1000, Args{"n": 3})
	w.End(a, "prefill", 2_000_000)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var events []map[string]any
	var whole struct {
		Events []map[string]any `json:"traceEvents"`
	}
	if json.Unmarshal(text.Bytes(), &events) != nil {
		if err := json.Unmarshal(text.Bytes(), &whole); err != nil {
			t.Fatal(err)
		}
		events = whole.Events
	}
	want := []map[string]any{
		{"name": "process_name", "ph": "M", "pid": 3.0}, {"name": "thread_name", "ph": "M", "pid": 3.0, "tid": 4.0}, {"name": "thread_sort_index", "ph": "M", "pid": 3.0, "tid": 4.0},
		{"name": "s", "cat": "c", "ph": "X", "ts": 1.234, "dur": 3.766, "pid": 3.0, "tid": 4.0}, {"name": "load", "ph": "C", "ts": 7654.321, "pid": 5.0},
		{"name": "prefill", "cat": "request", "ph": "b", "ts": 0.001, "pid": 6.0}, {"name": "prefill", "cat": "request", "ph": "e", "ts": 2.0, "pid": 6.0},
	}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d:\n%s", len(events), len(want), text.Bytes())
	}
	args := []string{`{"name":"node"}`, `{"name":"GPU"}`, `{"sort_index":4}`, `{"k":1}`, `{"v":2}`, `{"n":3}`, `null`}
	for i, e := range want {
		for k, v := range e {
			if events[i][k] != v {
				t.Errorf("event %d: %s is %v, want %v", i, k, events[i][k], v)
			}
		}
		if got, _ := json.Marshal(events[i]["args"]); string(got) != args[i] {
			t.Errorf("event %d: arguments %s, want %s", i, got, args[i])
		}
	}
	if begin, _ := json.Marshal(events[5]["id2"]); string(begin) != `{"local":"r8"}` {
		t.Errorf("a span is of another request: %v", events[5])
	}
}

// TestFirstErrorIsKept: of two arguments that JSON cannot hold, the first is the error; else the file's error. Each event is on a line
// of its own.
func TestFirstErrorIsKept(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	w.Counters(1, "none", 0, Args{"v": math.NaN()})
	w.Counters(1, "none", 0, Args{"v": func() {}})
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("%v, want that of NaN", err)
	}
	text.Reset()
	w = NewWriter(&text)
	w.Process(1, "a")
	w.Process(2, "b")
	if err := w.Close(); err != nil || strings.Count(text.String(), "\n") != 4 || !strings.HasPrefix(text.String(), "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{") {
		t.Errorf("%v\n%s", err, text.String())
	}
	w = NewWriter(full{})
	w.Process(1, "a")
	if err := w.Close(); err != io.ErrShortWrite {
		t.Errorf("of a full disk: %v", err)
	}
}

// full is a file without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
