package system

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results/timeline"
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

// WriteTimeline writes recordings, one a replica of a run, for Perfetto: a process for each replica, a track
// for each resource and for each request that runs, counters for the batch and the KV memory.
func WriteTimeline(w io.Writer, recordings []*Recording) error {
	t := traceWriter{Writer: timeline.NewWriter(w)}
	for t.process = range recordings {
		t.recording(recordings[t.process])
	}
	return t.Close()
}

// traceWriter writes one process after another.
type traceWriter struct {
	*timeline.Writer
	process int // at hand
}

func (t *traceWriter) on(thread int) timeline.Track {
	return timeline.Track{Process: t.process, Thread: thread}
}

// power writes the watts of the GPUs, and of all.
func (t *traceWriter) power(at units.Duration, watts float64, all power.DeviceWatts) {
	t.Counters(t.process, "GPU power (W)", at, timeline.Args{"watts": watts})
	t.Counters(t.process, "power (W)", at, all.Args())
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
	name := fmt.Sprintf("replica %d", r.Replica)
	if r.Run != "" {
		name = r.Run + ", " + name
	}
	t.Process(t.process, name)
	for _, x := range r.tracks {
		t.Track(t.on(x.thread), x.name)
	}
	for i, s := range r.Samples {
		if i == 0 && s.At > r.From { // until then the GPUs wait
			t.power(r.From, s.IdleWatts, s.IdleDraws)
		}
		t.power(s.At, s.Watts, s.Draws)
		if i+1 == len(r.Samples) || r.Samples[i+1].At > s.End {
			t.power(s.End, s.IdleWatts, s.IdleDraws)
		}
		t.Counters(t.process, "batch", s.At, timeline.Args{"decoding requests": s.Decoding, "prompt tokens": s.Prefill})
		t.Counters(t.process, "KV memory (bytes)", s.At, timeline.Args{"allocated": s.KVBytes})
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
		a := &timeline.Async{Process: t.process, Category: "request", ID: fmt.Sprint(id)}
		phases := byRequest[id]
		t.Begin(a, "request", phases[0].start, timeline.Args{"request": id})
		for _, p := range phases {
			t.Begin(a, p.name, p.start, timeline.Args{"tokens": p.tokens})
			t.End(a, p.name, p.end)
		}
		t.End(a, "request", phases[len(phases)-1].end)
	}
}

// span writes one span, the steps within it, and what it is on the channels.
func (t *traceWriter) span(r *Recording, s flow.Span) {
	args := timeline.Args{"sub-batch": string('A' + rune(int(s.A)/r.ranksets)), "layer": s.B}
	if s.Resource != flow.TrackGPU {
		args["offset"] = int(s.A) % r.ranksets
	}
	event := func(name string, thread int, start, end units.Duration) {
		t.Slice(t.on(thread), &timeline.Slice{Name: name, Category: categories[min(thread, len(categories)-1)], Start: start, End: end, Args: args})
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
