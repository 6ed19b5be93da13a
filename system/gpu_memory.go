package system

import (
	"cmp"
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// freeGPUMemory returns what weights and reserve leave on the GPUs of one
// replica.
func freeGPUMemory(h *hardware) units.Bytes {
	m := &h.Model
	return units.Bytes(m.TensorParallel)*h.GPUMemory(h.gpuShare) - m.WeightBytes()
}

// workspace returns the memory of the activations of the largest iteration, on all of the
// replica's GPUs. Servers set it aside before they give the rest to KV.
func workspace(h *hardware) units.Bytes {
	return min(h.Model.ActivationBytes(h.Batching.MaxBatchTokens), freeGPUMemory(h))
}

// gpuMemories is the memories of a replica with KV on the GPUs.
func gpuMemories(h *hardware) forming.Memories {
	return forming.Memories{Ledger: gpuLedger(h), GPU: memory.GPU{Model: &h.Model, Free: workspace(h), HoldsKV: true}}
}

// gpuMemory is the KV memory of one replica on its GPUs, in pages of one layer and
// head.
func gpuMemory(h *hardware) kvMemory {
	page := pageBytes(h)
	return kvMemory{page, int64((freeGPUMemory(h) - workspace(h)) / page)}
}

// pageBytes returns the bytes of a page of one layer and head.
func pageBytes(h *hardware) units.Bytes {
	m := &h.Model
	return units.Bytes(h.Batching.PageTokens) * m.KVBytesPerTokenLayer() / units.Bytes(m.KVHeads)
}

// gpuLedger returns the empty KV memory of one replica on its GPUs.
func gpuLedger(h *hardware) *memory.Ledger {
	return h.keeping(memory.NewLedger(pages(h, gpuMemory(h).capacity)), pageBytes(h))
}

// pages describes a memory of capacity pages.
func pages(h *hardware, capacity int64) memory.LedgerSpec {
	m := &h.Model
	s := memory.LedgerSpec{
		Ranksets: 1, Layers: m.Layers, HeadsPerChannel: m.KVHeads, UnitTokens: h.Batching.PageTokens, Capacity: capacity,
	}
	if !h.Policy.Dense() { // all layers are one, since these may differ
		s.Layers, s.UnitBytes = 1, int64(pageBytes(h))
		s.Classes, s.Filling = headClasses(policyOf(h), policy.Home)
	}
	return s
}

// windows returns how many tokens of each request a policy has on the GPUs where these are
// not the home, at most, and how many more as a share of its prompt, and of all tokens. Tokens since the prompt are
// all tokens less the prompt's, whose share may be negative. A token is one with all heads and layers.
func windows(h *hardware, p policy.Costs) (tokens int, ofPrompt, ofAll float64) {
	var bytes, prompt, all float64
	for run, layers := range p.Runs() {
		held, _ := p.Memory(run)
		for _, h := range held {
			if h.Device != policy.GPU {
				continue
			}
			each := float64(layers) * float64(h.Heads) * float64(h.Bytes)
			share := float64(each * cmp.Or(h.Share, 1))
			switch {
			case h.Most > 0:
				bytes += float64(each * float64(h.Most))
			case h.OfPrompt:
				prompt += share
			case h.AfterPrompt:
				all, prompt = all+share, prompt-share
			default:
				all += share
			}
		}
	}
	token := float64(h.Model.KVBytesPerToken())
	return int(math.Ceil(bytes / token)), prompt / token, all / token
}
