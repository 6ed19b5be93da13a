package ranks

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestLinksAreShared checks the one link that represents all of a replica's. All GPUs send their
// equal parts of a transfer at the same time: it ends when a GPU's own link or a switch's uplink
// does, whichever is busy longer.
func TestLinksAreShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := benchOf(t,
			fmt.Sprint("pcie.generation=", rapid.IntRange(3, 6).Draw(t, "generation")),
			fmt.Sprint("pcie.gpus_per_uplink=", rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "GPUs a switch")),
			fmt.Sprint("pcie.uplink_lanes=", rapid.SampledFrom([]int{0, 4, 8, 16, 32}).Draw(t, "uplink lanes")),
			"node.channels=96", // channels do not limit
		)
		cfg := n.cfg
		gpus := cfg.Model.TensorParallel
		each := units.Bytes(rapid.IntRange(1, 1<<24).Draw(t, "bytes a GPU"))
		all := units.Bytes(gpus) * each
		onSwitch := units.Bytes(min(gpus, cfg.PCIe.GPUsPerUplink)) * each
		end := cfg.PCIe.Latency + max(cfg.PCIe.Bandwidth().TransferTime(each), cfg.PCIe.UplinkBandwidth().TransferTime(onSwitch))
		d := devicesOf(n)
		got := cfg.PCIe.Latency + d.cut(all, 0, 0).Last
		if diff := got - end; diff < -2 || diff > 2 { // each rounds up to a picosecond
			t.Fatalf("%v over all links of the replica take %v, the busiest link alone %v", all, got, end)
		}
	})
}

// TestCPUTransposition checks that elements transposed by the CPU cost their transfer and more than
// twice the channels' time for it again (L3, section 2.5), and that chips as wide as an element
// need no transposition.
func TestCPUTransposition(t *testing.T) {
	const tokens = 700
	flight, cpu := devicesOf(benchOf(t)), devicesOf(benchOf(t, `pim.relayout="cpu"`))
	clocks := promptClocksOf(flight, 0, tokens)
	plain, slow := sentOf(flight, tokens, clocks), sentOf(cpu, tokens, clocks)
	base := flight.channel.TransferTime(tokens * flight.Attends.KV(1))
	if again := slow.Last - plain.Last; again < 2*base || again > 3*base || slow.Data-plain.Data != again {
		t.Errorf("transposing %d tokens takes %v, their transfer over the channels %v", tokens, again, base)
	}
	if wide := devicesOf(benchOf(t, `pim.relayout="cpu"`, `dram.preset="ddr4-3200-8gb-x16"`)); wide.transposition(1<<20) != 0 {
		t.Error("elements that fit a chip are transposed")
	}
}
