package claims

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/scheduler/predict"
	"github.com/l3sim/l3sim/system"
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
	return finding{value: b.OutputTokensPerS / a.OutputTokensPerS, drawn: true, reason: fmt.Sprintf("%.1f to %.1f tokens/s: mean batch %.1f to %.1f, %s before, %s after; "+
		"reading the weights takes %.0f%% of the time before, %.0f%% after",
		a.OutputTokensPerS, b.OutputTokensPerS, a.DecodeBatch.StepMean, b.DecodeBatch.StepMean, bottleneck(a), bottleneck(b),
		100*weightShare(from), 100*weightShare(to))}, nil
}

// weightShare returns the least share of a run that the GPUs need to read all weights, once for
// each sub-batch of every iteration.
func weightShare(p *point) float64 {
	c, s := p.config, p.summary
	read := float64(c.Model.WeightBytes()) / (float64(c.Model.TensorParallel) * float64(c.GPU.MemoryBandwidth))
	times := float64(s.Iterations) / float64(c.Replicas())
	if !c.Scheduler.Adaptive {
		times *= float64(c.Scheduler.SubBatches)
	}
	return times * read / s.SimulatedS
}

const firstStep = "naive" // the step of Fig 10a without any mechanism, as in its sweep

// part is one mechanism of a step; the node with it is a point of fig10a or fig10a_parts.
type part struct{ what, point string }

// ablationParts are the mechanisms of the paper's steps, in the order of their addition: scheduling
// (sections 5.2, 5.3), then overlap (5.1).
var ablationParts = []part{
	{"two sub-batches", "two sub-batches"}, {"chunked prefill", "+ scheduling"},
	{"concurrent transfers", "concurrent transfers"}, {"rotation", "rotation"}, {"round-robin offsets", "round-robin offsets"},
	{"asynchronous prefill transfers", "+ overlap"}, {"even ranksets", "+ even ranksets"},
}

// findStep compares two steps of the ablation, with the effect of each mechanism in between.
func findStep(e *evidence, seed uint64, r *reading) (finding, error) {
	before, err := e.step(seed, r.From)
	if err != nil {
		return finding{}, err
	}
	var worth []string
	last, inside := before, r.From == firstStep
	for _, p := range ablationParts {
		if inside {
			with, err := e.step(seed, p.point)
			if err != nil {
				return finding{}, err
			}
			worth = append(worth, fmt.Sprintf("%s %.2f", p.what, throughput(with.summary)/throughput(last.summary)))
			last = with
		}
		if p.point == r.To {
			break
		}
		inside = inside || p.point == r.From
	}
	a, b := before.summary, last.summary
	reason := fmt.Sprintf("%s; GPUs %.0f%% to %.0f%%, ranksets %.0f%% to %.0f%% busy; busiest rankset over mean %.2f to %.2f; PCIe %.1f%% busy at first",
		strings.Join(worth, ", "), 100*a.Utilization.GPU, 100*b.Utilization.GPU, 100*a.Utilization.PIM, 100*b.Utilization.PIM,
		a.RanksetImbalance, b.RanksetImbalance, 100*a.Utilization.PCIeDown)
	if a.Utilization.PIM > 0 {
		reason += fmt.Sprintf("; ranksets that never wait would give %.2f", 1/a.Utilization.PIM)
	}
	return finding{value: throughput(b) / throughput(a), reason: reason, drawn: true}, nil
}

// step returns a point of Fig 10a, or of a single mechanism between its steps.
func (e *evidence) step(seed uint64, name string) (*point, error) {
	of := func(p *point) bool { return p.config.Run.Model == "gpt-175b" && strings.HasSuffix(p.name, name) }
	if len(e.of["fig10a_parts"].find(seed, of)) > 0 {
		return e.of["fig10a_parts"].one(seed, "gpt-175b, "+name, of)
	}
	return e.of["fig10a"].one(seed, "gpt-175b, "+name, of)
}

// predictorTable is Fig 10b (section 6.3): the errors of the learned predictors on batches of
// OpenR1, with the profile and the split of 'l3lab predict'. requests is the number of batches,
// from twice as many requests, since several prompts can share a batch.
func (m *models) predictorTable(ctx context.Context, requests int) (*tables.Table, error) {
	judged := m.served[1:] // GPT-89B and GPT-175B, as in Fig 10a
	rows := make([][][]tables.Value, len(judged))
	var group errgroup.Group
	for i, config := range judged {
		group.Go(func() error {
			e, err := predictorErrors(ctx, config, max(requests, 10))
			name := config.Run.Model
			rows[i] = [][]tables.Value{
				{tables.Of(name), tables.Of("prefill attention"), number(e.PrefillAttention.Mean)},
				{tables.Of(name), tables.Of("decode attention"), number(e.DecodeAttention.Mean)},
				{tables.Of(name), tables.Of("FC"), number(e.FC.Mean)},
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &tables.Table{Name: "fig10b", Columns: []string{"run.model", "part", "relative_error"}, Rows: slices.Concat(rows...)}, nil
}

// predictorErrors profiles a run on OpenR1 and judges the predictors on it.
func predictorErrors(ctx context.Context, base *configs.Config, batches int) (e predict.PredictionErrors, err error) {
	cfg := *base
	cfg.Run.System, cfg.Run.Trace, cfg.Run.CommonTo, cfg.Run.Requests = "l3", "openr1", "", 2*batches
	trace, err := system.LoadTrace(&cfg)
	if err != nil {
		return e, err
	}
	node, err := system.NewNode(&cfg)
	if err != nil {
		return e, err
	}
	p, err := node.Profile(ctx, trace, batches)
	if err != nil {
		return e, err
	}
	return predict.HoldOut(&cfg.Predictor, p.Samples, rand.New(rand.NewPCG(cfg.Run.Seed, 0)))
}

// The batches of Fig 11.
const smallBatch, largeBatch = 16, 128

// latency makes a finder of a ratio over the batches of Fig 11; pick chooses between two ratios.
func latency(pick func(a, b float64) float64) finder {
	return func(e *evidence, seed uint64, r *reading) (finding, error) { return e.latency(seed, r, pick) }
}

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

// batch returns the batch of a run of Fig 11 under the reading.
func (l *reading) batch(c *configs.Config) int {
	if l.Replica {
		return c.Run.Requests / c.Replicas()
	}
	return c.Run.Requests
}

// gpuTime returns the GPUs' seconds in a decode iteration of L3 with all requests in one or two
// sub-batches: its least time.
func gpuTime(c *configs.Config, subBatches int) float64 {
	cost := gpu.NewModelCost(&c.GPU.Spec, &c.Model)
	tokens := c.Run.Requests / c.Replicas() / subBatches
	layers := cost.QKV(tokens).Plus(cost.ProjectionFFN(tokens)).Times(c.Model.Layers)
	return float64(subBatches) * cost.Embedding(tokens).Plus(layers).Plus(cost.LMHead(tokens)).Seconds
}
