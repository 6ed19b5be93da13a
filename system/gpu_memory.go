package system

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// FreeGPUMemory returns what weights and reserve leave on the GPUs of one
// replica.
func (n *Node) FreeGPUMemory() units.Bytes {
	m := &n.cfg.Model
	return units.Bytes(m.TensorParallel)*n.cfg.GPUMemory(n.system.gpuShare(n.cfg)) - m.WeightBytes()
}

// workspace returns the memory of the activations of the largest iteration, on all of the
// replica's GPUs. Servers set it aside before they give the rest to KV.
func (n *Node) workspace() units.Bytes {
	return min(n.cfg.Model.ActivationBytes(n.cfg.Batching.MaxBatchTokens), n.FreeGPUMemory())
}

// gpuWorkspace is the memory for activations of a system with KV on the GPUs.
func (n *Node) gpuWorkspace() scheduler.GPUMemory {
	return scheduler.GPUMemory{Model: &n.cfg.Model, Free: n.workspace(), HoldsKV: true}
}

// gpuMemory is the KV memory of one replica on its GPUs, in pages of one layer and
// head.
func (n *Node) gpuMemory() kvMemory {
	page := n.pageBytes()
	return kvMemory{page, int64((n.FreeGPUMemory() - n.workspace()) / page)}
}

// pageBytes returns the bytes of a page of one layer and head.
func (n *Node) pageBytes() units.Bytes {
	m := &n.cfg.Model
	return units.Bytes(n.cfg.Batching.PageTokens) * m.KVBytesPerTokenLayer() / units.Bytes(m.KVHeads)
}

// gpuLedger returns the empty KV memory of one replica on its GPUs.
func (n *Node) gpuLedger() *scheduler.Ledger {
	return n.keeping(scheduler.NewLedger(n.pages(n.gpuMemory().capacity)), n.pageBytes())
}

// pages describes a memory of capacity pages.
func (n *Node) pages(capacity int64) scheduler.LedgerSpec {
	m := &n.cfg.Model
	s := scheduler.LedgerSpec{
		Ranksets: 1, Layers: m.Layers, HeadsPerChannel: m.KVHeads, UnitTokens: n.cfg.Batching.PageTokens, Capacity: capacity,
	}
	if n.cfg.Policy.Name != "dense" { // all layers are one, since these may differ
		s.Layers, s.UnitBytes = 1, int64(n.pageBytes())
		s.Classes, s.Filling = headClasses(policyOf(n.cfg), policy.Home)
	}
	return s
}

// windows returns how many tokens of each request a policy has on the GPUs where these are
// not the home, at most, and how many more as a share of its prompt, and of all tokens. A token is one
// with all heads and layers.
func windows(cfg *configs.Config, p policy.Policy) (tokens int, ofPrompt, ofAll float64) {
	var bytes, share, all float64
	for run, layers := range p.Runs() {
		held, _ := p.Memory(run)
		for _, h := range held {
			if each := float64(layers) * float64(h.Heads) * float64(h.Bytes); h.Device != policy.GPU {
				continue
			} else if h.OfPrompt {
				share += float64(each * h.Share)
			} else if h.Most == 0 {
				all += float64(each)
			} else {
				bytes += float64(each * float64(h.Most))
			}
		}
	}
	token := float64(cfg.Model.KVBytesPerToken())
	return int(math.Ceil(bytes / token)), share / token, all / token
}
