package policy

// Dense is attention of every head over everything (Vaswani et al., 2017).
type Dense struct{ common }

// NewDense returns the policy for a model.
func NewDense(s Shape) *Dense {
	d := &Dense{newCommon("dense", s)}
	d.step.Attend = []Class{{Device: Home}}
	return d
}

// Decode returns one class, of all heads at home over all contexts.
func (d *Dense) Decode(requests []Request, _ int) *Step {
	d.reset(len(requests), 1)
	d.step.Attend = d.step.Attend[:1] // the same class in every step; to write all of it takes as long as the rest
	c := &d.step.Attend[0]
	c.Heads, c.Tokens = d.shape.KVHeads, d.contexts(requests)
	return &d.step
}
