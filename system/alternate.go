package system

import (
	"github.com/l3sim/l3sim/sim"
)

// stage is what a sub-batch costs in one iteration of a system whose GPUs have one
// device for decode attention beside them. Attention is that of one layer.
type stage struct {
	active    bool
	entry     sim.Time // embedding, QKV generation of layer 0
	attention sim.Time // on the GPUs: of prompts, or of requests that decode there
	block     sim.Time // projection to the next layer's QKV generation
	exit      sim.Time // projection of the last layer to the LM head
	device    sim.Time // decode attention on the device
}

// alternation runs the layers of one or two sub-batches on the GPUs and a device
// for decode attention. Both serve one task after another, in the order in which
// the tasks become ready. A sub-batch's block waits for its attention on both; two
// sub-batches take turns, so that one is on the device while the other is on the
// GPUs.
//
// It is the pipeline of L3 without transfers: there are at most four tasks at a
// time, and each is served when the next one's time is known, without events.
type alternation struct {
	layers              int
	stages              [2]stage
	sub                 [2]turn
	gpuFree, deviceFree sim.Time
	exact               bool     // run every layer
	device              int32    // resource of the device in spans
	spans               *Spans   // nil without a timeline
	check               *checker // nil without checks
	work                work
	past                alternationState
}

// turn is where a sub-batch is.
type turn struct {
	task     gpuTask  // that it asks the GPUs for next
	at       sim.Time // when; never after the last
	after    bool     // it asks then because the GPUs have ended its task, not the device
	attended sim.Time // when the device has done the layer's attention
	layer    int
}

// run executes an iteration that starts at start and returns its end.
func (a *alternation) run(start sim.Time) sim.Time {
	end := a.layersFrom(start)
	if a.check != nil {
		a.verify(start, end)
	}
	for s := range a.stages {
		if g := &a.stages[s]; g.active {
			layers := sim.Time(a.layers)
			a.work.gpu += g.entry + layers*g.attention + (layers-1)*g.block + g.exit
			a.work.attention += layers * g.attention
			a.work.pim += layers * g.device
			a.work.tasks += int64(a.layers + 1)
			if g.attention > 0 {
				a.work.tasks += int64(a.layers)
			}
			if g.device > 0 {
				a.work.tasks += int64(a.layers)
			}
		}
	}
	return end
}

// layersFrom runs the tasks of an iteration.
func (a *alternation) layersFrom(start sim.Time) sim.Time {
	if !a.stages[1].active && !a.exact {
		return start + a.alone(&a.stages[0])
	}
	a.gpuFree, a.deviceFree, a.past.valid = start, start, false
	for s := range a.sub {
		a.sub[s] = turn{task: taskEntry, at: never}
		if a.stages[s].active {
			a.sub[s].at = start
		}
	}
	for {
		s := a.next()
		if a.sub[s].at == never {
			return a.gpuFree
		}
		a.serve(s)
		a.work.events++
		if s == 0 && !a.exact && a.sub[0].task != taskAttention {
			a.skip()
		}
	}
}

// alone returns the time of a sub-batch that has everything for itself.
func (a *alternation) alone(g *stage) sim.Time {
	layers := sim.Time(a.layers)
	return g.entry + layers*max(g.attention, g.device) + (layers-1)*g.block + g.exit
}

// next returns the sub-batch that the GPUs serve next: the one that asked first.
// Of two that ask at one instant, the one that waited for the device goes first,
// then sub-batch 0, as in the pipeline.
func (a *alternation) next() int {
	x, y := &a.sub[0], &a.sub[1]
	if y.at < x.at || y.at == x.at && x.after && !y.after {
		return 1
	}
	return 0
}

// serve runs the task that sub-batch s asks for.
func (a *alternation) serve(s int) {
	t, g := &a.sub[s], &a.stages[s]
	begin, task, layer := max(t.at, a.gpuFree), t.task, t.layer
	switch {
	case task == taskEntry:
		a.gpuFree = begin + g.entry
	case task == taskAttention:
		a.gpuFree = begin + g.attention
		t.task, t.at, t.after = taskBlock, max(a.gpuFree, t.attended), a.gpuFree >= t.attended
	case layer == a.layers-1:
		a.gpuFree = begin + g.exit
		t.at = never
	default:
		a.gpuFree = begin + g.block
		t.layer++
	}
	if a.spans != nil {
		kind := int32(task)
		if task == taskAttention {
			kind = opGPUAttention
		}
		a.spans.Add(sim.Span{Start: begin, End: a.gpuFree, Resource: resourceGPU, Kind: kind, A: int32(s * a.spans.ranksets), B: int32(layer)})
	}
	if task != taskAttention && t.at != never {
		a.attend(s)
	}
}

