package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
)

func (e *experiment) compared(seed uint64, system string) []point {
	return e.find(seed, func(p *point) bool { return p.system == system && (e.whole || p.config.Run.CommonTo == "all") })
}

// on returns the point of a model and a trace, nil if there is none.
func on(all []point, w work) *point {
	if i := slices.IndexFunc(all, func(p point) bool { return p.work == w }); i >= 0 {
		return &all[i]
	}
	return nil
}

// placed returns the points of all systems; of l3 only those with one placement.
func (e *experiment) placed(placement string) *experiment {
	return e.pick(func(i int) bool {
		return e.configs[i].Run.System != "l3" || e.configs[i].Comm.Balance == placement
	})
}

// pair is L3 and a baseline on the same requests.
type pair struct {
	work
	layouts  string // of l3 and of the baseline, if they may differ
	l3, base *results.Summary
	ratio    float64
}

func (p *pair) String() string { return p.model + " on " + p.trace + p.layouts }

// pairs returns L3 against a baseline for each model and trace on the same
// requests, the largest ratio first.
func (e *experiment) pairs(seed uint64, l3System, base string, measure func(*results.Summary) float64) ([]pair, error) {
	baselines := e.compared(seed, base)
	var all []pair
	for _, l3 := range e.compared(seed, l3System) {
		other := on(baselines, l3.work)
		if other == nil {
			continue // no request fits all systems: reported with the failed points
		}
		p := pair{work: l3.work, l3: l3.summary, base: other.summary}
		if e.whole {
			if p.l3.RejectedRequests+p.base.RejectedRequests > 0 {
				continue // shown in the tables, with the number of rejected requests
			}
			p.layouts = fmt.Sprintf(" (%s %s, %s %s)", l3System, layout(l3.config), base, layout(other.config))
		}
		if err := p.comparable(); err != nil {
			return nil, err
		}
		if measure(p.base) > 0 {
			p.ratio = measure(p.l3) / measure(p.base)
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, &noPair{l3System, base}
	}
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(b.ratio, a.ratio) })
	return all, nil
}

// comparable checks that both runs served the same requests, all of them.
func (p *pair) comparable() error {
	if p.l3.Trace != p.base.Trace || p.l3.RejectedRequests != 0 || p.base.RejectedRequests != 0 {
		return fmt.Errorf("%s: %s and %s did not serve the same requests", p, p.l3.System, p.base.System)
	}
	return nil
}

// best is the largest ratio of L3 to a baseline over models and traces, except those left out.
func (e *experiment) best(seed uint64, base string, without []string, measure func(*results.Summary) float64) (finding, error) {
	all, err := e.pairs(seed, "l3", base, measure)
	if err != nil {
		return finding{}, err
	}
	all = slices.DeleteFunc(all, func(p pair) bool { return slices.Contains(without, p.model+" on "+p.trace) })
	if len(all) == 0 {
		return finding{}, fmt.Errorf("nothing but %s", strings.Join(without, ", "))
	}
	p, least := all[0], all[len(all)-1]
	reason := fmt.Sprintf("%s: mean batch %.1f against %.1f, %.2f and %.2f TB for KV; l3 %s, %s %s; median of %d pairs %.2f, least %.2f (%s on %s)",
		&p, p.l3.DecodeBatch.StepMean, p.base.DecodeBatch.StepMean, terabytes(p.l3), terabytes(p.base), busy(p.l3), base, busy(p.base),
		len(all), median(list.Map(all, func(p pair) float64 { return p.ratio })), least.ratio, least.model, least.trace)
	if i := slices.IndexFunc(all, func(q pair) bool { return q.model != p.model }); i >= 0 {
		reason += fmt.Sprintf("; best on another model %.2f (%s on %s)", all[i].ratio, all[i].model, all[i].trace)
	}
	return finding{value: p.ratio, reason: reason, drawn: true}, nil
}

// findBest is the best case of Fig 8 with one placement of requests.
func findBest(e *evidence, seed uint64, r *reading) (finding, error) {
	measure, err := metric(r.Metric)
	if err != nil {
		return finding{}, err
	}
	fig8, without := e.of["fig8"], []string(nil) // sensitivity and fair comparison use all cells
	if e.readings {
		fig8, without = fig8.placed(r.Placement), r.Without
	}
	return fig8.best(seed, r.Base, without, measure)
}

// findHighest is the least ratio of L3 to any other system over models and traces.
func findHighest(e *evidence, seed uint64, r *reading) (finding, error) {
	fig8 := e.of["fig8"]
	if e.readings {
		fig8 = fig8.placed(r.Placement)
	}
	var all []pair
	for _, system := range baselinesOf(fig8.systems()) {
		more, err := fig8.pairsIfAny(seed, "l3", system)
		if err != nil {
			return finding{}, err
		}
		slices.Reverse(more) // smallest first
		all = append(all, more...)
	}
	if len(all) == 0 {
		return finding{}, &noPair{"l3", "another system"}
	}
	least := slices.MinFunc(all, func(a, b pair) int { return cmp.Compare(a.ratio, b.ratio) })
	return finding{value: least.ratio, drawn: true, reason: fmt.Sprintf("least of %d pairs: over %s, %s", len(all), least.base.System, &least)}, nil
}

// findOrdering compares hbm-pim with gpu-only where the paper has the GPUs ahead.
func findOrdering(e *evidence, seed uint64, _ *reading) (finding, error) {
	fig8, w := e.of["fig8"], work{"opt-66b", "dolphin"}
	hbms, gpuOnly := fig8.compared(seed, "hbm-pim"), fig8.compared(seed, "gpu-only")
	hbm, gpus := on(hbms, w), on(gpuOnly, w)
	if hbm == nil || gpus == nil {
		return finding{}, fmt.Errorf("%s, seed %d: no point of %s on %s of hbm-pim, or of gpu-only", fig8.Name, seed, w.model, w.trace)
	}
	if err := (&pair{work: w, l3: hbm.summary, base: gpus.summary}).comparable(); err != nil {
		return finding{}, err
	}
	below, total := 0, 0
	for _, p := range hbms {
		if q := on(gpuOnly, p.work); q != nil {
			if total++; p.summary.OutputTokensPerS < q.summary.OutputTokensPerS {
				below++
			}
		}
	}
	a, b := hbm.summary, gpus.summary
	reason := fmt.Sprintf("mean batch %.1f (hbm-pim) and %.1f (gpu-only), mean TBT %.1f and %.1f ms", a.DecodeBatch.StepMean, b.DecodeBatch.StepMean, a.TBT.Mean, b.TBT.Mean)
	if configs.Section[kinds.HBMPIM](hbm.config).SubBatches == kinds.SubBatchesAlways {
		reason += "; hbm-pim's two sub-batches each read all weights"
	}
	return finding{value: a.OutputTokensPerS / b.OutputTokensPerS, drawn: true, reason: fmt.Sprintf("%s; hbm-pim is below gpu-only in %d of %d pairs of model and trace", reason, below, total)}, nil
}
