package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// linkShare returns the bandwidth of one GPU's way to the memory. All links of a
// replica are busy at the same time, so GPUs on one switch share its uplink
// evenly.
func (n *Node) linkShare() units.Bandwidth {
	s := &n.cfg.PCIe
	return min(s.Bandwidth(), s.UplinkBandwidth()/units.Bandwidth(s.GPUsPerUplink))
}

// place is where keys and values are.
type place struct {
	name   string // as an error says it
	inGPUs bool   // with weights and activations: they share the GPUs' memory
	inHBM  bool   // with processing units in that memory
	onHost bool   // in the part of the host's memory that [cpu_offload] has
	inDIMM bool   // on the ranks of DIMMs, with processing there
	keeps  bool   // a cache of prefixes may be there, too
	unit   string // the processing units of these ranks, "" for those of the configuration
}

// Places of keys and values.
var (
	kvInDIMMs = place{name: "in the DIMMs", inDIMM: true, keeps: true}
	kvOnGPUs  = place{name: "on its GPUs", inGPUs: true, keeps: true}
)

// attentionDevices returns how many devices of a replica compute decode attention
// side by side, beside the GPUs.
func (n *Node) attentionDevices() int {
	if n.system.kv.inDIMM {
		return n.cfg.Node.Ranksets
	}
	return 1
}

// hostTier says that blocks that make way on the GPUs go to the host.
func hostTier(cfg *configs.Config) bool { return cfg.Cache.Prefix && cfg.Cache.HostCapacity > 0 }

// groupReads says that GPUs read what several requests share once.
func groupReads(cfg *configs.Config) bool { return cfg.Cache.Prefix && cfg.Cache.GroupReads }

// prefixStays says that prompts attend over what a cache has of them where it is.
func prefixStays(cfg *configs.Config) bool {
	return cfg.Cache.Prefix && systemOf(cfg.Run.System).kv.inDIMM && cfg.Cache.PrefixAttention == scheduler.PrefixOnDIMM
}

// policyOf returns the policy of a validated configuration.
func policyOf(cfg *configs.Config) policy.Policy { return cfg.Policy.Costs(policyShape(cfg)) }

// policyShape tells a policy the model's shape, and whether keys and values are apart from the GPUs.
func policyShape(cfg *configs.Config) policy.Shape {
	m := &cfg.Model
	return policy.Shape{Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), Model: m.Name, Apart: !systemOf(cfg.Run.System).kv.inGPUs}
}
