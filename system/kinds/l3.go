package kinds

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/predict"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// l3System is GPUs and bank-level DIMM-PIM.
var l3System = System{
	Name:     "l3",
	Hardware: "KV in DIMMs, decode attention on a processing unit at each bank; prefill and all products on the GPUs",
	Schedule: "two sub-batches, one on the GPUs while the other is in the DIMMs; prompts in chunks that fill the GPUs' time",
	Source:   "L3, sections 4 and 5",
	Sections: "dram, pim, pcie, comm, scheduler, predictor",
	Host:     true,
	Home:     policy.InDIMMs,
	KV:       kvInDIMMs, drafts: true, spares: true, Memory: l3Memory, Assemble: assembleL3,
	Planning: Planning{
		Chunk: "scheduler.min_prefill_tokens", Knobs: []Knob{{"scheduler.sub_batches", []string{"2", "1"}}},
		Resources: []Resource{dimmMemory, ranksets, link},
	},
}

// l3 is the system of the L3 paper on one replica: GPUs and ranksets of DIMM-PIM,
// both sub-batches of an iteration in flight at once.
type l3 struct {
	gpus.GPUs
	ranks *ranks.Devices
	flow.Flow
	costs     iterationCosts
	counts    bool           // the policy is not dense: GPUs also attend, choose and keep statistics
	homes     *ranks.Homes   // stored tokens of the requests; nil without checks
	near      *flow.Attends  // attention of requests in the GPUs' spare memory; nil without checks or without such requests
	join      units.Duration // GPU time lost in a block that waits for transfers
	joinWatts float64        // power of the replica's GPUs meanwhile
	moves     gpus.Times     // time that predictions add for prompt tokens that go to the ranks
	bounds    []movesBound   // of moves, by tokens
	imbalance flow.Imbalance
	learned   *predict.Learned // nil if the predictors are exact
	sample    scheduler.Sample
	profile   *Profile // nil unless the run collects samples
}

// assembleL3 builds a replica with the sub-batch scheduler.
func assembleL3(n *Setup) Assembly {
	cfg := n.Hardware.Config
	e := &l3{GPUs: gpus.New(n.Hardware), counts: !cfg.AttendsToAll()}
	if cfg.Memory.UsesSpare() {
		spare := gpus.New(gpus.OfSpare(n.Hardware))
		e.Spare = &spare
	}
	e.wire(n)
	if n.Running.Check != nil {
		e.homes = ranks.NewHomes(flow.NewAttends(n.Hardware), e.ranks)
		if cfg.Memory.UsesSpare() {
			e.near = flow.NewAttends(gpus.OfSpare(n.Hardware))
		}
	}
	e.Flow = flow.New(n.Hardware, e.costs.resources(cfg.Node.Ranksets), n.Running)
	predictor := e.predictor(n)
	policies := batching.Config{Scheduler: &cfg.Scheduler, Memory: &cfg.Memory, Comm: &cfg.Comm, Batching: &cfg.Batching, Speculation: cfg.Serving.Speculation(cfg.Run.Seed), Random: n.stream(streamBalance)}
	if e.ranks.Apart() && cfg.Comm.Stripe != scheduler.StripeChannels {
		policies.Begins = e.ranks.Begins
	}
	free := memory.GPU{Model: &cfg.Model, Free: gpus.FreeMemory(n.Hardware)}
	free.Window, free.PromptShare, free.Share = gpus.Windows(n.Hardware, e.Attends.Policy)
	free.PrefixStays = n.Hardware.PrefixStays()
	if cfg.Memory.UsesSpare() {
		free.Spare, free.SpareUnit, free.HomeUnit = gpus.SpareLedger(n.Hardware), gpus.PageBytes(n.Hardware), n.Memory.Unit
	}
	memories := batching.Memories{Ledger: ranks.Ledger(n.Hardware, cfg.Comm.Rotation), GPU: free}
	return Assembly{batching.New(policies, memories, n.Requests, batching.FormerOf(policies.Policy, predictor)), e}
}

// predictor returns what predicts times of iterations: the learned predictors, or the costs themselves.
func (e *l3) predictor(n *Setup) batching.Predictor {
	switch cfg := n.Hardware.Config; {
	case cfg.Predictor.Kind == scheduler.PredictLearned:
		e.learned = predict.NewLearned(&cfg.Predictor, e, n.stream(streamPredictor))
		return e.learned
	case n.Running.Exact:
		return whole{e}
	}
	return e
}

