package system

import "github.com/l3sim/l3sim/scheduler"

// profile collects the samples of a replica's iterations that prefill.
type profile struct {
	batches [][]scheduler.Sample // one or two sub-batches each
}

// add adds a batch that has been executed.
func (p *profile) add(e *l3, b *scheduler.Batch) {
	prefill := 0
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
		e.measure(&m, b, i, others)
		samples = append(samples, m)
	}
	p.batches = append(p.batches, samples)
}

// profiled has a replica keep the samples of its iterations. ok is false for a system that does not predict.
func (a *assembly) profiled() (_ *profile, ok bool) {
	e, ok := a.engine.(*l3)
	if ok {
		e.profile = &profile{}
		return e.profile, true
	}
	return nil, false
}
