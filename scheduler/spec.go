package scheduler

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Policy says how the prompts of an iteration are chosen.
type Policy int

const (
	// PolicySubBatches adds prompts to two sub-batches as the GPU's time allows (L3,
	// section 5.3).
	PolicySubBatches Policy = iota
	// PolicyPrefillFirst prefills waiting requests in separate iterations as soon as memory has room
	// for one request. It decodes only if memory has no room (the default of Orca and vLLM: Kwon et
	// al., SOSP 2023).
	PolicyPrefillFirst
	// PolicyChunkedPrefill runs all decoding requests in every iteration, fills it up with prompt
	// tokens, and cuts the last prompt (Sarathi-Serve: Agrawal et al., OSDI 2024).
	PolicyChunkedPrefill
)

// BatchingSpec is the configuration of continuous batching. MaxNumSeqs applies to all
// systems. The other fields apply only to the systems that L3 is compared with.
type BatchingSpec struct {
	// MaxBatchTokens bounds the tokens of an iteration that prefills. A longer prompt is cut. If each GPU
	// attends for requests of its own, a prompt gets at most one GPU's share of them.
	MaxBatchTokens int `toml:"max_num_batched_tokens"`
	// PageTokens is the number of tokens in one page of KV in GPU memory.
	PageTokens int `toml:"page_tokens"`
	// MaxNumSeqs bounds the requests of a replica that decode at once, over all
	// sub-batches, in every system; 0: no limit.
	MaxNumSeqs int `toml:"max_num_seqs"`
	// SamplerBytes is the memory of a server's sampler on each GPU, for each of max_num_seqs requests and each token of the vocabulary,
	// in the profiling run that measures the space for keys and values. 38 is vLLM 0.10, which sorts logits: 2 bytes of them in BF16, 4
	// in FP32, 4 and 8 of sorted values and indices, 8 of the indices that PyTorch's sort begins with, and 12 of the buffers of its
	// radix sort. Later versions do not sort.
	SamplerBytes int `toml:"sampler_bytes"`
}

// BatchingDefaults are the defaults of the keys of [batching] that presets may omit.
const BatchingDefaults = `
[batching]
sampler_bytes = 0 # none: samplers of FlashInfer and Triton, which vLLM has now, do not sort; GPU memory left for KV
`

// Check has the rules of the section [batching].
func (b *BatchingSpec) Check(c *input.Check) {
	input.Within(c, "max_num_batched_tokens", b.MaxBatchTokens, 1, 1<<20)
	input.Within(c, "page_tokens", b.PageTokens, 1, 1<<16)
	c.That(b.MaxNumSeqs >= 0 && b.MaxNumSeqs <= 1<<24, "max_num_seqs", b.MaxNumSeqs, "0 (no limit) to 16777216")
	input.Within(c, "sampler_bytes", b.SamplerBytes, 0, 1<<10)
}

// Spec is the configuration of the sub-batch scheduler (L3, sections 5.2 and
// 5.3).
type Spec struct {
	// SubBatches is 2 to interleave two sub-batches between GPU and DIMM-PIM
	// (section 5.2), 1 to run a single batch.
	SubBatches int `toml:"sub_batches"`
	// Chunking cuts the last prefill of a sub-batch so that the GPU takes as long as the other side;
	// off, prompts are prefilled whole.
	Chunking bool `toml:"chunking"`
	// ChunkMultiple divides the number of tokens of a chunk (16 in section 5.3, "better
	// aligning with the requirements of GPU tiling").
	ChunkMultiple int `toml:"chunk_multiple"`
	// MinPrefillTokens is the least number of prompt tokens that an iteration prefills while requests
	// wait and memory has room. Without it, step (3) of the paper's algorithm would admit nothing
	// while the PIM has no work, since T_GPU > T_PIM at once.
	MinPrefillTokens int `toml:"min_prefill_tokens"`
	// Adaptive runs an iteration as a single batch if the predictors say that two sub-batches would
	// take longer, since each of them reads all weights.
	Adaptive bool `toml:"adaptive"`
}

