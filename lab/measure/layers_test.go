package measure

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// layerModel returns a preset for a row of an attention module.
func layerModel(name string) (*llm.Model, error) {
	m, err := configs.LoadModel("model", name, &gpu.Spec{}, 0)
	if err != nil {
		return nil, err
	}
	own := *m
	return &own, nil
}

// TestLayerRows: modules of attention are distinguished from kernels, and cost as much as their parts in a one-layer
// iteration.
func TestLayerRows(t *testing.T) {
	const steps, prompts = "model,gemm,kv_dtype,heads,batch,context,kernel,us\n", "model,gemm,kv_dtype,heads,batch,prefix,length,kernel,us\n"
	g := &shippedTarget(t, "h200-sxm", "h200-sxm.sglang-0.5.14").GPU
	for _, c := range []struct {
		text   string
		kind   Kind
		preset string
		set    func(m *llm.Model)
		x      gpu.Shape
		letter byte
	}{
		{steps + "DeepSeek-V3,fp8_block,bfloat16,16,4,3000,default,90\n", LatentLayer, "deepseek-v3", func(*llm.Model) {}, gpu.Shape{Decode: gpu.UniformBatch(4, 3000)}, llm.Global},
		{prompts + "DeepSeek-V3,bfloat16,fp8,8,2,512,1024,default,90\n", LatentLayer, "deepseek-v3",
			func(m *llm.Model) {
				m.Heads, m.WeightBits, m.ActivationBits, m.WeightBlock, m.KVFormat = 8, 16, 16, 0, llm.FP8
			},
			gpu.Shape{Prefills: 2, Chunk: 1024, Finished: 512}, llm.Global},
		{steps + "DeepSeek-V3.2,fp8_block,bfloat16,16,1,131072,sglang_dsa_indexer_fa3,90\n", IndexedLayer, "deepseek-v3.2", func(*llm.Model) {}, gpu.Shape{Decode: gpu.UniformBatch(1, 131072)}, llm.Indexed},
		{steps + "GLM-5.2-NVFP4,nvfp4,bfloat16,16,8,4096,sglang_dsa_skip_indexer_fa3,90\n", IndexedLayer, "glm-5-fp8",
			func(m *llm.Model) { m.WeightBits, m.WeightBlock, m.LayerPattern = 4, 16, "S" }, gpu.Shape{Decode: gpu.UniformBatch(8, 4096)}, llm.Shared},
	} {
		got, err := parse("x.csv", strings.NewReader(c.text), layerModel)
		if err != nil || len(got) != 1 || got[0].kind != c.kind || math.Abs(got[0].Seconds-90e-6) > 1e-12 || got[0].where != InGraph {
			t.Fatalf("%s: %+v, %v", c.text, got, err)
		}
		m, err := layerModel(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		m.Layers, m.DenseLayers, m.TensorParallel, m.Heads = 1, 0, 1, 16
		c.set(m)
		want := gpu.NewModelCost(g, m).AttentionModule(c.x, c.letter)
		if seconds := (&Target{GPU: *g}).Predict(&got[0]); math.Abs(seconds/want-1) > 1e-12 {
			t.Errorf("%s: %g s, want %g", got[0].String(), seconds, want)
		}
	}
	for text, says := range map[string]string{
		"DeepSeek-V3,fp8,bfloat16,16,4,3000,a,90\n":       "one of bfloat16, fp8_block, nvfp4",
		"DeepSeek-V3,fp8_block,int8,16,4,3000,a,90\n":     "one of bfloat16, fp8",
		"DeepSek-V3,fp8_block,fp8,16,4,3000,a,90\n":       "deepseek-v3",
		"Llama-3-8b,fp8_block,fp8,16,4,3000,a,90\n":       "a model with latent attention",
		"DeepSeek-V3,fp8_block,bfloat16,16,4,0,a,90\n":    "context",
		"DeepSeek-V3,fp8_block,bfloat16,0,4,3000,a,90\n":  "heads",
		"DeepSeek-V3,fp8_block,bfloat16,16,4,3000,a,-1\n": "us",
	} {
		_, err := parse("x.csv", strings.NewReader(steps+text), layerModel)
		if e := (*input.Error)(nil); !errors.As(err, &e) || e.Line != 2 || e.File != "x.csv" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}
