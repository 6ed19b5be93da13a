package system

import (
	"math/rand/v2"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/sim"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// hbmPIM is a system whose GPUs have processing units in their memory. With a
// second row buffer in each bank (NeuPIMs, section 5) the GPUs use the memory as if
// the units did not, and the two work side by side.
type hbmPIM struct {
	gpuSide
	units *gpu.ModelCost // at the GPUs' own bandwidth
	flow
	factor float64 // bandwidth of the units over that of the GPUs
	reads  float64 // of keys and values by the query heads of a group
}

// assembleHBMPIM puts together a replica with continuous batching.
func assembleHBMPIM(n *Node, requests []traces.Request, o Options, check *checker, stream func(uint64) *rand.Rand) assembly {
	cfg, h := n.cfg, &n.cfg.HBMPIM
	// The units stream keys and values as a fused kernel does: waves of thread
	// blocks over SMs, by which AttAcc's model derates, are the GPUs' alone.
	spec := cfg.GPU.Spec
	spec.Decode.Model = gpu.AttentionFlash
	e := &hbmPIM{
		units:   gpu.NewModelCost(&spec, &cfg.Model),
		gpuSide: newGPUSide(cfg),
		factor:  h.BandwidthFactor,
		reads:   float64((cfg.Model.QueryGroup() + h.QueriesPerRead - 1) / h.QueriesPerRead),
	}
	e.flow = newFlow(&e.gpuSide, besideGPU("HBM-PIM")[:onDown], o, check)
	subBatches := 2
	if h.SubBatches == configs.SubBatchesNever {
		subBatches = 1
	}
	adaptive := h.SubBatches == configs.SubBatchesAdaptive
	s := n.continuous(batchingPolicy(h.Policy), subBatches, adaptive, scheduler.BalanceLeastLoaded, requests, n.gpuLedger(), n.gpuWorkspace(), e, stream)
	return assembly{s, e}
}

// decodeAttention returns the units' time for one layer of a sub-batch. They do
// what the GPUs' kernel does, at their bandwidth: what is not its fixed overhead is
// as much faster.
func (e *hbmPIM) decodeAttention(sub *scheduler.SubBatch, step int64) sim.Time {
	var t sim.Time
	for _, c := range e.decode(sub.Decode, step) {
		if b := decodeBatch(&c); b.Requests > 0 {
			cost := e.units.DecodeBatchCost(b)
			t += taskTime(cost.Overhead + float64((cost.Seconds-cost.Overhead)*e.reads/e.factor))
		}
	}
	return t
}

func (e *hbmPIM) run(b *scheduler.Batch, start sim.Time) (sim.Time, error) {
	e.it.Reset()
	for s := range b.Sub {
		g := e.stage(&b.Sub[s])
		g.device = e.decodeAttention(&b.Sub[s], b.Step)
		e.add(s, &g, opAttention, 0)
	}
	return e.flow.run(start)
}

// PIM implements scheduler.Predictor.
func (e *hbmPIM) PIM(s *scheduler.SubBatch, step int64, _ int) sim.Time {
	return sim.Time(e.model.Layers) * e.decodeAttention(s, step)
}

func (e *hbmPIM) peak() units.Bandwidth { return e.hbmPeak * units.Bandwidth(e.factor) }
