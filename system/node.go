package system

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Options are the switches of a run that change nothing but how it is carried
// out.
type Options struct {
	// Exact runs every layer of every iteration instead of skipping repeats.
	Exact bool
	// Check verifies the laws of docs/laws.md while the run goes; Run returns the
	// first Violation.
	Check bool
	// Timeline, if not nil, is the part of the run that the Result records.
	Timeline *Window
	// Progress, if not nil, is told the tokens emitted so far by a replica. Calls
	// come from several goroutines.
	Progress func(replica int, tokens int64)
}

// Node is the hardware of a configuration: replicas of a model on GPUs and the
// DIMM-PIM channels that belong to them.
type Node struct {
	cfg      *configs.Config
	table    *pim.KernelTable
	sequence sequence
	unit     units.Bytes // of an allocation unit
}

// NewNode wires the devices of a validated configuration. It runs the PIM
// program on the DRAM model to fill the table of head kernels.
func NewNode(cfg *configs.Config) (*Node, error) {
	table, err := pim.NewKernelTable(&cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape())
	if err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, table: table, sequence: newSequence(table), unit: cfg.PIM.UnitBytes(&cfg.DRAM.Spec)}, nil
}

// Streams of random numbers, one for each subsystem that draws any.
const (
	streamBalance = 1 + iota
	streamPredictor
)

// replica returns replica i of the node with its requests.
func (n *Node) replica(i int, requests []traces.Request, o Options) *replica {
	cfg := n.cfg
	d := n.devices()
	r := &replica{
		devices:  d,
		requests: requests,
		pipeline: newPipeline(cfg.Node.Ranksets, o.Exact),
		costs:    n.costs(d),
		progress: func(int64) {},

		unitBytes: int64(n.unit) * int64(cfg.ReplicaChannels()),
	}
	if o.Timeline != nil {
		r.recording = &Recording{Window: *o.Timeline, Spans: NewSpans(cfg.Node.Ranksets), parts: map[sim.Time][]part{}}
	}
	if o.Progress != nil {
		r.progress = func(tokens int64) { o.Progress(i, tokens) }
	}
	if o.Check {
		r.pipeline.check = newChecker(cfg.Node.Ranksets)
	}
	stream := func(subsystem uint64) *rand.Rand { return rand.New(rand.NewPCG(cfg.Run.Seed, subsystem<<32|uint64(i))) }
	var predictor scheduler.Predictor = d
	if cfg.Predictor.Kind == scheduler.PredictLearned {
		r.learned = scheduler.NewLearned(&cfg.Predictor, d, stream(streamPredictor))
		predictor = r.learned
	}
	policies := scheduler.Config{Scheduler: &cfg.Scheduler, Memory: &cfg.Memory, Comm: &cfg.Comm}
	free := scheduler.GPUMemory{Model: &cfg.Model, Free: n.FreeGPUMemory()}
	r.scheduler = scheduler.New(policies, requests, n.ledger(), free, predictor, stream(streamBalance))
	return r
}

// devices returns the device models of one replica.
func (n *Node) devices() *devices {
	cfg := n.cfg
	gpus, channels := cfg.Model.TensorParallel, cfg.ReplicaChannels()
	d := &devices{
		model: &cfg.Model, gpu: gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model), table: n.table, clock: n.clock(), sequence: n.sequence,
		heads:    cfg.Model.KVHeads / channels,
		link:     units.Bandwidth(gpus) * n.linkShare(),
		channel:  units.Bandwidth(channels) * cfg.DRAM.Spec.Bandwidth(),
		buffer:   units.Bytes(channels) * cfg.PIM.MCBuffer,
		latency:  cfg.PCIe.Latency,
		channels: channels,
		scratch:  make([]int64, cfg.Node.Ranksets),
		pimPeak:  n.pimPeak() / units.Bandwidth(n.Replicas()),
		hbmPeak:  units.Bandwidth(gpus) * cfg.GPU.MemoryBandwidth,
	}
	if x, err := pim.NewExchange(cfg.Model.ElementBits, cfg.DRAM.DeviceWidth); err == nil && x.Group > 1 && cfg.PIM.Relayout == pim.CPUTransposition {
		d.transposed = &cfg.DRAM.Spec
	}
	d.operations()
	return d
}

// clock returns the clock of a rank that refreshes as the table says.
func (n *Node) clock() rankClock {
	s := &n.cfg.DRAM.Spec
	return newRankClock(s.TCK, int64(s.TREFI), int64(s.TREFI-s.TRFC))
}

