package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// h2o is attention to the newest tokens and those that collected the most attention.
var h2o = policy.Policy{
	Name: "h2o", Others: []string{"heavy-hitter", "heavy-hitters"}, Lossy: true, Source: "H2O (Zhang et al., NeurIPS 2023)",
	About: policy.About{Attends: "the newest tokens and those that collected the most attention; the others are dropped for good",
		Stores: "keys and values of these, a sum a token and query head", Moves: nothing},
	Homes: policy.OnGPUs | policy.OnHost, Drafts: true,
	Keys: H2OSpec{},
	Defaults: `heavy = 0.1  # H2O's released code: 20% with the newest
recent = 0.1 # H2O's released code
`,
	Costs: newH2OCost,
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(H2OSpec)
		return policy.ValuesFunc(func(_, _, _ int) policy.State { return &h2oState{spec: s, dim: u.Shape.Dim} }), nil
	},
}

// H2OSpec is the keys of H2O.
type H2OSpec struct {
	Heavy  float64 `toml:"heavy"`  // share of the prompt's tokens that are kept for their weight
	Recent float64 `toml:"recent"` // share of the prompt's tokens that are kept as the newest
}

// Check has the rules of the section [policy.h2o].
func (s H2OSpec) Check(c *input.Check) {
	input.Within(c, "heavy", s.Heavy, 0, 1)
	input.Within(c, "recent", s.Recent, 0, 1)
	if c.OK() {
		c.That(s.Heavy+s.Recent <= 1, "recent", s.Recent, "at most 1 together with %s = %v", input.Key("heavy"), s.Heavy)
	}
}

// h2oBudget is what a KV head keeps under H2O (Zhang et al., "H2O: Heavy-Hitter Oracle",
// 2023, arXiv:2306.14048): the last tokens, and of the others those that have collected the
// most attention. What it drops is gone for good. Budgets are shares of the prompt, as in
// the released code.
type h2oBudget struct {
	Heavy, Recent int // tokens that are kept between steps, where there are as many
}

// budget returns the budgets after a prompt, in tokens.
func (s H2OSpec) budget(prompt int) h2oBudget {
	return h2oBudget{Heavy: int(s.Heavy * float64(prompt)), Recent: int(s.Recent * float64(prompt))}
}

// Kept returns how many tokens a KV head keeps after a context, which is the prompt or longer.
func (h h2oBudget) Kept(context int) int { return min(context, h.Heavy+h.Recent) }

// Attended returns how many tokens a KV head attends to in a step of that context, its own
// token included: those that were kept and its own.
func (h h2oBudget) Attended(context int) int { return h.Kept(context-1) + 1 }

// h2oState is the values of H2O in one KV head. The weights of a group's query heads add up:
// they share keys.
type h2oState struct {
	wholePrompt // what collects attention must be computed
	spec        H2OSpec
	dim         int
	budget      h2oBudget
	tokens      int       // so far
	kept        []int32   // tokens, ascending, with the step's own from Append to Observe
	collected   []float64 // attention that each of them has collected
	part        [1]policy.Part
}

// Prompt adds up the attention that each token collects from the prompt's queries.
func (s *h2oState) Prompt(q [][]float32, k, _ []float32) {
	s.tokens = len(k) / s.dim
	s.budget = s.spec.budget(s.tokens)
	sums := make([]float64, s.tokens)
	policy.PromptWeights(q, k, s.dim, 0, func(_ int, weights []float32) {
		for j, w := range weights {
			sums[j] += float64(w)
		}
	})
	most := s.budget.Heavy + s.budget.Recent + 1
	older := max(0, s.tokens-s.budget.Recent)
	s.kept = policy.AppendTop(make([]int32, 0, most), sums[:older], s.budget.Heavy, make([]float64, older))
	for j := older; j < s.tokens; j++ {
		s.kept = append(s.kept, int32(j))
	}
	s.collected = make([]float64, len(s.kept), most)
	for i, j := range s.kept {
		s.collected[i] = sums[j]
	}
	s.part[0].Ranges = make([][2]int, 0, most)
}

// Append keeps the step's token for now.
func (s *h2oState) Append(_, _ []float32) {
	s.kept, s.collected = append(s.kept, int32(s.tokens)), append(s.collected, 0)
	s.tokens++
}

