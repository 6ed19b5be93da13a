package system

import (
	"context"
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
)

// Profile is a sample of executed batches, to which latency predictors are fitted (L3, section
// 6.3).
type Profile struct {
	Samples []scheduler.Sample // of the sub-batches of Batches iterations
	Batches int
	// Candidates is the number of iterations from which Batches were chosen.
	Candidates int
}

// Profile runs the trace and returns at most n of its iterations, with both
// sub-batches of each.
//
// It chooses from the iterations that prefill: the scheduler asks for their times, while most
// iterations of a run with long outputs only decode. From these iterations, replica by replica in
// order of time, it takes every m-th, so that the profile covers the whole run.
func (n *Node) Profile(ctx context.Context, trace *traces.Trace, batches int) (*Profile, error) {
	if err := n.ready(ctx, trace); err != nil {
		return nil, err
	}
	together := n.together(trace)
	replicas := n.divide(trace, Options{}, together)
	profiles := make([]*kinds.Profile, len(replicas))
	for i, r := range replicas {
		p, ok := r.assembly.Profiled()
		if !ok {
			return nil, &input.Error{Key: "run.system", Value: fmt.Sprintf("%q", n.cfg.Run.System), Expected: `"l3", the system that predicts`}
		}
		profiles[i] = p
	}
	if err := n.serve(ctx, trace, replicas, together); err != nil {
		return nil, err
	}
	var all [][]scheduler.Sample
	for _, p := range profiles {
		all = append(all, p.Batches...)
	}
	p := &Profile{Batches: min(batches, len(all)), Candidates: len(all)}
	for i := range p.Batches {
		p.Samples = append(p.Samples, all[i*len(all)/p.Batches]...)
	}
	return p, nil
}
