package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// HostAttention is one layer of attention over keys and values that are with the host: there, as the
// system gpu+cpu has it, or on the GPUs, which load them. It is not safe for concurrent use.
type HostAttention struct{ gpuCPU }

// NewHostAttention returns that of a validated configuration.
func NewHostAttention(cfg *configs.Config) *HostAttention {
	hw := hardwareOf(cfg)
	h := &HostAttention{gpuCPU{gpuSide: newGPUSide(hw)}}
	h.hostCPUs = newHostCPUs(hw, h.gpuSide.attends)
	return h
}

// OnCPUs returns the time in which each of the requests attends with its queries over tokens, from
// queries on the GPUs to results there.
func (h *HostAttention) OnCPUs(requests, queries, tokens int) units.Duration {
	x := hostWork{took: h.attend(int64(requests) * int64(tokens))}
	if queries > 1 {
		x.took = units.Duration(requests) * h.append(queries, tokens)
	}
	x.down, x.up = h.vectors(requests * queries)
	return h.around(&x)
}

// Loaded returns the same where the GPUs load keys and values, one after the other, and what the
// transfer takes of it.
func (h *HostAttention) Loaded(requests, queries, tokens int) (all, transfer units.Duration) {
	transfer = h.latency + transferTime(h.link, h.kv(requests*tokens))
	a := h.gpu.Attention()
	w := a.Decoding(gpu.UniformBatch(requests, tokens))
	if queries > 1 {
		w = a.Prompts(requests, queries, tokens, 0)
	}
	return transfer + taskTime(w.Seconds), transfer
}

// Bandwidth returns the data-sheet rate of the host's memory that a replica has.
func (h *HostAttention) Bandwidth() units.Bandwidth { return h.peakRate }

// NewGPUIterations returns the iterations of a validated configuration, taken apart.
func NewGPUIterations(cfg *configs.Config) *GPUIterations { return iterationsOf(hardwareOf(cfg)) }
