package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

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

// hardware is what a node consists of: its configuration, and what its system says of where keys and values are.
// GPUs, ranks and host CPUs derive what they need from it. It does not change.
type hardware struct {
	*configs.Config
	kv       place
	gpuShare float64 // of the GPUs' memory that may be used
}

// linkShare returns the bandwidth of one GPU's way to the memory. All links of a
// replica are busy at the same time, so GPUs on one switch share its uplink
// evenly.
func (h *hardware) linkShare() units.Bandwidth {
	s := &h.PCIe
	return min(s.Bandwidth(), s.UplinkBandwidth()/units.Bandwidth(s.GPUsPerUplink))
}

// links returns the bandwidth of all links of a replica in one direction.
func (h *hardware) links() units.Bandwidth {
	return units.Bandwidth(h.Model.TensorParallel) * h.linkShare()
}

// channels returns the bandwidth of all memory channels of a replica.
func (h *hardware) channels() units.Bandwidth {
	return units.Bandwidth(h.ReplicaChannels()) * h.DRAM.Spec.Bandwidth()
}

// attentionDevices returns how many devices of a replica compute decode attention
// side by side, beside the GPUs.
func (h *hardware) attentionDevices() int {
	if h.kv.inDIMM {
		return h.Node.Ranksets
	}
	return 1
}

// hostTier says that blocks that make way on the GPUs go to the host.
func (h *hardware) hostTier() bool { return h.Cache.Prefix && h.Cache.HostCapacity > 0 }

// groupReads says that GPUs read what several requests share once.
func (h *hardware) groupReads() bool { return h.Cache.Prefix && h.Cache.GroupReads }

// prefixStays says that prompts attend over what a cache has of them where it is.
func (h *hardware) prefixStays() bool {
	return h.Cache.Prefix && h.kv.inDIMM && h.Cache.PrefixAttention == scheduler.PrefixOnDIMM
}

// policyOf returns the policy of a validated configuration.
func policyOf(h *hardware) policy.Costs { return h.Policy.Costs(policyShape(h)) }

// policyShape tells a policy the model's shape, and whether keys and values are apart from the GPUs.
func policyShape(h *hardware) policy.Shape {
	m := &h.Model
	return policy.Shape{Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), Model: m.Name, Apart: !h.kv.inGPUs}
}
