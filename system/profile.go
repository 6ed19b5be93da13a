package system

import (
	"context"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// Profile is executed batches, to fit latency predictors to (L3, section 6.3).
type Profile struct {
	Samples []scheduler.Sample // of the sub-batches of Batches iterations
	Batches int
	// Candidates is how many iterations Batches was chosen from.
	Candidates int
}

// Profile runs the trace and returns at most n of its iterations, with both
// sub-batches of each.
//
// It chooses from the iterations that prefill: theirs are the times that the
// scheduler asks for, and most iterations of a run of long outputs only decode.
// Of those of all replicas, replica by replica in order of time, it takes every
// m-th, so that the profile covers the whole run.
func (n *Node) Profile(ctx context.Context, trace *traces.Trace, batches int) (*Profile, error) {
	replicas := n.divide(trace, Options{})
	for _, r := range replicas {
		r.profile = &profile{}
	}
	if err := runAll(ctx, replicas); err != nil {
		return nil, err
	}
	var all [][]scheduler.Sample
	for _, r := range replicas {
		all = append(all, r.profile.batches...)
	}
	p := &Profile{Batches: min(batches, len(all)), Candidates: len(all)}
	for i := range p.Batches {
		p.Samples = append(p.Samples, all[i*len(all)/p.Batches]...)
	}
	return p, nil
}

// profile collects the samples of a replica's iterations that prefill.
type profile struct {
	batches [][]scheduler.Sample // one or two sub-batches each
}

// add adds the iteration that r has executed.
func (p *profile) add(r *replica) {
	b, prefill := r.batch, 0
	for i := range b.Sub {
		prefill += b.Sub[i].PrefillTokens()
	}
	if prefill == 0 {
		return
	}
	var samples []scheduler.Sample
	for i := range b.Sub {
		sub := &b.Sub[i]
		if sub.Tokens() == 0 {
			continue
		}
		var m scheduler.Sample
		others := prefill - sub.PrefillTokens()
		m.Set(sub, b.Step, others)
		r.devices.measure(&m, b, i, others)
		samples = append(samples, m)
	}
	p.batches = append(p.batches, samples)
}
