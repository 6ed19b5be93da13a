package kinds

import (
	"math"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// Values of HBMPIM.Placement.
const (
	PlacementHeads   = "heads"   // the heads of all requests are dealt evenly over all channels
	PlacementChannel = "channel" // all heads of a request on a GPU are in one channel
)

// gpuShare returns the share of the GPUs' own memory that may hold data: all of it if the units are in stacks beside
// the GPUs. The server may use gpu.memory_share of it. Stacks beside the GPUs have no such share: they hold only
// keys, values and copies of weights.
func (h HBMPIM) gpuShare() float64 {
	if h.MemoryBeside > 0 {
		return 1
	}
	return h.CapacityShare
}

// copied returns the columns of the feed-forward network on a GPU that the units can read, and the bytes of their copies on all GPUs
// of a replica: 0 in the GPUs' own memory, which holds the weights anyway.
func (h HBMPIM) copied(cfg *configs.Config) (columns int, bytes units.Bytes) {
	m := &cfg.Model
	if h.FeedForward == 0 || m.Experts > 0 {
		return 0, 0
	}
	columns = int(h.FeedForward * float64((m.FFNHidden+m.TensorParallel-1)/m.TensorParallel))
	if h.MemoryBeside > 0 {
		_, bits := m.ProductBits()
		weights := m.Layers * m.TensorParallel * columns * m.FFNMatrices() * m.Hidden
		bytes = units.Bytes(math.Ceil(float64(weights) * m.NetworkMean(float64(bits)) / 8))
	}
	return columns, bytes
}

// hbmMemory is the memory of a replica for keys and values: what weights and activations leave of the GPUs' own memory, or what
// copies of weights leave of the stacks beside the GPUs.
func hbmMemory(h *flow.Hardware) flow.KVMemory {
	s := configs.Section[HBMPIM](h.Config)
	own := gpus.Memory(h)
	if s.MemoryBeside > 0 {
		_, copies := s.copied(h.Config)
		own.Capacity = int64(max(0, s.beside(&h.Config.Model)-copies) / own.Unit)
	}
	if s.Placement == PlacementChannel {
		own.Capacity -= own.Capacity % int64(s.channels())
	}
	return own
}

// beside returns the bytes for data in the stacks beside a replica's GPUs.
func (h HBMPIM) beside(m *llm.Model) units.Bytes {
	return units.Bytes(m.TensorParallel) * units.Bytes(h.CapacityShare*float64(h.MemoryBeside))
}

// channels returns the number of channels with units on a GPU.
func (h HBMPIM) channels() int { return h.Stacks * hbm.Channels }

// hbmMemories is the memories of a replica. If keys and values are in stacks beside the GPUs, those of cut prompts stay on the
// GPUs until the prompt ends.
func hbmMemories(h *flow.Hardware) batching.Memories {
	s := configs.Section[HBMPIM](h.Config)
	all := gpus.Memories(h)
	spec := gpus.Pages(h, hbmMemory(h).Capacity)
	if s.Placement == PlacementChannel { // a channel is a rankset: a request stays on the channel where it was admitted
		spec.Ranksets, spec.Capacity = s.channels(), spec.Capacity/int64(s.channels())
	}
	all.Ledger = h.Keeping(memory.NewLedger(spec), gpus.PageBytes(h))
	if s.MemoryBeside > 0 {
		all.GPU.Free, all.GPU.HoldsKV = gpus.FreeMemory(h), false
	}
	return all
}

// checkHBM has the rules between units in HBM and other keys.
func checkHBM(cfg *configs.Config, c *input.Check) {
	h := configs.Section[HBMPIM](cfg)
	apart := h.MemoryBeside > 0 || h.Placement == PlacementChannel
	c.That(!cfg.Cache.Prefix || !apart, "cache.prefix", true, "false with %s or with %s = %q: what prompts share is kept in the GPUs' own memory, over all channels",
		input.Key("hbm_pim.memory_beside"), input.Key("hbm_pim.placement"), PlacementChannel)
	c.That(!cfg.Policy.Indexed() || h.MemoryBeside == 0, "hbm_pim.memory_beside", h.MemoryBeside, "0B with %s = %s: the GPUs score index keys, which would be in the units' memory with all else",
		input.Key("policy.name"), cfg.Policy.Name)
	if !c.OK() || h.MemoryBeside == 0 {
		return
	}
	_, copies := h.copied(cfg)
	page := units.Bytes(cfg.Batching.PageTokens) * (cfg.Model.KVBytesPerToken() + units.Bytes(cfg.Model.Layers)*cfg.Model.ValueCopyBytes())
	c.That(h.beside(&cfg.Model) >= copies+page, "hbm_pim.memory_beside", h.MemoryBeside, "room for a page of %s, and for the copies of weights that %s = %v has there, %v a replica",
		input.Key("batching.page_tokens"), input.Key("hbm_pim.feed_forward"), h.FeedForward, copies)
}
