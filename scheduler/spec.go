package scheduler

import (
	"github.com/l3sim/l3sim/input"
)

// Policy is how the prompts of an iteration are chosen.
type Policy int

const (
	// PolicySubBatches adds prompts to two sub-batches as the GPU's time allows (L3,
	// section 5.3).
	PolicySubBatches Policy = iota
	// PolicyPrefillFirst prefills waiting requests in iterations of their own as soon
	// as memory has room for one, and decodes only when it has none (Orca's and
	// vLLM's default: Kwon et al., SOSP 2023).
	PolicyPrefillFirst
	// PolicyChunkedPrefill fills every iteration up with prompt tokens beside the
	// decoding requests and cuts the last prompt (Sarathi-Serve: Agrawal et al., OSDI
	// 2024).
	PolicyChunkedPrefill
)

// BatchingSpec is the configuration of continuous batching: MaxNumSeqs of all systems,
// the rest of those that L3 is compared with.
type BatchingSpec struct {
	// MaxBatchTokens bounds the tokens of an iteration that prefills. A longer
	// prompt is cut.
	MaxBatchTokens int `toml:"max_batch_tokens"`
	// PageTokens is the tokens of one page of KV in GPU memory.
	PageTokens int `toml:"page_tokens"`
	// MaxNumSeqs bounds the requests of a replica that decode at once, over all
	// sub-batches, in every system; 0 for any number.
	MaxNumSeqs int `toml:"max_num_seqs"`
}

// Check has the rules of the section [batching].
func (b *BatchingSpec) Check(c *input.Check) {
	input.Within(c, "max_batch_tokens", b.MaxBatchTokens, 1, 1<<20)
	input.Within(c, "page_tokens", b.PageTokens, 1, 1<<16)
	c.That(b.MaxNumSeqs >= 0 && b.MaxNumSeqs <= 1<<24, "max_num_seqs", b.MaxNumSeqs, "0 for any number, or up to 16777216")
}

// Spec is the configuration of the sub-batch scheduler (L3, sections 5.2 and
// 5.3).
type Spec struct {
	// SubBatches is 2 to interleave two sub-batches between GPU and DIMM-PIM
	// (section 5.2), 1 to run a single batch.
	SubBatches int `toml:"sub_batches"`
	// Chunking lets the last prefill of a sub-batch be cut so that the GPU's time
	// meets the other side's; off, a prompt is prefilled whole.
	Chunking bool `toml:"chunking"`
	// ChunkMultiple is what a chunk's tokens are a multiple of (16 in section 5.3,
	// "better aligning with the requirements of GPU tiling").
	ChunkMultiple int `toml:"chunk_multiple"`
	// MinPrefillTokens is the least number of prompt tokens an iteration prefills
	// while requests wait and memory has room. Step (3) of the paper's algorithm
	// starves without it: with no work on the PIM, T_GPU > T_PIM at once.
	MinPrefillTokens int `toml:"min_prefill_tokens"`
	// Adaptive runs an iteration as a single batch where the predictors say that
	// two sub-batches would take longer: each of them reads all weights.
	Adaptive bool `toml:"adaptive"`
}

// Check has the rules of the section [scheduler].
func (s *Spec) Check(c *input.Check) {
	c.That(s.SubBatches == 1 || s.SubBatches == 2, "sub_batches", s.SubBatches, "1 or 2")
	input.Within(c, "chunk_multiple", s.ChunkMultiple, 1, 4096)
	input.Within(c, "min_prefill_tokens", s.MinPrefillTokens, 1, 1<<20)
}

// CommSpec is the configuration of communication between GPUs and ranksets (L3,
// section 5.1), each technique with its switch.
type CommSpec struct {
	// Concurrent lets ranksets compute while another one receives; off, all are in
	// one mode at a time.
	Concurrent bool `toml:"concurrent"`
	// Rotation puts successive layers of a request on successive ranksets; off, all
	// its layers lie on one.
	Rotation bool `toml:"rotation"`
	// AsyncPrefill delays the transfer of prompt keys and values to projection and
	// feed-forward; off, these wait for it.
	AsyncPrefill bool `toml:"async_prefill"`
	// Balance chooses a request's rankset offset at admission, and how the decoding
	// requests are split.
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
	// BalanceSplit is BalanceLeastLoaded, and divides the requests of each offset
	// evenly over the two sub-batches, so that each of them is balanced over the
	// ranksets, not only their sum.
	BalanceSplit = "split"
)

// Balances returns the values of CommSpec.Balance.
func Balances() []string {
	return []string{BalanceRandom, BalanceRoundRobin, BalanceLeastLoaded, BalanceSplit}
}

// Check has the rules of the section [comm].
func (s *CommSpec) Check(c *input.Check) { input.OneOf(c, "balance", s.Balance, Balances()...) }

// Admission policies: how much KV memory a request must find free.
const (
	// AdmitFinal reserves prompt and output, which the paper's results imply: no
	// admitted request ever has to leave.
	AdmitFinal = "final"
	// AdmitCurrent reserves the prompt and grows by allocation units, what servers
	// do. Where memory runs out, the request that arrived last gives up its memory
	// and is computed again later.
	AdmitCurrent = "current"
	// AdmitMax reserves MemorySpec.MaxTokens for every request, what a system does
	// that allocates statically.
	AdmitMax = "max"
)

// MemorySpec is the configuration of KV admission.
type MemorySpec struct {
	Admission string `toml:"admission"` // KV memory that a request must find free: AdmitFinal, AdmitCurrent or AdmitMax
	// MaxTokens is the KV length that AdmitMax reserves, and the longest output that
	// AdmitCurrent expects.
	MaxTokens int `toml:"max_tokens"`
	// Watermark is the share of every rank that AdmitCurrent leaves free when it
	// admits a request beside others, so that those can grow for a while.
	Watermark float64 `toml:"watermark"`
	// History is how many of the latest output lengths AdmitCurrent forecasts the growth
	// of requests by, to admit only what will fit with it; 0 admits what fits now.
	History int `toml:"history"`
	// Margin is the standard deviations of the memory that is forecast that must fit
	// beside its mean.
	Margin float64 `toml:"margin"`
}

// Check has the rules of the section [memory].
func (m *MemorySpec) Check(c *input.Check) {
	input.OneOf(c, "admission", m.Admission, AdmitFinal, AdmitCurrent, AdmitMax)
	input.Within(c, "max_tokens", m.MaxTokens, 1, 1<<24)
	c.That(m.Watermark >= 0 && m.Watermark < 1, "watermark", m.Watermark, "at least 0, less than 1")
	c.That(m.History >= 0 && m.History <= 1<<20, "history", m.History, "0 for none, or up to 1048576")
	input.Within(c, "margin", m.Margin, 0, 100)
}
