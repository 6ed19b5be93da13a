package configs

import (
	"cmp"
	"slices"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/input/schema"
)

// formerKeys are the keys that were renamed or removed. The loader refuses them and gives the new name. CHANGELOG.md has the same table
// ("Renamed and removed keys"); TestFormerKeys compares the two.
var formerKeys = slices.SortedFunc(slices.Values(append(policyKeys(), []schema.Former{
	// 0.1.0: the field's terms in one spelling; factors and shares among keys with units are named as such.
	{Name: "batching.max_batch_tokens", Now: "batching.max_num_batched_tokens"},
	{Name: "energy.dram_currents", Now: "energy.dram_current_factor"},
	{Name: "energy.gpu", Now: "energy.gpu_factor"},
	{Name: "energy.pim_read", Now: "energy.pim_read_share"},
	{Name: "gpu.decode_attention.wave_quantisation", Now: "gpu.decode_attention.wave_quantization"},
	{Name: "gpu.gemm.wave_quantisation", Now: "gpu.gemm.wave_quantization"},
	{Name: "gpu.pytorch.decode_attention.wave_quantisation", Now: "gpu.pytorch.decode_attention.wave_quantization"},
	{Name: "gpu_only.capacity_share", Now: "gpu.memory_share"},
	{Name: "gpu_only.step_host_time", Now: "gpu.host.exposed"},
	{Name: "model.full_every", Now: "model.layer_pattern"},
	{Name: "gpu.mixed_attention", Use: "batches that decode and prefill have a kernel for either"},
	{Name: "gpu.narrow_kv.element_time_4bit", Now: "gpu.narrow_kv.element_time_int4"},
	{Name: "gpu.narrow_kv.element_time_8bit", Now: "gpu.narrow_kv.element_time_int8"},
	{Name: "pim.normalised_weights", Now: "pim.normalized_weights"},
	{Name: "policy.csattention.host_overhead", Now: "cpu_offload.overhead"},
	{Name: "policy.hgca.host_overhead", Now: "cpu_offload.overhead"},
	{Name: "policy.host_overhead", Now: "cpu_offload.overhead"},
	{Name: "policy.topk_latency", Now: "policy.quest.top_k_latency or policy.lserve.top_k_latency"},
	{Name: "prices.dimm.bank_pim", Now: "prices.dimm.bank_pim_factor"},
	{Name: "prices.dimm.rank_pim", Now: "prices.dimm.rank_pim_factor"},
	{Name: "prices.gpu.hbm_pim", Now: "prices.gpu.hbm_pim_factor"},
	{Name: "prices.utilisation", Now: "prices.utilization"},
}...)), func(a, b schema.Former) int { return cmp.Compare(a.Name, b.Name) })

// laterPolicyKeys are keys of policies that were never in [policy].
var laterPolicyKeys = []string{"list_overlap", "token_overlap"}

// policyKeys are the former keys of [policy] that moved to each policy's own section.
func policyKeys() (former []schema.Former) {
	for _, section := range policies.Builtin().Sections() {
		for _, k := range schema.Walk(section.Type, "toml") {
			if slices.Contains(laterPolicyKeys, k.Name) {
				continue
			}
			name, now := "policy."+k.Name, section.Name+"."+k.Name
			if i := slices.IndexFunc(former, func(f schema.Former) bool { return f.Name == name }); i >= 0 {
				former[i].Now += " or " + now
			} else {
				former = append(former, schema.Former{Name: name, Now: now})
			}
		}
	}
	return former
}
