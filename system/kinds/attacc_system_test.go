package kinds

import (
	"fmt"
	"math"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
)

// attAccRuns are decode steps of AttAcc's own simulator (https://github.com/scale-snu/attacc_simulator, commit c600051), in
// milliseconds: main.py with --system dgx-attacc --pim bank, GPT-175B on eight A100s with HBM3, --lin 2048 --lout 128, the mean of 127
// steps. Its snapshot lacks Ramulator: attention had the clocks of package pim/hbm, which are Ramulator's to the cycle (TestAttAccCycles).
var attAccRuns = []struct {
	batch                          int
	free, freeFF, limited, limitFF float64 // without and with --powerlimit, each without and with --ffopt
}{
	{1, 27.255627, 16.816071, 27.330963, 17.348138},
	{4, 27.863749, 18.697173, 27.939085, 20.006472},
	{8, 28.310691, 20.664426, 28.461215, 22.389181},
	{16, 28.958970, 23.213093, 29.213334, 25.076302},
	{32, 31.725199, 27.879708, 32.150162, 29.617766},
	{64, 34.598876, 32.273696, 35.423982, 33.990652},
}

// TestAttAccSystem: units beside the GPUs, with AttAcc's GPU and links, take the time of AttAcc's simulator for a decode step's
// layers, with attention by commands and the feed-forward network divided or not.
func TestAttAccSystem(t *testing.T) {
	for _, run := range attAccRuns {
		for _, c := range []struct {
			limited bool
			share   int
			want    float64
		}{{false, 0, run.free}, {false, 1, run.freeFF}, {true, 0, run.limited}, {true, 1, run.limitFF}} {
			e := rigOf(t, "run.system=hbm-pim", "run.model=gpt-175b", "gpu.preset=a100-paper", "gpu.memory_bandwidth=3.352TB/s", "gpu.peak_16bit=312TFLOP/s",
				"hbm_pim.model=commands", fmt.Sprintf("hbm_pim.power_limit=%v", c.limited), "hbm_pim.memory_beside=80GiB", "hbm_pim.sub_batches=never",
				"hbm_pim.kernel_overhead=false", fmt.Sprintf("hbm_pim.feed_forward=%d", c.share)).hbm()
			var sub scheduler.SubBatch
			for range run.batch {
				sub.Decode = append(sub.Decode, scheduler.Decoding{Base: 2111})
			}
			end, err := e.Run(&scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{sub}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			g := e.StageRuns(&sub)
			got := 1e3 * (end - g.Entry - g.Exit + g.Block).Seconds() // without embedding and LM head, which theirs lacks
			within := []float64{0.01, 0.08}[c.share]                  // at 32 requests a narrower product saves no whole waves of tiles; theirs is divided as if it did
			if math.Abs(got/c.want-1) > within {
				t.Errorf("%d requests, limited %v, network shared %d: %.3f ms, AttAcc's simulator %.3f", run.batch, c.limited, c.share, got, c.want)
			}
		}
	}
}
