package system

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/units"
)

// WriteTimeline writes the recordings of a run's replicas for Perfetto: a process for each replica, a track
// for each resource and each request that runs, and counters for the batch and the KV memory.
func WriteTimeline(w *timeline.Writer, recordings []*Recording) {
	t := traceWriter{Writer: w}
	for t.process = range recordings {
		t.recording(recordings[t.process])
	}
}

// traceWriter writes one process after another.
type traceWriter struct {
	*timeline.Writer
	process int // current process
}

func (t *traceWriter) on(thread int) timeline.Track {
	return timeline.Track{Process: t.process, Thread: thread}
}

// power writes the watts of the GPUs, and of the replica with its share of the node.
func (t *traceWriter) power(at units.Duration, watts float64, all power.DeviceWatts) {
	t.Counters(t.process, "GPU power (W)", at, timeline.Args{"watts": watts})
	t.Counters(t.process, "power (W)", at, all.Args())
}

// tracks names the tracks of the resources that a timeline shows: one for each lane, and one more for a link's use of
// the memory channels.
func (t *traceWriter) tracks(resources []flow.Resource) {
	for i := range resources {
		r := &resources[i]
		first := thread(r.Track)
		switch r.Track {
		case flow.NoTrack:
			continue
		case flow.TrackDown:
			t.Track(t.on(first+2), "channels, writes")
		case flow.TrackUp:
			t.Track(t.on(first+2), "channels, reads")
		}
		if r.Discipline != dataflow.Lanes {
			t.Track(t.on(first), r.Name)
			continue
		}
		for lane := range r.Count {
			t.Track(t.on(first+lane), fmt.Sprintf("%s %d", strings.TrimSuffix(r.Name, "s"), lane))
		}
	}
}

// thread returns the thread of a resource; the threads of the sub-batches come first.
func thread(resource int32) int {
	if resource >= flow.TrackRank {
		return subBatches + int(resource-flow.TrackRank) + 5
	}
	return subBatches + int(resource)
}

const subBatches = 2 // largest number in an iteration

// recording writes a replica as one process of a Chrome trace: its tracks, counters and spans.
func (t *traceWriter) recording(r *Recording) {
	name := fmt.Sprintf("replica %d", r.Replica)
	if r.Run != "" {
		name = r.Run + ", " + name
	}
	t.Process(t.process, name)
	t.tracks(r.resources)
	for i, s := range r.Samples {
		if i == 0 && s.At > r.From { // the GPUs wait until then
			t.power(r.From, s.IdleWatts, s.IdleDraws)
		}
		t.power(s.At, s.Watts, s.Draws)
		if i+1 == len(r.Samples) || r.Samples[i+1].At > s.End {
			t.power(s.End, s.IdleWatts, s.IdleDraws)
		}
		t.Counters(t.process, "batch", s.At, timeline.Args{"decoding requests": s.Decoding, "prompt tokens": s.Prefill})
		t.Counters(t.process, "KV memory (bytes)", s.At, timeline.Args{"allocated": s.KVBytes})
	}
	t.iterations(r)
	t.requests(r)
}

// requests writes the phases of requests as nested asynchronous events. Perfetto shows them as a
// track per request under one heading, with the request around its phases.
func (t *traceWriter) requests(r *Recording) {
	for _, id := range r.order {
		a, phases := &timeline.Async{Process: t.process, Category: "request", ID: fmt.Sprint(id)}, r.phases[id]
		t.Begin(a, "request", phases[0].start, timeline.Args{"request": id})
		for _, p := range phases {
			t.Begin(a, p.name, p.start, timeline.Args{"tokens": p.tokens})
			t.End(a, p.name, p.end)
		}
		t.End(a, "request", phases[len(phases)-1].end)
	}
}

// span writes one span of an iteration, the steps within it, and its use of the channels.
func (t *traceWriter) span(r *Recording, i *Sample, s flow.Span) {
	n := r.ranksets
	sub := int(s.A) / n
	args := timeline.Args{"sub-batch": string('A' + rune(sub)), "layer": s.B}
	switch {
	case s.Resource == flow.TrackGPU:
		i.describe(args, sub, n)
	case uint8(s.Kind) == flow.OpHostAttention && i.loads[2*n+sub].requests > 0: // without such requests, the CPUs attend for those of the GPUs
		i.loads[2*n+sub].describe(args)
		args["offset"] = int(s.A) % n
	default:
		switch uint8(s.Kind) {
		case flow.OpAttention, flow.OpHostAttention, flow.OpDecodeDown, flow.OpResults:
			i.loads[s.A].describe(args)
		}
		args["offset"] = int(s.A) % n
	}
	event := func(name string, thread int, start, end units.Duration) {
		category := categories[min(thread-subBatches, len(categories)-1)]
		t.Slice(t.on(thread), &timeline.Slice{Name: name, Category: category, Start: start, End: end, Args: args})
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

func (d *decodeLoad) describe(args timeline.Args) {
	args["decoding requests"], args["context tokens"] = d.requests, d.context
}

// describe adds the requests and tokens of sub-batch sub in the iteration, over all ranksets and
// the host.
func (s *Sample) describe(args timeline.Args, sub, ranksets int) {
	all := s.loads[2*ranksets+sub]
	for _, d := range s.loads[sub*ranksets : (sub+1)*ranksets] {
		all.add(d)
	}
	all.describe(args)
	args["prompt tokens"] = s.prompts[sub]
}

// categories are the categories of the resources' tracks in order, the last one for all that
// follow.
var categories = [...]string{"gpu", "pcie", "pcie", "channel", "channel", "attention"}
