package scheduler

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
)

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
}

// Validate reports values out of range; keys are relative to the section.
func (s *Spec) Validate() []*input.InputError {
	var errs []*input.InputError
	check := func(ok bool, key string, value any, expected string) {
		if !ok {
			errs = append(errs, &input.InputError{Key: key, Value: fmt.Sprint(value), Expected: expected})
		}
	}
	check(s.SubBatches == 1 || s.SubBatches == 2, "sub_batches", s.SubBatches, "1 or 2")
	check(s.ChunkMultiple >= 1 && s.ChunkMultiple <= 4096, "chunk_multiple", s.ChunkMultiple, "1 to 4096")
	check(s.MinPrefillTokens >= 1 && s.MinPrefillTokens <= 1<<20, "min_prefill_tokens", s.MinPrefillTokens, "1 to 1048576")
	return errs
}

// Admission policies: how much KV memory a request must find free.
const (
	// AdmitFinal reserves prompt and output, which the paper's results imply: no
	// admitted request ever has to leave.
	AdmitFinal = "final"
	// AdmitMax reserves MemorySpec.MaxTokens for every request, what a system does
	// that allocates statically.
	AdmitMax = "max"
)

// MemorySpec is the configuration of KV admission and placement.
type MemorySpec struct {
	Admission string `toml:"admission"`
	// MaxTokens is the KV length that AdmitMax reserves.
	MaxTokens int `toml:"max_tokens"`
	// Balance chooses a request's rankset offset at admission: BalanceLeastLoaded
	// or BalanceRoundRobin.
	Balance string `toml:"balance"`
}

// Policies that choose the rankset offset of an admitted request.
const (
	// BalanceLeastLoaded takes the offset with the fewest reserved tokens.
	BalanceLeastLoaded = "least-loaded"
	// BalanceRoundRobin takes the offsets in turn.
	BalanceRoundRobin = "round-robin"
)

// Validate reports values out of range; keys are relative to the section.
func (m *MemorySpec) Validate() []*input.InputError {
	var errs []*input.InputError
	oneOf := func(key, value string, valid ...string) {
		for _, v := range valid {
			if value == v {
				return
			}
		}
		e := input.UnknownName(key, value, valid)
		errs = append(errs, e)
	}
	oneOf("admission", m.Admission, AdmitFinal, AdmitMax)
	oneOf("balance", m.Balance, BalanceLeastLoaded, BalanceRoundRobin)
	if m.MaxTokens < 1 || m.MaxTokens > 1<<24 {
		errs = append(errs, &input.InputError{Key: "max_tokens", Value: fmt.Sprint(m.MaxTokens), Expected: "1 to 16777216"})
	}
	return errs
}
