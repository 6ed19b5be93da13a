package flow

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// Kinds of operations, by which a timeline names them and their time is booked.
const (
	OpEntry            uint8 = iota // embedding and QKV generation of layer 0, on the GPUs
	OpPrefillAttention              // of prompts, on the GPUs
	OpWindow                        // decode attention that the GPUs compute beside ranksets
	// OpBlock is the work after attention on the GPUs, one in-order sequence of kernels: projection,
	// feed-forward, their all-reduces and QKV generation of the next layer; after the last layer, the
	// LM head.
	OpBlock
	OpGPUAttention // of prompts and of requests that decode on the GPUs
	OpDecodeDown   // queries, keys and values to the devices that attend
	OpPromptDown
	OpLeaving // keys and values that leave the GPUs
	OpResults
	OpAttention     // decode attention on processing units
	OpHostAttention // attention of decoding requests on the host's CPUs
	OpWrite         // memory controllers write buffered vectors
	OpNotice        // the host starts work and notices its end
	OpPrefixRead    // cached keys and values of a prompt, from the banks to the host
	OpPrefixUp      // cached keys and values of a prompt, from the host to the GPUs
	// If units take a share of the feed-forward network, these operations leave the block: the projection with its
	// all-reduce, and both shares, which run in parallel. OpBlock is the rest.
	OpProjection
	OpFeedForward
	OpUnitFeedForward
	OpFetch  // rows of keys and values, from the host to the GPUs that attend over them
	opHidden // transfers behind an iteration's work: not shown, and booked by their system
	opKinds
)

// OperationNames are the names of operations on a timeline, the same in every layer, so that times
// add up by name; "" for operations that are not shown.
var OperationNames = [opKinds]string{
	OpEntry: "entry", OpPrefillAttention: "prefill attention", OpWindow: "window attention", OpBlock: "block", OpGPUAttention: "attention",
	OpDecodeDown: "decode q k v", OpPromptDown: "prompt k v", OpLeaving: "leaving k v", OpResults: "results",
	OpAttention: "decode attention", OpHostAttention: "decode attention", OpPrefixRead: "prefix k v read", OpPrefixUp: "prefix k v", OpFetch: "fetch k v",
	OpProjection: "projection", OpFeedForward: "feed-forward", OpUnitFeedForward: "feed-forward",
}

// Resource is a resource of a system and its place on a timeline: a track, or the first track of
// its lanes.
type Resource struct {
	dataflow.Resource
	Track int32
}

// Tracks of a timeline.
const (
	TrackGPU = iota
	TrackDown
	TrackUp
	TrackRank      // the first device that attends
	NoTrack   = -1 // of a resource that a timeline does not show
)

// Flow is the resources of a replica and the operations of the current iteration. It runs, books,
// checks and records iterations in the same way for every system.
type Flow struct {
	Engine    *dataflow.Engine
	Iteration dataflow.Iteration
	Resources []Resource
	hidden    []hidden // of the iteration to be filled
	Work      Work
	// Extrapolated is the part of the GPUs' time, over all iterations, in kernels beyond the range to which their
	// parameters were fitted.
	Extrapolated [gpu.Kinds]units.Total
	Check        *Checker // nil without checks
	cfg          *configs.Config
	fixed        units.Duration // all latencies and switching times of the resources, combined by OR: a bound of each
	Uses         [2]Use         // the GPUs' work for the sub-batches of the iteration to be filled
	Waits        []int32        // scratch: the operations that an operation waits for
}

// Running sets how a flow runs iterations.
type Running struct {
	Exact bool     // runs every layer of every iteration and computes all costs anew, instead of skipping repeats
	Check *Checker // nil without checks
}

// New returns the flow of a system with these resources.
func New(h *Hardware, resources []Resource, how Running) Flow {
	f := Flow{Check: how.Check, cfg: h.Config, Resources: resources}
	plain := make([]dataflow.Resource, len(resources))
	for i := range resources {
		r := &resources[i].Resource
		plain[i] = *r
		f.fixed |= r.Latency | r.Vacate | r.Reactivate
	}
	f.Engine = dataflow.New(plain)
	f.Engine.Exact = how.Exact
	return f
}

// Run executes the filled iteration from start and returns its end.
func (f *Flow) Run(start units.Duration) (units.Duration, error) {
	t := f.Iteration.Totals()
	// Each task waits for at most five others: a link, a lane, its switches and latencies.
	if err := f.inTime(start, t.Longest|f.fixed, 6*t.Pieces+4); err != nil {
		return start, err
	}
	end := f.Engine.Run(&f.Iteration, start)
	f.book(t, f.Engine.Waits())
	if f.Check != nil {
		f.Check.schedule(f, start, end)
	}
	return end, nil
}

// Try returns the end of the filled iteration, and books nothing.
func (f *Flow) Try(start units.Duration) (units.Duration, error) {
	t := f.Iteration.Totals()
	if err := f.inTime(start, t.Longest|f.fixed, 6*t.Pieces+4); err != nil {
		return start, err
	}
	return f.Engine.Run(&f.Iteration, start), nil
}

