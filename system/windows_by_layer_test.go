package system

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

var windowRequests = []traces.Request{{Input: 3000, Output: 40}, {Input: 700, Output: 90}, {Input: 90, Output: 200}, {Input: 5000, Output: 9}}

// windowedRun runs windowRequests on a system with a model of twelve layers and more keys, under all checks.
func windowedRun(t *testing.T, system string, sets ...string) (*Node, *Result) {
	t.Helper()
	n := nodeOf(t, append([]string{fmt.Sprintf("run.system=%q", system), "run.model=llama-3-8b", "model.layers=12", "model.tensor_parallel=2",
		"node.gpus=2", "node.channels=4", "node.ranksets=4"}, sets...)...)
	return n, mustRun(t, n, &traces.Trace{Requests: windowRequests}, false)
}

// TestWideWindows: on every system with windows by layer, windows that hold every context change no request's time.
// Prompts run whole: layers with a window go to the DIMMs when the prompt ends.
func TestWideWindows(t *testing.T) {
	for _, system := range []string{"gpu-only", "hbm-pim", "l3"} {
		_, dense := windowedRun(t, system, "scheduler.chunking=false")
		for _, kinds := range []string{"L", "LLG", "GLLG", "C"} {
			_, wide := windowedRun(t, system, "scheduler.chunking=false", "model.window=5100", "model.layer_pattern="+kinds)
			for i := range dense.Requests {
				if a, b := &dense.Requests[i], &wide.Requests[i]; !reflect.DeepEqual(a, b) {
					t.Errorf("%s, %s:\ngot  %+v\nwant %+v", system, kinds, *b, *a)
				}
			}
		}
	}
}

// TestWindowsByLayer: a run attends to the contexts in every third layer and to the window in the others; the more
// layers have the window, the less time and memory it takes.
func TestWindowsByLayer(t *testing.T) {
	const window = 256
	full, cut, steps := 0.0, 0.0, 0.0
	for _, r := range windowRequests {
		for context := r.Input + 1; context < r.Input+r.Output; context++ {
			full, cut, steps = full+float64(context), cut+float64(min(context, window)), steps+1
		}
	}
	near := func(a, b float64) bool { return math.Abs(a/b-1) < 1e-12 }
	last := func(r *Result) (end units.Duration) {
		for i := range r.Requests {
			end = max(end, r.Requests[i].Finish)
		}
		return end
	}
	for _, system := range []string{"gpu-only", "hbm-pim", "l3"} {
		_, all := windowedRun(t, system)
		n, third := windowedRun(t, system, fmt.Sprint("model.window=", window), "model.layer_pattern=LLG")
		_, none := windowedRun(t, system, fmt.Sprint("model.window=", window))
		s, err := third.Summary(n.cfg)
		if err != nil {
			t.Fatal(err)
		}
		a := s.Attention
		if !near(a.Attended, (full+2*cut)/3/steps) || !near(a.Context, full/steps) || len(a.ByLayer) != 12 {
			t.Errorf("%s: attends to %v of %v tokens, want %v of %v", system, a.Attended, a.Context, (full+2*cut)/3/steps, full/steps)
		}
		for layer, tokens := range a.ByLayer {
			if want := map[bool]float64{true: full, false: cut}[layer%3 == 2] / steps; !near(tokens, want) {
				t.Errorf("%s: layer %d attends to %v tokens, want %v", system, layer, tokens, want)
			}
		}
		if !(last(none) < last(third) && last(third) < last(all)) {
			t.Errorf("%s: the last token is out after %v with windows in all layers, %v in two of three, %v in none", system, last(none), last(third), last(all))
		}
		if !(none.kv.Peak < third.kv.Peak && third.kv.Peak < all.kv.Peak) {
			t.Errorf("%s: keys and values take %d bytes with windows in all layers, %d in two of three, %d in none", system, none.kv.Peak, third.kv.Peak, all.kv.Peak)
		}
	}
}