// attend starts the attention of sub-batch s in its layer, whose queries the GPUs
// have just generated.
func (a *alternation) attend(s int) {
	t, g, now := &a.sub[s], &a.stages[s], a.gpuFree
	t.attended = now
	if g.device > 0 {
		begin := max(now, a.deviceFree)
		t.attended = begin + g.device
		a.deviceFree = t.attended
		if a.spans != nil {
			a.spans.Add(sim.Span{Start: begin, End: t.attended, Resource: a.device, Kind: opAttention, A: int32(s * a.spans.ranksets), B: int32(t.layer)})
		}
	}
	t.task, t.at, t.after = taskBlock, t.attended, g.device == 0
	if g.attention > 0 {
		t.task, t.at, t.after = taskAttention, now, true
	}
}

// alternationState is all that decides what follows, relative to when the GPUs
// are free, and where it was met.
type alternationState struct {
	valid  bool
	free   sim.Time
	layer  int
	ahead  [2]sim.Time // when each sub-batch asks for the GPUs
	tasks  [2]gpuTask
	after  [2]bool
	done   [2]sim.Time // when the device is done with each, if later than now
	device sim.Time    // when the device is free, if later than now
	behind int         // layers of sub-batch 1 behind sub-batch 0
}

// skip leaves out layers that repeat the one before: once a layer ends as the one
// before did, all layers up to the last do, as blocks are equal but for the last
// one.
func (a *alternation) skip() {
	now := a.gpuFree
	x := alternationState{
		valid: true, free: now, layer: a.sub[0].layer, device: max(a.deviceFree-now, 0), behind: a.sub[0].layer - a.sub[1].layer,
	}
	for s := range a.sub {
		t := &a.sub[s]
		x.after[s] = t.after
		x.ahead[s], x.tasks[s], x.done[s] = t.at-now, t.task, max(t.attended-now, 0)
	}
	past := a.past
	a.past = x
	period, layers := x.free-past.free, x.layer-past.layer
	past.free, past.layer = x.free, x.layer
	if past != x || layers != 1 {
		return
	}
	more := a.layers - 1 - max(a.sub[0].layer, a.sub[1].layer)
	if more <= 0 {
		return
	}
	by := sim.Time(more) * period
	a.gpuFree += by
	a.deviceFree += by
	for s := range a.sub {
		t := &a.sub[s]
		t.layer += more
		t.at += by
		t.attended += by
	}
	a.past.valid = false
}

// verify checks an iteration's time against running every layer, and against its
// tasks.
func (a *alternation) verify(start, end sim.Time) {
	exact := a.exact
	events := a.work.events
	a.exact = true
	if again := a.layersFrom(start); again != end {
		a.check.fail(LawIteration, end, "the iteration takes %v, and %v when every layer is run", end-start, again-start)
	}
	a.exact, a.work.events = exact, events
	var gpu, device, longest, layers sim.Time = 0, 0, 0, sim.Time(a.layers)
	for s := range a.stages {
		if g := &a.stages[s]; g.active {
			gpu += g.entry + layers*g.attention + (layers-1)*g.block + g.exit
			device += layers * g.device
			longest = max(longest, a.alone(g))
		}
	}
	if took := end - start; took < max(gpu, device, longest) || took > gpu+device {
		a.check.fail(LawIteration, end, "the iteration takes %v, the GPUs %v, the device %v, a sub-batch alone %v", took, gpu, device, longest)
	}
}

// record runs the iteration again, every layer of it, and keeps its spans.
func (a *alternation) record(rec *Recording, start sim.Time) sim.Time {
	exact, events := a.exact, a.work.events
	a.exact, a.spans = true, rec.Spans
	end := a.layersFrom(start)
	a.exact, a.spans, a.work.events = exact, nil, events
	return end
}
