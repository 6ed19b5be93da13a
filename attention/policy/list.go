package policy

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// kind is a policy: what users read of it, and what makes its costs and its values.
type kind struct {
	Description
	costs func(s *Spec, shape Shape) Policy // the section may be kept
	state func(v *values, layer, kvHead, limit int) State
}

// Description says what a policy does and costs, in a few words.
type Description struct {
	Name    string `json:"name"`
	Attends string `json:"attends"` // to what a decode step attends
	Stores  string `json:"stores"`  // keys and values, index
	Moves   string `json:"moves"`   // over links in a decode step
	Lossy   bool   `json:"lossy"`   // results differ from dense attention
	Source  string `json:"source"`
	Keys    []Key  `json:"keys"` // of the section [policy.NAME]
}

// Key is a key of a policy with its default.
type Key struct {
	Name    string `json:"name"`    // in full: policy.quest.page
	Default string `json:"default"` // in TOML
	Source  string `json:"source"`  // of the default
}

// Names returns the policies.
func Names() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].Name
	}
	return names
}

// kindOf returns the policy of a name, or the error for a name of none.
func kindOf(name string) (*kind, error) {
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i], nil
		}
	}
	return nil, input.UnknownName("policy.name", name, Names())
}

// Descriptions returns all policies, in the order of Names.
func Descriptions() []Description {
	all, spec, places := make([]Description, len(kinds)), defaults(), schema.Scan(Defaults)
	for i := range kinds {
		all[i] = kinds[i].Description
		for _, k := range schema.Of[Spec]().Section(all[i].Name) {
			name := "policy." + k.Name
			all[i].Keys = append(all[i].Keys, Key{Name: name, Default: written(k.Get(&spec)), Source: places[name].Comment})
		}
	}
	return all
}

const nothing = "nothing"

// kinds are all policies, in the order in which they are listed.
var kinds = []kind{
	{
		Description{Name: "dense", Attends: "everything", Stores: "keys and values of all tokens", Moves: "queries, new keys and values, results, where these are not on the GPUs", Source: "Vaswani et al., 2017"},
		func(_ *Spec, shape Shape) Policy { return NewDense(shape) },
		func(v *values, _, _, limit int) State { return everything(v.shape.Dim, limit) },
	},
	{
		Description{Name: "window", Attends: "everything: a sink and a window on the GPUs, the rest elsewhere; merged by log-sum-exp", Stores: "the window on the GPUs, all older tokens elsewhere",
			Moves: "queries down, results and log-sum-exps up; blocks that leave the window, in the background", Source: "our own; the split is HGCA's"},
		newHybridCost,
		func(v *values, _, _, _ int) State { return newWindowState(&v.spec.Window, v.shape.Dim) },
	},
	{
		Description{Name: "streaming", Attends: "the first tokens and the newest", Stores: "keys and values of these", Moves: nothing, Lossy: true, Source: "StreamingLLM (Xiao et al., ICLR 2024)"},
		func(s *Spec, shape Shape) Policy { return newStreamingCost(s.Name, &s.Streaming, shape) },
		func(v *values, _, _, _ int) State { return newStreamingState(&v.spec.Streaming, v.shape.Dim) },
	},
	{
		Description{Name: "h2o", Attends: "the newest tokens and those that collected the most attention; the others are dropped for good", Stores: "keys and values of these, a sum a token and query head", Moves: nothing, Lossy: true,
			Source: "H2O (Zhang et al., NeurIPS 2023)"},
		newH2OCost,
		func(v *values, _, _, _ int) State { return newH2OState(&v.spec.H2O, v.shape) },
	},
	{
		Description{Name: "quest", Attends: "the pages with the highest bounds on their scores, and the newest", Stores: "keys and values of all tokens, a smallest and a largest key a page", Moves: nothing, Lossy: true,
			Source: "Quest (Tang et al., ICML 2024)"},
		newQuestCost,
		questState,
	},
	{
		Description{Name: "lserve", Attends: "streaming heads: a sink and a window; the others: the best pages, by bounds of their parts, a list for several steps", Stores: "of streaming heads a sink and a window, of the others all and bounds", Moves: nothing, Lossy: true,
			Source: "LServe (Yang et al., MLSys 2025)"},
		newHeadsCost,
		headsState,
	},
	{
		Description{Name: "duo", Attends: "streaming heads: a sink and a window; the others: everything", Stores: "of streaming heads a sink and a window, of the others all", Moves: nothing, Lossy: true, Source: "DuoAttention (Xiao et al., ICLR 2025)"},
		newHeadsCost,
		headsState,
	},
	{
		Description{Name: "hgca", Attends: "a window on the GPUs, and elsewhere older tokens whose average weight is high; merged by log-sum-exp", Stores: "the window on the GPUs; copies of salient tokens, and with keep_all all older ones, elsewhere",
			Moves: "queries down, results and log-sum-exps up; blocks that leave the window, in the background", Lossy: true, Source: "HGCA (Deng et al., 2025)"},
		newHybridCost,
		func(v *values, _, _, limit int) State { return newHGCAState(&v.spec.HGCA, v.shape, limit) },
	},
	{
		Description{Name: "csattention", Attends: "the tokens that tables of the query's nearest centroids find, and the newest", Stores: "keys and values of all tokens, tables of about three times as much",
			Moves: "nothing with mode \"gpu\"; selected keys and values up with \"host\"", Lossy: true, Source: "CSAttention, 2025"},
		newCSACost,
		func(v *values, layer, kvHead, limit int) State {
			return newCSAState(&v.spec.CSAttention, v.shape, layer, kvHead, limit)
		},
	},
}
