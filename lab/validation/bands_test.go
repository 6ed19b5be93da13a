package validation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
)

// TestBandsOfKernels: the bands of gpu.scale in the presets follow from the recorded errors. A kind's error is the mean over all its
// kernels, of servers if measured, else of PyTorch. It is taken as the mean of a log-normal factor with median 1: its standard deviation is
// the mean times √(π/2), and 10% lie beyond 1.2816 of them on each side. Fits to public tables state their own errors, on held-out shapes. A
// kind that was not measured has twice the widest spread measured.
func TestBandsOfKernels(t *testing.T) {
	var best map[string]errors
	readJSON(t, recorded, &best)
	kinds := map[string][]string{"products": {"gemm"}, "prefill_attention": {"prefill attention", "extend attention"},
		"decode_attention": {"decode attention"}, "all_reduce": {"all reduce"}, "small_kernels": {"elementwise"}}
	widest, assumed := 0.0, map[string]energy.Constant{}
	for _, name := range configs.Names(configs.GPUs) {
		g, _, err := configs.LoadGPU("gpu", name)
		if err != nil {
			t.Fatal(err)
		}
		s := g.Scale
		for key, of := range map[string]energy.Constant{"products": s.Products, "prefill_attention": s.Prefill, "decode_attention": s.Decode, "all_reduce": s.AllReduce, "small_kernels": s.SmallKernels} {
			rows, sum := 0, 0.0
			for _, suite := range []gpu.Suite{gpu.SuiteServer, gpu.SuitePyTorch} {
				for anchor, e := range best {
					what, is := strings.CutPrefix(anchor, "kernels of "+name+": ")
					for _, kind := range kinds[key] {
						if is && strings.HasPrefix(what, fmt.Sprintf("%s, %s,", kind, suite)) {
							rows += e.Rows
							sum += float64(float64(e.Rows) * e.Mean)
						}
					}
				}
				if rows > 0 {
					break
				}
			}
			if mean := statedError(t, name, key); rows == 0 && mean > 0 {
				want := energy.Constant(band(mean*math.Sqrt(math.Pi/2), energy.Measured)).Estimate()
				if got := of.Estimate(); math.Abs(got.Low-want.Low) > 0.002 || math.Abs(got.High-want.High) > 0.002 || got.Grade != want.Grade {
					t.Errorf("%s: gpu.scale.%s = %q, and its fit's errors on shapes held out say %v", name, key, of, want)
				}
				continue
			}
			if rows == 0 {
				assumed[name+": "+key] = of
				continue
			}
			spread := sum / float64(rows) * math.Sqrt(math.Pi/2)
			widest = max(widest, spread)
			if want := band(spread, energy.Measured); string(of) != want {
				t.Errorf("%s: gpu.scale.%s = %q, and the errors of %d kernels say %q", name, key, of, rows, want)
			}
		}
	}
	for what, of := range assumed {
		if want := band(math.Round(20*widest)/10, energy.Assumption); string(of) != want {
			t.Errorf("%s = %q, and without measurements it is %q", what, of, want)
		}
	}
	if len(assumed) == 0 || widest == 0 {
		t.Error("nothing was compared")
	}
	if want := band(math.Round(20*widest)/10, energy.Assumption); string(gpu.AssumedScale) != want || strings.Count(gpu.ScaleDefaults, strconv.Quote(want)) != len(kinds) {
		t.Error("the defaults of [gpu.scale] are not those of a GPU without measurements")
	}
}

// statedError returns the mean error, on held-out shapes, of a kind of kernels of a GPU with a fit to public tables; 0 without such kernels.
func statedError(t *testing.T, name, key string) float64 {
	t.Helper()
	text, err := configs.Source(name)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "\nfit = \"")
	fit, _, ok := strings.Cut(rest, "\"")
	if !ok {
		return 0
	}
	about, err := configs.FitOf(fit)
	if err != nil {
		t.Fatal(err)
	}
	kind := map[string]string{"products": "gemm", "prefill_attention": "prefill_attention", "decode_attention": "decode_attention", "all_reduce": "all_reduce"}[key]
	if about.Base != "" {
		return about.Kinds[kind].Mean / 100
	}
	return 0
}

// band returns the constant of a factor with that standard deviation of its logarithm.
func band(spread float64, grade energy.Grade) string {
	const tenth = 1.2815515655446004 // standard deviations
	round := func(x float64) float64 { return math.Round(1000*x) / 1000 }
	return energy.Estimate{Value: 1, Low: round(math.Exp(-tenth * spread)), High: round(math.Exp(tenth * spread)), Grade: grade}.String()
}
