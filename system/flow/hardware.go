package flow

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// Place is where keys and values are.
type Place struct {
	Name   string // as an error says it
	InGPUs bool   // with weights and activations: they share the GPUs' memory
	InHBM  bool   // with processing units in that memory
	OnHost bool   // in the part of the host's memory that [cpu_offload] has
	InDIMM bool   // on the ranks of DIMMs, with processing there
	Keeps  bool   // a cache of prefixes may be there, too
	Unit   string // the processing units of these ranks, "" for those of the configuration
}

// Hardware is what a node consists of: its configuration, and what its system says of where keys and values are.
// GPUs, ranks and host CPUs derive what they need from it. It does not change.
type Hardware struct {
	Config   *configs.Config
	KV       Place
	GPUShare float64     // of the GPUs' memory that is left for data; gpu.memory_share is of that
	KVBudget units.Bytes // of a replica's keys and values on the GPUs; 0: all that is free
}

// LinkShare returns the bandwidth of one GPU's way to the memory. All links of a
// replica are busy at the same time, so GPUs on one switch share its uplink
// evenly.
func (h *Hardware) LinkShare() units.Bandwidth {
	s := &h.Config.PCIe
	return min(s.Bandwidth(), s.UplinkBandwidth()/units.Bandwidth(s.GPUsPerUplink))
}

// Links returns the bandwidth of all links of a replica in one direction.
func (h *Hardware) Links() units.Bandwidth {
	return units.Bandwidth(h.Config.Model.TensorParallel) * h.LinkShare()
}

// Join returns what the GPUs of a replica lose in a layer whose block waits for transfers.
func (h *Hardware) Join() units.Duration {
	if h.Config.Model.TensorParallel > 1 {
		return h.Config.PCIe.JoinAllReduce
	}
	return h.Config.PCIe.Join
}

// Channels returns the bandwidth of all memory channels of a replica.
func (h *Hardware) Channels() units.Bandwidth {
	return units.Bandwidth(h.Config.ReplicaChannels()) * h.Config.DRAM.Spec.Bandwidth()
}

// AttentionDevices returns how many devices of a replica compute decode attention
// side by side, beside the GPUs.
func (h *Hardware) AttentionDevices() int {
	if h.KV.InDIMM {
		return h.Config.Node.Ranksets
	}
	return 1
}

// HostTier says that blocks that make way on the GPUs go to the host.
func (h *Hardware) HostTier() bool { return h.Config.Cache.Prefix && h.Config.Cache.HostCapacity > 0 }

// GroupReads says that GPUs read what several requests share once.
func (h *Hardware) GroupReads() bool {
	return h.Config.Cache.Prefix && h.Config.Cache.GroupReads && h.Config.Policy.Dense()
}

// PrefixStays says that prompts attend over what a cache has of them where it is.
func (h *Hardware) PrefixStays() bool {
	return h.Config.Cache.Prefix && h.KV.InDIMM && h.Config.Cache.PrefixAttention == scheduler.PrefixOnDIMM
}

// valueCopy returns the bytes of a token and layer that units in HBM store beside a latent: their commands read keys in rows of their own, and
// values in others (package pim/hbm). Units in DIMMs do likewise, and their memory is counted in rows.
func (h *Hardware) valueCopy() units.Bytes {
	if h.KV.InHBM {
		return h.Config.Model.ValueCopyBytes()
	}
	return 0
}

// KVBytesPerTokenLayer returns the bytes of the keys and values of a token in a layer as they are stored.
func (h *Hardware) KVBytesPerTokenLayer() units.Bytes {
	return h.Config.Model.KVBytesPerTokenLayer() + h.valueCopy()
}

// KVBytesPerToken returns what all layers store of a token.
func (h *Hardware) KVBytesPerToken() units.Bytes {
	m := &h.Config.Model
	return m.KVBytesPerToken() + units.Bytes(m.Layers)*h.valueCopy()
}

// PolicyOf returns the policy of a validated configuration.
func PolicyOf(h *Hardware) policy.Costs { return h.Config.Policy.Costs(PolicyShape(h)) }

// PolicyShape tells a policy the model's shape, and whether keys and values are apart from the GPUs.
func PolicyShape(h *Hardware) policy.Shape {
	m := &h.Config.Model
	heads, value := m.HeadsOf(false), 0
	if heads.Value != heads.Dim {
		value = heads.Value
	}
	return policy.Shape{ValueCopy: int64(h.valueCopy()), Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), Value: value, Latent: m.LatentDim > 0, Model: m.Name, Apart: !h.KV.InGPUs, Verified: h.Config.Serving.Verified(), Overlap: h.Config.Serving.VerifiedOverlap, LayerKinds: m.LayerKinds}
}
