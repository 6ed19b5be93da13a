package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/l3sim/l3sim/units"
)

// Writer writes a timeline event by event. It keeps the first error for Close.
type Writer struct {
	w         *bufio.Writer
	separator string
	chains    int  // of arrows, written so far
	scaled    bool // a picosecond is written as a nanosecond
	err       error
}

// Track is a row of the page: a thread of a process. The rows of a process are in the order of their
// threads.
type Track struct{ Process, Thread int }

// Args is what the page shows of a selected event.
type Args map[string]any

// Slice is a time span on a track. Slices of a track are disjoint or nested.
type Slice struct {
	Name, Category string
	Start, End     units.Duration
	Args           Args
}

// Async is something with a track of its own within its process, such as a request.
type Async struct {
	Process      int
	Category, ID string
}

// event is one event of the Chrome trace-event format
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
// Times are in microseconds.
type event struct {
	Name     string      `json:"name"`
	Category string      `json:"cat,omitempty"`
	Phase    string      `json:"ph"`
	ID       int         `json:"id,omitempty"`  // of a chain of arrows, from 1
	Local    *localID    `json:"id2,omitempty"` // of an asynchronous event
	Binds    string      `json:"bp,omitempty"`  // "e": an arrow ends at the slice around its time
	Start    json.Number `json:"ts,omitempty"`
	Duration json.Number `json:"dur,omitempty"`
	Process  int         `json:"pid"`
	Thread   int         `json:"tid"`
	Args     Args        `json:"args,omitempty"`
}

// localID is an identifier within its process.
type localID struct {
	Local string `json:"local"`
}

// NewWriter begins a timeline. The caller ends it with Close.
func NewWriter(w io.Writer) *Writer {
	t := &Writer{w: bufio.NewWriter(w), separator: "\n"}
	fmt.Fprint(t.w, `{"displayTimeUnit":"ns","traceEvents":[`)
	return t
}

// Close ends the timeline and returns the first error of all writes.
func (t *Writer) Close() error {
	fmt.Fprint(t.w, "\n]}\n")
	return cmp.Or(t.err, t.w.Flush())
}

func (t *Writer) write(e *event) {
	text, err := json.Marshal(e)
	t.err = cmp.Or(t.err, err)
	fmt.Fprint(t.w, t.separator)
	t.w.Write(text) // bufio keeps the error for Close
	t.separator = ",\n"
}

// nanoseconds rounds t, in picoseconds, to the nanoseconds that Perfetto keeps. Starts and ends are
// rounded, never durations: Perfetto drops a slice that ends after the one around it.
func nanoseconds(t units.Duration) units.Duration { return t/1e3 + (t%1e3+500)/1e3 }

// stretch makes the timeline show each picosecond as a nanosecond. Perfetto keeps whole nanoseconds, shorter than which many
// DRAM clocks are: times of commands are exact this way.
func (t *Writer) stretch() { t.scaled = true }

// time returns the nanoseconds with which a time is written.
func (t *Writer) time(at units.Duration) units.Duration {
	if t.scaled {
		return at
	}
	return nanoseconds(at)
}

// microseconds writes a number of nanoseconds.
func microseconds(ns units.Duration) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", ns/1e3, ns%1e3))
}

// Process names a process.
func (t *Writer) Process(process int, name string) {
	t.write(&event{Name: "process_name", Phase: "M", Process: process, Args: Args{"name": name}})
}

// Track names a track.
func (t *Writer) Track(on Track, name string) {
	t.write(&event{Name: "thread_name", Phase: "M", Process: on.Process, Thread: on.Thread, Args: Args{"name": name}})
	t.write(&event{Name: "thread_sort_index", Phase: "M", Process: on.Process, Thread: on.Thread, Args: Args{"sort_index": on.Thread}})
}

// Slice writes a slice.
func (t *Writer) Slice(on Track, s *Slice) {
	from, to := t.time(s.Start), t.time(s.End)
	t.write(&event{
		Name: s.Name, Category: s.Category, Phase: "X", Start: microseconds(from), Duration: microseconds(to - from),
		Process: on.Process, Thread: on.Thread, Args: s.Args,
	})
}

// Counters writes values that hold from a time on.
func (t *Writer) Counters(process int, name string, at units.Duration, values Args) {
	t.write(&event{Name: name, Phase: "C", Start: microseconds(t.time(at)), Process: process, Args: values})
}

// Begin begins a span of a. Spans of one Async nest, and must come in order of time.
func (t *Writer) Begin(a *Async, name string, at units.Duration, args Args) {
	t.async(a, "b", name, at, args)
}

// End ends the latest open span of a.
func (t *Writer) End(a *Async, name string, at units.Duration) { t.async(a, "e", name, at, nil) }

func (t *Writer) async(a *Async, phase, name string, at units.Duration, args Args) {
	t.write(&event{Name: name, Category: a.Category, Phase: phase, Local: &localID{a.ID}, Start: microseconds(t.time(at)), Process: a.Process, Args: args})
}

// Place is a slice that has been written, as the end of an arrow. Of nested slices it is the outermost that
// begins at Start.
type Place struct {
	On         Track
	Start, End units.Duration
}

// Arrows draws arrows from each place to the next, in the order of their starts. Perfetto binds an arrow to the slice
// that is open at its time, so a slice that rounds to zero length has none.
func (t *Writer) Arrows(name string, chain []Place) {
	chain = slices.DeleteFunc(slices.Clone(chain), func(p Place) bool { return t.time(p.Start) == t.time(p.End) })
	if len(chain) < 2 {
		return
	}
	t.chains++
	for i, p := range chain {
		phase := "t"
		switch i {
		case 0:
			phase = "s"
		case len(chain) - 1:
			phase = "f"
		}
		t.write(&event{
			Name: name, Category: "arrow", Phase: phase, ID: t.chains, Binds: "e",
			Start: microseconds(t.time(p.Start)), Process: p.On.Process, Thread: p.On.Thread,
		})
	}
}
