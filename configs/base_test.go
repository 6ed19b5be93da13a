package configs_test

import (
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"

	. "github.com/l3sim/l3sim/configs"
)

// TestDeriveTensorParallel: the fewest GPUs that divide the KV heads and the node, and hold the weights; the most possible if none do.
func TestDeriveTensorParallel(t *testing.T) {
	// 2 GiB of weights a layer.
	model := func(layers, kvHeads int) llm.Model {
		return llm.Model{Layers: layers, Hidden: 1 << 14, Heads: kvHeads, KVHeads: kvHeads, HeadDim: (1 << 14) / kvHeads, FFNHidden: 0, ElementBits: 16}
	}
	for _, c := range []struct{ layers, kvHeads, gpus, want int }{
		{1, 8, 8, 1}, {32, 8, 8, 1}, {33, 8, 8, 2}, {64, 8, 8, 2}, {65, 8, 8, 4}, {200, 8, 8, 8}, {10000, 8, 8, 8},
		{65, 8, 6, 2}, // three GPUs do not divide the heads
		{65, 6, 8, 2}, // nor do four
		{65, 12, 6, 3}, {65, 12, 12, 3}, {33, 1, 8, 1}, {200, 32, 4, 4},
	} {
		cfg := Config{Model: model(c.layers, c.kvHeads), Devices: Devices{Node: Node{GPUs: c.gpus}}}
		cfg.GPU.MemoryCapacity = 80 * units.GiB
		cfg.DeriveTensorParallel()
		if got := cfg.Model.TensorParallel; got != c.want {
			t.Errorf("%d layers of %v, %d KV heads, %d GPUs: %d, want %d", c.layers, cfg.Model.LayerWeightBytes(), c.kvHeads, c.gpus, got, c.want)
		}
	}
}

// TestDerivedAsPresets: on the default node, each model gets the number of GPUs that its preset gives.
func TestDerivedAsPresets(t *testing.T) {
	for _, name := range Names(Model) {
		c := mustLoad(t, "", Options{SectionsOnly: true, Flags: []Flag{{"--model", "run.model", name}}})
		want := c.Model.TensorParallel
		if c.DeriveTensorParallel(); c.Model.TensorParallel != want {
			t.Errorf("%s: %d GPUs, the preset says %d", name, c.Model.TensorParallel, want)
		}
	}
}
