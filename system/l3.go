package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/scheduler/predict"
	"github.com/l3sim/l3sim/units"
)

// l3Name is the value of run.system.
const l3Name = "l3"

// l3System is GPUs and bank-level DIMM-PIM.
var l3System = System{
	Name:     l3Name,
	Hardware: "KV in DIMMs, decode attention on a processing unit beside each bank; prefill and all products on the GPUs",
	Schedule: "two sub-batches, one on the GPUs while the other is in the DIMMs; prompts cut to fill the GPUs' time",
	Source:   "L3, sections 4 and 5",
	Sections: "dram, pim, pcie, comm, scheduler, predictor",
	Host:     true,
	home:     policy.InDIMMs,
	kv:       kvInDIMMs, memory: rankMemory, assemble: assembleL3,
}

// l3 is the system of the L3 paper on one replica: GPUs and ranksets of DIMM-PIM,
// both sub-batches of an iteration in flight at once.
type l3 struct {
	gpuSide
	ranks *devices
	flow
	costs     iterationCosts
	counts    bool   // the policy is not dense: GPUs attend, too, choose and keep statistics
	homes     *homes // of the requests; nil without checks
	imbalance imbalance
	learned   *predict.Learned // nil where the predictors are exact
	sample    scheduler.Sample
	profile   *profile // nil unless the run is for its samples
}

// assembleL3 puts together a replica with the sub-batch scheduler.
func assembleL3(n *setup) assembly {
	cfg := n.Config
	e := &l3{gpuSide: newGPUSide(n.hardware), counts: !cfg.Policy.Dense()}
	e.ranks = newDevices(n.hardware, e.attends, n.kernels)
	e.costs = n.costs(e.ranks)
	if n.check != nil {
		e.homes = newHomes(newAttends(n.hardware), e.ranks)
	}
	e.flow = newFlow(n.hardware, e.costs.resources(cfg.Node.Ranksets), n.running)
	var predictor forming.Predictor = e
	if cfg.Predictor.Kind == scheduler.PredictLearned {
		e.learned = predict.NewLearned(&cfg.Predictor, e, n.stream(streamPredictor))
		predictor = e.learned
	}
	policies := forming.Config{Scheduler: &cfg.Scheduler, Memory: &cfg.Memory, Comm: &cfg.Comm, Batching: &cfg.Batching, Random: n.stream(streamBalance)}
	free := memory.GPU{Model: &cfg.Model, Free: freeGPUMemory(n.hardware)}
	free.Window, free.PromptShare, free.Share = windows(n.hardware, e.policy)
	free.PrefixStays = n.prefixStays()
	memories := forming.Memories{Ledger: rankLedger(n.hardware, cfg.Comm.Rotation), GPU: free}
	return assembly{forming.New(policies, memories, n.requests, forming.FormerOf(policies.Policy, predictor)), e}
}

// Run runs a batch, checks what it moved, and shows its times to learned predictors.
func (e *l3) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.fill(&e.costs, b)
	e.costs.lay(&e.flow)
	var before work
	if e.check != nil {
		before = e.flow.work
	}
	end, err := e.flow.run(start)
	if err != nil {
		return start, err
	}
	e.costs.imbalance(&e.imbalance)
	if e.check != nil {
		done := e.flow.work.since(&before)
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

func (e *l3) Settle() { e.ranks.settleHeads(&e.flow.work.ranks) }

// observe enters the executed sub-batches into the profile that the predictors
// learn from.
func (e *l3) observe(b *scheduler.Batch) error {
	for i := range b.Sub {
		sub := &b.Sub[i]
		if sub.Tokens() == 0 {
			continue
		}
		other := 0
		if len(b.Sub) == 2 {
			other = b.Sub[1-i].PrefillTokens()
		}
		e.sample.Set(sub, b.Step, other)
		e.measure(&e.sample, b, i, other)
		if err := e.learned.Observe(&e.sample); err != nil {
			return err
		}
	}
	return nil
}

func (e *l3) Ranksets() imbalance { return e.imbalance }

func (e *l3) Peak() units.Bandwidth { return e.ranks.pimPeak }

// costs returns the iteration costs of a replica with all that never changes.
func (n *setup) costs(d *devices) iterationCosts {
	s, tCK, comm := &n.Config.DRAM.Spec, n.Config.DRAM.Spec.TCK, &n.Config.Comm
	c := newIterationCosts(n.Config.Scheduler.SubBatches, n.Config.Node.Ranksets)
	c.layers, c.latency, c.upLatency = d.runs[0], d.latency, d.upLatency
	for _, layers := range d.runs[1:] {
		more := newIterationCosts(n.Config.Scheduler.SubBatches, n.Config.Node.Ranksets)
		c.more = append(c.more, layerRun{layers, more.sub})
	}
	c.vacate = units.Duration(s.TRP) * tCK
	c.reactivate = units.Duration(n.Config.PIM.ActivationClocks(s)+int64(s.TRCD)) * tCK
	c.clock, c.headsEach = d.clock, d.headsEach()
	if n.kernels != nil {
		c.step = boundaryStep(n.kernels.table, n.Config.PIM.TransferBoundary, s.Banks())
	}
	c.rotate, c.concurrent, c.asyncPrefill = comm.Rotation, comm.Concurrent, comm.AsyncPrefill
	c.buffered = d.buffer > 0
	c.halfDuplex = d.halfDuplex()
	return c
}
