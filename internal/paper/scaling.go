package paper

import (
	"fmt"

	"github.com/l3sim/l3sim/units"
)

// The smallest node of Fig 9.
const (
	fewRanksets = 2
	smallMemory = 512 * units.GiB
)

// findScaling compares a node with the smallest of Fig 9.
func findScaling(e *evidence, seed uint64, r *reading) (finding, error) {
	get := func(ranksets int, memory units.Bytes) (*point, error) {
		return e.of["fig9"].one(seed, fmt.Sprintf("gpt-175b with %d ranksets and %v, %s", ranksets, memory, r.Placement), func(p *point) bool {
			return p.config.Run.Model == "gpt-175b" && p.config.Node.Ranksets == ranksets && p.config.Node.MemoryCapacity == memory &&
				p.config.Comm.Balance == r.Placement
		})
	}
	from, err := get(fewRanksets, smallMemory)
	if err != nil {
		return finding{}, err
	}
	to, err := get(r.Ranksets, r.Memory)
	if err != nil {
		return finding{}, err
	}
	a, b := from.summary, to.summary
	return finding{value: b.OutputTokensPerS / a.OutputTokensPerS, reason: fmt.Sprintf("%.1f to %.1f tokens/s: mean batch %.1f to %.1f, %s before, %s after; "+
		"reading the weights takes %.0f%% of the time before, %.0f%% after",
		a.OutputTokensPerS, b.OutputTokensPerS, a.DecodeBatch.StepMean, b.DecodeBatch.StepMean, bottleneck(a), bottleneck(b),
		100*weightShare(from), 100*weightShare(to))}, nil
}

// weightShare returns the share of a run that the GPUs need at least to read all
// weights, once for each sub-batch of every iteration.
func weightShare(p *point) float64 {
	c, s := p.config, p.summary
	read := float64(c.Model.WeightBytes()) / (float64(c.Model.TensorParallel) * float64(c.GPU.MemoryBandwidth))
	times := float64(s.Iterations) / float64(c.Replicas())
	if !c.Scheduler.Adaptive {
		times *= float64(c.Scheduler.SubBatches)
	}
	return times * read / s.SimulatedS
}
