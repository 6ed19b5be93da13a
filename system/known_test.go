package system

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestKernelKindsOfPolicies: decode attention of a policy of pages has the kind of pages. An indexer's steps have the kind of chosen rows,
// and dense ones as long as it chooses all.
func TestKernelKindsOfPolicies(t *testing.T) {
	for _, c := range []struct {
		sets          []string
		tokens        float64
		kinds, absent []string
	}{
		{[]string{"run.model=llama-3-8b", "policy.name=dense"}, 4096, []string{"decode_attention"}, []string{"page_sparse"}},
		{[]string{"run.model=llama-3-8b", "policy.name=quest"}, 4096, []string{"page_sparse"}, []string{"decode_attention"}},
		{[]string{"run.model=deepseek-v3.2", "policy.name=dsa"}, 4096, []string{"sparse_latent", "top_k"}, []string{"page_sparse", "latent_decode"}},
		{[]string{"run.model=deepseek-v3.2", "policy.name=dsa"}, 64, []string{"latent_decode"}, []string{"page_sparse", "top_k"}},
	} {
		cfg, err := Configs().Load(configs.Options{Sets: append([]string{"run.system=gpu-only", "gpu.preset=h200-sxm"}, c.sets...)})
		if err != nil {
			t.Fatal(err)
		}
		all, err := KernelKinds(cfg, Served{Batch: 8, Input: c.tokens, Output: 64}, true)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, k := range all {
			names = append(names, k.Kind)
		}
		for _, kind := range c.kinds {
			if !slices.Contains(names, kind) {
				t.Errorf("%v, %v tokens: no %s in %v", c.sets, c.tokens, kind, names)
			}
		}
		for _, kind := range c.absent {
			if slices.Contains(names, kind) {
				t.Errorf("%v, %v tokens: %s in %v", c.sets, c.tokens, kind, names)
			}
		}
	}
}