// pimPeak returns the bandwidth at which all banks of all ranks together feed
// their processing units: a burst each tCCD_L.
func (n *Node) pimPeak() units.Bandwidth {
	s := &n.cfg.DRAM.Spec
	rank := float64(s.Banks()*s.BurstBytes()) / (float64(s.TCCDL) * s.TCK.Seconds())
	return units.Bandwidth(float64(n.cfg.Node.Channels*n.cfg.Node.Ranksets) * rank)
}

// linkShare returns the bandwidth of one GPU's way to the memory. All links of a
// replica are busy at the same time, so GPUs on one switch share its uplink
// evenly.
func (n *Node) linkShare() units.Bandwidth {
	s := &n.cfg.PCIe
	return min(s.Bandwidth(), s.UplinkBandwidth()/units.Bandwidth(s.GPUsPerUplink))
}

// costs returns the iteration costs of a replica with all that never changes.
func (n *Node) costs(d *devices) iterationCosts {
	s, tCK, comm := &n.cfg.DRAM.Spec, n.cfg.DRAM.Spec.TCK, &n.cfg.Comm
	c := newIterationCosts(n.cfg.Scheduler.SubBatches, n.cfg.Node.Ranksets)
	c.layers, c.latency = n.cfg.Model.Layers, n.cfg.PCIe.Latency
	c.vacate = sim.Time(s.TRP) * tCK
	c.open = sim.Time(s.TRCD+s.CWL) * tCK
	c.close = sim.Time(s.TWR+s.TRP) * tCK
	c.reactivate = sim.Time(n.cfg.PIM.ActivationClocks(s)+int64(s.TRCD)) * tCK
	c.clock, c.headsEach = d.clock, d.heads
	c.step = boundaryStep(n.table, n.cfg.PIM.TransferBoundary, s.Banks())
	c.rotate, c.concurrent, c.asyncPrefill = comm.Rotation, comm.Concurrent, comm.AsyncPrefill
	c.buffered = d.buffer > 0
	c.halfDuplex = 2*d.link > d.channel
	return c
}

// ledger returns the empty KV memory of one replica.
func (n *Node) ledger() *scheduler.Ledger {
	cfg := n.cfg
	return scheduler.NewLedger(scheduler.LedgerSpec{
		Ranksets: cfg.Node.Ranksets, Layers: cfg.Model.Layers, HeadsPerChannel: cfg.Model.KVHeads / cfg.ReplicaChannels(),
		UnitTokens: n.table.RowTokens(), Capacity: int64(cfg.Node.RankCapacity() / n.unit), Rotation: cfg.Comm.Rotation,
	})
}

// FreeGPUMemory returns what weights and reserve leave on the GPUs of one
// replica.
func (n *Node) FreeGPUMemory() units.Bytes {
	g, m := &n.cfg.GPU.Spec, &n.cfg.Model
	return units.Bytes(m.TensorParallel)*(g.MemoryCapacity-g.MemoryReserve) - m.WeightBytes()
}

// Replicas returns the number of data-parallel replicas.
func (n *Node) Replicas() int { return n.cfg.Replicas() }

// Run simulates the trace until every request is done. Request i goes to replica
// i mod the number of replicas; all requests are there at time 0. Replicas share
// nothing and run in parallel, with the same result as one after another.
func (n *Node) Run(ctx context.Context, trace *traces.Trace, o Options) (*Result, error) {
	replicas := n.divide(trace, o)
	if err := runAll(ctx, replicas); err != nil {
		return nil, err
	}
	return n.result(trace, replicas), nil
}

// divide returns the replicas of the node, each with its requests of the trace.
func (n *Node) divide(trace *traces.Trace, o Options) []*replica {
	replicas := make([]*replica, n.cfg.Replicas())
	for i := range replicas {
		var requests []traces.Request
		for j := i; j < len(trace.Requests); j += len(replicas) {
			requests = append(requests, trace.Requests[j])
		}
		replicas[i] = n.replica(i, requests, o)
	}
	return replicas
}

// runAll runs replicas in parallel.
func runAll(ctx context.Context, replicas []*replica) error {
	errs := make([]error, len(replicas))
	var wg sync.WaitGroup
	for i, r := range replicas {
		wg.Go(func() { errs[i] = r.run(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}
