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
	// HoldsKV says that all KV is on the GPUs, in separate memory that the Ledger accounts for. Cut
	// prompts then take nothing from Free.
	HoldsKV bool
	// Window is the largest number of tokens of each request in memory whose keys and values stay on the GPUs.
	// PromptShare adds a share of the prompt's tokens, Share a share of all tokens at its end. If only tokens since the
	// prompt stay, PromptShare is negative and Share is its opposite.
	Window             int
	PromptShare, Share float64
	// PrefixStays says that prompts attend over a cached prefix where it is stored, so that it takes no GPU memory.
	PrefixStays bool
	// Spare holds keys and values of requests that decode on the GPUs, in GPU memory that is otherwise free; nil:
	// none. SpareUnit is the size of its units, HomeUnit that of the Ledger's units, over all channels.
	Spare               *Ledger
	SpareUnit, HomeUnit units.Bytes
}

// inSpare returns the bytes that requests hold in the spare memory.
func (g *GPU) inSpare() units.Bytes {
	if g.Spare == nil {
		return 0
	}
	return units.Bytes(g.Spare.Used()) * g.SpareUnit
}

// SpareUsed returns the spare memory that requests hold, in units of the Ledger, rounded up.
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

// Fetches says that a prompt's cached prefix is copied to the GPUs, which keep it until the prompt ends.
func (g *GPU) Fetches() bool { return !g.HoldsKV && !g.PrefixStays }

// Windowed says that requests in memory keep some of their keys and values on the GPUs.
func (g *GPU) Windowed() bool { return g.Window > 0 || g.PromptShare > 0 || g.Share > 0 }

// KVBytes returns the bytes that the keys and values of that many tokens take on the GPUs.
func (g *GPU) KVBytes(tokens int) units.Bytes {
	return units.Bytes(tokens) * g.Model.KVBytesOnGPUs()
}

// Fits says whether activations of tokens tokens and KV of kvTokens tokens of unfinished prompts
// fit beside the spare memory in use.
func (g *GPU) Fits(tokens, kvTokens int) bool {
	if g.HoldsKV {
		kvTokens = 0
	}
	return g.Model.ActivationBytes(tokens)+g.KVBytes(kvTokens)+g.inSpare() <= g.Free
}

// Least returns the GPU memory that a prompt takes in the smallest possible steps.
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
