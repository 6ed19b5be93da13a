package paper

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
)

// latencyClaims are those of Fig 11 (section 6.3): the smallest and the largest
// ratio over the batches.
func latencyClaims() []*Claim {
	claim := func(id string, paper float64, pick func(a, b float64) float64) *Claim {
		return &Claim{
			ID: "fig11." + id, Paper: paper, Kind: RangeEnd, Range: "fig11", Ratio: true,
			Says: fmt.Sprintf("TBT with 16 ranksets is 29%% to 53%% of that of gpu-only without memory limit: %.0f%% (Fig 11)", 100*paper),
			find: func(e *evidence, seed uint64) (finding, error) { return findLatency(e, seed, pick) },
		}
	}
	return []*Claim{claim("low", 0.29, math.Min), claim("high", 0.53, math.Max)}
}

// findLatency returns the ratio that pick prefers over the batches of Fig 11.
func findLatency(e *evidence, seed uint64, pick func(a, b float64) float64) (finding, error) {
	l3 := e.fig11.find(seed, func(p *point) bool { return p.config.Run.System == "l3" && p.config.Node.Ranksets == manyRanksets })
	if len(l3) == 0 {
		return finding{}, fmt.Errorf("no points of l3 with %d ranksets", manyRanksets)
	}
	var best finding
	for i := range l3 {
		requests := l3[i].config.Run.Requests
		base, err := e.fig11.one(seed, fmt.Sprintf("gpu-only with %d requests", requests), func(p *point) bool {
			return p.config.Run.System == "gpu-only" && p.config.Run.Requests == requests
		})
		if err != nil {
			return finding{}, err
		}
		few, err := e.fig11.one(seed, fmt.Sprintf("l3 with %d ranksets and %d requests", fewRanksets, requests), func(p *point) bool {
			return p.config.Run.System == "l3" && p.config.Node.Ranksets == fewRanksets && p.config.Run.Requests == requests
		})
		if err != nil {
			return finding{}, err
		}
		a, b, c := l3[i].summary.TBT.P50, base.summary.TBT.P50, few.summary.TBT.P50
		if ratio := a / b; best.reason == "" || pick(ratio, best.value) == ratio {
			best = finding{ratio, fmt.Sprintf("batch %d: %.1f ms against %.1f ms; the GPUs alone need %.1f ms for both sub-batches, which read all weights each; "+
				"with %d ranksets %.1f ms, %.2f of gpu-only", requests, a, b, 1e3*gpuTime(l3[i].config), fewRanksets, c, c/b)}
		}
	}
	return best, nil
}

// gpuTime returns the seconds that the GPUs work on a decode iteration of L3 with
// all requests in two sub-batches: the least that it can take.
func gpuTime(c *configs.Config) float64 {
	cost := gpu.NewModelCost(&c.GPU.Spec, &c.Model)
	tokens := c.Run.Requests / c.Replicas() / 2
	layer := cost.QKV(tokens) + cost.ProjectionFFN(tokens)
	return 2 * (cost.Embedding(tokens) + float64(float64(c.Model.Layers)*layer) + cost.LMHead(tokens))
}

// neededForLatency says that a claim of Fig 11 needs the point.
func neededForLatency(c *configs.Config) bool {
	return c.Run.System != "l3" || c.Node.Ranksets == fewRanksets || c.Node.Ranksets == manyRanksets
}
