package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// Kinds of operations: what a timeline calls them and what their time is booked as.
const (
	opEntry            uint8 = iota // embedding and QKV generation of layer 0, on the GPUs
	opPrefillAttention              // of prompts, on the GPUs
	opWindow                        // what requests decode on the GPUs beside ranksets
	// opBlock is what follows attention on the GPUs, one in-order sequence of kernels:
	// projection, feed-forward, their all-reduces and QKV generation of the next layer;
	// after the last layer, the LM head.
	opBlock
	opGPUAttention // of prompts and of requests that decode on the GPUs
	opDecodeDown   // queries, keys and values to the devices that attend
	opPromptDown
	opLeaving // keys and values that leave the GPUs
	opResults
	opAttention     // decode attention on processing units
	opHostAttention // decode attention on the host's CPUs
	opWrite         // memory controllers write what they have collected
	opNotice        // the host starts work and notices its end
	opPrefixRead    // keys and values of a prompt that a cache has, from the banks to the host
	opPrefixUp      // keys and values of a prompt that a cache has, from the host to the GPUs
	opHidden        // transfers behind the work of an iteration: not shown, booked by their system
	opKinds
)

// operationNames are the names of operations on a timeline, the same in every layer, so
// that times add up by name; "" for what is not shown.
var operationNames = [opKinds]string{
	opEntry: "entry", opPrefillAttention: "prefill attention", opWindow: "window attention", opBlock: "block", opGPUAttention: "attention",
	opDecodeDown: "decode q k v", opPromptDown: "prompt k v", opLeaving: "leaving k v", opResults: "results",
	opAttention: "decode attention", opHostAttention: "decode attention", opPrefixRead: "prefix k v read", opPrefixUp: "prefix k v",
}

// resource is a resource of a system and its place on a timeline: a track, or the first
// of its lanes' tracks.
type resource struct {
	dataflow.Resource
	track int32
}

// Tracks of a timeline.
const (
	trackGPU = iota
	trackDown
	trackUp
	trackRank      // the first device that attends
	noTrack   = -1 // of a resource that a timeline does not show
)

// flow is the resources of a replica and the operations of the iteration at hand. It
// runs, books, checks and records an iteration in the same way for every system.
type flow struct {
	engine    *dataflow.Engine
	it        dataflow.Iteration
	resources []resource
	hidden    []hidden // of the iteration to be filled
	work      work
	check     *checker // nil without checks
	cfg       *configs.Config
	fixed     units.Duration // latencies and switches of the resources
	uses      [2]gpuUse      // of the GPUs by the sub-batches of the iteration to be filled
	waits     []int32        // scratch: what an operation waits for
}

// running is how a flow runs iterations.
type running struct {
	exact bool     // every layer of every iteration, instead of skipping repeats
	check *checker // nil without checks
}

// newFlow returns the flow of a system with these resources.
func newFlow(h *hardware, resources []resource, how running) flow {
	f := flow{check: how.check, cfg: h.Config, resources: resources}
	plain := make([]dataflow.Resource, len(resources))
	for i := range resources {
		r := &resources[i].Resource
		plain[i] = *r
		f.fixed |= r.Latency | r.Vacate | r.Reactivate
	}
	f.engine = dataflow.New(plain)
	f.engine.Exact = how.exact
	return f
}

// run executes the iteration that has been filled from start on and returns its end.
func (f *flow) run(start units.Duration) (units.Duration, error) {
	t := f.it.Totals()
	// Each task waits for at most five others: a link, a lane, its switches and latencies.
	if err := f.inTime(start, t.Longest|f.fixed, 6*t.Pieces+4); err != nil {
		return start, err
	}
	end := f.engine.Run(&f.it, start)
	f.book(t)
	if f.check != nil {
		f.check.schedule(f, start, end)
	}
	return end, nil
}

// try returns the end of the iteration that has been filled, and books nothing.
func (f *flow) try(start units.Duration) (units.Duration, error) {
	t := f.it.Totals()
	if err := f.inTime(start, t.Longest|f.fixed, 6*t.Pieces+4); err != nil {
		return start, err
	}
	return f.engine.Run(&f.it, start), nil
}

