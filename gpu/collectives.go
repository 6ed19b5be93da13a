package gpu

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Protocols has the parameters of an NCCL collective over NVLink.
type Protocols struct {
	// NCCL takes the faster of two protocols: one that flags every few bytes (LL, LL128) and has little latency, and one that moves whole
	// chunks (Simple).
	FlaggedLatency   units.Duration  `toml:"flagged_latency"`
	FlaggedPerGPU    units.Duration  `toml:"flagged_latency_per_gpu"` // its growth with each GPU
	FlaggedBandwidth units.Bandwidth `toml:"flagged_bandwidth"`       // of the bytes that a GPU sends
	Latency          units.Duration  `toml:"latency"`                 // whole chunks: added to the transfer
	LatencyPerGPU    units.Duration  `toml:"latency_per_gpu"`         // its growth with each GPU
	Bandwidth        units.Bandwidth `toml:"bandwidth"`               // of the bytes that a GPU sends
	// LastStep is the time of a ring's last step relative to the others, for whole chunks: it receives and sends nothing.
	LastStep float64 `toml:"last_step,optional"`
}

// Check has the rules of NCCL's protocols.
func (p *Protocols) Check(c *input.Check) {
	duration(c, "flagged_latency", p.FlaggedLatency)
	duration(c, "flagged_latency_per_gpu", p.FlaggedPerGPU)
	bandwidth(c, "flagged_bandwidth", p.FlaggedBandwidth)
	duration(c, "latency", p.Latency)
	duration(c, "latency_per_gpu", p.LatencyPerGPU)
	bandwidth(c, "bandwidth", p.Bandwidth)
	c.That(p.LastStep >= 0 && p.LastStep <= 1, "last_step", p.LastStep, "0 to 1")
}

// cost adds the time of the faster protocol to c, which has the bytes that each GPU sends. step is the bytes of each step of a ring.
func (p *Protocols) cost(c Cost, gpus, step float64) Cost {
	flagged := p.FlaggedLatency.Seconds() + float64(gpus*p.FlaggedPerGPU.Seconds())
	whole := p.Latency.Seconds() + float64(gpus*p.LatencyPerGPU.Seconds())
	byFlags, byChunks := c.Bytes/float64(p.FlaggedBandwidth), (c.Bytes+float64(p.LastStep*step))/float64(p.Bandwidth)
	c.Memory, c.Overhead = byChunks, whole
	if byFlags+flagged < byChunks+whole {
		c.Memory, c.Overhead = byFlags, flagged
	}
	return c.combine(0)
}

// SwitchSpec has the parameters of an all-reduce in which the NVLink switch sums (NVLS). Each GPU reads its share of the sum, for which the
// switch reads from every GPU, and sends it to all by one multicast.
type SwitchSpec struct {
	Latency       units.Duration  `toml:"latency"`         // of the call
	LatencyPerGPU units.Duration  `toml:"latency_per_gpu"` // its growth with each GPU
	Bandwidth     units.Bandwidth `toml:"bandwidth"`       // of the bytes that a GPU sends: (1 + 1/T) of those summed
}

// Check has the rules of the section [gpu.all_reduce_switch].
func (s *SwitchSpec) Check(c *input.Check) {
	duration(c, "latency", s.Latency)
	duration(c, "latency_per_gpu", s.LatencyPerGPU)
	bandwidth(c, "bandwidth", s.Bandwidth)
}

// cost returns the cost of summing the given bytes; c has the bytes that GPUs send without a switch.
func (s *SwitchSpec) cost(c Cost, gpus, bytes float64) Cost {
	c.Bytes = (1 + 1/gpus) * bytes
	c.Overhead = s.Latency.Seconds() + float64(gpus*s.LatencyPerGPU.Seconds())
	c.Memory = c.Bytes / float64(s.Bandwidth)
	return c.combine(0)
}

// CollectiveTables has NCCL's collectives, and the exchange of tokens with their experts (DeepEP's low-latency kernels), if the fit has
// them. A zero value stands for none, and then NCCL's all-reduce parameters are used.
type CollectiveTables struct {
	AllGather     Protocols    `toml:"all_gather,omitempty"`
	ReduceScatter Protocols    `toml:"reduce_scatter,omitempty"`
	AllReduce     Protocols    `toml:"all_reduce,omitempty"` // NCCL's own all-reduce, for the method "nccl"
	AllToAll      Protocols    `toml:"all_to_all,omitempty"`
	Dispatch      ExchangeSpec `toml:"dispatch,omitempty"` // tokens to their experts' GPUs
	Combine       ExchangeSpec `toml:"combine,omitempty"`  // the experts' results
}

// Collective is an NCCL collective.
type Collective struct {
	Section string // in [gpu.collectives]
	In      func(*CollectiveTables) *Protocols
	// Sent is how often the larger of a GPU's buffers leaves each GPU, times (T − 1)/T.
	Sent float64
}