// Check has the rules of the section [scheduler].
func (s *Spec) Check(c *input.Check) {
	c.That(s.SubBatches == 1 || s.SubBatches == 2, "sub_batches", s.SubBatches, "1 or 2")
	input.Within(c, "chunk_multiple", s.ChunkMultiple, 1, 4096)
	input.Within(c, "min_prefill_tokens", s.MinPrefillTokens, 1, 1<<20)
}

// CommSpec is the configuration of communication between GPUs and ranksets (L3,
// section 5.1). Each technique has a switch.
type CommSpec struct {
	// Concurrent lets ranksets compute while another one receives; off, all ranksets
	// are in the same mode at any time.
	Concurrent bool `toml:"concurrent"`
	// Rotation puts successive layers of a request on successive ranksets; off, all
	// its layers lie on one.
	Rotation bool `toml:"rotation"`
	// HeadRotation says on which channel the heads of a request begin, if channels hold different heads.
	HeadRotation string `toml:"head_rotation"` // "request": a request's heads begin on the channels with least load from its offset; "none": all on the first
	// Stripe deals the units of each head's tokens to several places, each of which attends over its own; the
	// GPUs merge the outputs.
	Stripe string `toml:"stripe"` // deals the units of each head's tokens over the "channels" or the "ranksets"; "none": not at all
	// AsyncPrefill runs the transfer of prompt keys and values beside projection and
	// feed-forward; off, projection and feed-forward wait for the transfer.
	AsyncPrefill bool `toml:"async_prefill"`
	// Balance is the policy that chooses a request's rankset offset at admission, and divides decoding
	// requests over the sub-batches.
	Balance string `toml:"balance"`
}

// Policies that spread requests over ranksets.
const (
	// BalanceRandom draws the offset.
	BalanceRandom = "random"
	// BalanceRoundRobin takes the offsets in turn.
	BalanceRoundRobin = "round-robin"
	// BalanceLeastLoaded takes the offset with the fewest reserved tokens.
	BalanceLeastLoaded = "least-loaded"
	// BalanceSplit chooses offsets as BalanceLeastLoaded does. It also divides the requests of each
	// offset evenly over the two sub-batches, so that each sub-batch is balanced over the ranksets,
	// not only their sum.
	BalanceSplit = "split"
)

// Balances returns the values of CommSpec.Balance.
func Balances() []string {
	return []string{BalanceRandom, BalanceRoundRobin, BalanceLeastLoaded, BalanceSplit}
}

// Values of CommSpec.HeadRotation.
const (
	RotateRequests = "request"
	RotateNone     = "none"
)

// Values of CommSpec.Stripe.
const (
	StripeNone     = "none"
	StripeChannels = "channels"
	StripeRanksets = "ranksets"
)

// Check has the rules of the section [comm].
func (s *CommSpec) Check(c *input.Check) {
	input.OneOf(c, "balance", s.Balance, Balances()...)
	input.OneOf(c, "head_rotation", s.HeadRotation, RotateRequests, RotateNone)
	input.OneOf(c, "stripe", s.Stripe, StripeNone, StripeChannels, StripeRanksets)
}

// Admission policies: how much KV memory a request must find free.
const (
	// AdmitFinal reserves prompt and output, so that no admitted request ever loses its memory. The
	// paper's results imply it.
	AdmitFinal = "final"
	// AdmitCurrent reserves the prompt, and grows by allocation units, as servers do. When memory runs
	// out, the request that arrived last is preempted and recomputed later.
	AdmitCurrent = "current"
	// AdmitMax reserves MemorySpec.MaxTokens for every request, as a system with static
	// allocation does.
	AdmitMax = "max"
)

