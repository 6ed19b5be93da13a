package hostkv

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
)

// server is HiSparse's: GLM-5 in 4 bits, latents in FP8. Its GPU's fit covers dense products and attention; experts, latents and indexers borrow those parameters. The measured servers only
// decode: their prompts run elsewhere, so that only steps count. Rows are copied from a context in the middle of the output.
var server = []string{
	"run.system=sparse-offload", "run.model=glm-5-fp8", "policy.name=dsa", `gpu.preset="rtx-pro-6000-server"`, "node.gpus=8", "model.tensor_parallel=8", "model.weight_bits=4",
	"model.kv_format=fp8_ds_mla", "sparse_offload.buffer_rows=4096",
}

// TestPairs is a calibration with a check, not a validation: one constant of the GPU's part comes from one request without host memory, and
// the number of misses from 16 requests with it. The other rows are then within 20%, the ratios within 15%.
func TestPairs(t *testing.T) {
	cfg, err := kinds.Loader().Load(configs.Options{Preset: "dgx-h200-l3", Sets: server})
	if err != nil {
		t.Fatal(err)
	}
	f, err := kinds.NewFetchIterations(cfg)
	if err != nil {
		t.Fatal(err)
	}
	batch := func(n int) *scheduler.Batch {
		b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, 1)}
		for i := range n {
			b.Sub[0].Decode = append(b.Sub[0].Decode, scheduler.Decoding{Request: int32(i), Base: 32768 + 1024 - 1, Last: 2, Prompt: 32768})
		}
		return b
	}
	without := func(n int) float64 { return float64(f.GPUTime(batch(n)).Seconds() * 1e3) }
	with := func(n, misses int) float64 {
		took, err := f.Iteration(batch(n), misses, 1)
		if err != nil {
			t.Fatal(err)
		}
		return float64(took.Seconds() * 1e3)
	}
	type pair struct{ without, with, tokensWithout, tokensWith float64 }
	var pairs []pair
	err = each("testdata/pairs.csv", []string{"running_without", "tok_s_without", "running_with", "tok_s_with"}, func(r *record) {
		pairs = append(pairs, pair{r.number("running_without", 1), r.number("running_with", 1), r.number("tok_s_without", 1), r.number("tok_s_with", 1)})
	})
	if err != nil || len(pairs) != 7 {
		t.Fatal(pairs, err)
	}
	constant := 1e3/pairs[0].tokensWithout - without(1)
	sixteen, misses := 16e3/pairs[4].tokensWith, 0
	for misses < 2048 && constant+with(16, misses+1) <= sixteen {
		misses++
	}
	t.Logf("a constant of %.2f ms; %d of 2,048 chosen rows miss, %.1f%%", constant, misses, float64(misses)/20.48)
	if constant < 1 || constant > 3 || misses < 80 || misses > 160 {
		t.Errorf("a constant of %v ms and %d misses are not those of the page", constant, misses)
	}
	for i, p := range pairs {
		off, on := p.without*1e3/(constant+without(int(p.without))), p.with*1e3/(constant+with(int(p.with), misses))
		ratio, measured := on/off, p.tokensWith/p.tokensWithout
		t.Logf("%2.0f requests: without %5.1f tokens/s (%+.1f%%), %2.0f with %5.1f (%+.1f%%), ratio %.2f, measured %.2f (%+.1f%%)", p.without, off, 100*(off/p.tokensWithout-1), p.with, on, 100*(on/p.tokensWith-1), ratio, measured, 100*(ratio/measured-1))
		if math.Abs(off/p.tokensWithout-1) > 0.2 || math.Abs(on/p.tokensWith-1) > 0.2 || math.Abs(ratio/measured-1) > 0.15 {
			t.Errorf("pair %d is off by more than 20%%, or its ratio by more than 15%%", i)
		}
	}
}
