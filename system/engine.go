package system

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// engine is a replica's hardware as a system puts it together. It runs the layers
// of one iteration after another.
type engine interface {
	// run executes batch b from start on and returns its end.
	run(b *scheduler.Batch, start units.Duration) (end units.Duration, err error)
	// core returns the resources, with what they have done so far: ranks of DIMM-PIM until settle was called last.
	core() *flow
	settle()
	// ranksets returns how evenly decode attention lies on them.
	ranksets() imbalance
	// peak returns the bandwidth at which decode attention can read keys and values
	// at most.
	peak() units.Bandwidth
}

// batcher forms the iterations of a replica: a scheduler with its queues and
// memories.
type batcher interface {
	// Extend tells it the requests that it may be asked to add, more than before.
	Extend(requests []traces.Request)
	Add(request int32) bool
	// Expire drops the requests that came before a time and whose prompts have not begun.
	Expire(before units.Duration, dropped func(request int32))
	// InSystem returns the requests that have been added and have not left.
	InSystem() int
	Rejection(request int32) scheduler.Rejection
	Next() *scheduler.Batch
	Preempted() []scheduler.Preemption
	Complete(emitted func(request int32, tokens int))
	Waiting() int
	Preemptions() int64
	WholePrompts() (prompts int64, longest int)
	RecomputedContexts() int64
	UsedUnits() int64
	Fragmentation() float64
	// Cached returns how many of a prompt's first tokens are in the cache of prefixes.
	Cached(r *traces.Request) int
	CacheCounts() scheduler.CacheCounts
	CachedUnits() int64
	ClearCache() error
	CheckMemory() error
	CheckAdmission() error
}

// assembly is the parts of a replica that are a system's own.
type assembly struct {
	batcher batcher
	engine  engine
}

// assemble puts together what serves requests on replica i. check is nil without
// checks.
func (n *Node) assemble(i int, requests []traces.Request, o Options, check *checker) assembly {
	stream := func(subsystem uint64) *rand.Rand {
		return rand.New(rand.NewPCG(n.cfg.Run.Seed, subsystem<<32|uint64(i)))
	}
	return n.system.assemble(n, requests, o, check, stream)
}