// book adds the work of the iteration.
func (f *Flow) book(t *dataflow.Totals, waits *dataflow.Waits) {
	w, k := &f.Work, &t.ByKind
	attention := k[OpPrefillAttention] + k[OpWindow] + k[OpGPUAttention]
	w.Time[OfGPU] += k[OpEntry] + k[OpBlock] + k[OpProjection] + k[OpFeedForward] + attention
	w.Time[OfAttention] += attention
	w.Time[OfDown] += k[OpDecodeDown] + k[OpPromptDown] + k[OpLeaving]
	w.Time[OfUp] += k[OpResults] + k[OpPrefixUp] + k[OpFetch]
	w.Time[OfPIM] += k[OpAttention] + k[OpUnitFeedForward]
	w.Time[OfChannel] += t.Bus
	w.Tasks += t.Pieces
	for i := range waits.Main {
		w.Time[OfGPUWaits+i] += waits.Main[i]
		w.Time[OfPIMWaits+i] += waits.Device[i]
	}
	w.Time[OfUneven] += waits.Uneven
	for i := range f.Uses {
		w.Time[OfAttention] += f.Uses[i].Merge + f.Uses[i].Chooses
		w.Joules.add(f.Uses[i].Joules)
		if x := f.Uses[i].Extrapolated; x != nil {
			for k := range x {
				f.Extrapolated[k].Add(x[k])
			}
		}
	}
}

// Reset clears the iteration.
func (f *Flow) Reset() {
	f.Iteration.Reset()
	f.Uses = [2]Use{}
}

func (f *Flow) Core() *Flow { return f }

// Settle is for systems without DIMM-PIM: no counts are pending.
func (f *Flow) Settle() {}

// Ranksets is for systems without ranksets: there is no imbalance.
func (f *Flow) Ranksets() Imbalance { return Imbalance{} }

// Record runs the iteration once more, layer by layer, and returns the spans that a timeline shows, and the iteration's
// end.
func (f *Flow) Record(start units.Duration) (shown []Span, end units.Duration) {
	exact := f.Engine.Exact
	f.Engine.Exact = true
	spans := f.Engine.Record(&f.Iteration, start)
	f.Engine.Exact = exact
	end = start
	for i := range spans {
		x := &spans[i]
		o := &f.Iteration.Ops[x.Op]
		end = max(end, x.End)
		if track := f.Resources[x.Resource].Track; !x.Claim && track != NoTrack && OperationNames[o.Kind] != "" {
			shown = append(shown, Span{Start: x.Start, End: x.End, Resource: track + int32(x.Lane), Kind: int32(o.Kind), A: int32(o.Group), B: max(x.Layer-1, 0)})
		}
	}
	return shown, end
}

// Enter adds the operation before the first layer of a sub-batch. In the first sub-batch it also
// adds the transfers that run beside all layers: the iteration takes at least their time.
func (f *Flow) Enter(s int, gpu int8, entry units.Duration, use *Use) int32 {
	f.Uses[s].Set(use)
	o, first := f.Iteration.Add(gpu, entry)
	o.Kind, o.Group, o.Flags = OpEntry, int16(s), dataflow.NextLayer
	for _, h := range f.hidden {
		if h.took > 0 {
			o, _ := f.Iteration.Add(h.resource, h.took)
			o.Kind = opHidden
		}
	}
	f.hidden = f.hidden[:0]
	return first
}

// Pause books host time after an iteration, during which GPUs and devices wait, and returns it.
func (f *Flow) Pause(host units.Duration) units.Duration {
	f.Work.Time[OfGPUWaits+int(ForHost)] += host
	f.Work.Time[OfPIMWaits+int(ForHost)] += host
	return host
}

// Hide makes transfers occupy a resource in the background of the next iteration.
func (f *Flow) Hide(resource int8, took units.Duration) {
	f.hidden = append(f.hidden, hidden{resource, took})
}

// hidden is the time that background transfers of an iteration occupy a resource.
type hidden struct {
	resource int8
	took     units.Duration
}

// Span is a contiguous time that a resource spends on an operation.
type Span struct {
	Start, End units.Duration
	Resource   int32 // track
	Kind, A, B int32 // of the operation; sub-batch · R + rankset offset; layer
}

// Wait adds an attention operation; the rest of the layer waits for it.
func (f *Flow) Wait(s int, on int8, kind uint8, took units.Duration) *dataflow.Op {
	o, i := f.Iteration.Add(on, took)
	o.Kind, o.Group = kind, int16(s)
	f.Waits = append(f.Waits, i)
	return o
}

// Layers makes the operations from first on the layers of a sub-batch, to follow the operation
// entry.
func (f *Flow) Layers(s int, entry, first int32, exit units.Duration) {
	sub := &f.Iteration.Sub[s]
	sub.Add(dataflow.Range{From: entry, To: first}, 1)
	sub.Add(f.Iteration.From(first), int32(f.cfg.Model.Layers))
	sub.Exit = exit
}
