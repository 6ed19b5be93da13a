package gpu_test

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// TestIterationParts: the groups are those of the iteration and add up to it, also when sustained.
func TestIterationParts(t *testing.T) {
	for _, c := range []struct {
		model  string
		gpus   int
		shape  gpu.Shape
		absent []gpu.Group
	}{
		{"llama-3-8b", 1, gpu.Shape{Decode: gpu.UniformBatch(64, 2048)}, []gpu.Group{gpu.PrefillAttention, gpu.AllReduce}},
		{"llama-3-70b", 4, gpu.Shape{Decode: gpu.UniformBatch(3, 70), Prefills: 1, Chunk: 512, Finished: 100}, nil},
		{"mixtral-8x7b", 2, gpu.Shape{Prefills: 2, Chunk: 512}, []gpu.Group{gpu.DecodeAttention}},
		{"opt-13b", 1, gpu.Shape{}, []gpu.Group{0, 1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		s, _, err := configs.LoadGPU("--gpu", "h200-sxm")
		if err != nil {
			t.Fatal(err)
		}
		m, err := configs.LoadModel("--model", c.model, s, 8)
		if err != nil {
			t.Fatal(err)
		}
		m.TensorParallel = c.gpus
		cost := gpu.NewModelCost(s, m)
		parts := cost.IterationParts(c.shape)
		absent := map[gpu.Group]bool{}
		for _, g := range c.absent {
			absent[g] = true
		}
		for g := range gpu.Groups {
			if (parts[g].Seconds == 0) != absent[g] || g.String() == "" {
				t.Errorf("%s: %s takes %g s", c.model, g, parts[g].Seconds)
			}
		}
		whole := cost.Iteration(c.shape)
		if whole != parts.Total() {
			t.Errorf("%s: parts of %+v, iteration %+v", c.model, parts.Total(), whole)
		}
		tokens := c.shape.Decode.Requests + c.shape.Prefills*c.shape.Chunk
		sums := float64(2*m.Layers+1) * s.AllReduceCost(c.gpus, units.Bytes(2*tokens*m.Hidden)).Seconds
		choice := s.AllReduceCost(c.gpus, units.Bytes(8*(c.shape.Decode.Requests+c.shape.Prefills))).Seconds
		if got := parts[gpu.AllReduce].Seconds; math.Abs(got-sums-choice) > 1e-9*got {
			t.Errorf("%s: all-reduces of %g s, want two a layer and two more, %g s", c.model, got, sums+choice)
		}
		sum := 0.0
		for g, seconds := range s.SustainedParts(parts) {
			sum += seconds
			if seconds < parts[g].Seconds {
				t.Errorf("%s: %s is faster sustained", c.model, gpu.Group(g))
			}
		}
		if seconds, _ := s.Sustained(whole); math.Abs(sum-seconds) > 1e-12*seconds {
			t.Errorf("%s: parts of %g s, sustained %g s", c.model, sum, seconds)
		}
	}
}
