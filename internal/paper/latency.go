package paper

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
)

// The batches of Fig 11.
const smallBatch, largeBatch = 16, 128

// findLeastLatency and findLargestLatency give the ends of the ratios over the batches.
func findLeastLatency(e *evidence, seed uint64, r *reading) (finding, error) {
	return e.latency(seed, r, math.Min)
}

func findLargestLatency(e *evidence, seed uint64, r *reading) (finding, error) {
	return e.latency(seed, r, math.Max)
}

// latency returns the ratio that pick prefers over the batches of Fig 11.
func (e *evidence) latency(seed uint64, l *reading, pick func(a, b float64) float64) (finding, error) {
	all := e.of["fig11"].find(seed, func(p *point) bool {
		c := p.config
		return c.Run.System == "l3" && c.Node.Ranksets == l.Ranksets && c.Scheduler.Adaptive == l.Adaptive && l.batch(c) >= smallBatch && l.batch(c) <= largeBatch
	})
	if len(all) == 0 {
		return finding{}, fmt.Errorf("no points of l3 with %d ranksets where %s", l.Ranksets, l.Name)
	}
	best, reason, ratios := math.NaN(), "", []string{}
	for i := range all {
		c := all[i].config
		base, err := e.of["fig11"].one(seed, fmt.Sprintf("gpu-only with %d requests", c.Run.Requests), func(p *point) bool {
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
	return finding{value: best, reason: strings.Join(ratios, ", ") + "; " + reason}, nil
}

// batch returns the batch of a run of Fig 11, as the reading has it.
func (l *reading) batch(c *configs.Config) int {
	if l.Replica {
		return c.Run.Requests / c.Replicas()
	}
	return c.Run.Requests
}

// gpuTime returns the seconds that the GPUs work on a decode iteration of L3 with all
// requests in one or two sub-batches: the least that it can take.
func gpuTime(c *configs.Config, subBatches int) float64 {
	cost := gpu.NewModelCost(&c.GPU.Spec, &c.Model)
	tokens := c.Run.Requests / c.Replicas() / subBatches
	layers := cost.QKV(tokens).Plus(cost.ProjectionFFN(tokens)).Times(c.Model.Layers)
	return float64(subBatches) * cost.Embedding(tokens).Plus(layers).Plus(cost.LMHead(tokens)).Seconds
}
