package policy

// Defaults is the section [policy] below all presets in TOML, with the source of each value. Papers: StreamingLLM (Xiao et al., ICLR
// 2024), H2O (Zhang et al., NeurIPS 2023), Quest (Tang et al., ICML 2024), LServe (Yang et al., MLSys 2025; code:
// https://github.com/mit-han-lab/omniserve), DuoAttention (Xiao et al., ICLR 2025), HGCA and CSAttention, whose code is not published.
const Defaults = `[policy]
name = "dense" # every system's own; attends to everything
gates = ""     # a file is the model's own
profile = ""   # none

[policy.window]
sink = 0     # our choice: nothing is lost elsewhere
window = 512 # our choice: it fits beside the weights
block = 128  # our choice: the paper gives none

[policy.streaming]
sink = 4           # StreamingLLM
window = 508       # our choice: 512 tokens with the sink, a unit of DIMM-PIM memory
prefill_window = 0 # as in decode steps

[policy.h2o]
heavy = 0.1  # H2O's released code: 20% with the newest
recent = 0.1 # H2O's released code

[policy.quest]
budget = 4096             # the largest of Quest's efficiency scripts
page = 16                 # Quest's released scripts
skip_layers = 2           # Quest's efficiency version
select_device = "gpu"     # the paper
top_k_latency = 64         # our choice: the entries of LServe's list, a clock each
select_group = "sum"      # our choice: one list for the query heads that share keys
select_precision = "fp32" # our choice; the released kernels have fp16
summary_device = "gpu"    # our choice: keys pass by there
layout = "row"            # the layout of L3

[policy.lserve]
budget = 4096             # LServe's released scripts
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

[policy.duo]
static_sparsity = 0.5 # DuoAttention for grouped queries
sink = 128            # DuoAttention's published gates
window = 256          # DuoAttention's published gates
prefill_window = 0    # as in decode steps
stream_device = "gpu" # our choice: a head has 384 tokens, most of a unit of DIMM-PIM memory

[policy.hgca]
window = 4096          # HGCA, section 5.4
beta = 1.0             # HGCA, typical
alpha = 0.1            # our choice: the paper gives none
block = 128            # our choice: the paper gives none
prompt_queries = 64    # our choice: the paper gives none
pin_sinks = 0          # as published
keep_all = true        # HGCA keeps them for prompts that follow
share = 0.1            # our choice; HGCA, section 3.2: below 1% to 30%
host_overhead = "20us" # as cpu-offload's; HGCA's measured speed implies 7ms

[policy.csattention]
host_overhead = "20us" # as cpu-offload's
subspaces = 8          # CSAttention, appendix D
centroids = 128        # CSAttention, appendix D
iterations = 10        # CSAttention: 10 to 20
table_share = 0.25     # CSAttention, appendix D
select_share = 0.05    # CSAttention, appendix D
recent_tokens = 32     # CSAttention, appendix D
weight = "one"         # as published
search = "causal"      # our choice: a step's query depends on the step before
period = 1             # CSAttention: a search a step
mode = "gpu"           # CSAttention's fastest
`
