package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
)

// TestFetchIterations: more misses take longer, up to all chosen rows. Without misses the layers still look the rows up. Kernels are scaled, fetches
// are not.
func TestFetchIterations(t *testing.T) {
	load := func(sets ...string) *configs.Config {
		cfg, err := Loader().Load(configs.Options{Preset: "dgx-h200-l3", Sets: append([]string{"run.model=glm-5-fp8", "policy.name=dsa", "gpu.preset=h200-sxm", "node.gpus=8", "model.tensor_parallel=8"}, sets...)})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if _, err := NewFetchIterations(load("run.system=gpu-only")); err == nil || err.Error() != "run.system = gpu-only: expected sparse-offload" {
		t.Errorf("another system: %v", err)
	}
	f, err := NewFetchIterations(load("run.system=sparse-offload", "sparse_offload.buffer_rows=4096"))
	if err != nil {
		t.Fatal(err)
	}
	batch := func(context int64, n int) *scheduler.Batch {
		b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, 1)}
		for i := range n {
			b.Sub[0].Decode = append(b.Sub[0].Decode, scheduler.Decoding{Request: int32(i), Base: context - 1, Last: 2, Prompt: int32(context / 2)})
		}
		return b
	}
	took := func(context int64, n, misses int, scale float64) float64 {
		d, err := f.Iteration(batch(context, n), misses, scale)
		if err != nil {
			t.Fatal(err)
		}
		return d.Seconds()
	}
	gpus := f.GPUTime(batch(30_000, 4)).Seconds()
	none, some, all := took(30_000, 4, 0, 1), took(30_000, 4, 500, 1), took(30_000, 4, 2048, 1)
	if !(gpus > 0 && gpus <= none && none < some && some < all) || took(30_000, 4, 9000, 1) != all || f.GPUTime(batch(30_000, 8)) <= f.GPUTime(batch(30_000, 4)) {
		t.Errorf("GPUs %v, no misses %v, 500 %v, all %v", gpus, none, some, all)
	}
	if short := took(4000, 4, 2048, 1); short != took(4000, 4, 0, 1) || short >= none {
		t.Errorf("contexts that the buffer holds take %v and %v", short, took(4000, 4, 0, 1))
	}
	if more := took(30_000, 4, 500, 2) - some; more < 0.9*gpus || more > 1.1*gpus {
		t.Errorf("kernels that take twice as long add %v to %v of the GPUs", more, gpus)
	}
}
