package system

import (
	"context"
	"errors"
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
	// Progress, if not nil, is told the tokens emitted so far by a replica. Calls
	// come from several goroutines.
	Progress func(replica int, tokens int64)
}

// Node is the hardware of a configuration: replicas of a model on GPUs and the
// DIMM-PIM channels that belong to them.
type Node struct {
	cfg   *configs.Config
	table *pim.KernelTable
	unit  units.Bytes // of an allocation unit
}

// NewNode wires the devices of a validated configuration. It runs the PIM
// program on the DRAM model to fill the table of head kernels.
func NewNode(cfg *configs.Config) (*Node, error) {
	table, err := pim.NewKernelTable(&cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape())
	if err != nil {
		return nil, err
	}
	return &Node{cfg: cfg, table: table, unit: cfg.PIM.UnitBytes(&cfg.DRAM.Spec)}, nil
}

// replica returns replica i of the node with its requests.
func (n *Node) replica(i int, requests []traces.Request, o Options) *replica {
	cfg := n.cfg
	d := n.devices()
	ledger := n.ledger()
	r := &replica{
		devices:  d,
		requests: requests,
		pipeline: newPipeline(cfg.Node.Ranksets, o.Exact, nil),
		costs:    n.costs(d),
		progress: func(int64) {},
	}
	if o.Progress != nil {
		r.progress = func(tokens int64) { o.Progress(i, tokens) }
	}
	free := scheduler.GPUMemory{Model: &cfg.Model, Free: n.FreeGPUMemory()}
	r.scheduler = scheduler.New(&cfg.Scheduler, &cfg.Memory, requests, ledger, free, d)
	return r
}

// devices returns the device models of one replica.
func (n *Node) devices() *devices {
	cfg := n.cfg
	gpus, channels := units.Bandwidth(cfg.Model.TensorParallel), units.Bandwidth(cfg.ReplicaChannels())
	channel := channels * cfg.DRAM.Spec.Bandwidth()
	// All links of a replica are busy at the same time, so GPUs on one switch share
	// its uplink evenly.
	link := gpus * min(cfg.PCIe.Bandwidth(), cfg.PCIe.UplinkBandwidth()/units.Bandwidth(cfg.PCIe.GPUsPerUplink))
	d := &devices{
		model: &cfg.Model, gpu: gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model), table: n.table, tCK: cfg.DRAM.Spec.TCK,
		heads:       cfg.Model.KVHeads / cfg.ReplicaChannels(),
		banks:       cfg.DRAM.Spec.Banks(),
		channelRate: channel,
		// Transfers down and up share the channels: each direction gets at most half.
		downRate: min(link, channel/2),
		upRate:   min(link, channel/2),
		latency:  cfg.PCIe.Latency,
		scratch:  make([]int64, cfg.Node.Ranksets),
	}
	d.operations()
	return d
}

// costs returns the iteration costs of a replica with all that never changes.
func (n *Node) costs(d *devices) iterationCosts {
	s, tCK := &n.cfg.DRAM.Spec, n.cfg.DRAM.Spec.TCK
	activate := n.cfg.PIM.ActivationClocks(s)
	c := iterationCosts{
		layers:     n.cfg.Model.Layers,
		rotate:     true,
		latency:    n.cfg.PCIe.Latency,
		vacate:     sim.Time(s.TRP) * tCK,
		open:       sim.Time(s.TRCD+s.CWL) * tCK,
		close:      sim.Time(s.TWR+s.TRP) * tCK,
		reactivate: sim.Time(activate+int64(s.TRCD)) * tCK,
		step:       d.boundaryStep(n.cfg.PIM.TransferBoundary),
		sub:        make([]subCost, n.cfg.Scheduler.SubBatches),
	}
	for i := range c.sub {
		c.sub[i].groups = make([]groupCost, n.cfg.Node.Ranksets)
	}
	return c
}

// ledger returns the empty KV memory of one replica.
func (n *Node) ledger() *scheduler.Ledger {
	cfg := n.cfg
	return scheduler.NewLedger(cfg.Node.Ranksets, cfg.Model.Layers, cfg.Model.KVHeads/cfg.ReplicaChannels(),
		n.table.RowTokens(), int64(cfg.Node.RankCapacity()/n.unit))
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
	replicas := make([]*replica, n.cfg.Replicas())
	for i := range replicas {
		var requests []traces.Request
		for j := i; j < len(trace.Requests); j += len(replicas) {
			requests = append(requests, trace.Requests[j])
		}
		replicas[i] = n.replica(i, requests, o)
	}
	errs := make([]error, len(replicas))
	var wg sync.WaitGroup
	for i, r := range replicas {
		wg.Go(func() { errs[i] = r.run(ctx) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return n.result(trace, replicas), nil
}
