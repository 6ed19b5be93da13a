package paper

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
)

// defaultRanksets is the least that Fig 11 has: the node's own (Table 2).
const defaultRanksets = 4

// The batches of Fig 11.
const smallBatch, largeBatch = 16, 128

// latencyReading is a way to read Fig 11. Table 3 has GPT-89B in two replicas.
type latencyReading struct {
	replica  bool // a batch is that of a replica, not of the node
	adaptive bool // l3 runs one batch where two are slower, as an operator would who looks at latency
}

// String names the reading.
func (l latencyReading) String() string {
	name := "a batch is that of the node"
	if l.replica {
		name = "a batch is that of a replica"
	}
	if l.adaptive {
		return name + ", one batch where two are slower"
	}
	return name + ", always two sub-batches"
}

// likeliest is the reading that the text supports best: Table 3 gives each replica batches
// of its own, and the figure is to show that latency is not sacrificed.
var likeliest = latencyReading{replica: true, adaptive: true}

// latencyClaims are those of Fig 11 (section 6.3): the smallest and the largest
// ratio over the batches, and what the fewest ranksets give.
func latencyClaims() []*Claim {
	claim := func(c Claim, ranksets int, pick func(a, b float64) float64) *Claim {
		c.ID, c.Ratio, c.Reading = "fig11."+c.ID, true, likeliest.String()
		c.find = findLatency(ranksets, likeliest, pick)
		for _, other := range []latencyReading{{adaptive: true}, {replica: true}, {}} {
			c.others = append(c.others, reading{other.String(), findLatency(ranksets, other, pick)})
		}
		return &c
	}
	end := func(id string, paper float64, pick func(a, b float64) float64) *Claim {
		says := fmt.Sprintf("TBT with 16 ranksets is 29%% to 53%% of gpu-only's without memory limit: %.0f%% (Fig 11)", 100*paper)
		return claim(Claim{ID: id, Paper: paper, Kind: RangeEnd, Range: "fig11", Says: says}, manyRanksets, pick)
	}
	fewest := claim(Claim{
		ID: "fewest", Paper: 1 + Tolerance, Kind: AtMost,
		Says: fmt.Sprintf("TBT with the fewest ranksets is comparable to gpu-only's: at most %.0f%% longer (Fig 11)", 100*Tolerance),
	}, defaultRanksets, math.Max)
	fewest.Reading += fmt.Sprintf(", %d ranksets", defaultRanksets)
	fewest.others = append(fewest.others, reading{
		fmt.Sprintf("%v, %d ranksets as in Fig 9", likeliest, fewRanksets), findLatency(fewRanksets, likeliest, math.Max),
	})
	return []*Claim{end("low", 0.29, math.Min), end("high", 0.53, math.Max), fewest}
}

// findLatency returns the ratio that pick prefers over the batches of Fig 11.
func findLatency(ranksets int, l latencyReading, pick func(a, b float64) float64) finder {
	return func(e *evidence, seed uint64) (finding, error) {
		all := e.fig11.find(seed, func(p *point) bool {
			c := p.config
			return c.Run.System == "l3" && c.Node.Ranksets == ranksets && c.Scheduler.Adaptive == l.adaptive && l.batch(c) >= smallBatch && l.batch(c) <= largeBatch
		})
		if len(all) == 0 {
			return finding{}, fmt.Errorf("no points of l3 with %d ranksets where %v", ranksets, l)
		}
		best, reason, ratios := math.NaN(), "", []string{}
		for i := range all {
			c := all[i].config
			base, err := e.fig11.one(seed, fmt.Sprintf("gpu-only with %d requests", c.Run.Requests), func(p *point) bool {
				return p.config.Run.System == "gpu-only" && p.config.Run.Requests == c.Run.Requests
			})
			if err != nil {
				return finding{}, err
			}
			a, b := all[i].summary.TBT.P50, base.summary.TBT.P50
			ratio := a / b
			ratios = append(ratios, fmt.Sprintf("%.2f with %d", ratio, l.batch(c)))
			if math.IsNaN(best) || pick(ratio, best) == ratio {
				best = ratio
				reason = fmt.Sprintf("batch %d: %.1f ms against %.1f ms; all but attention takes the GPUs at least %.1f ms in one batch, %.1f ms in two",
					l.batch(c), a, b, 1e3*gpuTime(c, 1), 1e3*gpuTime(c, 2))
			}
		}
		return finding{best, strings.Join(ratios, ", ") + "; " + reason}, nil
	}
}

// batch returns the batch of a run, as the reading has it.
func (l latencyReading) batch(c *configs.Config) int {
	if l.replica {
		return c.Run.Requests / c.Replicas()
	}
	return c.Run.Requests
}

// gpuTime returns the seconds that the GPUs work on a decode iteration of L3 with all
// requests in one or two sub-batches: the least that it can take.
func gpuTime(c *configs.Config, subBatches int) float64 {
	cost := gpu.NewModelCost(&c.GPU.Spec, &c.Model)
	tokens := c.Run.Requests / c.Replicas() / subBatches
	layer := cost.QKV(tokens) + cost.ProjectionFFN(tokens)
	return float64(subBatches) * (cost.Embedding(tokens) + float64(float64(c.Model.Layers)*layer) + cost.LMHead(tokens))
}

// neededForLatency says that a claim of Fig 11 needs the point.
func neededForLatency(c *configs.Config) bool {
	return c.Run.System != "l3" || c.Node.Ranksets != 8
}
