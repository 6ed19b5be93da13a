package system

import (
	"fmt"
	"io"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Hardware is what a configuration amounts to, for people to check before a
// long run. Bandwidths are peaks of the whole node.
type Hardware struct {
	Replicas, GPUs, Channels, Ranksets int // GPUs and channels of one replica
	Weights, FreeGPU                   units.Bytes
	KV                                 units.Bytes
	KVTokens                           int64   // that the KV memory holds at most, rows filled
	MeanRequests                       float64 // of the trace's mean final length
	HBM, Channel, PIM, PCIe            units.Bandwidth
}

// Hardware returns the hardware in effect for a trace.
func (n *Node) Hardware(trace *traces.Trace) Hardware {
	cfg := n.cfg
	kv := n.kvBytes(0).Capacity
	h := Hardware{
		Replicas: n.Replicas(), GPUs: cfg.Model.TensorParallel, Channels: cfg.ReplicaChannels(), Ranksets: cfg.Node.Ranksets,
		Weights: cfg.Model.WeightBytes(), FreeGPU: n.FreeGPUMemory(),
		KV: kv, KVTokens: int64(kv / cfg.Model.KVBytesPerToken()),
		HBM:     units.Bandwidth(cfg.Node.GPUs) * cfg.GPU.MemoryBandwidth,
		Channel: units.Bandwidth(cfg.Node.Channels) * cfg.DRAM.Spec.Bandwidth(),
		PIM:     n.pimPeak(),
		PCIe:    units.Bandwidth(cfg.Node.GPUs) * n.linkShare(),
	}
	m := trace.Moments()
	if mean := m.InputMean + m.OutputMean - 1; mean > 0 {
		h.MeanRequests = float64(h.KVTokens) / mean
	}
	return h
}

// WriteText writes the hardware for a person to read.
func (h Hardware) WriteText(w io.Writer) error {
	gib := func(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }
	gb := func(b units.Bandwidth) float64 { return float64(b) / 1e9 }
	_, err := fmt.Fprintf(w, `replicas        %d of %d GPUs, %d channels and %d ranksets
GPU memory      %.1f GiB of weights a replica, %.1f GiB left for activations and cut prompts
KV memory       %.1f GiB, %d tokens, %.1f requests of the trace's mean final length
HBM bandwidth   %.1f GB/s
PIM bandwidth   %.1f GB/s
DRAM channels   %.1f GB/s
PCIe            %.1f GB/s in each direction
`, h.Replicas, h.GPUs, h.Channels, h.Ranksets, gib(h.Weights), gib(h.FreeGPU),
		gib(h.KV), h.KVTokens, h.MeanRequests, gb(h.HBM), gb(h.PIM), gb(h.Channel), gb(h.PCIe))
	return err
}
