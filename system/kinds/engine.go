package kinds

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Engine is the hardware of a replica under a system. It runs the layers of one iteration after
// another.
type Engine interface {
	// Run executes batch b from start and returns its end.
	Run(b *scheduler.Batch, start units.Duration) (end units.Duration, err error)
	// Core returns the resources, with their work so far; that of DIMM-PIM ranks is up to the last call of Settle.
	Core() *flow.Flow
	// Settle adds the work of DIMM-PIM ranks since the last call.
	Settle()
	// Side returns the GPUs.
	Side() *gpus.GPUs
	// Ranksets returns how evenly decode attention is spread over the ranksets.
	Ranksets() flow.Imbalance
	// Peak returns the highest bandwidth at which decode attention can read keys and values.
	Peak() units.Bandwidth
}

// Assembly is the parts of a replica that depend on its system.
type Assembly struct {
	Batcher *batching.Scheduler
	Engine  Engine
}

// Setup is the input from which a system builds a replica.
type Setup struct {
	Hardware      *flow.Hardware
	CommandTables CommandTables
	Running       flow.Running
	Memory        flow.KVMemory
	Requests      []traces.Request
	Replica       int
}

// CommandTables are times of commands on the memory of a node, measured once for all its replicas.
type CommandTables struct {
	Kernels *ranks.Kernels // of ranks; nil without DIMM-PIM, or if only memory matters
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
