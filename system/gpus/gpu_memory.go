package gpus

import (
	"cmp"
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// FreeMemory returns the GPU memory of one replica that weights and reserve leave.
func FreeMemory(h *flow.Hardware) units.Bytes {
	m := &h.Config.Model
	return units.Bytes(m.TensorParallel)*h.Config.GPUMemory(h.GPUShare) - m.WeightBytes()
}

// workspace returns the memory of the activations of the largest iteration, on all of the
// replica's GPUs. Servers set it aside before they give the rest to KV.
func workspace(h *flow.Hardware) units.Bytes {
	return min(h.Config.Workspace(), FreeMemory(h))
}

// Memories is the memories of a replica with KV on the GPUs.
func Memories(h *flow.Hardware) batching.Memories {
	of := Memory(h)
	ledger := h.Keeping(memory.NewLedger(Pages(h, of.Capacity)), of.Unit)
	return batching.Memories{Ledger: ledger, GPU: memory.GPU{Model: &h.Config.Model, Free: workspace(h), HoldsKV: true}}
}

// OfSpare returns the hardware for requests in the GPUs' spare memory, with the GPUs as the place of
// keys and values.
func OfSpare(h *flow.Hardware) *flow.Hardware {
	spare := *h
	spare.KV = flow.Place{Name: "in the GPUs' spare memory", InGPUs: true}
	return &spare
}

// SpareLedger returns the empty spare memory of one replica's GPUs, in pages: all that weights leave. Activations and prompts
// also take their memory from it.
func SpareLedger(h *flow.Hardware) *memory.Ledger {
	page := units.Bytes(h.Config.Model.KVReplicas()) * PageBytes(h)
	return memory.NewLedger(Pages(OfSpare(h), int64(FreeMemory(h)/page)))
}

// Memory is the KV memory of one replica on its GPUs, in pages of one layer and head on all GPUs that hold it.
func Memory(h *flow.Hardware) flow.KVMemory {
	copies := h.Config.Model.KVReplicas()
	page, room := units.Bytes(copies)*PageBytes(h), FreeMemory(h)-workspace(h)
	if h.KVBudget > 0 {
		room = min(room, h.KVBudget)
	}
	return flow.KVMemory{Unit: page, Capacity: int64(room / page), More: copies - 1}
}

// PageBytes returns the bytes of a page of one layer and head.
func PageBytes(h *flow.Hardware) units.Bytes {
	m := &h.Config.Model
	return units.Bytes(h.Config.Batching.PageTokens) * h.KVBytesPerTokenLayer() / units.Bytes(m.KVHeads)
}

// Pages describes a memory of capacity pages.
func Pages(h *flow.Hardware, capacity int64) memory.LedgerSpec {
	m := &h.Config.Model
	s := memory.LedgerSpec{
		Ranksets: 1, Layers: m.Layers, HeadsPerChannel: m.KVHeads, UnitTokens: h.Config.Batching.PageTokens, Capacity: capacity,
	}
	if !h.Config.AttendsToAll() { // all layers count as one, since they may differ
		s.Layers, s.UnitBytes = 1, int64(PageBytes(h))
		s.Classes, s.Filling = flow.HeadClasses(flow.PolicyOf(h), policy.Home)
	}
	return s
}

// Windows returns how much of each request a policy keeps on the GPUs if keys and values are stored elsewhere: at
// most tokens tokens, and shares of its prompt and of all its tokens. Tokens since the prompt are all tokens less
// the prompt's, whose share may be negative. A token stands for all heads and layers.
func Windows(h *flow.Hardware, p policy.Costs) (tokens int, ofPrompt, ofAll float64) {
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
	token := float64(h.Config.Model.KVBytesPerToken())
	return int(math.Ceil(bytes / token)), prompt / token, all / token
}
