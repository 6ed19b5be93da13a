package flow

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// Kinds of operations: what a timeline calls them and what their time is booked as.
const (
	OpEntry            uint8 = iota // embedding and QKV generation of layer 0, on the GPUs
	OpPrefillAttention              // of prompts, on the GPUs
	OpWindow                        // what requests decode on the GPUs beside ranksets
	// OpBlock is what follows attention on the GPUs, one in-order sequence of kernels:
	// projection, feed-forward, their all-reduces and QKV generation of the next layer;
	// after the last layer, the LM head.
	OpBlock
	OpGPUAttention // of prompts and of requests that decode on the GPUs
	OpDecodeDown   // queries, keys and values to the devices that attend
	OpPromptDown
	OpLeaving // keys and values that leave the GPUs
	OpResults
	OpAttention     // decode attention on processing units
	OpHostAttention // decode attention on the host's CPUs
	OpWrite         // memory controllers write what they have collected
	OpNotice        // the host starts work and notices its end
	OpPrefixRead    // keys and values of a prompt that a cache has, from the banks to the host
	OpPrefixUp      // keys and values of a prompt that a cache has, from the host to the GPUs
	// Where units take a share of the feed-forward network, what the block is without: the projection with its all-reduce,
	// and both shares, which run side by side. OpBlock is the rest.
	OpProjection
	OpFeedForward
	OpUnitFeedForward
	OpFetch  // rows of keys and values, from the host to the GPUs that attend over them
	opHidden // transfers behind the work of an iteration: not shown, booked by their system
	opKinds
)

// OperationNames are the names of operations on a timeline, the same in every layer, so
// that times add up by name; "" for what is not shown.
var OperationNames = [opKinds]string{
	OpEntry: "entry", OpPrefillAttention: "prefill attention", OpWindow: "window attention", OpBlock: "block", OpGPUAttention: "attention",
	OpDecodeDown: "decode q k v", OpPromptDown: "prompt k v", OpLeaving: "leaving k v", OpResults: "results",
	OpAttention: "decode attention", OpHostAttention: "decode attention", OpPrefixRead: "prefix k v read", OpPrefixUp: "prefix k v", OpFetch: "fetch k v",
	OpProjection: "projection", OpFeedForward: "feed-forward", OpUnitFeedForward: "feed-forward",
}

// Resource is a resource of a system and its place on a timeline: a track, or the first
// of its lanes' tracks.
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

// Flow is the resources of a replica and the operations of the iteration at hand. It
// runs, books, checks and records an iteration in the same way for every system.
type Flow struct {
	Engine    *dataflow.Engine
	Iteration dataflow.Iteration
	Resources []Resource
	hidden    []hidden // of the iteration to be filled
	Work      Work
	// Extrapolated is parts of the GPUs' time in all iterations: kernels beyond what their parameters were fitted to.
	Extrapolated [gpu.Kinds]units.Total
	Check        *Checker // nil without checks
	cfg          *configs.Config
	fixed        units.Duration // latencies and switches of the resources
	Uses         [2]Use         // of the GPUs by the sub-batches of the iteration to be filled
	Waits        []int32        // scratch: what an operation waits for
}

// Running is how a flow runs iterations.
type Running struct {
	Exact bool     // every layer of every iteration, laid anew, instead of skipping repeats
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

// Run executes the iteration that has been filled from start on and returns its end.
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

// Try returns the end of the iteration that has been filled, and books nothing.
func (f *Flow) Try(start units.Duration) (units.Duration, error) {
	t := f.Iteration.Totals()
	if err := f.inTime(start, t.Longest|f.fixed, 6*t.Pieces+4); err != nil {
		return start, err
	}
	return f.Engine.Run(&f.Iteration, start), nil
}

// book adds what the iteration does.
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

// Reset makes room for the next iteration.
func (f *Flow) Reset() {
	f.Iteration.Reset()
	f.Uses = [2]Use{}
}

func (f *Flow) Core() *Flow { return f }

// Settle is for systems without DIMM-PIM: nothing is counted apart.
func (f *Flow) Settle() {}

// Ranksets is for systems without ranksets: nothing is imbalanced.
func (f *Flow) Ranksets() Imbalance { return Imbalance{} }

// Record runs the iteration once more, every layer of it, and returns the spans of it that a timeline shows, and its end.
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

// Enter adds what comes before the first layer of a sub-batch, and behind the first of
// them the transfers that go on beside all layers: the iteration takes at least as long.
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

// Pause books time of the host after an iteration, for which GPUs and devices wait, and returns it.
func (f *Flow) Pause(host units.Duration) units.Duration {
	f.Work.Time[OfGPUWaits+int(ForHost)] += host
	f.Work.Time[OfPIMWaits+int(ForHost)] += host
	return host
}

// Hide has transfers take a resource beside the next iteration that is filled.
func (f *Flow) Hide(resource int8, took units.Duration) {
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

// Wait adds attention, for which the rest of the layer waits.
func (f *Flow) Wait(s int, on int8, kind uint8, took units.Duration) *dataflow.Op {
	o, i := f.Iteration.Add(on, took)
	o.Kind, o.Group = kind, int16(s)
	f.Waits = append(f.Waits, i)
	return o
}

// Layers makes the operations from first on the layers of a sub-batch, after what comes
// before them from entry on.
func (f *Flow) Layers(s int, entry, first int32, exit units.Duration) {
	sub := &f.Iteration.Sub[s]
	sub.Add(dataflow.Range{From: entry, To: first}, 1)
	sub.Add(f.Iteration.From(first), int32(f.cfg.Model.Layers))
	sub.Exit = exit
}
