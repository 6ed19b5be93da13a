package gpus

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// joules divides a GPU's joules for a sub-batch (each) between prefill and decode. Attention belongs to its phase; all
// else is divided by tokens. seconds is the time of all kernels, attention that of attention, of which prefill and decode
// are parts.
func (d *GPUs) joules(sub *scheduler.SubBatch, each, seconds, attention, prefill, decode float64) flow.Joules {
	all, tokens, prompts := float64(each*float64(d.Model.TensorParallel)), sub.Tokens(), sub.PrefillTokens()
	switch prompts {
	case 0:
		return flow.Joules{Decode: all}
	case tokens:
		return flow.Joules{Prefill: all}
	}
	share := float64((seconds - attention) * (float64(prompts) / float64(tokens)))
	if both := prefill + decode; both > 0 {
		share += float64(attention * (prefill / both))
	}
	share /= seconds
	return flow.Joules{Prefill: float64(all * share), Decode: float64(all * (1 - share))}
}

// Watts returns the mean power of a replica's GPUs that do this work in the time took.
func (d *GPUs) Watts(did *flow.Work, took units.Duration) float64 {
	if took <= 0 {
		return 0
	}
	gpus := float64(d.Model.TensorParallel)
	idle := float64(max(0, (took-did.Time[flow.OfGPU]).Seconds()) * gpus * d.hw.Config.GPU.Power.ActiveIdle)
	return (did.Joules.Prefill + did.Joules.Decode + idle) / took.Seconds()
}
