package lm

import (
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
)

// reference returns a tensor of PyTorch's results on the sample text.
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

// desk returns the preset with some keys set.
func desk(tb testing.TB, sets ...string) *Node {
	tb.Helper()
	c, err := system.Load(configs.Options{Preset: "desk", Sets: sets})
	if err != nil {
		tb.Fatal(err)
	}
	return &Node{Config: c}
}

const fp32 = "pim.precision.preset=fp32"

func evaluate(tb testing.TB, m *Model, on *Node, prompt, steps int) *Evaluation {
	tb.Helper()
	e, err := Evaluate(tb.Context(), m, on, SampleText(), prompt, steps, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// quick says that a test takes its shortest form: with -short, or without L3SIM_DEEP=1.
func quick() bool { return testing.Short() || !deep.On() }
