package system

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/units"
)

// Window is a part of a run to record: iterations that lie in it, wholly or in part.
type Window struct{ From, To units.Duration }

func (w *Window) overlaps(start, end units.Duration) bool { return start < w.To && end > w.From }

// Recording is what one replica did within a window.
type Recording struct {
	Replica int
	Run     string // what the run is called where a timeline shows several, else ""
	Window
	Spans []flow.Span // in the order of their starts within an iteration
	// Batch and KVBytes are sampled at every iteration.
	Samples  []Sample
	ranksets int
	parts    map[units.Duration][]gpus.Part // of the block that starts then
	tracks   []track                        // of the resources, in the order in which Perfetto shows them
	phases   []phase                        // of the requests, each in the order of time
	latest   map[int]int                    // of each request: its latest phase
}

// phase is iterations without a gap in which a request does one thing.
type phase struct {
	request    int // its ID in the trace
	name       string
	start, end units.Duration
	tokens     int // of the prompt, or emitted
}

// Sample is the state at the start of an iteration.
type Sample struct {
	At       units.Duration
	Decoding int   // requests that decode
	Prefill  int   // prompt tokens
	KVBytes  int64 // allocated, over the replica
	// Watts of all GPUs of the replica, mean until End, when the iteration ends; from
	// there to the next one they are IdleWatts.
	Watts, IdleWatts float64
	Draws, IdleDraws power.DeviceWatts // watts by device, all that the replica draws with its share of the node included
	End              units.Duration
}

// record keeps the spans of the iteration that has just been run. Engines are
// deterministic, so that running it again takes the same time.
func (r *replica) record(start, end units.Duration, did *flow.Work) {
	rec, f, side := r.recording, r.Engine.Core(), r.Engine.Side()
	first := len(rec.Spans)
	spans, again := f.Record(start)
	if rec.Spans = append(rec.Spans, spans...); again != end {
		r.fault = fmt.Errorf("the iteration at %v ends at %v, and at %v when every layer is run", start, end, again)
	}
	prefill := 0
	for s := range r.batch.Sub {
		prefill += r.batch.Sub[s].PrefillTokens()
	}
	r.recordRequests(start, end)
	rec.Samples = append(rec.Samples, Sample{
		At: start, Decoding: r.batch.Decoding(), Prefill: prefill, KVBytes: r.kvBytes(r.Batcher.UsedUnits()),
		Watts: side.Watts(did, end-start), IdleWatts: side.Watts(&flow.Work{}, end-start), End: end,
		Draws: r.power.Draws(did, end-start), IdleDraws: r.power.Draws(&flow.Work{}, end-start),
	})
	for _, s := range rec.Spans[first:] {
		if s.Resource == flow.TrackGPU {
			sub := &r.batch.Sub[int(s.A)/rec.ranksets]
			rec.parts[s.Start] = side.Parts(uint8(s.Kind), sub.Tokens(), sub.Emitting(), int(s.B), f.Uses[int(s.A)/rec.ranksets])
		}
	}
}

func (r *replica) recordRequests(start, end units.Duration) {
	note := func(request int32, name string, tokens int) {
		r.recording.phase(phase{r.requests[request].ID, name, start, end, tokens})
	}
	for s := range r.batch.Sub {
		sub := &r.batch.Sub[s]
		for i := range sub.Prefill {
			note(sub.Prefill[i].Request, "prefill", sub.Prefill[i].Tokens)
		}
		for _, decoding := range [][]scheduler.Decoding{sub.Decode, sub.Host} {
			for i := range decoding {
				note(decoding[i].Request, "decode", 1)
			}
		}
	}
}

// phase adds an iteration to its request's latest phase, or begins another one.
func (r *Recording) phase(p phase) {
	if i, ok := r.latest[p.request]; ok {
		if last := &r.phases[i]; last.name == p.name && last.end == p.start {
			last.end = p.end
			last.tokens += p.tokens
			return
		}
	}
	r.latest[p.request] = len(r.phases)
	r.phases = append(r.phases, p)
}

