package policy

// Dense is attention of every head over everything (Vaswani et al., 2017).
type Dense struct {
	shape   Shape
	classes [1]Class
}

// NewDense returns the policy for a model.
func NewDense(s Shape) *Dense {
	return &Dense{shape: s, classes: [1]Class{{Device: Home, Heads: s.KVHeads}}}
}

// Name returns "dense".
func (d *Dense) Name() string { return "dense" }

// Decode returns one class, of all heads at home over all contexts.
func (d *Dense) Decode(contexts []int, _ int, _ int64) []Class {
	d.classes[0].Tokens = contexts
	return d.classes[:]
}

// Behind returns finished.
func (d *Dense) Behind(finished int) int { return finished }

// KV returns the bytes of 2 · KVHeads · Dim elements a token.
func (d *Dense) KV(tokens int) int64 {
	return int64(tokens) * d.shape.elements(2*d.shape.KVHeads*d.shape.Dim)
}

// Vectors returns the bytes of q, k and v of one token, and of its output.
func (d *Dense) Vectors() (down, up int64) {
	s := &d.shape
	return s.elements((s.QueryHeads + 2*s.KVHeads) * s.Dim), s.elements(s.QueryHeads * s.Dim)
}
