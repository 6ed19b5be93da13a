package policy

// Dense is attention of every head over everything (Vaswani et al., 2017).
type Dense struct{ common }

// NewDense returns the policy for a model.
func NewDense(s Shape) *Dense { return &Dense{newCommon("dense", s)} }

// Decode returns one class, of all heads at home over all contexts.
func (d *Dense) Decode(requests []Request, _ int) *Step {
	d.reset(len(requests), 1)
	d.step.Attend = append(d.step.Attend, Class{Device: Home}) // the rest where it stays: a literal is copied
	c := &d.step.Attend[0]
	c.Heads, c.Tokens = d.shape.KVHeads, d.contexts(requests)
	return &d.step
}
