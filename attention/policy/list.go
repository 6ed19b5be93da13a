package policy

import (
	"slices"

	"github.com/l3sim/l3sim/input/schema"
)

// Description says what a policy does and costs, in a few words.
type Description struct {
	Name    string `json:"name"`
	Attends string `json:"attends"` // to what a decode step attends
	Stores  string `json:"stores"`  // keys and values, index
	Moves   string `json:"moves"`   // over links in a decode step
	Lossy   bool   `json:"lossy"`   // results differ from dense attention
	Source  string `json:"source"`
	Keys    []Key  `json:"keys"` // of the section [policy]
}

// Key is a key of a policy with its own default.
type Key struct {
	Name    string `json:"name"`
	Default string `json:"default"` // in TOML
	Source  string `json:"source"`  // of the default
}

// Descriptions returns all policies, in the order of Names.
func Descriptions() []Description {
	all := slices.Clone(descriptions)
	for i := range all {
		d := &all[i]
		own := New(d.Name).Own()
		for _, name := range keysOf(d.Name)[1:] {
			k := Key{Name: name, Default: written(schema.Of[Spec]().Key(name).Get(own))}
			for _, o := range table {
				if o.key == name && o.of(d.Name) {
					k.Source = o.source
				}
			}
			d.Keys = append(d.Keys, k)
		}
	}
	return all
}

const nothing = "nothing"

// descriptions has a row for each policy, in the order of Names; Descriptions adds their keys.
var descriptions = []Description{
	{Name: "dense", Attends: "everything", Stores: "keys and values of all tokens", Moves: "queries, new keys and values, results, where these are not on the GPUs", Source: "Vaswani et al., 2017"},
	{Name: "window", Attends: "everything: a sink and a window on the GPUs, the rest elsewhere; merged by log-sum-exp", Stores: "the window on the GPUs, all older tokens elsewhere",
		Moves: "queries down, results and log-sum-exps up; blocks that leave the window, in the background", Source: "our own; the split is HGCA's"},
	{Name: "streaming", Attends: "the first tokens and the newest", Stores: "keys and values of these", Moves: nothing, Lossy: true, Source: "StreamingLLM (Xiao et al., ICLR 2024)"},
	{Name: "h2o", Attends: "the newest tokens and those that collected the most attention; the others are dropped for good", Stores: "keys and values of these, a sum a token and query head", Moves: nothing, Lossy: true,
		Source: "H2O (Zhang et al., NeurIPS 2023)"},
	{Name: "quest", Attends: "the pages with the highest bounds on their scores, and the newest", Stores: "keys and values of all tokens, a smallest and a largest key a page", Moves: nothing, Lossy: true,
		Source: "Quest (Tang et al., ICML 2024)"},
	{Name: "lserve", Attends: "streaming heads: a sink and a window; the others: the best pages, by bounds of their parts, a list for several steps", Stores: "of streaming heads a sink and a window, of the others all and bounds", Moves: nothing, Lossy: true,
		Source: "LServe (Yang et al., MLSys 2025)"},
	{Name: "duo", Attends: "streaming heads: a sink and a window; the others: everything", Stores: "of streaming heads a sink and a window, of the others all", Moves: nothing, Lossy: true, Source: "DuoAttention (Xiao et al., ICLR 2025)"},
	{Name: "hgca", Attends: "a window on the GPUs, and elsewhere older tokens whose average weight is high; merged by log-sum-exp", Stores: "the window on the GPUs; copies of salient tokens, and with keep_all all older ones, elsewhere",
		Moves: "queries down, results and log-sum-exps up; blocks that leave the window, in the background", Lossy: true, Source: "HGCA (Deng et al., 2025)"},
	{Name: "csattention", Attends: "the tokens that tables of the query's nearest centroids find, and the newest", Stores: "keys and values of all tokens, tables of about three times as much",
		Moves: "nothing with mode \"gpu\"; selected keys and values up with \"host\"", Lossy: true, Source: "CSAttention, 2025"},
}

// Absent are policies that are not there, each with the reason.
func Absent() [][2]string {
	return [][2]string{
		{"infinigen", "needs weights of queries and keys rotated offline for each model"},
		{"sparq", "needs keys stored by component, a second copy"},
		{"pqcache", "its value side is a quantiser of its own; csattention's tables are the nearest kin"},
		{"magicpig", "samples by hashes: an estimate of attention, to which kept mass and recall do not apply"},
	}
}
