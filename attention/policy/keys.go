package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units"
)

// Names returns the policies.
func Names() []string {
	return []string{"dense", "window", "streaming", "h2o", "quest", "lserve", "duo", "hgca", "csattention"}
}

// own is a key of some policies, which have the same default.
type own struct {
	key      string
	policies string // with spaces between
	value    any
	source   string // of the value
}

// table has the keys of all policies. Papers: StreamingLLM (Xiao et al., ICLR 2024), H2O (Zhang
// et al., NeurIPS 2023), Quest (Tang et al., ICML 2024), LServe (Yang et al., MLSys 2025;
// code: https://github.com/mit-han-lab/omniserve), DuoAttention (Xiao et al., ICLR 2025), HGCA
// and CSAttention, whose code is not published.
var table = []own{
	{"budget", "quest lserve", 4096, "the largest of Quest's efficiency scripts, LServe's released scripts"},
	{"page", "quest", 16, "Quest's released scripts"},
	{"page", "lserve", 64, "LServe, section 4.2, and its released scripts"},
	{"logical_page", "lserve", 16, "LServe's released scripts: four logical pages a page"},
	{"reuse", "lserve", 4, "LServe, section 5.3"},
	{"newest", "lserve", "append", "our choice: the released code drops up to 64 of the newest tokens"},
	{"skip_layers", "quest", 2, "Quest's efficiency version"},
	{"static_sparsity", "lserve duo", 0.5, "LServe's released scripts; DuoAttention for grouped queries"},
	{"gates", "lserve duo", "", "a file is the model's own"},
	{"sink", "streaming", 4, "StreamingLLM"},
	{"sink", "lserve duo", 128, "LServe's released scripts; DuoAttention's published gates"},
	{"sink", "window", 0, "our choice: nothing is lost elsewhere"},
	{"window", "streaming", 508, "our choice: 512 tokens with the sink, a unit of DIMM-PIM memory"},
	{"window", "lserve duo", 256, "LServe's released scripts; DuoAttention's published gates"},
	{"window", "window", 512, "our choice: it fits beside the weights"},
	{"window", "hgca", 4096, "HGCA, section 5.4"},
	{"prefill_window", "streaming lserve duo", 0, "as in decode steps; LServe as released has 8192"},
	{"stream_device", "lserve duo", "gpu", "our choice: a head has 384 tokens, most of a unit of DIMM-PIM memory"},
	{"select_device", "quest lserve", "gpu", "both papers"},
	{"top_k_latency", "quest lserve", 64, "our choice: the entries of LServe's list, a clock each"},
	{"select_group", "quest lserve", "sum", "our choice: one list for the query heads that share keys"},
	{"select_precision", "quest lserve", "fp32", "our choice; the released kernels have fp16"},
	{"summary_device", "quest lserve", "gpu", "our choice: keys pass by there"},
	{"layout", "quest lserve", "row", "the layout of L3"},
	{"heavy", "h2o", 0.1, "H2O's released code: 20% with the newest"},
	{"recent", "h2o", 0.1, "H2O's released code"},
	{"beta", "hgca", 1.0, "HGCA, typical"},
	{"alpha", "hgca", 0.1, "our choice: the paper gives none"},
	{"block", "window hgca", 128, "our choice: the paper gives none"},
	{"prompt_queries", "hgca", 64, "our choice"},
	{"pin_sinks", "hgca", 0, "as published"},
	{"keep_all", "hgca", true, "HGCA keeps them for prompts that follow"},
	{"share", "hgca", 0.1, "our choice; HGCA, section 3.2: below 1% to 30%"},
	{"host_overhead", "hgca csattention", 20 * units.Microsecond, "as cpu-offload's; HGCA's measured speed implies 7ms"},
	{"subspaces", "csattention", 8, "CSAttention, appendix D"},
	{"centroids", "csattention", 128, "CSAttention, appendix D"},
	{"iterations", "csattention", 10, "CSAttention: 10 to 20"},
	{"table_share", "csattention", 0.25, "CSAttention, appendix D"},
	{"select_share", "csattention", 0.05, "CSAttention, appendix D"},
	{"recent_tokens", "csattention", 32, "CSAttention, appendix D"},
	{"weight", "csattention", "one", "as published"},
	{"search", "csattention", "causal", "our choice: a step's query depends on the step before"},
	{"period", "csattention", 1, "CSAttention: a search a step"},
	{"mode", "csattention", "gpu", "CSAttention's fastest"},
	{"profile", "window streaming h2o quest lserve duo hgca csattention", "", "none"},
}

