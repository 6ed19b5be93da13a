package gpu

import (
	"math"
	"testing"
)

// TestKernelTimes: kinds add up to the iteration, none is negative, and a model's kinds match its elements.
func TestKernelTimes(t *testing.T) {
	for _, c := range []struct {
		model string
		kinds []string
	}{
		{"llama-3-8b", []string{"gemm", "decode_attention", "prefill_attention", "small_kernels"}},
		{"gpt-oss-120b", []string{"mxfp4_experts", "gemm", "decode_attention"}},
		{"deepseek-v3", []string{"fp8_block_experts", "fp8_block_gemm", "latent_decode", "latent_prefill", "latent_absorb", "all_reduce"}},
		{"glm-5-fp8", []string{"sparse_latent", "index_scores", "top_k", "latent_absorb"}},
	} {
		m := loadModel(t, c.model)
		if m.TensorParallel == 0 {
			m.TensorParallel = 8
		}
		cost := NewModelCost(loadPreset(t, "h200-sxm"), m)
		x := Shape{Decode: UniformBatch(16, 8192), Prefills: 1, Chunk: 4096}
		sum, has := 0.0, map[string]bool{}
		for _, k := range cost.KernelTimes(x) {
			if has[k.Kind] = true; k.Seconds <= 0 {
				t.Errorf("%s: %s takes %v s", c.model, k.Kind, k.Seconds)
			}
			sum += k.Seconds
		}
		if want := cost.IterationParts(x).Total().Seconds; math.Abs(sum/want-1) > 0.01 {
			t.Errorf("%s: kinds take %v s, the iteration %v", c.model, sum, want)
		}
		for _, kind := range c.kinds {
			if !has[kind] {
				t.Errorf("%s: %s is not among %v", c.model, kind, has)
			}
		}
	}
}

// TestFarKernels: the far part of a kind's time covers only kernels beyond the range: here the output matrix of a large vocabulary, and no
// other product.
func TestFarKernels(t *testing.T) {
	gpu := *loadPreset(t, "h200-sxm")
	m := loadModel(t, "llama-3-8b")
	m.TensorParallel = 1
	gpu.Measured.ProductWidth = 65536 // Llama 3's vocabulary has 128,256 words, all other sides are at most 28,672
	cost := NewModelCost(&gpu, m)
	x := Shape{Decode: UniformBatch(16, 1024)}
	if far := cost.Beyond(x); far[LMHead] == "" || far[QKVProduct] != "" || far[FeedForward] != "" {
		t.Fatalf("beyond the range: %q", far)
	}
	want := cost.IterationParts(x)[LMHead].Seconds
	for _, k := range cost.KernelTimes(x) {
		switch {
		case k.Kind == "gemm" && (math.Abs(k.Far/want-1) > 1e-9 || k.Far > k.Seconds/2 || k.Beyond == ""):
			t.Errorf("products: %v s of %v s beyond the range (%q), want %v", k.Far, k.Seconds, k.Beyond, want)
		case k.Kind != "gemm" && (k.Far != 0 || k.Beyond != ""):
			t.Errorf("%s: %v s beyond the range: %q", k.Kind, k.Far, k.Beyond)
		}
	}
}
