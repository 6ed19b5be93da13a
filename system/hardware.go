package system

import (
	"fmt"
	"io"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Hardware is what a configuration amounts to, for people to check before a
// long run. Bandwidths are peaks of the whole node, 0 for what the system does not
// have.
type Hardware struct {
	Schema   string `json:"schema"` // HardwareSchema
	System   string `json:"system"`
	Model    string `json:"model"`
	GPU      string `json:"gpu"`
	Replicas int    `json:"replicas"`
	// GPUs and channels are those of one replica.
	GPUs         int             `json:"gpus"`
	Channels     int             `json:"channels"`
	Ranksets     int             `json:"ranksets"`
	Weights      units.Bytes     `json:"weights"`  // of one replica
	FreeGPU      units.Bytes     `json:"free_gpu"` // that weights and reserve leave on its GPUs
	KV           units.Bytes     `json:"kv"`
	KVTokens     int64           `json:"kv_tokens"`     // that the KV memory holds at most, units filled
	MeanRequests float64         `json:"mean_requests"` // of the trace's mean final length
	HBM          units.Bandwidth `json:"hbm"`
	Attention    units.Bandwidth `json:"decode_attention"`
	Channel      units.Bandwidth `json:"dram_channels"`
	PCIe         units.Bandwidth `json:"pcie"`
	Notes        []string        `json:"notes,omitempty"` // see Notes
}

// HardwareSchema names the form of Hardware's JSON, whose quantities carry units.
const HardwareSchema = "l3sim/hardware/1"

// Hardware returns the hardware in effect for a trace with these moments.
func (n *Node) Hardware(m traces.Moments) Hardware {
	cfg := n.cfg
	kv := n.kvBytes(0).Capacity
	h := Hardware{
		Schema: HardwareSchema, System: cfg.Run.System, Model: cfg.ModelTitle(), GPU: cfg.GPUTitle(),
		Replicas: n.Replicas(), GPUs: cfg.Model.TensorParallel,
		Weights: cfg.Model.WeightBytes(), FreeGPU: n.FreeGPUMemory(),
		KV: kv, KVTokens: int64(kv / cfg.Model.KVBytesPerToken()),
		HBM: units.Bandwidth(cfg.Node.GPUs) * cfg.GPU.MemoryBandwidth, Notes: Notes(cfg),
	}
	h.Attention = units.Bandwidth(h.Replicas) * n.assemble(0, nil, Options{}, nil).engine.peak()
	if n.system.Host {
		h.Channels, h.Ranksets = cfg.ReplicaChannels(), cfg.Node.Ranksets
		h.Channel = units.Bandwidth(cfg.Node.Channels) * cfg.DRAM.Spec.Bandwidth()
		h.PCIe = units.Bandwidth(cfg.Node.GPUs) * n.linkShare()
	}
	if mean := m.InputMean + m.OutputMean - 1; mean > 0 {
		h.MeanRequests = float64(h.KVTokens) / mean
	}
	return h
}

// WriteText writes the hardware for a person to read.
func (h Hardware) WriteText(w io.Writer) error {
	gib := func(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }
	gb := func(b units.Bandwidth) float64 { return float64(b) / 1e9 }
	host := ""
	if h.Channels > 0 {
		host = fmt.Sprintf(", %d channels and %d ranksets", h.Channels, h.Ranksets)
	}
	_, err := fmt.Fprintf(w, `system            %s
model             %s
GPU               %s
replicas          %d of %d GPUs%s
GPU memory        %.1f GiB of weights a replica, %.1f GiB left
KV memory         %.1f GiB, %d tokens, %.1f requests of the trace's mean final length
HBM               %.1f GB/s
decode attention  %.1f GB/s
`, h.System, h.Model, h.GPU, h.Replicas, h.GPUs, host, gib(h.Weights), gib(h.FreeGPU),
		gib(h.KV), h.KVTokens, h.MeanRequests, gb(h.HBM), gb(h.Attention))
	if err == nil && h.Channels > 0 {
		_, err = fmt.Fprintf(w, "DRAM channels     %.1f GB/s\nPCIe              %.1f GB/s in each direction\n", gb(h.Channel), gb(h.PCIe))
	}
	for _, note := range h.Notes {
		if err == nil {
			_, err = fmt.Fprintf(w, "note              %s\n", note)
		}
	}
	return err
}
