package hosts

import (
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// CPUOffload is the section [cpu_offload]: the host's CPUs and the policy that uses them. [node]
// and [dram] describe the host's memory, which has no processing units.
type CPUOffload struct {
	Policy string `toml:"policy"` // NEO or FastDecode
	Cores  int    `toml:"cores"`  // of the node
	// CoreFLOPS is the peak of one core in single precision, in which attention is computed.
	CoreFLOPS units.FLOPRate `toml:"core_flops"`
	// Efficiencies are the shares of the peaks that attention reaches.
	ComputeEfficiency float64 `toml:"compute_efficiency"`
	MemoryEfficiency  float64 `toml:"memory_efficiency"` // share of the host memory's bandwidth that attention reaches
	// ElementTime is the time of a core for an element of a key or value of any width: to load it,
	// convert it to single precision, multiply and add.
	ElementTime units.Duration `toml:"element_time"`
	// Overhead is the fixed time of attention of a sub-batch in one layer.
	Overhead units.Duration `toml:"overhead"`
	// HostMemory is the part of node.memory_capacity that holds keys and values; 0 for none.
	HostMemory float64 `toml:"host_memory_share"`
	// MaxDelay is the share by which the GPUs' iterations may take longer for the host's requests:
	// once for those whose attention nearly hides, once for turns of the others.
	MaxDelay float64 `toml:"max_delay"`
}

// Values of CPUOffload.Policy.
const (
	// NEO keeps requests on GPUs and CPUs and decides in every iteration whether the
	// CPUs help (Jiang et al., MLSys 2025).
	NEO = "neo"
	// FastDecode computes all decode attention on the CPUs (He and Zhai, 2024).
	FastDecode = "fastdecode"
)

// Check has the rules of the section [cpu_offload].
func (s CPUOffload) Check(c *input.Check) {
	input.OneOf(c, "policy", s.Policy, NEO, FastDecode)
	input.Within(c, "cores", s.Cores, 1, 1<<16)
	c.That(s.CoreFLOPS > 0 && !math.IsInf(float64(s.CoreFLOPS), 0), "core_flops", s.CoreFLOPS, "more than 0")
	c.Share("compute_efficiency", s.ComputeEfficiency)
	c.Share("memory_efficiency", s.MemoryEfficiency)
	input.Within(c, "element_time", s.ElementTime, 0, units.Second)
	c.That(s.Overhead >= 0, "overhead", s.Overhead, "at least 0s")
	input.Within(c, "host_memory_share", s.HostMemory, 0, 1)
	c.Share("max_delay", s.MaxDelay)
}

// CPUs is a replica's share of the host: cores, memory channels and the links to its GPUs. The time
// of decode attention is a roofline of the cores' single-precision rate, their conversion of
// elements, and the channels' bandwidth.
type CPUs struct {
	cores    float64
	compute  units.FLOPRate
	channels units.Bandwidth
	Overhead units.Duration
	Link     units.Bandwidth // of all the replica's GPUs, each direction
	Latency  units.Duration
	Around   units.Duration // fixed time of a layer's round trip to the host, beside bytes and work

	attends    *flow.Attends
	layers     int
	kvHeads    int
	headDim    int
	flopsToken float64 // FLOPs in one layer for one query token and one stored token
	flopsStep  float64 // FLOPs in one layer for all query tokens of a request in a step (serving.verified_tokens) and one stored token
	converts   float64 // seconds to convert its keys and values on the cores
	PeakRate   units.Bandwidth
}

// New returns a replica's share of the host: cores, memory channels and links.
func New(h *flow.Hardware, a *flow.Attends) CPUs {
	m, spec := &h.Config.Model, configs.Section[CPUOffload](h.Config)
	channels := h.Channels()
	return CPUs{
		cores:    float64(spec.Cores) / float64(h.Config.Replicas()),
		compute:  units.FLOPRate(float64(spec.CoreFLOPS) * spec.ComputeEfficiency * float64(spec.Cores) / float64(h.Config.Replicas())),
		channels: channels * units.Bandwidth(spec.MemoryEfficiency), PeakRate: channels,
		Overhead: spec.Overhead, Link: h.Links(), Latency: h.Config.PCIe.Latency,
		Around:  2*h.Config.PCIe.Latency + h.Config.PCIe.Wake + h.Join(),
		attends: a, layers: m.Layers, kvHeads: m.KVHeads, headDim: m.HeadDim,
		// A multiplication and an addition for each element of a query and for each of
		// the output, of all query heads.
		flopsToken: 4 * float64(m.Heads) * float64(m.HeadDim),
		flopsStep:  4 * float64(m.Heads) * float64(m.HeadDim) * float64(h.Config.Serving.Verified()),
		converts:   spec.ElementTime.Seconds() * 2 * float64(m.KVHeads) * float64(m.HeadDim) * float64(h.Config.Replicas()) / float64(spec.Cores),
	}
}

// Attend returns the time of attention on the CPUs in one layer, without the fixed overhead, over tokens tokens in all. If a
// step verifies drafts, keys and values are read and converted once for all its tokens, and multiplied for each.
func (h *CPUs) Attend(tokens int64) units.Duration {
	return flow.TaskTime(max(h.reads(tokens), h.flopsStep*float64(tokens)/float64(h.compute)))
}

// reads returns the seconds in which the CPUs read and convert the keys and values of tokens in one layer.
func (h *CPUs) reads(tokens int64) float64 {
	read := float64(h.attends.KV(1)) * float64(tokens) / float64(h.channels)
	return max(read, h.converts*float64(tokens))
}

// Down returns the time that the vectors of requests (q, k and v) take on the links to the host, in
// one layer.
func (h *CPUs) Down(requests int) units.Duration {
	vectors, _ := h.attends.Vectors(requests)
	return flow.TransferTime(h.Link, vectors)
}

// Up returns the time that the outputs of requests take on the links from the host, in one layer.
func (h *CPUs) Up(requests int) units.Duration {
	_, results := h.attends.Vectors(requests)
	return flow.TransferTime(h.Link, results)
}

// AttendClass returns the time of attention on the CPUs of a class of heads. If threads take whole
// heads, it is at least the time of the thread with most of the longest ones.
func (h *CPUs) AttendClass(c *policy.Class) units.Duration {
	took := h.Attend(c.All() / int64(h.kvHeads))
	if !c.Whole {
		return took
	}
	tasks, longest := 0, c.Longest
	for _, n := range c.Tokens {
		if n > 0 {
			tasks += c.Heads
		}
		if c.Longest == 0 {
			longest = max(longest, n)
		}
	}
	each := (float64(tasks) + h.cores - 1) / h.cores
	one := max(h.flopsStep/float64(h.compute), h.converts) * h.cores / float64(h.kvHeads) // of a token and head on one core
	return max(took, flow.TaskTime(float64(math.Floor(each)*one)*float64(longest)))
}

// Pass returns the time of a streaming pass on the CPUs.
func (h *CPUs) Pass(p *policy.Pass) units.Duration {
	element := h.converts / float64(2*h.kvHeads*h.headDim)
	compute := float64(p.FLOPs)/float64(h.compute) + float64(element*float64(p.Elements))
	return flow.TaskTime(max(float64(p.Bytes)/float64(h.channels), compute))
}

// AttendNew returns the time in which the CPUs attend for new tokens of a request over its other tokens,
// whose keys and values they read and convert once.
func (h *CPUs) AttendNew(tokens, over int) units.Duration {
	compute := float64(h.flopsToken*float64(tokens)) * float64(over) / float64(h.compute)
	return flow.TaskTime(max(h.reads(int64(over)), compute))
}

// HostAttention implements offload.Costs: transfer of vectors down, attention, and transfer of
// results up, in sequence.
func (h *CPUs) HostAttention(requests int, tokens int64) units.Duration {
	if requests == 0 {
		return 0
	}
	return h.Around + h.Down(requests) + h.Overhead + h.Attend(tokens) + h.Up(requests)
}

// Move implements offload.Costs.
func (h *CPUs) Move(tokens int) units.Duration { return h.Latency + h.Moved(tokens) }

// Fetch implements offload.Costs.
func (h *CPUs) Fetch(tokens int) units.Duration { return h.Latency + h.Fetched(tokens) }

// Fetched returns the time of Moved in the other direction; each GPU that holds a head gets its own
// copy.
func (h *CPUs) Fetched(tokens int) units.Duration {
	return flow.TransferTime(h.Link, h.attends.Copies*units.Bytes(h.layers)*h.attends.KV(tokens))
}

// Moved returns the time that the keys and values of tokens, of all layers, take on the links to
// the host.
func (h *CPUs) Moved(tokens int) units.Duration {
	return flow.TransferTime(h.Link, units.Bytes(h.layers)*h.attends.KV(tokens))
}

// Pages returns the number of KV pages that the host has for one replica.
func Pages(h *flow.Hardware) int64 {
	bytes := configs.Section[CPUOffload](h.Config).HostMemory * float64(h.Config.Node.MemoryCapacity)
	return int64(units.Bytes(min(bytes, 1<<62)) / units.Bytes(h.Config.Replicas()) / gpus.PageBytes(h))
}

// Memory is the KV memory of one replica on the host, in the pages of GPU memory.
func Memory(h *flow.Hardware) flow.KVMemory {
	return flow.KVMemory{Unit: gpus.PageBytes(h), Capacity: Pages(h)}
}

// Ledger returns the empty KV memory of one replica on the host.
func Ledger(h *flow.Hardware) *memory.Ledger {
	return memory.NewLedger(gpus.Pages(h, Pages(h)))
}
