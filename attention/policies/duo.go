package policies

import "github.com/l3sim/l3sim/attention/policy"

// duo is attention of some heads to a sink and a window, and of the others to everything.
var duo = policy.Policy{
	Name: "duo", Others: []string{"duoattention", "duo-attention"}, Lossy: true, Source: "DuoAttention (Xiao et al., ICLR 2025)",
	About: policy.About{Attends: "streaming heads: a sink and a window; the others: everything", Stores: "of streaming heads a sink and a window, of the others all", Moves: nothing},
	Homes: policy.OnGPUs | policy.InHBM | policy.InDIMMs, InOrder: true, Drafts: true,
	Keys: DuoSpec{},
	Defaults: `static_sparsity = 0.5 # DuoAttention for grouped queries
sink = 128            # DuoAttention's published gates
window = 256          # DuoAttention's published gates
prefill_window = 0    # as in decode steps
stream_device = "gpu" # our choice: a head has 384 tokens, most of a unit of DIMM-PIM memory
`,
	CostKeys: []string{"stream_device"},
	Costs:    func(u *policy.Use) policy.Costs { s := u.Keys.(DuoSpec); return newSplitCost(u, &s.HeadsSpec, false) },
	Values: func(u *policy.Use) (policy.Values, error) {
		s, streams := u.Keys.(DuoSpec), u.Streaming()
		return policy.ValuesFunc(func(layer, kvHead, limit int) policy.State {
			if streams[layer][kvHead] {
				return newStreamingState(&s.StreamSpec, u.Shape.Dim)
			}
			return everything(u.Shape.Dim, limit)
		}), nil
	},
}

// DuoSpec is the keys of DuoAttention.
type DuoSpec struct{ policy.HeadsSpec }
