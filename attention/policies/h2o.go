package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// h2o is attention to the newest tokens and to those with the most accumulated attention.
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
	Heavy  float64 `toml:"heavy"`  // share of the prompt's tokens kept for their weight
	Recent float64 `toml:"recent"` // share of the prompt's tokens kept as the newest
}

// Check has the rules of the section [policy.h2o].
func (s H2OSpec) Check(c *input.Check) {
	input.Within(c, "heavy", s.Heavy, 0, 1)
	input.Within(c, "recent", s.Recent, 0, 1)
	if c.OK() {
		c.That(s.Heavy+s.Recent <= 1, "recent", s.Recent, "at most 1 together with %s = %v", input.Key("heavy"), s.Heavy)
	}
}

// h2oBudget is the number of tokens that a KV head keeps under H2O (Zhang et al., "H2O: Heavy-Hitter Oracle", 2023, arXiv:2306.14048): the
// newest tokens and, of the others, those with the most accumulated attention. Dropped tokens are lost. Budgets are shares of the prompt,
// as in the released code.
type h2oBudget struct {
	Heavy, Recent int // maximum numbers of tokens kept between steps
}

// budget returns the budgets after a prompt, in tokens.
func (s H2OSpec) budget(prompt int) h2oBudget {
	return h2oBudget{Heavy: int(s.Heavy * float64(prompt)), Recent: int(s.Recent * float64(prompt))}
}

// Kept returns the number of tokens that a KV head keeps after a context, which includes the prompt.
func (h h2oBudget) Kept(context int) int { return min(context, h.Heavy+h.Recent) }

// Attended returns the number of tokens that a KV head attends to in a step of the given context, including its own token: the kept ones
// plus its own.
func (h h2oBudget) Attended(context int) int { return h.Kept(context-1) + 1 }

// h2oState is the values of H2O for one KV head. The weights of a group's query heads are added, since they share keys.
type h2oState struct {
	wholePrompt // all weights of the prompt are needed
	spec        H2OSpec
	dim         int
	budget      h2oBudget
	tokens      int       // number so far
	kept        []int32   // kept tokens, ascending; from Append to Observe including the step's own
	collected   []float64 // accumulated attention of each kept token
	part        [1]policy.Part
}

// Prompt accumulates the attention that each token receives from the prompt's queries.
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

// Append keeps the step's token until Observe.
func (s *h2oState) Append(_, _ []float32) {
	s.kept, s.collected = append(s.kept, int32(s.tokens)), append(s.collected, 0)
	s.tokens++
}

func (s *h2oState) Select(_ [][]float32) policy.Selection {
	s.part[0].Ranges = policy.AppendRanges(s.part[0].Ranges[:0], s.kept)
	return policy.Selection{Parts: s.part[:]}
}

// Observe accumulates the weights. If one token too many is kept, it drops the one with the least attention, other than the last Recent
// tokens; of equal ones the newest.
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

const scoreBytes = 4 // size of a stored or returned score or weight: single precision

// h2oCost is the cost of H2O: the kernel returns its weights, which are added up by token, and each step drops the token with the least.
// For the prompt's sums its scores are computed a second time, since a prompt's kernel does not store them.
type h2oCost struct {
	common
	spec H2OSpec
}

// newH2OCost lists H2O's memory: a share of the prompt's tokens, and the sum of weights of each.
func newH2OCost(u *policy.Use) policy.Costs {
	s, shape := u.Keys.(H2OSpec), u.Shape
	c := &h2oCost{newCommon(shape), s}
	// One more than between steps: the step's own token.
	share := policy.Held{Device: policy.Home, Heads: shape.KVHeads, Bytes: shape.Token(), OfPrompt: true, Skip: -1, Share: s.Heavy + s.Recent}
	sums := share
	sums.Bytes, sums.Index = scoreBytes*int64(shape.Group()), true
	c.held = []policy.Held{share, sums}
	if ahead := shape.Ahead(); ahead > 0 { // and drafts
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
		tokens[i] = c.spec.budget(r.Prompt).Attended(r.Context-ahead) + ahead // all tokens attend to what was kept before the first one
		sum += tokens[i]
	}
	c.attend(policy.Class{Device: policy.Home, Heads: c.shape.KVHeads, Tokens: tokens, Weights: true})
	// Weights of all tokens are read, sums read and written; then the smallest sum is found.
	c.step.Passes = append(c.step.Passes, policy.Pass{Device: policy.Home, Kernels: 2, Bytes: int64(4+ahead) * scoreBytes * int64(sum) * int64(c.shape.QueryHeads)})
	return &c.step
}

// Prompt returns causal attention and a second pass over the scores. At the prompt's end it adds the choice and the copies of the kept
// tokens. Only these are sent home, with their sums.
func (c *h2oCost) Prompt(_, chunk, finished int, last bool) *policy.Prompt {
	c.begin(chunk, finished)
	// Scores of all heads are half of attention's arithmetic, the same as attention of half the heads.
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

// radixPasses is the number of reads of a row in a selection by 8-bit digits: four digits, and the gathering.
const radixPasses = 5