func (s *h2oState) Select(_ [][]float32) policy.Selection {
	s.part[0].Ranges = policy.AppendRanges(s.part[0].Ranges[:0], s.kept)
	return policy.Selection{Parts: s.part[:]}
}

// Observe adds what the tokens have collected. Where one is too many it drops that with the
// least. The last Recent tokens stay; of equal ones the newest goes.
func (s *h2oState) Observe(weights [][]float32) {
	for _, head := range weights {
		for i, w := range head {
			s.collected[i] += float64(w)
		}
	}
	if len(s.kept) <= s.budget.Heavy+s.budget.Recent {
		return
	}
	least := 0
	for i, x := range s.collected[:len(s.kept)-s.budget.Recent] {
		if x <= s.collected[least] {
			least = i
		}
	}
	s.kept = append(s.kept[:least], s.kept[least+1:]...)
	s.collected = append(s.collected[:least], s.collected[least+1:]...)
}

const scoreBytes = 4 // of a score or a weight that is kept or returned: single precision

// h2oCost is the cost of H2O: the kernel returns its weights, which are added up by token, and
// the token with the least is dropped in each step. The prompt's sums take a second pass over
// its scores, which the kernel of a prompt does not keep.
type h2oCost struct {
	common
	spec H2OSpec
}

// newH2OCost lists what H2O keeps: a share of the prompt's tokens, and for each the sum of its weights.
func newH2OCost(u *policy.Use) policy.Costs {
	s, shape := u.Keys.(H2OSpec), u.Shape
	c := &h2oCost{newCommon(shape), s}
	// One more than is kept between steps: the step's own token.
	share := policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: shape.Token(), OfPrompt: true, Skip: -1, Share: s.Heavy + s.Recent}
	sums := share
	sums.Bytes, sums.Index = scoreBytes*int64(shape.Group()), true
	c.held = []policy.Held{share, sums}
	if ahead := shape.Ahead(); ahead > 0 { // drafts beside them
		for i := range c.held {
			c.held = append(c.held, policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: c.held[i].Bytes, Index: c.held[i].Index, Most: ahead})
		}
	}
	c.filling = []policy.Held{allTokens(&shape), {Device: policy.Home, Heads: shape.KVHeads, Bytes: sums.Bytes, Index: true}}
	return c
}

// Decode returns one class of all heads, and the update of the sums.
func (c *h2oCost) Decode(requests []policy.Request, _ int) *policy.Step {
	c.reset(len(requests), 1)
	tokens, sum, ahead := c.take(len(requests)), 0, c.shape.Ahead()
	for i, r := range requests {
		tokens[i] = c.spec.budget(r.Prompt).Attended(r.Context-ahead) + ahead // all have what was kept before the first one
		sum += tokens[i]
	}
	c.attend(policy.Class{Device: policy.Home, Heads: c.shape.KVHeads, Tokens: tokens, Weights: true})
	// Weights of all tokens in, sums in and out; then the least of the sums.
	c.step.Passes = append(c.step.Passes, policy.Pass{Device: policy.Home, Kernels: 2, Bytes: int64(4+ahead) * scoreBytes * int64(sum) * int64(c.shape.QueryHeads)})
	return &c.step
}

// Prompt returns causal attention and a second pass over the scores. At the prompt's end it adds
// the choice and the copies of the kept tokens. Only these go home, with their sums.
func (c *h2oCost) Prompt(_, chunk, finished int, last bool) *policy.Prompt {
	c.begin(chunk, finished)
	// The scores of all heads are half of attention's arithmetic: that of half of the heads.
	c.prompt.Pieces = append(c.prompt.Pieces, policy.Piece{Heads: (c.shape.KVHeads + 1) / 2, Count: 1, Tokens: chunk, Behind: finished})
	c.prompt.Leave = c.prompt.Leave[:0]
	if last {
		n := finished + chunk
		b := c.spec.budget(n)
		c.send(c.shape.KVHeads, 0, b.Kept(n))
		c.prompt.Leave[0].Notes = scoreBytes * int64(c.shape.Group())
		kept := int64(b.Heavy+b.Recent) * c.shape.Token() * int64(c.shape.KVHeads)
		c.promptPass(2, radixPasses*scoreBytes*int64(n)*int64(c.shape.KVHeads)+2*kept, 0)
	}
	return &c.prompt
}

// radixPasses is how often a selection by digits of 8 bits reads a row: four digits, and to gather.
const radixPasses = 5