// whole hides that predictions have parts (batching.Exact): an exact run makes each of them anew.
type whole struct{ batching.Predictor }

// l3Memory is the KV memory of one replica in the DIMMs and in the GPUs' spare memory, in the units of the DIMMs.
func l3Memory(h *flow.Hardware) flow.KVMemory {
	m := ranks.Memory(h)
	if h.Config.Memory.UsesSpare() {
		m.Capacity += int64(gpus.FreeMemory(h) / m.Unit)
	}
	return m
}

// wire sets the ranks and the costs of a replica. With two sub-batches, transfers run beside
// kernels.
func (e *l3) wire(n *Setup) {
	e.ranks = ranks.New(n.Hardware, e.Attends, n.CommandTables.Kernels)
	if n.Hardware.Config.Scheduler.SubBatches == 2 {
		e.ranks.BesideKernels(n.Hardware.Config.PCIe.KernelShare)
	}
	e.costs, e.join = n.costs(e.ranks), n.Hardware.Join()
	e.moves = e.Times(func(tokens int) units.Duration { return e.ranks.PIM(&scheduler.SubBatch{}, 0, tokens) })
	e.joinWatts = float64(n.Hardware.Config.Model.TensorParallel) * n.Hardware.Config.GPU.Power.ActiveIdle
}

// Run runs a batch, checks its transfers, and passes its times to learned predictors.
func (e *l3) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.fill(&e.costs, b)
	e.costs.lay(&e.Flow)
	var before flow.Work
	if e.Check != nil {
		before = e.Flow.Work
	}
	end, err := e.Flow.Run(start)
	if err != nil {
		return start, err
	}
	e.costs.imbalance(&e.imbalance)
	if e.Check != nil {
		done := e.Flow.Work.Since(&before)
		e.checkTraffic(b, end, &done)
	}
	if e.profile != nil {
		e.profile.add(e, b)
	}
	if e.learned != nil {
		return end, e.observe(b)
	}
	return end, nil
}

func (e *l3) Settle() { e.ranks.SettleHeads(&e.Flow.Work.Ranks) }

// observe adds the executed sub-batches to the profile of the learned predictors.
func (e *l3) observe(b *scheduler.Batch) error {
	for i := range b.Sub {
		sub := &b.Sub[i]
		if sub.Tokens() == 0 {
			continue
		}
		other := 0
		if len(b.Sub) == 2 {
			other = b.Sub[1-i].MovedTokens()
		}
		e.sample.Set(sub, b.Step, other)
		e.measure(&e.sample, b, i, other)
		if err := e.learned.Observe(&e.sample); err != nil {
			return err
		}
	}
	return nil
}

func (e *l3) Ranksets() flow.Imbalance { return e.imbalance }

// Peak includes the GPUs' memory if they decode requests in it.
func (e *l3) Peak() units.Bandwidth {
	if e.Spare != nil {
		return e.ranks.PIMPeak + e.HBMPeak
	}
	return e.ranks.PIMPeak
}

// costs returns the iteration costs of a replica, with all that never changes.
func (n *Setup) costs(d *ranks.Devices) iterationCosts {
	s, tCK, comm := &n.Hardware.Config.DRAM.Spec, n.Hardware.Config.DRAM.Spec.TCK, &n.Hardware.Config.Comm
	order := slices.Clone(d.Attends.Order[1:])
	for i := range order {
		order[i].Kind-- // nothing comes before the first layer
	}
	c := newIterationCosts(n.Hardware.Config.Scheduler.SubBatches, n.Hardware.Config.Node.Ranksets, order...)
	c.latency, c.upLatency = d.Latency, d.UpLatency
	c.vacate = units.Duration(s.TRP) * tCK
	c.reactivate = units.Duration(n.Hardware.Config.PIM.ActivationClocks(s)+int64(s.TRCD)) * tCK
	c.clock, c.headsEach = d.Clock, d.HeadsEach()
	if n.CommandTables.Kernels != nil {
		c.step = ranks.BoundaryStep(n.CommandTables.Kernels.Table, n.Hardware.Config.PIM.TransferBoundary, s.Banks())
	}
	c.rotate, c.concurrent, c.asyncPrefill = comm.Rotation, comm.Concurrent, comm.AsyncPrefill
	c.buffered = d.Buffer > 0
	c.halfDuplex = d.HalfDuplex()
	return c
}