// MemorySpec is the configuration of KV admission.
type MemorySpec struct {
	Admission string `toml:"admission"` // KV memory that a request must find free: AdmitFinal, AdmitCurrent or AdmitMax
	// MaxTokens is the KV length that AdmitMax reserves, and the longest output that
	// AdmitCurrent expects.
	MaxTokens int `toml:"max_tokens"`
	// Watermark is the share of every rank that AdmitCurrent leaves free when it admits a request
	// beside others, so that those can grow.
	Watermark float64 `toml:"watermark"`
	// History is the number of latest output lengths from which AdmitCurrent forecasts how requests
	// grow. It admits a request that fits after growth; with 0, one that fits now.
	History int `toml:"history"`
	// Margin is the safety margin of the forecast, in standard deviations: the mean of
	// the forecast memory plus this margin must fit.
	Margin float64 `toml:"margin"`
	// Spare is the use of the GPU memory that weights, activations and prompts leave, if keys and values are
	// in the DIMMs: SpareOff, SpareDecode or SpareWait.
	Spare string `toml:"spare"`
}

// Values of MemorySpec.Spare.
const (
	SpareOff = "off" // nothing
	// SpareDecode stores the keys and values of some requests there, each request whole. The GPUs decode these
	// while the DIMMs decode the others (L3, section 8).
	SpareDecode = "decode"
	// SpareWait is SpareDecode, except that a request waits for this memory if on DIMMs it would lower the token rate of all: one
	// that does not hide behind the GPUs' work delays every request on the GPUs.
	SpareWait = "wait"
)

// UsesSpare says that the GPUs decode requests in their spare memory.
func (m *MemorySpec) UsesSpare() bool { return m.Spare == SpareDecode || m.Spare == SpareWait }

// Check has the rules of the section [memory].
func (m *MemorySpec) Check(c *input.Check) {
	input.OneOf(c, "admission", m.Admission, AdmitFinal, AdmitCurrent, AdmitMax)
	input.Within(c, "max_tokens", m.MaxTokens, 1, 1<<24)
	c.That(m.Watermark >= 0 && m.Watermark < 1, "watermark", m.Watermark, "at least 0, less than 1")
	c.That(m.History >= 0 && m.History <= 1<<20, "history", m.History, "0 (no forecast) to 1048576")
	input.Within(c, "margin", m.Margin, 0, 100)
	input.OneOf(c, "spare", m.Spare, SpareOff, SpareDecode, SpareWait)
}

// CacheSpec is the section [cache]: keys and values that outlive their request, by blocks of tokens.
type CacheSpec struct {
	// Prefix keeps the keys and values of requests that ended or lost their memory in place until memory is needed. A
	// prompt that begins with the same blocks is not prefilled there.
	Prefix bool `toml:"prefix"`
	// Block is the number of tokens of a block: a multiple of the allocation unit, and a multiple or a divisor of 512, the tokens that a hash of a trace covers. Prefixes of traces.prefix_tokens
	// match to the token.
	Block int `toml:"block"`
	// Capacity bounds the memory of all blocks of the node, in use or not; replicas get equal shares.
	Capacity units.Bytes `toml:"capacity"`
	// HostCapacity is the host memory of the node for blocks evicted from the GPUs. They come back over PCIe when a prompt begins
	// with them.
	HostCapacity units.Bytes `toml:"host_capacity"`
	// GroupReads lets GPUs read a prefix once for all decoding requests of a batch that share it, if that is faster.
	GroupReads bool `toml:"group_reads"`
	// PrefixAttention says where a prompt attends over a prefix that is in the DIMMs: "gpu" copies its keys and values to
	// the GPUs over PCIe, "dimm" lets the ranks attend for each of the prompt's tokens.
	PrefixAttention string `toml:"prefix_attention"`
	// Placement chooses the rankset offset of a prompt whose prefix is in the DIMMs. "prefix" takes the offset that has most of
	// it. "balance" follows comm.balance and uses the part of the prefix that is there.
	Placement string `toml:"placement"`
}

