package scheduler

import (
	"fmt"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// CacheSpec is the section [cache]: keys and values that outlive their request, by blocks of tokens.
type CacheSpec struct {
	// Prefix keeps the keys and values of prompts, and of the answers in a conversation, where they are until memory is needed. A
	// prompt that begins with the same blocks is not prefilled there.
	Prefix bool `toml:"prefix"`
	// Block is the tokens of a block, a multiple of 512 (the blocks that hashes of traces name) and of the allocation unit.
	Block int `toml:"block"`
	// Capacity bounds the memory of all blocks of the node, in use or not, divided evenly over the replicas.
	Capacity units.Bytes `toml:"capacity"`
	// HostCapacity is the host's memory, of the node, for blocks that make way on the GPUs. They come back over PCIe where a prompt
	// begins with them.
	HostCapacity units.Bytes `toml:"host_capacity"`
	// GroupReads has GPUs read a prefix once for all decoding requests of a batch that share it, where that is faster.
	GroupReads bool `toml:"group_reads"`
	// PrefixAttention is where a prompt attends over a prefix that is in the DIMMs: "gpu" brings its keys and values up over
	// PCIe, "dimm" has the ranks attend for each of the prompt's tokens.
	PrefixAttention string `toml:"prefix_attention"`
	// Placement chooses the rankset offset of a prompt whose prefix is in the DIMMs. "prefix" takes the offset that has most of
	// it. "balance" goes by comm.balance and uses the part of the prefix that is there.
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
block = 512              # a hash of Mooncake's names 512 tokens, a unit of a rank holds 512 at a head dimension of 128; hits
capacity = "1024TiB"     # our choice: more than a node has, so that memory is the only bound; hits
host_capacity = "0B"     # none: what makes way on the GPUs is gone, as vLLM has it by default; hits of gpu-only and hbm-pim
group_reads = true       # as vLLM's and FlashInfer's cascade attention, where it is faster; TBT of requests that share long prefixes
prefix_attention = "gpu" # our choice, faster but for prompts of few new tokens; "dimm" moves no keys and values; TTFT
placement = "prefix"     # our choice: most hits; "balance" has a prefix once for each offset, and spreads it; the busiest rankset
`

// Check has the rules of the section [cache].
func (s *CacheSpec) Check(c *input.Check) {
	c.That(s.Block >= traces.BlockTokens && s.Block <= 1<<20 && s.Block%traces.BlockTokens == 0, "block", s.Block, "%s",
		fmt.Sprintf("a multiple of %d, at most 1048576", traces.BlockTokens))
	c.That(s.Capacity >= 0, "capacity", s.Capacity, "at least 0B")
	c.That(s.HostCapacity >= 0, "host_capacity", s.HostCapacity, "at least 0B")
	input.OneOf(c, "prefix_attention", s.PrefixAttention, PrefixOnGPU, PrefixOnDIMM)
	input.OneOf(c, "placement", s.Placement, PlaceByPrefix, PlaceForBalance)
}
