package configs

import (
	"math"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Values of Run.System: L3 and the systems that its paper compares (section 6.1).
const (
	SystemL3         = "l3"          // GPUs and bank-level DIMM-PIM
	SystemGPUOnly    = "gpu-only"    // GPUs alone
	SystemHBMPIM     = "hbm-pim"     // PIM in the GPUs' memory: NeuPIMs, AttAcc
	SystemRankPIM    = "rank-pim"    // a processing unit a rank: Hermes
	SystemCPUOffload = "cpu-offload" // part of attention on the host's CPUs: NEO, FastDecode
)

// Systems returns the values of Run.System.
func Systems() []string {
	return []string{SystemL3, SystemGPUOnly, SystemHBMPIM, SystemRankPIM, SystemCPUOffload}
}

// GPUOnly is the section [gpu_only].
type GPUOnly struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
}

// Values of the keys policy of GPUOnly, HBMPIM and RankPIM.
const (
	PrefillFirst   = "prefill-first"
	ChunkedPrefill = "chunked-prefill"
)

// Check has the rules of the section [gpu_only].
func (s *GPUOnly) Check(c *input.Check) { input.OneOf(c, "policy", s.Policy, policies()...) }

func policies() []string { return []string{PrefillFirst, ChunkedPrefill} }

// HBMPIM is the section [hbm_pim]: decode attention in the GPUs' memory.
type HBMPIM struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
	// BandwidthFactor is the bandwidth that the processing units read keys and values
	// at, in units of the memory's own.
	BandwidthFactor float64 `toml:"bandwidth_factor"`
	// CapacityShare is the share of the GPUs' memory that is left for data: the units
	// take the place of the rest.
	CapacityShare float64 `toml:"capacity_share"`
	// QueriesPerRead is the query heads of a group that one reading of keys and
	// values serves.
	QueriesPerRead int `toml:"queries_per_read"`
	// SubBatches is when decoding requests are divided in two, of which one is on the
	// GPU while the other is in the memory.
	SubBatches string `toml:"sub_batches"`
}

// Values of HBMPIM.SubBatches.
const (
	SubBatchesAlways   = "always"
	SubBatchesAdaptive = "adaptive" // where two are predicted to be faster
	SubBatchesNever    = "never"
)

// Check has the rules of the section [hbm_pim].
func (h *HBMPIM) Check(c *input.Check) {
	input.OneOf(c, "policy", h.Policy, policies()...)
	input.OneOf(c, "sub_batches", h.SubBatches, SubBatchesAlways, SubBatchesAdaptive, SubBatchesNever)
	c.That(h.BandwidthFactor > 0 && h.BandwidthFactor <= 1024, "bandwidth_factor", h.BandwidthFactor, "more than 0, at most 1024")
	c.Share("capacity_share", h.CapacityShare)
	input.Within(c, "queries_per_read", h.QueriesPerRead, 1, 1024)
}

// RankPIM is the section [rank_pim].
type RankPIM struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
	// Placement is how requests are spread over the ranksets: PlacementRandom or
	// PlacementBalanced.
	Placement string `toml:"placement"`
}

// Values of RankPIM.Placement.
const (
	PlacementRandom   = "random"
	PlacementBalanced = "balanced" // the rankset with the fewest reserved tokens
)

// Check has the rules of the section [rank_pim].
func (r *RankPIM) Check(c *input.Check) {
	input.OneOf(c, "policy", r.Policy, policies()...)
	input.OneOf(c, "placement", r.Placement, PlacementRandom, PlacementBalanced)
}

// CPUOffload is the section [cpu_offload]: the host's CPUs and who uses them. The
// host's memory is that of [node] and [dram], without processing in it.
type CPUOffload struct {
	Policy string `toml:"policy"` // NEO or FastDecode
	Cores  int    `toml:"cores"`  // of the node
	// CoreFLOPS is the peak of one core in single precision, in which attention is
	// computed.
	CoreFLOPS units.FLOPRate `toml:"core_flops"`
	// Efficiencies are the shares of the peaks that attention reaches.
	ComputeEfficiency float64 `toml:"compute_efficiency"`
	MemoryEfficiency  float64 `toml:"memory_efficiency"` // share of the host memory's bandwidth that attention reaches
	// Overhead is the fixed time of attention of a sub-batch in one layer.
	Overhead units.Duration `toml:"overhead"`
	// HostMemory is the part of node.memory_capacity that holds keys and values; 0 for
	// none.
	HostMemory float64 `toml:"host_memory_share"`
	// MaxDelay is how much later than with the GPUs alone a request may be for the sake
	// of others, as a share of the time since the replica had no requests.
	MaxDelay float64 `toml:"max_delay"`
}

// Values of CPUOffload.Policy.
const (
	// NEO keeps requests on GPUs and CPUs and decides in every iteration whether the
	// CPUs help (Jiang et al., MLSys 2025).
	NEO = "neo"
	// FastDecode has all decode attention on the CPUs (He and Zhai, 2024).
	FastDecode = "fastdecode"
)

// Check has the rules of the section [cpu_offload].
func (s *CPUOffload) Check(c *input.Check) {
	input.OneOf(c, "policy", s.Policy, NEO, FastDecode)
	input.Within(c, "cores", s.Cores, 1, 1<<16)
	c.That(s.CoreFLOPS > 0 && !math.IsInf(float64(s.CoreFLOPS), 0), "core_flops", s.CoreFLOPS, "more than 0")
	c.Share("compute_efficiency", s.ComputeEfficiency)
	c.Share("memory_efficiency", s.MemoryEfficiency)
	c.That(s.Overhead >= 0, "overhead", s.Overhead, "at least 0s")
	input.Within(c, "host_memory_share", s.HostMemory, 0, 1)
	input.Within(c, "max_delay", s.MaxDelay, 0, 1)
}

// GPUMemory returns the memory of one GPU that data may use.
func (c *Config) GPUMemory() units.Bytes {
	capacity := c.GPU.MemoryCapacity
	if c.Run.System == SystemHBMPIM {
		capacity = units.Bytes(float64(capacity) * c.HBMPIM.CapacityShare)
	}
	return capacity - c.GPU.MemoryReserve
}
