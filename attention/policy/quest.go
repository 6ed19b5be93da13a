package policy

import (
	"github.com/l3sim/l3sim/input"
)

// quest is attention to the pages with the highest bounds on their scores.
var quest = Policy{
	Name: "quest", Lossy: true, Source: "Quest (Tang et al., ICML 2024)",
	About: About{Attends: "the pages with the highest bounds on their scores, and the newest",
		Stores: "keys and values of all tokens, a smallest and a largest key a page", Moves: nothing},
	Homes: OnGPUs | InHBM | InDIMMs,
	Keys:  QuestSpec{},
	Defaults: `budget = 4096             # the largest of Quest's efficiency scripts
page = 16                 # Quest's released scripts
skip_layers = 2           # Quest's efficiency version
select_device = "gpu"     # the paper
top_k_latency = 64         # our choice: the entries of LServe's list, a clock each
select_group = "sum"      # our choice: one list for the query heads that share keys
select_precision = "fp32" # our choice; the released kernels have fp16
summary_device = "gpu"    # our choice: keys pass by there
layout = "row"            # the layout of L3
`,
	CostKeys: pageCostKeys,
	Costs:    newQuestCost,
	Values: func(u *Use) (Values, error) {
		s := u.Keys.(QuestSpec)
		return ValuesFunc(func(layer, _, limit int) State {
			if layer < s.SkipLayers {
				return everything(u.Shape.Dim, limit)
			}
			return newPageState(&s.PagesSpec, s.Lists(), u.Shape, limit)
		}), nil
	},
}

// QuestSpec is the keys of Quest.
type QuestSpec struct {
	PagesSpec
	SkipLayers int `toml:"skip_layers"` // first layers that attend to everything
}

// Check has the rules of the section [policy.quest].
func (s QuestSpec) Check(c *input.Check) {
	s.PagesSpec.Check(c)
	input.Within(c, "skip_layers", s.SkipLayers, 0, 1<<16)
}

// Lists returns pages that are scored whole, by a list for each step.
func (s QuestSpec) Lists() Pages {
	return Pages{Budget: s.Budget, Page: s.Page, Logical: s.Page, Least: 1, Reuse: 1, Skip: s.SkipLayers}
}

// questCost is the cost of Quest: all heads choose pages, but for the first layers.
type questCost struct {
	common
	pages paged
	skip  int // layers of the first run, which attend to everything
}

// newQuestCost returns the costs of Quest: its first layers attend to everything, all others to pages.
func newQuestCost(u *Use) Costs {
	s, shape := u.Keys.(QuestSpec), u.Shape
	c := &questCost{common: newCommon(shape), skip: min(s.SkipLayers, shape.Layers)}
	c.pages = newPaged(u, &s.PagesSpec, s.Lists(), func(layer, _ int) bool { return layer >= c.skip })
	c.runs = successive(shape.Layers, func(layer int) bool { return layer < c.skip })
	return c
}

// dense reports whether the layers of a run attend to everything.
func (c *questCost) dense(run int) bool { return run == 0 && c.skip > 0 }

// Decode returns dense attention in the first layers, and pages in the others.
func (c *questCost) Decode(requests []Request, run int) *Step {
	c.reset(len(requests), numbersEach)
	if c.dense(run) {
		c.attend(Class{Device: Home, Heads: c.shape.KVHeads, Tokens: c.contexts(requests)})
	} else {
		c.pages.decode(&c.common, c.shape.KVHeads, requests)
	}
	return &c.step
}

// Prompt returns causal attention, and the bounds of pages.
func (c *questCost) Prompt(run, chunk, finished int, _ bool) *Prompt {
	c.begin(chunk, finished)
	if !c.dense(run) {
		c.pages.prompt(&c.common, c.shape.KVHeads, chunk, finished)
	}
	return &c.prompt
}

// Memory returns keys, values and bounds.
func (c *questCost) Memory(run int) (decoding, filling []Held) {
	c.held = append(c.held[:0], allTokens(&c.shape))
	if !c.dense(run) {
		c.held = c.pages.bounds(c.held, &c.shape, c.shape.KVHeads)
	}
	return c.held, c.held
}
