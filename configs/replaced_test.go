package configs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system"
)

// TestOtherFitReplaces: a fit that replaces the one of a GPU's preset keeps none of that one's kernels: vLLM's fit on a B200 uses no
// kernels of TensorRT-LLM. A file with a few keys overrides parts of the preset's fit.
func TestOtherFitReplaces(t *testing.T) {
	check := func(how string, g *gpu.Spec, want bool) {
		t.Helper()
		if has := g.FP8Block.Compute > 0; has != want || g.NVFP4.Compute == 0 || g.Latent.Decode.Compute > 0 != want {
			t.Errorf("%s: products by blocks %t, want %t", how, has, want)
		}
	}
	load := func(sets ...string) *gpu.Spec {
		cfg, err := system.Configs().Load(configs.Options{Sets: sets})
		if err != nil {
			t.Fatal(err)
		}
		return &cfg.GPU.Spec
	}
	check("the preset", load("gpu.preset=b200-sxm"), true)
	check("another fit", load("gpu.preset=b200-sxm", "gpu.fit=b200-sxm.vllm-0.24"), false)
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "a.toml")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	few := load("gpu.preset=b200-sxm", "gpu.fit="+file("[gpu.gemm]\noverhead = \"3us\"\n"))
	check("a few keys", few, true)
	if few.MatMul.Overhead.Microseconds() != 3 {
		t.Errorf("products start in %v", few.MatMul.Overhead)
	}
	own := file("[gpu]\npreset = \"b200-sxm\"\nfit = \"b200-sxm.vllm-0.24\"\n")
	check("a GPU's file", load("gpu.preset="+own), false)
	g, _, err := configs.LoadGPU("--gpu", own)
	if err != nil {
		t.Fatal(err)
	}
	check("a GPU alone", g, false)
}
