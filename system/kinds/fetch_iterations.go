package kinds

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// FetchIterations is a replica of sparse-offload that is told how many of the chosen rows each request must fetch. Its operations,
// their order and the engine are those of the system. It is not safe for concurrent use.
type FetchIterations struct{ e *sparseOffload }

// NewFetchIterations returns the FetchIterations of a validated configuration of the system
// sparse-offload.
func NewFetchIterations(cfg *configs.Config) (*FetchIterations, error) {
	s := Of(cfg)
	if s == nil || s.Name != sparseOffloadSystem.Name {
		return nil, &input.Error{Key: "run.system", Value: cfg.Run.System, Expected: sparseOffloadSystem.Name}
	}
	return &FetchIterations{newSparseOffload(s.Derive(cfg), flow.Running{})}, nil
}

// GPUTime returns the GPUs' time of all sub-batches of a batch, without fetches.
func (f *FetchIterations) GPUTime(b *scheduler.Batch) (t units.Duration) {
	for s := range b.Sub {
		f.e.DecodeRuns(b.Sub[s].Decode, b.Step)
		t += f.e.GPUTime(&b.Sub[s])
	}
	return t
}

// Iteration returns the time of a batch in which each request fetches misses rows in each layer. scale multiplies the modelled times of
// kernels.
func (f *FetchIterations) Iteration(b *scheduler.Batch, misses int, scale float64) (units.Duration, error) {
	f.e.misses, f.e.scale = misses, scale
	return f.e.Run(b, 0)
}