// traceEvent is one event of the Chrome trace-event format, which Perfetto opens
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
// Times are in microseconds.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"` // of the resource; "request" for what requests do
	Phase    string         `json:"ph"`
	ID       *localID       `json:"id2,omitempty"` // of a request's track
	Start    json.Number    `json:"ts,omitempty"`
	Duration json.Number    `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// localID is an identifier within its process.
type localID struct {
	Local string `json:"local"`
}

// nanoseconds rounds t, picoseconds, to the nanoseconds that Perfetto keeps. Ends are rounded
// as starts are, and never durations: Perfetto drops a slice that ends behind the one around it.
func nanoseconds(t units.Duration) units.Duration { return t/1e3 + (t%1e3+500)/1e3 }

// microseconds writes a number of nanoseconds.
func microseconds(ns units.Duration) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", ns/1e3, ns%1e3))
}

// WriteTimeline writes recordings, one a replica of a run, in the Chrome trace-event
// format: a process for each replica, a track for each resource and for each request
// that runs, counters for the batch and the KV memory.
func WriteTimeline(w io.Writer, recordings []*Recording) error {
	t := traceWriter{w: bufio.NewWriter(w), separator: "\n"}
	fmt.Fprint(t.w, `{"displayTimeUnit":"ns","traceEvents":[`)
	for t.process = range recordings {
		t.recording(recordings[t.process])
	}
	fmt.Fprint(t.w, "\n]}\n")
	return cmp.Or(t.err, t.w.Flush())
}

// traceWriter writes the events of one process after another.
type traceWriter struct {
	w         *bufio.Writer // keeps its first error
	separator string
	process   int
	err       error // the first of an event
}

// event writes an event of the process at hand.
func (t *traceWriter) event(e traceEvent) {
	e.Process = t.process
	text, err := json.Marshal(e)
	t.err = cmp.Or(t.err, err)
	fmt.Fprint(t.w, t.separator)
	t.w.Write(text)
	t.separator = ",\n"
}

func (t *traceWriter) counters(name string, at units.Duration, values map[string]any) {
	t.event(traceEvent{Name: name, Phase: "C", Start: microseconds(nanoseconds(at)), Args: values})
}

// power writes the watts of the GPUs, and of all.
func (t *traceWriter) power(at units.Duration, watts float64, all power.DeviceWatts) {
	t.counters("GPU power (W)", at, map[string]any{"watts": watts})
	t.counters("power (W)", at, all.Args())
}

// track is a track of a timeline.
type track struct {
	thread int
	name   string
}

// tracksOf returns the tracks of the resources that a timeline shows: one for each lane,
// and one more for what a transfer on a link is on the memory channels.
func tracksOf(resources []flow.Resource) []track {
	var all []track
	for i := range resources {
		r := &resources[i]
		switch r.Track {
		case flow.NoTrack:
			continue
		case flow.TrackDown:
			all = append(all, track{thread(flow.TrackDown) + 2, "channels, writes"})
		case flow.TrackUp:
			all = append(all, track{thread(flow.TrackUp) + 2, "channels, reads"})
		}
		if r.Discipline != dataflow.Lanes {
			all = append(all, track{thread(r.Track), r.Name})
			continue
		}
		for lane := range r.Count {
			all = append(all, track{thread(r.Track + int32(lane)), fmt.Sprintf("%s %d", strings.TrimSuffix(r.Name, "s"), lane)})
		}
	}
	slices.SortFunc(all, func(a, b track) int { return a.thread - b.thread })
	return all
}

func thread(resource int32) int {
	if resource >= flow.TrackRank {
		return int(resource-flow.TrackRank) + 5
	}
	return int(resource)
}

// recording writes a replica as one process of a Chrome trace: its tracks, counters and spans.
func (t *traceWriter) recording(r *Recording) {
	meta := func(what string, tid int, args map[string]any) {
		t.event(traceEvent{Name: what, Phase: "M", Thread: tid, Args: args})
	}
	name := fmt.Sprintf("replica %d", r.Replica)
	if r.Run != "" {
		name = r.Run + ", " + name
	}
	meta("process_name", 0, map[string]any{"name": name})
	for _, x := range r.tracks {
		meta("thread_name", x.thread, map[string]any{"name": x.name})
		meta("thread_sort_index", x.thread, map[string]any{"sort_index": x.thread})
	}
	for i, s := range r.Samples {
		if i == 0 && s.At > r.From { // until then the GPUs wait
			t.power(r.From, s.IdleWatts, s.IdleDraws)
		}
		t.power(s.At, s.Watts, s.Draws)
		if i+1 == len(r.Samples) || r.Samples[i+1].At > s.End {
			t.power(s.End, s.IdleWatts, s.IdleDraws)
		}
		t.counters("batch", s.At, map[string]any{"decoding requests": s.Decoding, "prompt tokens": s.Prefill})
		t.counters("KV memory (bytes)", s.At, map[string]any{"allocated": s.KVBytes})
	}
	for _, s := range r.Spans {
		if r.overlaps(s.Start, s.End) {
			t.span(r, s)
		}
	}
	t.requests(r.phases)
}

// requests writes what requests do as nested asynchronous events, which Perfetto
// shows as a track a request under one heading: a request around its phases.
func (t *traceWriter) requests(phases []phase) {
	byRequest := map[int][]phase{}
	var ids []int
	for _, p := range phases {
		if byRequest[p.request] == nil {
			ids = append(ids, p.request)
		}
		byRequest[p.request] = append(byRequest[p.request], p)
	}
	for _, id := range ids {
		event := func(name, phase string, at units.Duration, args map[string]any) {
			t.event(traceEvent{Name: name, Category: "request", Phase: phase, ID: &localID{fmt.Sprint(id)}, Start: microseconds(nanoseconds(at)), Args: args})
		}
		phases := byRequest[id]
		event("request", "b", phases[0].start, map[string]any{"request": id})
		for _, p := range phases {
			event(p.name, "b", p.start, map[string]any{"tokens": p.tokens})
			event(p.name, "e", p.end, nil)
		}
		event("request", "e", phases[len(phases)-1].end, nil)
	}
}

// span writes one span, the steps within it, and what it is on the channels.
func (t *traceWriter) span(r *Recording, s flow.Span) {
	args := map[string]any{"sub-batch": string('A' + rune(int(s.A)/r.ranksets)), "layer": s.B}
	if s.Resource != flow.TrackGPU {
		args["offset"] = int(s.A) % r.ranksets
	}
	event := func(name string, tid int, start, end units.Duration) {
		from, to := nanoseconds(start), nanoseconds(end)
		t.event(traceEvent{
			Name: name, Category: categories[min(tid, len(categories)-1)], Phase: "X", Start: microseconds(from), Duration: microseconds(to - from),
			Thread: tid, Args: args,
		})
	}
	name := flow.OperationNames[s.Kind]
	event(name, thread(s.Resource), s.Start, s.End)
	switch s.Resource {
	case flow.TrackDown, flow.TrackUp:
		event(name, thread(s.Resource)+2, s.Start, s.End)
	case flow.TrackGPU:
		at := s.Start
		for _, p := range r.parts[s.Start] {
			end := min(at+p.Duration, s.End)
			event(p.Name, thread(s.Resource), at, end)
			at = end
		}
	}
}

// categories are those of the tracks in order, the last for all that follow.
var categories = [...]string{"gpu", "pcie", "pcie", "channel", "channel", "attention"}
