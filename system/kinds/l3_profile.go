package kinds

import "github.com/l3sim/l3sim/scheduler"

// Profile collects the samples of a replica's iterations that prefill.
type Profile struct {
	Batches [][]scheduler.Sample // one or two sub-batches each
}

func (p *Profile) add(e *l3, b *scheduler.Batch) {
	prefill, moved := 0, 0
	for i := range b.Sub {
		prefill += b.Sub[i].PrefillTokens()
		moved += b.Sub[i].MovedTokens()
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
		others := moved - sub.MovedTokens()
		m.Set(sub, b.Step, others)
		e.measure(&m, b, i, others)
		samples = append(samples, m)
	}
	p.Batches = append(p.Batches, samples)
}

// Profiled makes a replica keep the samples of its iterations. ok is false for a system that does not
// predict.
func (a *Assembly) Profiled() (_ *Profile, ok bool) {
	e, ok := a.Engine.(*l3)
	if ok {
		e.profile = &Profile{}
		return e.profile, true
	}
	return nil, false
}
