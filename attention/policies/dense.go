package policies

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// dense is attention of every head to all tokens of the model's layer, or to the window in layers that have one.
var dense = policy.Policy{
	Name: "dense", Others: []string{"full", "none", "vanilla"}, Source: "Vaswani et al., 2017",
	About: policy.About{Attends: "everything", Stores: "keys and values of all tokens", Moves: "queries, new keys and values, results, where these are not on the GPUs"},
	Homes: policy.AnyHome, Dense: true, InOrder: true, Drafts: true,
	Costs: func(u *policy.Use) policy.Costs { return DenseCosts(u.Shape) },
	Values: func(u *policy.Use) (policy.Values, error) {
		s := &u.Shape
		if s.Chunked() {
			return nil, &input.Error{Key: "model.layer_pattern", Value: s.LayerPattern, Expected: "no C: values of attention in chunks are not computed"}
		}
		return policy.ValuesFunc(func(layer, _, limit int) policy.State {
			if s.Windowed(layer) {
				return newStreamingState(&policy.StreamSpec{Window: s.Window}, s.Dim)
			}
			return everything(s.Dim, limit)
		}), nil
	},
}

type denseCost struct{ common } // the cost of dense attention

// DenseCosts returns the costs of dense attention for a model. Other policies' costs may embed them and change the results of Decode,
// Prompt and Memory.
func DenseCosts(s policy.Shape) policy.Costs {
	if s.Window > 0 {
		return windowedCosts(s)
	}
	if s.IndexTopK > 0 { // the indexer's keys are stored, but it chooses nothing
		s.IndexTopK = math.MaxInt
		return newIndexedCost(s)
	}
	d := &denseCost{newCommon(s)}
	d.step.Attend = []policy.Class{{Device: policy.Home}}
	return d
}

// windowedCosts returns the costs of a model in which some layers have a window. These keep only as many tokens as a step reads at most.
func windowedCosts(s policy.Shape) policy.Costs {
	local := s.InWindows()
	c := newHeadsCost(s, policy.StreamSpec{Window: s.Window}, func(layer int) (k layerHeads) {
		if s.Windowed(layer) {
			k.streams = local.KVHeads
		}
		return k
	})
	c.stays, c.chunked, c.byLayer, c.local = !s.Apart, s.Chunked(), true, local
	return c
}

// Decode returns one class: all heads at home, over all contexts.
func (d *denseCost) Decode(requests []policy.Request, _ int) *policy.Step {
	d.reset(len(requests), 1)
	d.step.Attend = d.step.Attend[:1] // the class is the same in every step; writing all of it would double the time
	c := &d.step.Attend[0]
	c.Heads, c.Tokens = d.shape.KVHeads, d.contexts(requests)
	return &d.step
}

// everything returns the state of a head that attends to all tokens of a sequence.
func everything(dim, limit int) policy.State {
	return &streamingState{masked: masked{dim: dim}, streaming: Streaming{Window: limit}}
}