// Indices into Collectives.
const (
	allGather = iota
	reduceScatter
	allReduce
	allToAll
)

// Collectives are NCCL's. Sizes are those of a GPU's larger buffer: the result of all-gather and all-reduce, and the input of
// reduce-scatter and all-to-all.
var Collectives = []Collective{
	allGather:     {"all_gather", func(t *CollectiveTables) *Protocols { return &t.AllGather }, 1},
	reduceScatter: {"reduce_scatter", func(t *CollectiveTables) *Protocols { return &t.ReduceScatter }, 1},
	allReduce:     {"all_reduce", func(t *CollectiveTables) *Protocols { return &t.AllReduce }, 2},
	allToAll:      {"all_to_all", func(t *CollectiveTables) *Protocols { return &t.AllToAll }, 1},
}

// CollectiveCost returns the cost of an NCCL collective with buffers of the given bytes; it is 0 for one GPU or no bytes.
func (s *Spec) CollectiveCost(x *Collective, gpus int, bytes float64) Cost {
	if gpus <= 1 || bytes <= 0 {
		return Cost{}
	}
	p, t := x.In(&s.Collectives), float64(gpus)
	if *p == (Protocols{}) {
		p = &s.Collective.Protocols
	}
	return p.cost(Cost{Bytes: x.Sent * (t - 1) / t * bytes}, t, bytes/t)
}

// ExchangeSpec holds the parameters of one direction of the exchange between tokens' GPUs and experts' GPUs. A token is sent once to each
// of its experts. Each pair of an expert and a sending GPU is a lane, which moves its tokens one after another.
type ExchangeSpec struct {
	Overhead      units.Duration  `toml:"overhead"`       // launch, and the wait for the last GPU
	ExpertTime    units.Duration  `toml:"expert_time"`    // launch, and waiting for the last GPU
	Bandwidth     units.Bandwidth `toml:"bandwidth"`      // for each expert: exchange of counts between all GPUs
	LaneBandwidth units.Bandwidth `toml:"lane_bandwidth"` // of the data that the busiest GPU sends or receives
	Ridge         float64         `toml:"ridge"`          // p of the p-norm of both, at least 1
}

// Check has the rules of a section of an exchange.
func (e *ExchangeSpec) Check(c *input.Check) {
	duration(c, "overhead", e.Overhead)
	duration(c, "expert_time", e.ExpertTime)
	bandwidth(c, "bandwidth", e.Bandwidth)
	bandwidth(c, "lane_bandwidth", e.LaneBandwidth)
	c.That(e.Ridge >= 1 && e.Ridge <= 100, "ridge", e.Ridge, "1 to 100")
}

// Exchange is the transfer of all GPUs' tokens to their experts, or back.
type Exchange struct {
	GPUs, Experts int     // GPUs that exchange tokens, and experts on all of them
	Pairs         float64 // pairs of a token and one of its experts that each GPU sends
	Most          float64 // pairs that the busiest GPU receives, at least Pairs
	PairBytes     float64 // bytes of a pair's message
}

// ExchangeCost returns the cost of moving tokens to their experts, or back; it is 0 for one GPU or no tokens. One in T of a token's experts
// is on its own GPU.
func (s *Spec) ExchangeCost(e *ExchangeSpec, x Exchange) Cost {
	if x.GPUs <= 1 || x.Pairs <= 0 {
		return Cost{}
	}
	t := float64(x.GPUs)
	c := Cost{Bytes: (t - 1) / t * x.PairBytes * max(x.Pairs, x.Most), Overhead: e.Overhead.Seconds() + float64(float64(x.Experts)*e.ExpertTime.Seconds())}
	c.Memory = c.Bytes / float64(e.Bandwidth)
	lane := math.Ceil(max(x.Pairs, x.Most)/float64(x.Experts)) * x.PairBytes // of the mean expert
	c.Latency = lane / float64(e.LaneBandwidth)
	return c.combine(e.Ridge)
}

// Bytes of DeepEP's messages in addition to elements: an FP32 scale for 128 elements, and a header.
const (
	messageScale  = 128
	messageHeader = 16
)

// MessageBytes returns the bytes of a token's message to one of its experts, for elements of the given bits.
func MessageBytes(hidden, bits int) float64 {
	elements := float64(elementBytes(float64(hidden), bits))
	if bits >= 16 {
		return elements + messageHeader
	}
	return elements + float64(scoreBytes*float64(ceilDiv(hidden, messageScale))) + messageHeader
}

// Check has the rules of the section [gpu.collectives].
func (t *CollectiveTables) Check(c *input.Check) {
	for i := range Collectives {
		given(c, Collectives[i].Section, Collectives[i].In(t))
	}
	given(c, "dispatch", &t.Dispatch)
	given(c, "combine", &t.Combine)
}
