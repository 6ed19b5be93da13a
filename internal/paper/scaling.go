package paper

import (
	"fmt"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/units"
)

// The corners of Fig 9.
const (
	fewRanksets, manyRanksets = 2, 16
	smallMemory, largeMemory  = 512 * units.GiB, 4 * units.TiB
)

// scalingClaims are those of Fig 9 (section 6.2), for GPT-175B.
func scalingClaims() []*Claim {
	claim := func(id string, paper float64, ranksets int, memory units.Bytes, what string) *Claim {
		return &Claim{
			ID: "fig9." + id, Paper: paper, Kind: Value, Ratio: true,
			Says:    fmt.Sprintf("%s: %.1f times the throughput, GPT-175B on OpenR1 (Fig 9)", what, paper),
			Reading: placedInTurn,
			find:    findScaling(ranksets, memory, inTurn),
			others:  []reading{{placedEvenly, findScaling(ranksets, memory, evenly)}},
		}
	}
	return []*Claim{
		claim("capacity_only", 1.6, fewRanksets, largeMemory, "512 GB to 4 TB, 2 ranksets"),
		claim("ranksets_only", 1.1, manyRanksets, smallMemory, "2 to 16 ranksets, 512 GB"),
		claim("both", 5.1, manyRanksets, largeMemory, "512 GB and 2 ranksets to 4 TB and 16"),
	}
}

// findScaling compares a node with the smallest of Fig 9.
func findScaling(ranksets int, memory units.Bytes, placement string) finder {
	return func(e *evidence, seed uint64) (finding, error) {
		get := func(ranksets int, memory units.Bytes) (*point, error) {
			return e.fig9.one(seed, fmt.Sprintf("gpt-175b with %d ranksets and %v, %s", ranksets, memory, placement), func(p *point) bool {
				return p.config.Run.Model == "gpt-175b" && p.config.Node.Ranksets == ranksets && p.config.Node.MemoryCapacity == memory &&
					p.config.Comm.Balance == placement
			})
		}
		from, err := get(fewRanksets, smallMemory)
		if err != nil {
			return finding{}, err
		}
		to, err := get(ranksets, memory)
		if err != nil {
			return finding{}, err
		}
		a, b := from.summary, to.summary
		return finding{b.OutputTokensPerS / a.OutputTokensPerS, fmt.Sprintf("%.1f to %.1f tokens/s: mean batch %.1f to %.1f, %s before, %s after; "+
			"reading the weights takes %.0f%% of the time before, %.0f%% after",
			a.OutputTokensPerS, b.OutputTokensPerS, a.DecodeBatch.StepMean, b.DecodeBatch.StepMean, bottleneck(a), bottleneck(b),
			100*weightShare(from), 100*weightShare(to))}, nil
	}
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

// neededForScaling says that a claim of Fig 9 needs the point.
func neededForScaling(c *configs.Config) bool {
	n := &c.Node
	return c.Run.Model == "gpt-175b" && (n.Ranksets == fewRanksets || n.Ranksets == manyRanksets)
}
