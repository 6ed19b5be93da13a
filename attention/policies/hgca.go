package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// hgca is attention to a window on the GPUs, and at home to older, salient tokens.
var hgca = policy.Policy{
	Name: "hgca", Lossy: true, Source: "HGCA (Deng et al., 2025)",
	About: policy.About{Attends: "a window on the GPUs, and elsewhere older tokens whose average weight is high; merged by log-sum-exp",
		Stores: "the window on the GPUs; copies of salient tokens, and with keep_all all older ones, elsewhere",
		Moves:  "queries down, results and log-sum-exps up; blocks that leave the window, in the background"},
	Homes: policy.InDIMMs | policy.OnHost, Drafts: true,
	Keys: HGCASpec{},
	Defaults: `window = 4096          # HGCA, section 5.4
beta = 1.0             # HGCA, typical
alpha = 0.1            # our choice: the paper gives none
block = 128            # our choice: the paper gives none
prompt_queries = 64    # our choice: the paper gives none
pin_sinks = 0          # as published
keep_all = true        # HGCA keeps them for prompts that follow
share = 0.1            # our choice; HGCA, section 3.2: below 1% to 30%
`,
	CostKeys: []string{"share", "keep_all"},
	Costs:    newHGCACost,
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(HGCASpec)
		return policy.ValuesFunc(func(_, _, limit int) policy.State { return newHGCAState(&s, u.Shape, limit) }), nil
	},
}

// HGCASpec is the keys of HGCA.
type HGCASpec struct {
	Window        int     `toml:"window"`         // newest tokens that the GPUs hold and attend to, including the step's own
	Beta          float64 `toml:"beta"`           // a token stays in attention if its average weight exceeds beta times the mean
	Alpha         float64 `toml:"alpha"`          // weight of the newest step in the moving average of weights
	Block         int     `toml:"block"`          // tokens that leave the window together
	PromptQueries int     `toml:"prompt_queries"` // last queries of the prompt from which average weights start
	PinSinks      int     `toml:"pin_sinks"`      // first tokens that stay in attention regardless of their weight
	KeepAll       bool    `toml:"keep_all"`       // keep all keys and values in addition to the copies of the salient ones
	Share         float64 `toml:"share"`          // salient share of the tokens beyond the window, without a profile
}

// Check has the rules of the section [policy.hgca].
func (s HGCASpec) Check(c *input.Check) {
	input.Within(c, "window", s.Window, 0, policy.MaxTokens)
	checkBlock(c, s.Block, s.Window, false)
	input.Within(c, "beta", s.Beta, 0, 1e6)
	input.Within(c, "alpha", s.Alpha, 0, 1)
	input.Within(c, "prompt_queries", s.PromptQueries, 1, policy.MaxTokens)
	input.Within(c, "pin_sinks", s.PinSinks, 0, policy.MaxTokens)
	input.Within(c, "share", s.Share, 0, 1)
}

// GPUTokens returns the window.
func (s HGCASpec) GPUTokens() int { return s.Window }

// Blocks returns the intervals between evictions, in which the tokens at home do not change.
func (s HGCASpec) Blocks() (width, from int) { return s.Block, s.Window%s.Block + 1 }

// hgcaWindow is the window of HGCA (hybrid GPU-CPU attention): the newest tokens, which the GPUs hold and attend to densely. Tokens leave
// it in whole blocks, oldest first. The paper's Algorithm 2 gives the size of an eviction with the sign of (l_max − l_cur), which would be
// negative from the second token on; this is the rule with the sign reversed.
type hgcaWindow struct {
	Size, Block int // tokens; Block is 1 to Size
}

// Evicted returns the number of tokens that have left the window at the given context, at the end of the prompt or after a step. It does
// not depend on where the prompt ended. Size−Block to Size−1 tokens stay, or all of a shorter context.
func (w hgcaWindow) Evicted(context int) int {
	if context < w.Size {
		return 0
	}
	return (context-w.Size)/w.Block*w.Block + w.Block
}

// Held returns the number of tokens that the window holds in a step of the given context, including its own token: at most Size.
func (w hgcaWindow) Held(context int) int { return context - w.Evicted(context-1) }

