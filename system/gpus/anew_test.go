package gpus

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/scheduler"
)

// TestAnew: GPUs that cache costs take the same time as GPUs that compute each anew, whatever sub-batches came before: of dense
// layers, heads, absorbed products of latents, batches of a window, and batches that attend elsewhere.
func TestAnew(t *testing.T) {
	for _, model := range []string{"gpt-oss-120b", "deepseek-v3", "deepseek-v3.2", "qwen3-30b-a3b", "llama-3-8b"} {
		h := gpusOf(t, "run.model="+model, "gpu.preset=h200-sxm", "node.gpus=8", "model.tensor_parallel=8")
		rapid.Check(t, func(t *rapid.T) {
			kept, each := New(h), New(h)
			each.Anew()
			for range rapid.IntRange(1, 6).Draw(t, "sub-batches") {
				var sub scheduler.SubBatch
				for range rapid.IntRange(0, 3).Draw(t, "requests") {
					context := rapid.SampledFrom([]int{1, 127, 128, 129, 5000, 5001}).Draw(t, "context")
					sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(context)})
				}
				if rapid.IntRange(0, 3).Draw(t, "prompt") == 0 {
					sub.Prefill = []scheduler.Chunk{{Tokens: rapid.SampledFrom([]int{1, 300}).Draw(t, "tokens"), Finished: 200}}
				}
				elsewhere := rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0
				stages := [2]stage{}
				for i, d := range []*GPUs{&kept, &each} {
					d.DecodeRuns(sub.Decode, 0)
					if elsewhere {
						clear(d.Decoding)
						d.Absorb(0, len(sub.Decode))
					}
					stages[i] = *d.StageRuns(&sub)
				}
				if !reflect.DeepEqual(stages[0], stages[1]) {
					t.Errorf("%s, %+v: %+v where costs are kept, %+v anew", model, sub, stages[0], stages[1])
				}
			}
			first, second := each.Dense.At(3), each.Dense.At(3)
			if first == second || kept.Dense.At(3) != kept.Dense.costs[3] || len(each.plain) > 0 || each.decoded[0].of.Requests > 0 {
				t.Error("costs are kept where they should not be, or the other way")
			}
		})
	}
}
