package system

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// iterations writes the activity of resources and sub-batches in each iteration, and the arrows of its
// attention.
func (t *traceWriter) iterations(r *Recording) {
	named, spans := [subBatches]bool{}, r.Spans
	for i := range r.Samples {
		sample := &r.Samples[i]
		n := slices.IndexFunc(spans, func(s flow.Span) bool { return s.Start >= sample.End })
		if n < 0 {
			n = len(spans)
		}
		for _, s := range spans[:n] {
			if r.overlaps(s.Start, s.End) {
				t.span(r, sample, s)
			}
		}
		for sub := range subBatches {
			own := slices.DeleteFunc(slices.Clone(spans[:n]), func(s flow.Span) bool { return int(s.A)/r.ranksets != sub })
			if len(own) == 0 {
				continue
			}
			slices.SortStableFunc(own, func(a, b flow.Span) int { return cmp.Compare(a.Start, b.Start) })
			if !named[sub] {
				t.Track(t.on(sub), "sub-batch "+string('A'+rune(sub)))
				named[sub] = true
			}
			t.subBatch(r, sample, sub, own)
			t.arrows(r, own)
		}
		spans = spans[n:]
	}
}

// subBatch writes what a sub-batch does in an iteration: its dense operators run on the GPUs, it attends on any
// device, or it waits for GPUs that the other sub-batch occupies.
func (t *traceWriter) subBatch(r *Recording, i *Sample, sub int, own []flow.Span) {
	slice := func(name string, start, end units.Duration, args timeline.Args) {
		if start < end && r.overlaps(start, end) {
			t.Slice(t.on(sub), &timeline.Slice{Name: name, Category: "sub-batch", Start: start, End: end, Args: args})
		}
	}
	args := timeline.Args{}
	i.describe(args, sub, r.ranksets)
	slice("iteration", i.At, i.End, args)
	at, attended := i.At, i.At // ends of the latest dense operator, and of the attention after it
	for _, s := range own {
		layer := timeline.Args{"layer": s.B}
		switch uint8(s.Kind) {
		case flow.OpEntry, flow.OpProjection, flow.OpFeedForward, flow.OpBlock:
			attended = min(max(attended, at), s.Start)
			slice("attends", at, attended, layer)
			slice("waits for the GPUs", attended, s.Start, layer)
			slice("on the GPUs", s.Start, s.End, layer)
			at = s.End
		case flow.OpPromptDown, flow.OpLeaving, flow.OpUnitFeedForward: // runs beside the sub-batch's own work
		default:
			attended = max(attended, s.End)
		}
	}
}

// arrows draws two arrows for each layer's attention on a device. The first leads from the GPU operator that makes
// the queries over the link to the device, the second from there over the link to the operator that takes the
// results.
func (t *traceWriter) arrows(r *Recording, own []flow.Span) {
	type attention struct{ group, layer int32 }
	dense := map[int32]flow.Span{} // by the layer whose queries the operator makes
	chains := map[attention][]flow.Span{}
	var order []attention
	for _, s := range own {
		key := attention{s.A, s.B}
		chain := chains[key]
		switch uint8(s.Kind) {
		case flow.OpEntry:
			dense[0] = s
		case flow.OpBlock:
			dense[s.B+1] = s
		case flow.OpDecodeDown, flow.OpAttention, flow.OpHostAttention, flow.OpResults:
			switch {
			case len(chain) == 0:
				order = append(order, key)
				chain = []flow.Span{dense[s.B]}
			case chain[len(chain)-1].Kind == s.Kind: // the operation continues
				continue
			}
			chains[key] = append(chain, s)
		}
	}
	for _, key := range order {
		var places []timeline.Place
		for _, s := range append(chains[key], dense[key.layer+1]) {
			if r.overlaps(s.Start, s.End) {
				places = append(places, timeline.Place{On: t.on(thread(s.Resource)), Start: s.Start, End: s.End})
			}
		}
		t.Arrows("attention", places)
	}
}
