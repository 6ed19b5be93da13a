package configs

import (
	"fmt"
	"math"
	"slices"

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

// Validate reports values out of range; keys are relative to the section.
func (g *GPUOnly) Validate() []*input.Error {
	return oneOf("policy", g.Policy, PrefillFirst, ChunkedPrefill)
}

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

// Validate reports values out of range; keys are relative to the section.
func (h *HBMPIM) Validate() []*input.Error {
	errs := oneOf("policy", h.Policy, PrefillFirst, ChunkedPrefill)
	errs = append(errs, oneOf("sub_batches", h.SubBatches, SubBatchesAlways, SubBatchesAdaptive, SubBatchesNever)...)
	if !(h.BandwidthFactor > 0 && h.BandwidthFactor <= 1024) {
		errs = append(errs, &input.Error{Key: "bandwidth_factor", Value: fmt.Sprint(h.BandwidthFactor), Expected: "more than 0, at most 1024"})
	}
	if !(h.CapacityShare > 0 && h.CapacityShare <= 1) {
		errs = append(errs, &input.Error{Key: "capacity_share", Value: fmt.Sprint(h.CapacityShare), Expected: "more than 0, at most 1"})
	}
	if h.QueriesPerRead < 1 || h.QueriesPerRead > 1024 {
		errs = append(errs, &input.Error{Key: "queries_per_read", Value: fmt.Sprint(h.QueriesPerRead), Expected: "1 to 1024"})
	}
	return errs
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

// Validate reports values out of range; keys are relative to the section.
func (r *RankPIM) Validate() []*input.Error {
	return append(oneOf("policy", r.Policy, PrefillFirst, ChunkedPrefill),
		oneOf("placement", r.Placement, PlacementRandom, PlacementBalanced)...)
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

// Validate reports values out of range; keys are relative to the section.
func (c *CPUOffload) Validate() []*input.Error {
	errs := oneOf("policy", c.Policy, NEO, FastDecode)
	check := func(ok bool, key string, value any, expected string) {
		if !ok {
			errs = append(errs, &input.Error{Key: key, Value: fmt.Sprint(value), Expected: expected})
		}
	}
	check(c.Cores >= 1 && c.Cores <= 1<<16, "cores", c.Cores, "1 to 65536")
	check(c.CoreFLOPS > 0 && !math.IsInf(float64(c.CoreFLOPS), 0), "core_flops", fmt.Sprintf("%q", c.CoreFLOPS), "more than 0")
	check(c.ComputeEfficiency > 0 && c.ComputeEfficiency <= 1, "compute_efficiency", c.ComputeEfficiency, "more than 0, at most 1")
	check(c.MemoryEfficiency > 0 && c.MemoryEfficiency <= 1, "memory_efficiency", c.MemoryEfficiency, "more than 0, at most 1")
	check(c.Overhead >= 0, "overhead", fmt.Sprintf("%q", c.Overhead), "at least 0s")
	check(c.HostMemory >= 0 && c.HostMemory <= 1, "host_memory_share", c.HostMemory, "0 to 1")
	check(c.MaxDelay >= 0 && c.MaxDelay <= 1, "max_delay", c.MaxDelay, "0 to 1")
	return errs
}

// GPUMemory returns the memory of one GPU that data may use.
func (c *Config) GPUMemory() units.Bytes {
	capacity := c.GPU.MemoryCapacity
	if c.Run.System == SystemHBMPIM {
		capacity = units.Bytes(float64(capacity) * c.HBMPIM.CapacityShare)
	}
	return capacity - c.GPU.MemoryReserve
}

// oneOf reports a value that is none of valid.
func oneOf(key, value string, valid ...string) []*input.Error {
	if slices.Contains(valid, value) {
		return nil
	}
	return []*input.Error{input.UnknownName(key, value, valid)}
}
