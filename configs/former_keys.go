package configs

import "github.com/l3sim/l3sim/input/schema"

// formerKeys are the keys that had another name in an earlier version, or were removed. Whatever uses one is refused
// with its new name. CHANGELOG.md has the same table ("Renamed and removed keys"): TestFormerKeys compares the two.
var formerKeys = []schema.Former{
	// 0.1.0: names in the field's words and in one spelling; a factor or a share among keys with units says so.
	{Name: "batching.max_batch_tokens", Now: "batching.max_num_batched_tokens"},
	{Name: "energy.dram_currents", Now: "energy.dram_current_factor"},
	{Name: "energy.gpu", Now: "energy.gpu_factor"},
	{Name: "energy.pim_read", Now: "energy.pim_read_share"},
	{Name: "gpu.decode_attention.wave_quantisation", Now: "gpu.decode_attention.wave_quantization"},
	{Name: "gpu.gemm.wave_quantisation", Now: "gpu.gemm.wave_quantization"},
	{Name: "gpu.pytorch.decode_attention.wave_quantisation", Now: "gpu.pytorch.decode_attention.wave_quantization"},
	{Name: "pim.normalised_weights", Now: "pim.normalized_weights"},
	{Name: "policy.topk_latency", Now: "policy.top_k_latency"},
	{Name: "prices.dimm.bank_pim", Now: "prices.dimm.bank_pim_factor"},
	{Name: "prices.dimm.rank_pim", Now: "prices.dimm.rank_pim_factor"},
	{Name: "prices.gpu.hbm_pim", Now: "prices.gpu.hbm_pim_factor"},
	{Name: "prices.utilisation", Now: "prices.utilization"},
}
