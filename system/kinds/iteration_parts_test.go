package kinds

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
)

// partsOf loads gpu-only on one A100 replica with a policy.
func partsOf(t interface{ Fatal(...any) }, sets ...string) *configs.Config {
	return rigOf(t, append([]string{"run.system=gpu-only", `gpu.preset="a100-sxm-80gb"`, "node.gpus=2"}, sets...)...).cfg
}

// TestIterationPartsOfAnyBatch: the same law for iterations that decode and prefill, and for models
// whose layers differ.
func TestIterationPartsOfAnyBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(gpuOnlySystem.Policies()).Draw(t, "policy")
		sets := []string{"policy.name=" + name, "model.layers=6", "run.model=" + rapid.SampledFrom([]string{"llama-3-8b", "opt-13b", "mixtral-8x7b"}).Draw(t, "model")}
		switch name {
		case "dsa":
			sets = append(sets, "model.kv_heads=1", "model.head_dim=72", "model.latent_dim=64", "model.nope_dim=16", "model.value_dim=16", "model.index_heads=4", "model.index_dim=16",
				"model.index_top_k="+rapid.SampledFrom([]string{"1", "500", "200000"}).Draw(t, "top k"), "model.layer_pattern="+rapid.SampledFrom([]string{"I", "GIS", "IS"}).Draw(t, "pattern"))
		case "lserve", "duo":
			sets = append(sets, "policy."+name+".static_sparsity="+rapid.SampledFrom([]string{"0", "0.3", "1"}).Draw(t, "sparsity"))
		case "quest":
			sets = append(sets, "policy.quest.skip_layers="+rapid.SampledFrom([]string{"0", "2", "9"}).Draw(t, "skip"))
		}
		cfg := partsOf(t, sets...)
		var decode []policy.Request
		sub := scheduler.SubBatch{}
		for range rapid.IntRange(0, 3).Draw(t, "decoding") {
			prompt := rapid.IntRange(1, 100_000).Draw(t, "prompt")
			r := policy.Request{Prompt: prompt, Context: prompt + rapid.IntRange(1, 5000).Draw(t, "emitted")}
			decode = append(decode, r)
			sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(r.Context), Prompt: int32(prompt)})
		}
		for range rapid.IntRange(0, 2).Draw(t, "prompts") {
			sub.Prefill = append(sub.Prefill, scheduler.Chunk{Tokens: rapid.IntRange(1, 5000).Draw(t, "chunk"), Finished: rapid.IntRange(0, 9000).Draw(t, "finished"), Last: rapid.Bool().Draw(t, "last")})
		}
		if sub.Tokens() == 0 {
			return
		}
		e := &gpuOnly{GPUs: gpus.New(Of(cfg).Derive(cfg))}
		e.Flow = flow.New(Of(cfg).Derive(cfg), gpus.BesideGPU("")[:gpus.OnDevice], flow.Running{})
		end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		x := NewGPUIterations(cfg).Parts(decode, sub.Prefill...)
		if x.Total() != end {
			t.Fatalf("parts of %v, an iteration of %v", x.Total(), end)
		}
		for p, took := range x {
			if took < 0 {
				t.Fatalf("%v take %v", gpus.IterationPart(p), took)
			}
		}
	})
}