// TestChunkedLayers: a run's chunked layers attend to the chunk so far, and hold at most as much as a window.
func TestChunkedLayers(t *testing.T) {
	const chunk = 256
	full, cut, steps := 0.0, 0.0, 0.0
	for _, r := range windowRequests {
		for context := r.Input + 1; context < r.Input+r.Output; context++ {
			full, cut, steps = full+float64(context), cut+float64((context-1)%chunk+1), steps+1
		}
	}
	for _, system := range []string{"gpu-only", "hbm-pim", "l3"} {
		n, r := windowedRun(t, system, "model.window=256", "model.layer_pattern=CCCG")
		_, windows := windowedRun(t, system, "model.window=256", "model.layer_pattern=LLLG")
		s, err := r.Summary(n.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for layer, tokens := range s.Attention.ByLayer {
			if want := map[bool]float64{true: full, false: cut}[layer%4 == 3] / steps; math.Abs(tokens/want-1) > 1e-12 {
				t.Errorf("%s: layer %d attends to %v tokens, want %v", system, layer, tokens, want)
			}
		}
		if r.kv.Peak > windows.kv.Peak || r.kv.Peak == 0 {
			t.Errorf("%s: keys and values take %d bytes, with windows %d", system, r.kv.Peak, windows.kv.Peak)
		}
	}
}

// TestFirstLayersWhole: the layers of a run that attend to the contexts, if the first one of a group does and 12 layers are no whole groups;
// on l3 with ranksets that do not divide the groups.
func TestFirstLayersWhole(t *testing.T) {
	for _, system := range []string{"gpu-only", "hbm-pim", "l3"} {
		n, r := windowedRun(t, system, "model.window=256", "model.layer_pattern=GLLLG")
		s, err := r.Summary(n.cfg)
		if err != nil {
			t.Fatal(err)
		}
		a := s.Attention
		for layer, tokens := range a.ByLayer {
			if whole := layer%5 == 0 || layer%5 == 4; (tokens == a.ByLayer[0]) != whole || whole != (tokens > 256) {
				t.Errorf("%s: layer %d attends to %v tokens, the first one to %v", system, layer, tokens, a.ByLayer[0])
			}
		}
	}
}

// TestLayerWindowNodes runs random small nodes with windows in some layers under all checks and layer by layer.
func TestLayerWindowNodes(t *testing.T) {
	fewCases(t, func(t *rapid.T) {
		cfg, trace := drawNode(t)
		pattern := rapid.SampledFrom([]string{"", "[GL]{0,%d}L", "[GC]{0,%d}C"}).Draw(t, "letters")
		if pattern != "" {
			pattern = rapid.StringMatching(fmt.Sprintf(pattern, min(cfg.Model.Layers, 7)-1)).Draw(t, "pattern")
		}
		cfg.Model.LayerKinds = llm.LayerKinds{Window: rapid.IntRange(1, 400).Draw(t, "window"), LayerPattern: pattern}
		runBothWays(t, cfg, trace)
	})
}

// TestLayerWindowErrors: systems without windows by layer refuse them by name.
func TestLayerWindowErrors(t *testing.T) {
	for want, sets := range map[string][]string{
		`model.window = 9: expected 0 with run.system = cpu-offload, which has no windows by layer; l3, gpu-only and hbm-pim have`:          {"run.system=cpu-offload"},
		`policy.name = "streaming": expected "dense" with model.window = 9: what else a policy leaves out of layers with a window is not m`: {"run.system=gpu-only", "policy.name=streaming"},
		`cache.prefix = true: expected false with model.window = 9: another prompt may need what has left the window`:                       {"cache.prefix=true"},
		`comm.stripe = "ranksets": expected "none" with model.window = 9`:                                                                   {"comm.stripe=ranksets"},
		`model.layer_pattern = "GLX": expected letters G (global), L (local), C (chunk), I (indexed) and S (shared)`:                        {"model.layer_pattern=GLX"},
		`model.layer_pattern = "GL": expected a letter L or C with model.window above 0, none with 0: it is 0`:                              {"model.layer_pattern=GL", "model.window=0"},
		`model.layer_pattern = "G": expected a letter L or C with model.window above 0, none with 0: it is 9`:                               {"model.layer_pattern=G"},
		`model.full_every = 2: was renamed to model.layer_pattern`:                                                                          {"model.full_every=2"},
		`model.kv_scales = "channel": expected "token" or "tensor" with model.window = 9`:                                                   {"model.kv_scales=channel", "model.kv_bits=4"},
		`model.expert_bits = 5: expected 16, 8 or 4, or 0 for weight_bits`:                                                                  {"model.expert_bits=5"},
	} {
		if _, err := everything().Load(configs.Options{Sets: append([]string{"model.window=9"}, sets...)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v:\ngot  %v\nwant %s", sets, err, want)
		}
	}
}
