package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// joules divides a GPU's joules for a sub-batch (each) between prefill and decode. Attention
// belongs to its phase; all else is divided by tokens. Seconds are those of all and of attention, whose parts are prefill
// and decode.
func (d *gpuSide) joules(sub *scheduler.SubBatch, each, seconds, attention, prefill, decode float64) joules {
	all, tokens, prompts := float64(each*float64(d.model.TensorParallel)), sub.Tokens(), sub.PrefillTokens()
	switch prompts {
	case 0:
		return joules{decode: all}
	case tokens:
		return joules{prefill: all}
	}
	share := float64((seconds - attention) * (float64(prompts) / float64(tokens)))
	if both := prefill + decode; both > 0 {
		share += float64(attention * (prefill / both))
	}
	share /= seconds
	return joules{prefill: float64(all * share), decode: float64(all * (1 - share))}
}

// watts returns the mean power of a replica's GPUs that do this in the time took.
func (d *gpuSide) watts(did *work, took units.Duration) float64 {
	if took <= 0 {
		return 0
	}
	gpus := float64(d.model.TensorParallel)
	idle := float64(max(0, (took-did.time[ofGPU]).Seconds()) * gpus * d.hw.GPU.Power.ActiveIdle)
	return (did.joules.prefill + did.joules.decode + idle) / took.Seconds()
}