// Values of CacheSpec.PrefixAttention and CacheSpec.Placement.
const (
	PrefixOnGPU     = "gpu"
	PrefixOnDIMM    = "dimm"
	PlaceByPrefix   = "prefix"
	PlaceForBalance = "balance"
)

// CacheDefaults is the section [cache] below all presets.
const CacheDefaults = `
[cache]
prefix = false           # off, as in the paper: nothing outlives a request; TTFT, throughput of long prompts
block = 512              # a hash of Mooncake's names 512 tokens, a unit of a rank holds 512 at a head dimension of 128; vLLM has 16; hits
capacity = "1024TiB"     # our choice: more than a node has, so that memory is the only bound; hits
host_capacity = "0B"     # none: what makes way on the GPUs is gone, as vLLM has it by default; hits of gpu-only and hbm-pim
group_reads = true       # as vLLM's and FlashInfer's cascade attention, where it is faster; TBT of requests that share long prefixes
prefix_attention = "gpu" # our choice, faster but for prompts of few new tokens; "dimm" moves no keys and values; TTFT
placement = "prefix"     # our choice: most hits; "balance" has a prefix once for each offset, and spreads it; the busiest rankset
`

// Check has the rules of the section [cache].
func (s *CacheSpec) Check(c *input.Check) {
	c.That(s.Block >= 1 && s.Block <= 1<<20 && (s.Block%traces.BlockTokens == 0 || traces.BlockTokens%s.Block == 0), "block", s.Block, "%s",
		fmt.Sprintf("a multiple of %[1]d, at most 1048576, or a divisor of %[1]d", traces.BlockTokens))
	c.That(s.Capacity >= 0, "capacity", s.Capacity, "at least 0B")
	c.That(s.HostCapacity >= 0, "host_capacity", s.HostCapacity, "at least 0B")
	input.OneOf(c, "prefix_attention", s.PrefixAttention, PrefixOnGPU, PrefixOnDIMM)
	input.OneOf(c, "placement", s.Placement, PlaceByPrefix, PlaceForBalance)
}

// Kinds of latency predictors.
const (
	// PredictExact knows the costs that the node will charge.
	PredictExact = "exact"
	// PredictLearned is Learned.
	PredictLearned = "learned"
)

// PredictorSpec is the configuration of the scheduler's latency predictors (L3,
// section 5.3). All keys but Kind apply only to learned predictors.
type PredictorSpec struct {
	Kind string `toml:"kind"` // PredictExact or PredictLearned
	// WarmUp is the number of observations that a model needs before it answers.
	WarmUp int `toml:"warm_up"`
	// RefitEvery is the number of changes of a model's data after which it is fitted
	// again.
	RefitEvery int `toml:"refit_every"`
	// Window is the number of observations that a model is fitted to: distinct
	// feature points for the forests, sub-batches for the linear model.
	Window   int `toml:"window"`
	Trees    int `toml:"trees"`     // trees of each forest
	MaxDepth int `toml:"max_depth"` // largest depth of a tree
	MinLeaf  int `toml:"min_leaf"`  // least number of rows in a leaf of a tree
	// Noise is the relative standard deviation of multiplicative measurement
	// noise, of mean 1, on every time observed.
	Noise float64 `toml:"noise"`
}

// Check has the rules of the section [predictor].
func (p *PredictorSpec) Check(c *input.Check) {
	input.OneOf(c, "kind", p.Kind, PredictExact, PredictLearned)
	input.Within(c, "window", p.Window, 4, 1<<16)
	input.Within(c, "warm_up", p.WarmUp, 1, 1<<16)
	input.Within(c, "refit_every", p.RefitEvery, 1, 1<<30)
	input.Within(c, "trees", p.Trees, 1, 1024)
	input.Within(c, "max_depth", p.MaxDepth, 1, 64)
	input.Within(c, "min_leaf", p.MinLeaf, 1, 1<<16)
	input.Within(c, "noise", p.Noise, 0, 1)
}
