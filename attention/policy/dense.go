package policy

// Dense is attention of every head over everything (Vaswani et al., 2017).
type Dense struct {
	all
	step Step
}

// NewDense returns the policy for a model.
func NewDense(s Shape) *Dense { return &Dense{all: newAll(s)} }

// Name returns "dense".
func (d *Dense) Name() string { return "dense" }

// Decode returns one class, of all heads at home over all contexts.
func (d *Dense) Decode(requests []Request, _ int) *Step {
	d.step.reset()
	d.step.Attend = append(d.step.Attend, Class{Device: Home, Heads: d.shape.KVHeads, Tokens: d.contexts(requests)})
	return &d.step
}

// all is what policies have in common of which all layers are alike, prompts attend to
// everything, and all keys and values stay at home.
type all struct {
	shape  Shape
	runs   [1]int
	tokens []int
	prompt Prompt
	held   [1]Held
}

func newAll(s Shape) all {
	return all{shape: s, runs: [1]int{s.Layers}, held: [1]Held{{Device: Home, Heads: s.KVHeads, Bytes: s.token()}}}
}

// Runs returns one run of all layers.
func (a *all) Runs() []int { return a.runs[:] }

// Prompt returns causal attention of all heads.
func (a *all) Prompt(_, chunk, finished int, _ bool) *Prompt {
	a.prompt.Pieces = append(a.prompt.Pieces[:0], Piece{a.shape.KVHeads, 1, chunk, finished})
	return &a.prompt
}

// Memory returns keys and values of all tokens.
func (a *all) Memory(int) (decoding, filling []Held) { return a.held[:], a.held[:] }

// KV returns the bytes of 2 · KVHeads · Dim elements a token.
func (a *all) KV(tokens int) int64 {
	return int64(tokens) * a.shape.elements(2*a.shape.KVHeads*a.shape.Dim)
}

// Vectors returns the bytes of q, k and v of one token, and of its output.
func (a *all) Vectors() (down, up int64) { return a.shape.vectors() }

// contexts returns the contexts of requests.
func (a *all) contexts(requests []Request) []int {
	a.tokens = a.tokens[:0]
	for i := range requests {
		a.tokens = append(a.tokens, requests[i].Context)
	}
	return a.tokens
}
