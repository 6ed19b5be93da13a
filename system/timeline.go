package system

import (
	"fmt"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/units"
)

// Window is the part of a run to record: iterations that lie in it, wholly or in part. An empty window stands for
// steady decoding: the first steadyIterations whose batch no later iteration exceeds by a quarter. An iteration
// without prompts weighs as if twice as many requests decoded.
type Window struct{ From, To units.Duration }

const steadyIterations = 2

func (w *Window) overlaps(start, end units.Duration) bool { return start < w.To && end > w.From }

// Recording is the activity of one replica within a window.
type Recording struct {
	Replica int
	Run     string // name of the run if a timeline shows several, else ""
	Window         // the iterations that the run has chosen, if it chooses
	chooses bool
	weight  int         // of the first iteration of a chosen window, see Window
	Spans   []flow.Span // in order of their starts within an iteration
	// Batch and KVBytes are sampled at every iteration.
	Samples  []Sample
	ranksets int

	resources []flow.Resource
	parts     map[units.Duration][]gpus.Part // of the block that starts at a time
	phases    map[int][]phase                // by ID of the request in the trace, in order of time
	order     []int                          // requests in the order of their first phases
}

// phase is a run of iterations, without a gap, in which a request does one thing.
type phase struct {
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
	// Watts of all GPUs of the replica, mean until End, when the iteration ends; then IdleWatts until
	// the next iteration.
	Watts, IdleWatts float64
	Draws, IdleDraws power.DeviceWatts // watts by device, of the replica and its share of the node
	End              units.Duration
	loads            []decodeLoad // by sub-batch · R + rankset offset; then by sub-batch, the requests of the host's CPUs
	prompts          [2]int       // prompt tokens by sub-batch
}

// decodeLoad is the requests of an iteration whose decode attention is in one place.
type decodeLoad struct {
	requests int
	context  int64 // tokens of all their contexts
}

func (d *decodeLoad) add(o decodeLoad) {
	d.requests, d.context = d.requests+o.requests, d.context+o.context
}

// admits says whether an iteration belongs to the recording. If the run chooses the window, it
// begins again at an iteration whose weight is a quarter above that of the window's first.
func (r *Recording) admits(start, end units.Duration, b *scheduler.Batch) bool {
	if !r.chooses {
		return r.overlaps(start, end)
	}
	weight := b.Decoding()
	if b.Tokens() == weight {
		weight *= 2
	}
	switch {
	case len(r.Samples) == 0 || weight > 0 && 4*weight >= 5*r.weight:
		r.Spans, r.Samples, r.order = r.Spans[:0], r.Samples[:0], r.order[:0]
		clear(r.parts)
		clear(r.phases)
		r.From, r.weight = start, weight
	case len(r.Samples) == steadyIterations:
		return false
	}
	r.To = end
	return true
}

// record keeps the spans of the iteration that has just run. Engines are deterministic, so running
// it again takes the same time.
func (r *replica) record(start, end units.Duration, did *flow.Work) {
	rec, f, side := r.observers.recording, r.assembly.Engine.Core(), r.assembly.Engine.Side()
	first := len(rec.Spans)
	spans, again := f.Record(start)
	if rec.Spans = append(rec.Spans, spans...); again != end {
		r.fault = fmt.Errorf("the iteration at %v ends at %v, and at %v when every layer is run", start, end, again)
	}
	loads, prompts := r.decodeLoads()
	r.recordRequests(start, end)
	rec.Samples = append(rec.Samples, Sample{
		At: start, Decoding: r.iteration.batch.Decoding(), Prefill: prompts[0] + prompts[1], KVBytes: r.kvBytes(r.assembly.Batcher.UsedUnits()),
		Watts: side.Watts(did, end-start), IdleWatts: side.Watts(&flow.Work{}, end-start), End: end,
		Draws: r.observers.power.Draws(did, end-start), IdleDraws: r.observers.power.Draws(&flow.Work{}, end-start), loads: loads, prompts: prompts,
	})
	for _, s := range rec.Spans[first:] {
		if s.Resource == flow.TrackGPU {
			sub := &r.iteration.batch.Sub[int(s.A)/rec.ranksets]
			rec.parts[s.Start] = side.Parts(uint8(s.Kind), sub.Tokens(), sub.Sampled(), int(s.B), f.Uses[int(s.A)/rec.ranksets])
		}
	}
}

// decodeLoads returns the loads of Sample by sub-batch and rankset.
func (r *replica) decodeLoads() (loads []decodeLoad, prompts [2]int) {
	n := r.observers.recording.ranksets
	loads = make([]decodeLoad, 2*n+2)
	for s := range r.iteration.batch.Sub {
		sub := &r.iteration.batch.Sub[s]
		prompts[s] = sub.PrefillTokens()
		for i := range sub.Decode {
			d := &sub.Decode[i]
			loads[s*n+int(d.Offset)%n].add(decodeLoad{1, int64(d.Context(r.iteration.batch.Step))})
		}
		for _, apart := range [][]scheduler.Decoding{sub.Host, sub.Near} {
			for i := range apart {
				loads[2*n+s].add(decodeLoad{1, int64(apart[i].Context(r.iteration.batch.Step))})
			}
		}
	}
	return loads, prompts
}

func (r *replica) recordRequests(start, end units.Duration) {
	note := func(request int32, name string, tokens int) {
		r.observers.recording.phase(r.requests[request].ID, phase{name, start, end, tokens})
	}
	for s := range r.iteration.batch.Sub {
		sub := &r.iteration.batch.Sub[s]
		for i := range sub.Prefill {
			note(sub.Prefill[i].Request, "prefill", sub.Prefill[i].Tokens)
		}
		for _, decoding := range [][]scheduler.Decoding{sub.Decode, sub.Host, sub.Near} {
			for i := range decoding {
				note(decoding[i].Request, "decode", 1)
			}
		}
	}
}

// phase adds an iteration to its request's latest phase, or begins a new one.
func (r *Recording) phase(request int, p phase) {
	all := r.phases[request]
	if n := len(all); n == 0 {
		r.order = append(r.order, request)
	} else if last := &all[n-1]; last.name == p.name && last.end == p.start {
		last.end, last.tokens = p.end, last.tokens+p.tokens
		return
	}
	r.phases[request] = append(all, p)
}
