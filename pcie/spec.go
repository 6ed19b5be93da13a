package pcie

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Spec describes the PCIe tree of a node: a link for each GPU, and one uplink
// for each group of GPUs on a switch. Links are full duplex.
type Spec struct {
	Generation int `toml:"generation"` // 3 to 6
	Lanes      int `toml:"lanes"`      // of a GPU's link
	// Efficiency is the share of the raw rate that payload reaches: packet
	// headers, flow control and DMA engine.
	Efficiency float64 `toml:"efficiency"`
	// Latency is the time of a transfer beyond its bytes: launch of the copy, and the round trip that completes it.
	Latency units.Duration `toml:"latency"`
	// Wake is the time from the end of work beyond the link until the copy of its results begins: the GPU's front end polls a
	// flag in host memory.
	Wake units.Duration `toml:"wake"`
	// Join is the time that a stream of kernels loses when it waits for a copy on another stream, once for each layer and
	// sub-batch. With several GPUs, JoinAllReduce replaces it, since all-reduces wait for the last GPU.
	Join          units.Duration `toml:"join"`
	JoinAllReduce units.Duration `toml:"join_all_reduce"`
	// KernelShare is the share of a link's rate that copies lose while kernels run at the same time.
	KernelShare float64 `toml:"kernel_share"`
	// GPUsPerUplink is the number of GPUs on a switch: 1 gives each GPU its own path to the host, 2 is a DGX A100. UplinkLanes is
	// the number of lanes of the switch's uplink; 0 means as many as a GPU's link.
	GPUsPerUplink int `toml:"gpus_per_uplink"`
	UplinkLanes   int `toml:"uplink_lanes"`
}

// laneRates are raw bytes per second of a lane in one direction, by generation, after line coding. Generations 3 to 5 run at 8,
// 16 and 32 GT/s with 128b/130b (PCI Express Base Specification 3.0 to 5.0). Generation 6 runs at 64 GT/s with 256-byte FLITs, of
// which 242 bytes carry packets (https://pcisig.com/pci-express-6.0-specification).
var laneRates = map[int]units.Bandwidth{
	3: 8e9 / 8 * 128 / 130, 4: 16e9 / 8 * 128 / 130, 5: 32e9 / 8 * 128 / 130, 6: 64e9 / 8 * 242 / 256,
}

// Check has the rules of the section [pcie].
func (s *Spec) Check(c *input.Check) {
	lanes := func(n int) bool { return n >= 1 && n <= 32 && n&(n-1) == 0 }
	c.That(laneRates[s.Generation] != 0, "generation", s.Generation, "3 to 6")
	c.That(lanes(s.Lanes), "lanes", s.Lanes, "1, 2, 4, 8, 16 or 32")
	c.That(s.UplinkLanes == 0 || lanes(s.UplinkLanes), "uplink_lanes", s.UplinkLanes, "0 (as %s), 1, 2, 4, 8, 16 or 32", input.Key("lanes"))
	c.Share("efficiency", s.Efficiency)
	input.Within(c, "latency", s.Latency, 0, units.Second)
	input.Within(c, "wake", s.Wake, 0, units.Second)
	input.Within(c, "join", s.Join, 0, units.Second)
	input.Within(c, "join_all_reduce", s.JoinAllReduce, 0, units.Second)
	c.That(s.KernelShare >= 0 && s.KernelShare < 1, "kernel_share", s.KernelShare, "at least 0, less than 1")
	input.Within(c, "gpus_per_uplink", s.GPUsPerUplink, 1, 1024)
}

// rawBandwidth returns the bandwidth of a GPU's link in one direction after line coding.
func (s *Spec) rawBandwidth() units.Bandwidth {
	return laneRates[s.Generation] * units.Bandwidth(s.Lanes)
}

// Bandwidth returns the payload bandwidth of a GPU's link in one direction.
func (s *Spec) Bandwidth() units.Bandwidth { return s.rawBandwidth() * units.Bandwidth(s.Efficiency) }

// UplinkBandwidth returns the payload bandwidth of a switch's uplink in one direction.
func (s *Spec) UplinkBandwidth() units.Bandwidth {
	if s.UplinkLanes == 0 {
		return s.Bandwidth()
	}
	return s.Bandwidth() * units.Bandwidth(s.UplinkLanes) / units.Bandwidth(s.Lanes)
}

// TransferTime returns the time of a transfer of n bytes in either direction, on links that no other transfer uses: latency +
// size/bandwidth. No bytes take no time.
func (s *Spec) TransferTime(n units.Bytes) units.Duration {
	if n <= 0 {
		return 0
	}
	return s.Latency + min(s.Bandwidth(), s.UplinkBandwidth()).TransferTime(n)
}

// Typical returns 16 lanes of a generation with the efficiency and latency measured between an H200 and its host (generation 5,
// pinned memory, 1 KiB to 256 MiB, both directions; lab/docs/model-gpu.md). Other generations get the same efficiency, since
// packet overhead and copy engines are alike.
func Typical(generation int) Spec {
	return Spec{
		Generation: generation, Lanes: 16, Efficiency: 0.8808, Latency: 3377 * units.Nanosecond, GPUsPerUplink: 1,
	}
}
