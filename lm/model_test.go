package lm

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
)

// reference returns PyTorch's results on the sample text (testdata).
func reference(tb testing.TB, name string) []float32 {
	tb.Helper()
	x, err := referenceFile(tb).Tensor(name).Float32s()
	if err != nil {
		tb.Fatal(name, err)
	}
	return x
}

func referenceFile(tb testing.TB) *attention.Safetensors {
	tb.Helper()
	file, err := attention.OpenSafetensors("testdata/tiny_lm_reference.safetensors")
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

func builtin(tb testing.TB, workers int) *Model {
	tb.Helper()
	w, err := Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	return NewModel(w, workers)
}

func desk(tb testing.TB, sets ...string) *Node {
	tb.Helper()
	c, err := system.Configs().Load(configs.Options{Preset: "desk", Sets: sets})
	if err != nil {
		tb.Fatal(err)
	}
	return &Node{Config: c}
}

func TestQuick(t *testing.T) {
	n := 8192
	m := builtin(t, 2)
	ref := reference(t, "f32.nll")
	kv := reference(t, "kv16.nll")
	_ = os.Getenv
	start := time.Now()
	for i, on := range []*Node{desk(t, "pim.precision.preset=fp32")} {
		if i == 1 {
			on.Exact = true
		}
		e, err := Evaluate(t.Context(), m, on, SampleText(), 1, n-1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var worst, worst2, mean, mean2 float64
		for i, x := range e.NLL {
			worst = max(worst, math.Abs(x-float64(ref[i+1])))
			worst2 = max(worst2, math.Abs(x-float64(kv[i+1])))
			if math.Abs(x-float64(kv[i+1])) > 2.5e-3 {
				t.Log("dimms", i+1, x-float64(kv[i+1]), ref[i+1]-kv[i+1], kv[i+1])
			}
			mean += x - float64(ref[i+1])
			mean2 += x - float64(kv[i+1])
		}
		t.Log(time.Since(start))
		start = time.Now()
		t.Logf("f32: worst %g mean %g; kv16 %g %g; max error %g, bits %g", worst, mean/float64(n), worst2, mean2/float64(n), e.MaxError, e.BitsPerByte())
	}
}
