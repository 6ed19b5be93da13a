package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestStandIn: by hand, one sub-batch takes the GPU's part, and in each layer a way down, the stand-in, a way up and a
// join. Two sub-batches with long stand-ins only take the way, once in each layer.
func TestStandIn(t *testing.T) {
	for subs := 1; subs <= 2; subs++ {
		cfg, err := Loader().Load(configs.Options{Preset: "dgx-h100-l3", SectionsOnly: true, Sets: []string{
			"run.model=llama-2-7b", "model.tensor_parallel=1", "node.gpus=1", "node.channels=8", "pim.host_access=0ps", "pim.descriptor=0B",
			"scheduler.sub_batches=" + map[int]string{1: "1", 2: "2"}[subs], "pcie.kernel_share=0.5"}})
		if err != nil {
			t.Fatal(err)
		}
		x, err := StandInOf(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, subs)}
		for s := range b.Sub {
			for range 32 {
				b.Sub[s].Decode = append(b.Sub[s].Decode, scheduler.Decoding{Offset: int32(s), Base: 1, Last: 2, Prompt: 1})
			}
		}
		const attention = 3 * units.Millisecond
		took, joules, err := x.Iteration(b, attention, 1)
		if err != nil {
			t.Fatal(err)
		}
		rate := cfg.PCIe.Bandwidth()
		if subs == 2 {
			rate /= 2 // kernels run beside the copies
		}
		p, layers := &cfg.PCIe, units.Duration(32)
		vectors := rate.TransferTime(units.Bytes(32*4096*2*3)) + rate.TransferTime(units.Bytes(32*4096*2)) // 16 bits of q, k, v; of results
		way := 2*p.Latency + p.Wake + vectors + attention + p.Join
		gpu := x.GPUTime(b) / units.Duration(subs)
		want := gpu + layers*way // the other sub-batch is hidden
		slack := units.Microsecond * layers / 10
		if subs == 2 {
			slack += x.GPUTime(b) / 32 // begins after the other's first block
		}
		if d := took - want; d < -slack || d > slack {
			t.Errorf("%d sub-batches: %v, want %v", subs, took, want)
		}
		if joules <= 0 {
			t.Errorf("%v joules", joules)
		}
		scaled, _, _ := x.Iteration(b, 0, 3)
		plain, _, _ := x.Iteration(b, 0, 1)
		if grows, want := scaled-plain, 2*x.GPUTime(b); subs == 1 && (grows < want-units.Microsecond || grows > want+units.Microsecond) {
			t.Errorf("kernels of three times their time add %v, want %v", grows, want)
		}
	}
}
