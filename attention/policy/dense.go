package policy

// Dense is attention of every head over everything (Vaswani et al., 2017).
type Dense struct{ common }

// NewDense returns the policy for a model.
func NewDense(s Shape) *Dense {
	d := &Dense{newCommon("dense", s)}
	d.step.Attend = []Class{{Device: Home, Heads: s.KVHeads}}
	return d
}

// Decode returns one class, of all heads at home over all contexts.
func (d *Dense) Decode(requests []Request, _ int) *Step {
	d.reset(len(requests), 1)
	d.step.Attend = d.step.Attend[:1] // the same class in every step
	d.step.Attend[0].Tokens = d.contexts(requests)
	return &d.step
}
