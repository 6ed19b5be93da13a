package configs

// otherNames maps the names of other programs and users to keys: full names, or names without a section. Messages suggest the keys.
var otherNames = map[string]string{
	"mapping": "comm.rotation", "rankset_mapping": "comm.rotation",
	"tp": "model.tensor_parallel", "tensor_parallel_size": "model.tensor_parallel", "tensor_model_parallel_size": "model.tensor_parallel",
	"tensor_parallelism": "model.tensor_parallel", "tp_size": "model.tensor_parallel",
	"gpu.count": "node.gpus", "gpu.number": "node.gpus", "gpu_count": "node.gpus", "num_gpus": "node.gpus", "n_gpus": "node.gpus", "ngpus": "node.gpus",
	"batch": "batching.max_num_seqs", "batch_size": "batching.max_num_seqs", "max_batch_size": "batching.max_num_seqs", "max_batch": "batching.max_num_seqs",
	"chunk_size": "batching.max_num_batched_tokens", "chunked_prefill_size": "batching.max_num_batched_tokens",
	"dtype": "model.element_bits", "kv_cache_dtype": "model.kv_format", "kv_dtype": "model.kv_format", "quantization": "model.weight_bits", "quantisation": "model.weight_bits",
	"num_requests": "run.requests", "num_prompts": "run.requests", "prompts": "run.requests", "request_rate": "arrivals.rate_per_s", "qps": "arrivals.rate_per_s",
	"rate": "arrivals.rate_per_s", "concurrency": "arrivals.users", "max_concurrency": "arrivals.users",
	"input_len": "traces.input_mean", "input_length": "traces.input_mean", "prompt_len": "traces.input_mean", "random_input_len": "traces.input_mean",
	"output_len": "traces.output_mean", "output_length": "traces.output_mean", "random_output_len": "traces.output_mean", "max_model_len": "model.context", "context_length": "model.context", "max_position_embeddings": "model.context",
	"dataset": "run.trace", "workload": "run.trace", "dram": "dram.preset", "memory": "node.memory_capacity", "dimms": "node.ranksets", "ranks": "node.ranksets",
	"enable_prefix_caching": "cache.prefix", "prefix_cache": "cache.prefix", "gpu_memory_utilization": "gpu.memory_share", "mem_fraction_static": "gpu.memory_share",
	"free_gpu_memory_fraction": "gpu.memory_share", "kv_cache_free_gpu_memory_fraction": "gpu.memory_share", "capacity_share": "gpu.memory_share",
	"attention": "policy.name", "sparse": "policy.name",
}
