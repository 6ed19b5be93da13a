package flow

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// Place is where a system stores keys and values.
type Place struct {
	Name   string // as errors name it
	InGPUs bool   // with weights and activations: they share the GPUs' memory
	InHBM  bool   // in the GPUs' memory, with processing units in it
	OnHost bool   // in the part of the host's memory given by [cpu_offload]
	InDIMM bool   // on the ranks of DIMMs, with processing there
	Keeps  bool   // a cache of prefixes may be there, too
	Unit   string // name of the processing units of these ranks; "" for those of the configuration
}

// Hardware is a node: its configuration, and where its system stores keys and values. GPUs, ranks and host CPUs
// derive what they need from it. It does not change.
type Hardware struct {
	Config   *configs.Config
	KV       Place
	GPUShare float64     // share of the GPUs' memory that may hold data; gpu.memory_share is a share of that
	KVBudget units.Bytes // memory for a replica's keys and values on the GPUs; 0: all that is free
}

// LinkShare returns the bandwidth of one GPU's link to the memory. All links of a replica are busy
// at the same time, so GPUs on one switch share its uplink evenly.
func (h *Hardware) LinkShare() units.Bandwidth {
	s := &h.Config.PCIe
	return min(s.Bandwidth(), s.UplinkBandwidth()/units.Bandwidth(s.GPUsPerUplink))
}

// Links returns the bandwidth of all links of a replica in one direction.
func (h *Hardware) Links() units.Bandwidth {
	return units.Bandwidth(h.Config.Model.TensorParallel) * h.LinkShare()
}

// Join returns the GPU time that a replica loses in a layer whose block waits for transfers.
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

// AttentionDevices returns the number of devices of a replica, beside the GPUs, that compute decode
// attention in parallel.
func (h *Hardware) AttentionDevices() int {
	if h.KV.InDIMM {
		return h.Config.Node.Ranksets
	}
	return 1
}

// HostTier says that blocks evicted from the GPUs go to the host.
func (h *Hardware) HostTier() bool { return h.Config.Cache.Prefix && h.Config.Cache.HostCapacity > 0 }

// GroupReads says that GPUs read a prefix that several requests share once.
func (h *Hardware) GroupReads() bool {
	return h.Config.Cache.Prefix && h.Config.Cache.GroupReads && h.Config.Policy.Dense()
}

// PrefixStays says that prompts attend over a cached prefix where it is stored.
func (h *Hardware) PrefixStays() bool {
	return h.Config.Cache.Prefix && h.KV.InDIMM && h.Config.Cache.PrefixAttention == scheduler.PrefixOnDIMM
}

// valueCopy returns the bytes of a token and layer that units in HBM store in addition to a latent: their commands read keys and values in
// different rows (package pim/hbm). Units in DIMMs do likewise, and their memory is counted in rows.
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

// KVBytesPerToken returns the bytes that all layers store of a token.
func (h *Hardware) KVBytesPerToken() units.Bytes {
	m := &h.Config.Model
	return m.KVBytesPerToken() + units.Bytes(m.Layers)*h.valueCopy()
}

// PolicyOf returns the policy of a validated configuration.
func PolicyOf(h *Hardware) policy.Costs { return h.Config.Policy.Costs(PolicyShape(h)) }

// PolicyShape returns the model's shape for a policy, and whether keys and values are apart from the
// GPUs.
func PolicyShape(h *Hardware) policy.Shape {
	m := &h.Config.Model
	heads, value := m.HeadsOf(false), 0
	if heads.Value != heads.Dim {
		value = heads.Value
	}
	return policy.Shape{ValueCopy: int64(h.valueCopy()), Layers: m.Layers, QueryHeads: m.Heads, KVHeads: m.KVHeads, Dim: m.HeadDim, ElementBits: m.ElementBits,
		KVBits: m.KVElementBits(), KVScaleBytes: m.KVScaleBytes(), Value: value, Latent: m.LatentDim > 0, Model: m.Name, Apart: !h.KV.InGPUs, Verified: h.Config.Serving.Verified(), Overlap: h.Config.Serving.VerifiedOverlap, LayerKinds: m.LayerKinds}
}
