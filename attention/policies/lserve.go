package policies

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// lserve is attention of some heads to a sink and a window, and of the others to pages.
var lserve = policy.Policy{
	Name: "lserve", Others: []string{"omniserve"}, Lossy: true, Source: "LServe (Yang et al., MLSys 2025)",
	About: policy.About{Attends: "streaming heads: a sink and a window; the others: the best pages, by bounds of their parts, a list for several steps",
		Stores: "of streaming heads a sink and a window, of the others all and bounds", Moves: nothing},
	Homes: policy.OnGPUs | policy.InHBM | policy.InDIMMs | policy.OnHost | policy.Fetched, Drafts: true,
	Keys: LServeSpec{},
	Defaults: `budget = 4096             # LServe's released scripts
page = 64                 # LServe, section 4.2, and its released scripts
logical_page = 16         # LServe's released scripts: four logical pages a page
reuse = 4                 # LServe, section 5.3
newest = "append"         # our choice: the released code drops up to 64 of the newest tokens
static_sparsity = 0.5     # LServe's released scripts
sink = 128                # LServe's released scripts
window = 256              # LServe's released scripts
prefill_window = 0        # as in decode steps; LServe as released has 8192
stream_device = "gpu"     # our choice: a head has 384 tokens, most of a unit of DIMM-PIM memory
select_device = "gpu"     # the paper
top_k_latency = 64         # our choice: the entries of the list, a clock each
select_group = "sum"      # our choice: one list for the query heads that share keys
select_precision = "fp32" # our choice; the released kernels have fp16
summary_device = "gpu"    # our choice: keys pass by there
layout = "row"            # the layout of L3
`,
	CostKeys: slices.Concat(pageCostKeys, []string{"stream_device"}),
	Costs: func(u *policy.Use) policy.Costs {
		s, streams := u.Keys.(LServeSpec), u.Streaming()
		c := newSplitCost(u, &s.HeadsSpec, true)
		c.pages = newPaged(u, &s.PagesSpec, s.Lists(), func(layer, head int) bool { return !streams[layer][head] })
		return c
	},
	Values: func(u *policy.Use) (policy.Values, error) {
		s, streams := u.Keys.(LServeSpec), u.Streaming()
		return policy.ValuesFunc(func(layer, kvHead, limit int) policy.State {
			if streams[layer][kvHead] {
				return newStreamingState(&s.StreamSpec, u.Shape.Dim)
			}
			return newPageState(&s.PagesSpec, s.Lists(), u.Shape, limit)
		}), nil
	},
}

// LServeSpec is the keys of LServe.
type LServeSpec struct {
	policy.PagesSpec
	LogicalPage int    `toml:"logical_page"` // tokens that share a minimum and a maximum of keys; a divisor of page
	Reuse       int    `toml:"reuse"`        // steps that share a list of pages
	Newest      string `toml:"newest"`       // a page that begins while a list is reused is attended to in addition ("append") or in place of the page before it ("replace")
	policy.HeadsSpec
}

// Check has the rules of the section [policy.lserve].
func (s LServeSpec) Check(c *input.Check) {
	s.PagesSpec.Check(c)
	input.Within(c, "logical_page", s.LogicalPage, 1, 1<<16)
	input.Within(c, "reuse", s.Reuse, 1, 1<<16)
	input.OneOf(c, "newest", s.Newest, "append", "replace")
	s.HeadsSpec.Check(c)
	if c.OK() {
		c.That(s.Page%s.LogicalPage == 0, "logical_page", s.LogicalPage, "a divisor of %s = %d", input.Key("page"), s.Page)
	}
}

// Lists returns pages with several logical pages, in lists of at least three that several steps share.
func (s LServeSpec) Lists() Pages {
	return Pages{Budget: s.Budget, Page: s.Page, Logical: s.LogicalPage, Least: 3, Reuse: s.Reuse, Replace: s.Newest == "replace"}
}