// hgcaState is the values of HGCA for one KV head. A token's salience is its attention weight times the number of tokens that share the
// weight, which is 1 on average; the paper compares the weight with β divided by that number. Salience is averaged over the group's query
// heads, which share the tokens that stay.
type hgcaState struct {
	wholePrompt
	window               hgcaWindow
	beta, alpha          float32
	queries, pinned, dim int
	tokens, first        int            // number so far; oldest token of the window
	average              []float32      // salience of the window's tokens, by token modulo Size
	salient              []int32        // tokens outside the window that stay, ascending
	parts                [2]policy.Part // salient tokens, window
	windowRange          [1][2]int
}

func newHGCAState(s *HGCASpec, shape policy.Shape, limit int) *hgcaState {
	h := &hgcaState{
		window: hgcaWindow{Size: s.Window, Block: s.Block}, beta: float32(s.Beta), alpha: float32(s.Alpha),
		queries: s.PromptQueries, pinned: s.PinSinks, dim: shape.Dim,
	}
	h.average, h.salient = make([]float32, min(s.Window, limit)), make([]int32, 0, limit)
	h.parts[0].Ranges = make([][2]int, 0, limit/2+1)
	h.parts[1].Device = policy.GPU
	return h
}

// Prompt sets each token's average salience to the average over the last queries that see it.
func (s *hgcaState) Prompt(q [][]float32, k, _ []float32) {
	s.tokens = len(k) / s.dim
	average, from := make([]float64, s.tokens), max(0, s.tokens-s.queries)
	policy.PromptWeights(q, k, s.dim, from, func(token int, weights []float32) {
		for j, w := range weights {
			average[j] += float64(float64(w) * float64(token+1))
		}
	})
	for j := range average {
		average[j] /= float64(len(q) * (s.tokens - max(from, j)))
	}
	s.evict(func(token int) float32 { return float32(average[token]) })
	for j := s.first; j < s.tokens; j++ {
		s.average[j%s.window.Size] = float32(average[j])
	}
}

// evict moves the oldest tokens out of the window, as many as leave it after the latest token.
func (s *hgcaState) evict(average func(token int) float32) {
	end := s.window.Evicted(s.tokens)
	if s.first == end {
		return
	}
	for ; s.first < end; s.first++ {
		// In exact arithmetic every weight is more than 0.
		if s.first < s.pinned || s.beta == 0 || average(s.first) > s.beta {
			s.salient = append(s.salient, int32(s.first))
		}
	}
	s.parts[0].Ranges = policy.AppendRanges(s.parts[0].Ranges[:0], s.salient)
}

// Append evicts blocks after the previous step, and adds the step's token to the window.
func (s *hgcaState) Append(_, _ []float32) {
	s.evict(func(token int) float32 { return s.average[token%s.window.Size] })
	s.tokens++
}

// Select returns the salient tokens at home, if there are any, and the window on the GPUs.
func (s *hgcaState) Select(_ [][]float32) policy.Selection {
	s.windowRange[0] = [2]int{s.first, s.tokens}
	s.parts[1].Ranges = s.windowRange[:]
	if len(s.salient) == 0 {
		return policy.Selection{Parts: s.parts[1:]}
	}
	return policy.Selection{Parts: s.parts[:]}
}

// Observe updates the averages with the weights of the window; the step's own token starts with its first salience.
func (s *hgcaState) Observe(weights [][]float32) {
	held := s.tokens - s.first
	scale := float32(held) / float32(len(weights))
	for j := s.first; j < s.tokens; j++ {
		var sum float32
		for _, head := range weights {
			sum += head[len(head)-held+j-s.first]
		}
		average := &s.average[j%s.window.Size]
		if salience := sum * scale; j == s.tokens-1 {
			*average = salience
		} else {
			*average = float32((1-s.alpha)*(*average)) + float32(s.alpha*salience)
		}
	}
}

// newHGCACost returns the costs of HGCA, whose home has copies of the salient tokens and, with keep_all, all other tokens.
func newHGCACost(u *policy.Use) policy.Costs {
	s := u.Keys.(HGCASpec)
	c := &hybridCost{common: newCommon(u.Shape), hgcaWindow: hgcaWindow{s.Window, s.Block}, share: s.Share, profile: u.Profile, salient: true, queries: s.PromptQueries, all: s.KeepAll}
	copies := c.rest()
	if copies.Share, copies.Longest = c.read(); copies.Share == 0 {
		copies.Bytes = 0
	}
	c.held = append(c.held[:0], copies)
	if c.all {
		c.held = append(c.held, c.rest())
	}
	c.held = c.near(c.held)
	return c
}
