package kinds

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Engine is a replica's hardware as a system puts it together. It runs the layers
// of one iteration after another.
type Engine interface {
	// Run executes batch b from start on and returns its end.
	Run(b *scheduler.Batch, start units.Duration) (end units.Duration, err error)
	// Core returns the resources, with what they have done so far: ranks of DIMM-PIM until Settle was called last.
	Core() *flow.Flow
	// Settle counts what ranks of DIMM-PIM have done since the last call.
	Settle()
	// Side returns the GPUs.
	Side() *gpus.GPUs
	// Ranksets returns how evenly decode attention lies on them.
	Ranksets() flow.Imbalance
	// Peak returns the bandwidth at which decode attention can read keys and values at most.
	Peak() units.Bandwidth
}

// Assembly is the parts of a replica that are a system's own.
type Assembly struct {
	Batcher *forming.Scheduler
	Engine  Engine
}

// Setup is what a system puts a replica together from.
type Setup struct {
	Hardware      *flow.Hardware
	CommandTables CommandTables
	Running       flow.Running
	Memory        flow.KVMemory
	Requests      []traces.Request
	Replica       int
}

// CommandTables are what commands take on the memory of a node, measured once for all of its replicas.
type CommandTables struct {
	Kernels *ranks.Kernels // of ranks; nil without DIMM-PIM, and where only memory matters
	Stack   *hbm.Table     // of units in HBM; nil without
}

// Streams of random numbers, one for each subsystem that draws any.
const (
	streamBalance = 1 + iota
	streamPredictor
)

func (n *Setup) stream(subsystem uint64) *rand.Rand {
	return rand.New(rand.NewPCG(n.Hardware.Config.Run.Seed, subsystem<<32|uint64(n.Replica)))
}