// book adds what the iteration does.
func (f *flow) book(t *dataflow.Totals) {
	w, k := &f.work, &t.ByKind
	attention := k[opPrefillAttention] + k[opWindow] + k[opGPUAttention]
	w.time[ofGPU] += k[opEntry] + k[opBlock] + attention
	w.time[ofAttention] += attention
	w.time[ofDown] += k[opDecodeDown] + k[opPromptDown] + k[opLeaving]
	w.time[ofUp] += k[opResults] + k[opPrefixUp]
	w.time[ofPIM] += k[opAttention]
	w.time[ofChannel] += t.Bus
	w.tasks += t.Pieces
	for i := range f.uses {
		w.time[ofAttention] += f.uses[i].merge + f.uses[i].chooses
		w.joules.add(f.uses[i].joules)
	}
}

// reset makes room for the next iteration.
func (f *flow) reset() {
	f.it.Reset()
	f.uses = [2]gpuUse{}
}

func (f *flow) Core() *flow { return f }

// Settle is for systems without DIMM-PIM: nothing is counted apart.
func (f *flow) Settle() {}

// Ranksets is for systems without ranksets: nothing is imbalanced.
func (f *flow) Ranksets() imbalance { return imbalance{} }

// record runs the iteration once more, every layer of it, and returns the spans of it that a timeline shows, and its end.
func (f *flow) record(start units.Duration) (shown []Span, end units.Duration) {
	exact := f.engine.Exact
	f.engine.Exact = true
	spans := f.engine.Record(&f.it, start)
	f.engine.Exact = exact
	end = start
	for i := range spans {
		x := &spans[i]
		o := &f.it.Ops[x.Op]
		end = max(end, x.End)
		if track := f.resources[x.Resource].track; !x.Claim && track != noTrack && operationNames[o.Kind] != "" {
			shown = append(shown, Span{Start: x.Start, End: x.End, Resource: track + int32(x.Lane), Kind: int32(o.Kind), A: int32(o.Group), B: max(x.Layer-1, 0)})
		}
	}
	return shown, end
}

// enter adds what comes before the first layer of a sub-batch, and behind the first of
// them the transfers that go on beside all layers: the iteration takes at least as long.
func (f *flow) enter(s int, gpu int8, entry units.Duration, use *gpuUse) int32 {
	f.uses[s].set(use)
	o, first := f.it.Add(gpu, entry)
	o.Kind, o.Group, o.Flags = opEntry, int16(s), dataflow.NextLayer
	for _, h := range f.hidden {
		if h.took > 0 {
			o, _ := f.it.Add(h.resource, h.took)
			o.Kind = opHidden
		}
	}
	f.hidden = f.hidden[:0]
	return first
}

// hide has transfers take a resource beside the next iteration that is filled.
func (f *flow) hide(resource int8, took units.Duration) {
	f.hidden = append(f.hidden, hidden{resource, took})
}

// hidden is the time that transfers behind an iteration take a resource.
type hidden struct {
	resource int8
	took     units.Duration
}

// Span is the time that a resource spends on an operation without a break.
type Span struct {
	Start, End units.Duration
	Resource   int32 // track
	Kind, A, B int32 // of the operation; sub-batch · R + rankset offset; layer
}

// wait adds attention, for which the rest of the layer waits.
func (f *flow) wait(s int, on int8, kind uint8, took units.Duration) *dataflow.Op {
	o, i := f.it.Add(on, took)
	o.Kind, o.Group = kind, int16(s)
	f.waits = append(f.waits, i)
	return o
}

// layers makes the operations from first on the layers of a sub-batch, after what comes
// before them from entry on.
func (f *flow) layers(s int, entry, first int32, exit units.Duration) {
	sub := &f.it.Sub[s]
	sub.Layers = append(sub.Layers, dataflow.Layers{Range: dataflow.Range{From: entry, To: first}, Count: 1},
		dataflow.Layers{Range: dataflow.Range{From: first, To: int32(len(f.it.Ops))}, Count: int32(f.cfg.Model.Layers)})
	sub.Exit = exit
}
