package measure

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// moduleRows returns rows of the modules with an indexer in a fit's tables.
func moduleRows(t *testing.T, tables Tables, names ...string) (rows []Sample) {
	for _, name := range names {
		more, err := readFile(filepath.Join(publishedFolder, tables.name(), name), layerModel)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, more...)
	}
	return rows
}

// TestModuleFitsAreRepeated: TensorRT-LLM's kernels of an indexer and over chosen rows, and the launches of SGLang's prompts, are what a
// third of the tables' modules give.
func TestModuleFitsAreRepeated(t *testing.T) {
	deep.Heavy(t)
	var prompts []Sample
	var sums []float64
	for _, f := range shippedFits {
		target, tables := shippedTarget(t, f.gpu, f.fit), Tables{publishedFolder, f.system, f.framework, f.version}
		switch {
		case f.framework == "trtllm":
			shipped := target.GPU
			if err := target.FitIndexed(moduleRows(t, tables, "dsa_decode_layer.csv", "dsa_prefill_layer.csv")); err != nil {
				t.Fatal(err)
			}
			for _, p := range indexedParameters(&shipped) {
				if got, want := p.get(target), p.get(&Target{GPU: shipped}); math.Abs(got/want-1) > 1e-2 || !shipped.Index.Always || !shipped.Index.WideKeys {
					t.Errorf("%s: %s is %g, not %g", f.fit, p.name, want, got)
				}
			}
		case f.framework == "sglang":
			if shipped := target.GPU.FP8Block.Arrange; f.gpu == "b200-sxm" {
				target.FitArrange(moduleRows(t, tables, "dsa_decode_layer.csv"))
				if got := target.GPU.FP8Block.Arrange; math.Abs(got.Seconds()/shipped.Seconds()-1) > 1e-2 {
					t.Errorf("%s: scales are arranged in %v, not %v", f.fit, got, shipped)
				}
				target.GPU.FP8Block.Arrange = shipped
			}
			if shipped := target.GPU.Latent.Chosen.WidenedShare; f.gpu == "h200-sxm" {
				target.FitWidened(moduleRows(t, tables, "dsa_decode_layer.csv", "dsa_prefill_layer.csv"))
				if got := target.GPU.Latent.Chosen.WidenedShare; math.Abs(got/shipped-1) > 1e-2 {
					t.Errorf("%s: FP8 rows reach %g, not %g", f.fit, got, shipped)
				}
			}
			for _, s := range moduleRows(t, tables, "dsa_prefill_layer.csv") {
				prompts, sums = append(prompts, s), append(sums, layerKernels(&target.GPU, &s))
			}
		}
	}
	for _, l := range moduleLaunches {
		if got := launchesOf(l.kernel, prompts, sums); math.Abs(got-l.seconds) > 0.5e-6 {
			t.Errorf("%s: launches of %g s, not %g", l.kernel, got, l.seconds)
		}
	}
}

// TestLaunchesByHand: of two modules at 2 ms and one at 3 ms with kernels of 1, 1 and 3 ms, the launches are 2 ms; a prompt takes the longer
// of both, a step its kernels.
func TestLaunchesByHand(t *testing.T) {
	rows := []Sample{{Seconds: 2e-3}, {Seconds: 3e-3}, {Seconds: 2e-3}, {Seconds: 9}}
	for i := range rows[:3] {
		rows[i].source = "sglang_dsa_indexer_fa3"
	}
	if got := launchesOf("dsa_indexer", rows, []float64{1e-3, 3e-3, 1e-3, 1}); got != 2e-3 {
		t.Errorf("%g s", got)
	}
	for source, want := range map[string]float64{"sglang_dsa_indexer_trtllm": 1.49e-3, "sglang_dsa_skip_indexer_trtllm": 0.54e-3, "default": 0} {
		s := Sample{published: published{source: source}}
		s.chunk = 5
		if got := s.launched(); math.Abs(got-want) > 0.1*want {
			t.Errorf("%s: %g s, want %g", source, got, want)
		}
		if s.chunk = 0; s.launched() != 0 {
			t.Errorf("%s: steps are launched", source)
		}
	}
	if got := lowest(0.01, 100, func(x float64) float64 { return math.Abs(math.Log(x / 7)) }); math.Abs(got-7) > 0.001 {
		t.Errorf("lowest at %g, want 7", got)
	}
}
