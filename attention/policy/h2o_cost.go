package policy

// scoreBytes is of a score or a weight that is kept or returned: single precision.
const scoreBytes = 4

// h2oCost is the cost of H2O: the kernel returns its weights, which are added up by token, and
// the token with the least is dropped in each step. The prompt's sums take a second pass over
// its scores, which the kernel of a prompt does not keep.
type h2oCost struct {
	common
	heavy, recent float64
}

// newH2OCost lists what H2O keeps: a share of the prompt's tokens, and for each the sum of its weights.
func newH2OCost(s *Spec, shape Shape) *h2oCost {
	c := &h2oCost{common: newCommon(s.Name, shape), heavy: s.Heavy, recent: s.Recent}
	// One more than is kept between steps: the step's own token.
	share := Held{Device: Home, Heads: shape.KVHeads, Bytes: shape.token(), OfPrompt: true, Skip: -1, Share: s.Heavy + s.Recent}
	sums := share
	sums.Bytes, sums.Index = scoreBytes*int64(shape.group()), true
	c.held, c.filling = []Held{share, sums}, []Held{shape.everything(), {Device: Home, Heads: shape.KVHeads, Bytes: sums.Bytes, Index: true}}
	return c
}

// Decode returns one class of all heads, and the update of the sums.
func (c *h2oCost) Decode(requests []Request, _ int) *Step {
	c.reset(len(requests), 1)
	tokens, sum := c.take(len(requests)), 0
	for i, r := range requests {
		tokens[i] = newH2OBudget(c.heavy, c.recent, r.Prompt).Attended(r.Context)
		sum += tokens[i]
	}
	c.attend(Class{Device: Home, Heads: c.shape.KVHeads, Tokens: tokens, Weights: true})
	// Weights in, sums in and out; then the least of the sums.
	c.step.Passes = append(c.step.Passes, Pass{Device: Home, Kernels: 2, Bytes: 4 * scoreBytes * int64(sum) * int64(c.shape.QueryHeads)})
	return &c.step
}

// Prompt returns causal attention and a second pass over the scores. At the prompt's end it adds
// the choice and the copies of the kept tokens. Only these go home, with their sums.
func (c *h2oCost) Prompt(_, chunk, finished int, last bool) *Prompt {
	c.begin(chunk, finished)
	// The scores of all heads are half of attention's arithmetic: that of half of the heads.
	c.prompt.Pieces = append(c.prompt.Pieces, Piece{(c.shape.KVHeads + 1) / 2, 1, chunk, finished})
	c.prompt.Leave = c.prompt.Leave[:0]
	if last {
		n := finished + chunk
		b := newH2OBudget(c.heavy, c.recent, n)
		c.send(c.shape.KVHeads, 0, b.Kept(n))
		c.prompt.Leave[0].Notes = scoreBytes * int64(c.shape.group())
		kept := int64(b.Heavy+b.Recent) * c.shape.token() * int64(c.shape.KVHeads)
		c.promptPass(2, radixPasses*scoreBytes*int64(n)*int64(c.shape.KVHeads)+2*kept, 0)
	}
	return &c.prompt
}

// radixPasses is how often a selection by digits of 8 bits reads a row: four digits, and to gather.
const radixPasses = 5
