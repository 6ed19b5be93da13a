package configs

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestBandsByHand: half of all draws are below the value. Between it and a bound, draws are uniform. Of log-normal draws, a tenth is beyond
// each end, and none beyond three standard deviations.
func TestBandsByHand(t *testing.T) {
	even := Band{Value: 10, Low: 4, High: 30}
	for place, want := range map[float64]float64{0: 4, 0.25: 7, 0.5: 10, 0.75: 20, 1: 30} {
		if got := even.At(place); math.Abs(got-want) > 1e-12 {
			t.Errorf("even, at %v: %v, by hand %v", place, got, want)
		}
	}
	normal := Band{Value: 2, Low: 1, High: 6, LogNormal: true}
	const tenth = 1.2815515655446004
	for place, want := range map[float64]float64{0.1: 1, 0.5: 2, 0.9: 6, 0: 2 * math.Pow(0.5, 3/tenth), 1: 2 * math.Pow(3, 3/tenth), 0.8413447460685429: 2 * math.Pow(3, 1/tenth), 0.15865525393145707: 2 * math.Pow(0.5, 1/tenth)} {
		if got := normal.At(place); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("log-normal, at %v: %v, by hand %v", place, got, want)
		}
	}
}

// TestFewestGPUs: 32 layers of 2·12·4096² parameters are 12.0 GiB of weights, which may take 0.8 of the GPUs' memory.
func TestFewestGPUs(t *testing.T) {
	for _, c := range []struct {
		gib   float64 // of each GPU
		nodes int
		want  int
	}{{80, 8, 1}, {16, 8, 1}, {14, 8, 2}, {8, 8, 2}, {7, 8, 4}, {1, 8, 8}, {7, 6, 2}, {7, 3, 1}} {
		x := &Config{}
		x.Model.Layers, x.Model.Hidden, x.Model.Heads, x.Model.KVHeads, x.Model.HeadDim, x.Model.FFNHidden, x.Model.ElementBits = 32, 4096, 32, 32, 128, 16384, 16
		x.GPU.MemoryCapacity, x.Node.GPUs = units.Bytes(c.gib*float64(units.GiB)), c.nodes
		x.DeriveTensorParallel()
		weights := func(tp int) float64 {
			x.Model.TensorParallel = tp
			return float64(x.Model.WeightBytes())
		}
		got, want := x.Model.TensorParallel, 1
		for tp := 1; tp <= c.nodes; tp++ { // the last that divides both, if none has room
			if c.nodes%tp == 0 && 32%tp == 0 {
				if want = tp; weights(tp) <= float64(tp)*0.8*float64(x.GPU.MemoryCapacity) {
					break
				}
			}
		}
		if got != want || got != c.want {
			t.Errorf("%+v: %d GPUs, by the sum %d", c, got, want)
		}
	}
}

// TestWorkspaceByHand: two GPUs reserve the activations of 64 tokens, or the sampler's memory for each request that may emit a token in an
// iteration: its bytes for each of 1,000 logits, on both GPUs.
func TestWorkspaceByHand(t *testing.T) {
	c := &Config{}
	c.Model.Layers, c.Model.Hidden, c.Model.Heads, c.Model.KVHeads, c.Model.HeadDim, c.Model.FFNHidden, c.Model.ElementBits, c.Model.Vocab, c.Model.TensorParallel = 2, 64, 4, 4, 16, 256, 16, 1000, 2
	c.Batching.MaxBatchTokens = 64
	activations := c.Model.ActivationBytes(64)
	for _, x := range []struct{ requests, tokens, bytes int }{{10, 64, 38}, {64, 64, 38}, {100, 64, 38}, {0, 64, 38}} {
		c.Batching.MaxNumSeqs, c.Batching.SamplerBytes = x.requests, x.bytes
		emit := x.requests
		if emit == 0 || emit > 64 {
			emit = 64
		}
		if got, want := c.Workspace(), max(activations, units.Bytes(2*emit*1000*38)); got != want {
			t.Errorf("%+v: %v, by hand %v", x, got, want)
		}
	}
	c.Batching.SamplerBytes = 0
	if got := c.Workspace(); got != activations || activations <= 0 || activations >= 2*64*1000*38 {
		t.Errorf("without a sampler %v, by hand %v", got, activations)
	}
	c.Batching.SamplerBytes, c.Batching.MaxNumSeqs, c.Batching.MaxBatchTokens, c.Model.Vocab = 1<<10, 0, 1<<20, 1<<40
	if got := c.Workspace(); got != 1<<60 {
		t.Errorf("of more than there is %d", got)
	}
	// Of 80 GiB, or of a share of them, a reserve of 2 GiB is not available to the server.
	c.GPU.MemoryCapacity, c.GPU.MemoryReserve, c.GPU.MemoryShare = 80*units.GiB, 2*units.GiB, 1
	for share, want := range map[float64]units.Bytes{1: 78 * units.GiB, 0.5: 38 * units.GiB, 0.01: 0} {
		if got := c.GPUMemory(share); got != want {
			t.Errorf("a share of %v: %v, by hand %v", share, got, want)
		}
	}
}