// everywhere has what keys are where a configuration leaves them to the policy and the type
// has no value for that: their default in all policies that have them.
var everywhere = Spec{KeepAll: true, HostOverhead: 20 * units.Microsecond}

// New returns the section of a policy with all keys left to it.
func New(name string) Spec {
	s := everywhere
	for _, k := range schema.Of[Spec]().Keys {
		if v := k.Get(&s); v.CanFloat() {
			v.SetFloat(Unset)
		} else if v.Kind() == reflect.Int {
			v.SetInt(Unset)
		}
	}
	s.Name = name
	return s
}

// Own returns s with the policy's own defaults in the place of what is left to it. Keys
// of other policies stay unset.
func (s Spec) Own() *Spec {
	full, unset := s, New(s.Name)
	for _, o := range table {
		if k := schema.Of[Spec]().Key(o.key); o.of(s.Name) && k.Get(&s).Equal(k.Get(&unset)) {
			k.Set(&full, reflect.ValueOf(o.value).Convert(k.Type))
		}
	}
	return &full
}

// of reports whether the policy has the key.
func (o *own) of(policy string) bool { return slices.Contains(strings.Fields(o.policies), policy) }

// Overhead returns HostOverhead. It is false where the policy has no key host_overhead.
func (s *Spec) Overhead() (units.Duration, bool) {
	return s.HostOverhead, hasKey(s.Name, "host_overhead")
}

func hasKey(policy, key string) bool {
	return slices.ContainsFunc(table, func(o own) bool { return o.key == key && o.of(policy) })
}

// keysOf returns a policy's keys in the order of the struct.
func keysOf(policy string) []string {
	keys := []string{"name"}
	for _, k := range schema.Of[Spec]().Keys {
		if hasKey(policy, k.Name) {
			keys = append(keys, k.Name)
		}
	}
	return keys
}

// policiesWith returns the policies that have a key.
func policiesWith(key string) []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return !hasKey(name, key) })
}

// strangers returns the keys that s sets and its policy does not have.
func strangers(s *Spec) []schema.Key {
	unset := New(s.Name)
	return slices.DeleteFunc(schema.Of[Spec]().Changed(&unset, s), func(k schema.Key) bool { return hasKey(s.Name, k.Name) })
}

// written writes a value as configuration files do.
func written(v reflect.Value) string {
	text, _ := schema.Literal(v.Interface())
	return text
}

// Defaults returns the section [policy] below all presets in TOML: dense, with every key left
// to the policy. Comments name the policies' own defaults and their sources.
func Defaults() string {
	var b strings.Builder
	b.WriteString("[policy]\nname = \"dense\" # every system's own; attends to everything\n")
	unset := New("dense")
	for _, k := range schema.Of[Spec]().Keys[1:] {
		var said []string
		for _, o := range table {
			if o.key == k.Name {
				said = append(said, fmt.Sprintf("%s: %s (%s)", strings.ReplaceAll(o.policies, " ", ", "), written(reflect.ValueOf(o.value)), o.source))
			}
		}
		fmt.Fprintf(&b, "%s = %s # %s\n", k.Name, written(k.Get(&unset)), strings.Join(said, "; "))
	}
	return b.String()
}
