package memory

import (
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// GPU is the memory of a replica's GPUs that the weights leave free.
type GPU struct {
	Model *llm.Model
	Free  units.Bytes // after weights and reserve, over all GPUs of the replica
	// HoldsKV says that all KV is on the GPUs, in separate memory that the Ledger
	// accounts for. Then the prompts of cut requests take nothing from Free.
	HoldsKV bool
	// Window is the most tokens of each request in memory that keep their keys and values on the
	// GPUs. PromptShare adds a share of its prompt to them, Share a share of all its tokens at its
	// end. PromptShare is negative, and Share as much, where tokens since the prompt are there and the prompt's are not.
	Window             int
	PromptShare, Share float64
	// PrefixStays says that prompts attend over what a cache has of them where it is. It takes no memory of the GPUs.
	PrefixStays bool
	// Spare has keys and values of requests that decode on the GPUs, in memory that is else free; nil: none. Its units
	// have SpareUnit bytes, those of the Ledger beside it HomeUnit on all channels.
	Spare               *Ledger
	SpareUnit, HomeUnit units.Bytes
}

// inSpare returns the bytes that requests have in the spare memory.
func (g *GPU) inSpare() units.Bytes {
	if g.Spare == nil {
		return 0
	}
	return units.Bytes(g.Spare.Used()) * g.SpareUnit
}

// SpareUsed returns what requests have in the spare memory, in units of the other Ledger, rounded up.
func (g *GPU) SpareUsed() int64 {
	if g.Spare == nil {
		return 0
	}
	return int64((g.inSpare() + g.HomeUnit - 1) / g.HomeUnit)
}

// BesideSpare returns the units of the spare memory that activations of tokens tokens and KV of kvTokens tokens take.
func (g *GPU) BesideSpare(tokens, kvTokens int) int64 {
	return int64((g.Model.ActivationBytes(tokens) + g.KVBytes(kvTokens) + g.SpareUnit - 1) / g.SpareUnit)
}

// Fetches says that what a cache has of a prompt comes to the GPUs, which keep it until the prompt ends.
func (g *GPU) Fetches() bool { return !g.HoldsKV && !g.PrefixStays }

// Windowed says that requests in memory keep some of their keys and values on the GPUs.
func (g *GPU) Windowed() bool { return g.Window > 0 || g.PromptShare > 0 || g.Share > 0 }

// KVBytes returns the bytes that the keys and values of that many tokens take on the GPUs.
func (g *GPU) KVBytes(tokens int) units.Bytes {
	return units.Bytes(tokens) * g.Model.KVBytesOnGPUs()
}

// Fits says whether activations of tokens tokens and KV of kvTokens tokens of
// unfinished prompts fit beside what is in the spare memory.
func (g *GPU) Fits(tokens, kvTokens int) bool {
	if g.HoldsKV {
		kvTokens = 0
	}
	return g.Model.ActivationBytes(tokens)+g.KVBytes(kvTokens)+g.inSpare() <= g.Free
}

// Least returns the memory of the GPUs that a prompt takes in the smallest possible steps.
func (g *GPU) Least(prompt int, spec *scheduler.Spec) units.Bytes {
	whole := g.Model.ActivationBytes(prompt)
	if !spec.Chunking {
		return whole
	}
	cut := g.Model.ActivationBytes(min(prompt, spec.ChunkMultiple))
	if !g.HoldsKV {
		cut += g.KVBytes(prompt)
	}
	return min(whole, cut)
}
