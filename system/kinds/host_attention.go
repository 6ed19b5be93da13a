package kinds

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// HostAttention computes one layer of attention over keys and values that are with the host: on its
// CPUs, as in the system gpu+cpu, or on the GPUs, which load them. It is not safe for concurrent
// use.
type HostAttention struct{ gpuCPU }

// NewHostAttention returns the HostAttention of a validated configuration.
func NewHostAttention(cfg *configs.Config) *HostAttention {
	hw := Of(cfg).Derive(cfg)
	h := &HostAttention{gpuCPU{GPUs: gpus.New(hw)}}
	h.CPUs = hosts.New(hw, h.GPUs.Attends)
	return h
}

// OnCPUs returns the time of attention on the CPUs, from queries on the GPUs to results there: each
// request has queries queries and attends over tokens tokens.
func (h *HostAttention) OnCPUs(requests, queries, tokens int) units.Duration {
	x := hostWork{took: h.Attend(int64(requests) * int64(tokens))}
	if queries > 1 {
		x.took = units.Duration(requests) * h.AttendNew(queries, tokens)
	}
	x.down, x.up = h.Attends.Vectors(requests * queries)
	return h.around(&x)
}

// Loaded returns the time of the same attention on the GPUs, after they have loaded keys and
// values, and the transfer's part of it.
func (h *HostAttention) Loaded(requests, queries, tokens int) (all, transfer units.Duration) {
	transfer = h.Latency + flow.TransferTime(h.Link, h.Attends.Copies*h.Attends.KV(requests*tokens))
	a := h.ModelCost.Attention()
	w := a.Decoding(gpu.UniformBatch(requests, tokens))
	if queries > 1 {
		w = a.Prompts(requests, queries, tokens, 0)
	}
	return transfer + flow.TaskTime(w.Seconds), transfer
}

// Bandwidth returns a replica's share of the data-sheet bandwidth of the host's memory.
func (h *HostAttention) Bandwidth() units.Bandwidth { return h.PeakRate }

// NewGPUIterations returns the GPUIterations of a validated configuration.
func NewGPUIterations(cfg *configs.Config) *gpus.GPUIterations {
	return gpus.IterationsOf(Of(cfg).Derive(cfg))
}
