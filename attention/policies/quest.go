package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// quest is attention to the pages with the highest bounds on their scores.
var quest = policy.Policy{
	Name: "quest", Lossy: true, Source: "Quest (Tang et al., ICML 2024)",
	About: policy.About{Attends: "the pages with the highest bounds on their scores, and the newest",
		Stores: "keys and values of all tokens, a smallest and a largest key a page", Moves: nothing},
	Homes: policy.OnGPUs | policy.InHBM | policy.InDIMMs | policy.OnHost | policy.Fetched, Drafts: true,
	Keys: QuestSpec{},
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
	Costs: func(u *policy.Use) policy.Costs {
		s := u.Keys.(QuestSpec)
		c := newHeadsCost(u.Shape, policy.StreamSpec{}, func(layer int) layerHeads { return layerHeads{paged: layer >= s.SkipLayers} })
		c.pages = newPaged(u, &s.PagesSpec, s.Lists(), func(layer, _ int) bool { return layer >= s.SkipLayers })
		return c
	},
	Values: func(u *policy.Use) (policy.Values, error) {
		s := u.Keys.(QuestSpec)
		return policy.ValuesFunc(func(layer, _, limit int) policy.State {
			if layer < s.SkipLayers {
				return everything(u.Shape.Dim, limit)
			}
			return newPageState(&s.PagesSpec, s.Lists(), u.Shape, limit)
		}), nil
	},
}

// QuestSpec is the keys of Quest.
type QuestSpec struct {
	policy.PagesSpec
	SkipLayers int `toml:"skip_layers"` // number of first layers that attend to everything
}

// Check has the rules of the section [policy.quest].
func (s QuestSpec) Check(c *input.Check) {
	s.PagesSpec.Check(c)
	input.Within(c, "skip_layers", s.SkipLayers, 0, 1<<16)
}

// Lists returns pages that are scored as a whole, with a new list in each step.
func (s QuestSpec) Lists() Pages {
	return Pages{Budget: s.Budget, Page: s.Page, Logical: s.Page, Least: 1, Reuse: 1, Skip: s.SkipLayers}
}
