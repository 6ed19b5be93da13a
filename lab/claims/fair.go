package claims

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// layout names the number of GPUs per replica.
func layout(c *configs.Config) string { return fmt.Sprintf("TP%d", c.Model.TensorParallel) }

// addFair compares systems on whole traces, each at its best layout, and shows the results of Table
// 3's layouts. The claims of Fig 8 are shown beside, but not judged, since the paper did not make
// this comparison.
func (r *Report) addFair(e *evidence) error {
	all := e.of["fair"]
	all.whole = true
	var systems []namedSystem
	for i, c := range all.configs {
		if c != nil && !slices.ContainsFunc(systems, func(s namedSystem) bool { return s.Name == all.systemOf(i) }) {
			systems = append(systems, namedSystem{all.systemOf(i), c})
		}
	}
	var err error
	if r.intro, err = e.text.text("fair intro", systems...); err != nil {
		return err
	}
	best, table3 := all.bestLayouts(), all.table3Layouts(e.text)
	e.of["fig8"] = best
	claims, err := claimsOf(Fair)
	if err != nil {
		return err
	}
	if r.Judgements, err = judge(claims, e); err != nil {
		return err
	}
	for i := range r.Judgements {
		r.Judgements[i].Verdict = notJudged
	}
	if err := cmp.Or(r.drawAll(all), r.drawFair(best)); err != nil {
		return err
	}
	return r.addLayouts(all.systems(), best, table3)
}

// drawFair draws the models and traces for which gpu-only, the baseline of the figure, holds all requests, and of the other systems those
// that also do.
func (r *Report) drawFair(best *experiment) error {
	type use struct {
		work
		system string
	}
	excluded := map[use]bool{}
	for i := range best.plan.Points {
		if s := best.outcome.Entries[i].Summary; s == nil || s.RejectedRequests > 0 {
			excluded[use{best.workOf(i), best.systemOf(i)}] = true
		}
	}
	drawn := best.pick(func(i int) bool {
		w := best.workOf(i)
		return !excluded[use{w, best.systemOf(i)}] && !excluded[use{w, "gpu-only"}]
	})
	drawn.experimentSpec = &experimentSpec{Name: "fair_best"}
	t, err := drawn.table()
	if err != nil {
		return err
	}
	if len(t.Rows) == 0 {
		r.Tables = append(r.Tables, t)
		return nil
	}
	system := slices.Index(t.Columns, "run.system")
	for i := range t.Rows {
		t.Rows[i][system] = tables.Of(drawn.systemOf(i))
	}
	return r.draw(t, string(Fair))
}

// table3Layouts returns the points with the layouts of Table 3, which are those of the
// models' presets.
func (e *experiment) table3Layouts(m *models) *experiment {
	return e.pick(func(i int) bool { return m.inTable3(e.configs[i]) })
}

// bestLayouts returns the points with the best layout of each model, trace and system: with all seeds, the
// one that rejects the fewest requests, then the one with the highest throughput.
func (e *experiment) bestLayouts() *experiment {
	type use struct {
		work
		system   string
		parallel int
	}
	type sum struct {
		seeds      int
		rejected   int64
		throughput float64
	}
	sums := map[use]sum{}
	of := func(i int) use { return use{e.workOf(i), e.systemOf(i), e.configs[i].Model.TensorParallel} }
	for i, entry := range e.outcome.Entries {
		if e.configs[i] != nil && entry.Summary != nil {
			s := sums[of(i)]
			sums[of(i)] = sum{s.seeds + 1, s.rejected + entry.Summary.RejectedRequests, s.throughput + entry.Summary.OutputTokensPerS}
		}
	}
	return e.pick(func(i int) bool {
		own := sums[of(i)]
		for u, s := range sums {
			less := cmp.Or(cmp.Compare(own.seeds, s.seeds), cmp.Compare(s.rejected, own.rejected), cmp.Compare(own.throughput, s.throughput), cmp.Compare(u.parallel, of(i).parallel))
			if u.work == e.workOf(i) && u.system == e.systemOf(i) && less < 0 {
				return false
			}
		}
		return true
	})
}

// preemptionsCell shows how often a system preempts a request, and the longest stall.
func preemptionsCell(_ *configs.Config, s *results.Summary) string {
	if s.Preemptions == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f, %.0f s", float64(s.Preemptions)/float64(s.Trace.Requests), s.Stall.Max/1000)
}

// Titles of the short comparison, of the throughput at the best layouts, and of the latter on the page, without policies.
const answerTitle, bestTitle, shortTitle = "The realistic answer", "Output tokens/s, each system at its best layout", "Output tokens/s at these layouts"

// answer is the short comparison: for l3 on each hardware, its throughput over that of each baseline, as the median over the
// models and traces, and the range. Each ratio is the mean over the seeds.
func (e *experiment) answer(seeds []uint64, systems []string) (*section, error) {
	baselines := baselinesOf(systems)
	t := &tables.Table{Columns: append([]string{"system"}, list.Map(baselines, func(s string) string { return "over " + s })...)}
	for _, l3 := range systems {
		if !strings.HasPrefix(l3, "l3") {
			continue
		}
		row := []any{l3}
		for _, base := range baselines {
			all, err := e.overSeeds(seeds, l3, base)
			if nobody := (*noPair)(nil); errors.As(err, &nobody) {
				row = append(row, "no case")
				continue
			} else if err != nil {
				return nil, err
			}
			faster, tied := 0, 0
			for _, p := range all {
				switch {
				case p.low > 1:
					faster++
				case p.high >= 1:
					tied++
				}
			}
			ratios := list.Map(all, func(s spread) float64 { return s.ratio })
			text := fmt.Sprintf("%.2f (%.2f to %.2f), %d of %d", median(ratios), ratios[len(ratios)-1], ratios[0], faster, len(all))
			if tied > 0 {
				text += fmt.Sprintf(", %d tied", tied)
			}
			row = append(row, text)
		}
		t.Add(row...)
	}
	text := "Output tokens/s of l3 over each baseline's: the median (least to most) over the models and traces, and in how many cases l3 is faster"
	if len(seeds) > 1 {
		text += fmt.Sprintf(" with each of %d seeds, whose mean a ratio is; cases in which they disagree are tied", len(seeds))
	}
	text += ". Every system has its best policy and layout" + e.onTrial()
	return &section{answerTitle, text + ".", t}, nil
}

// onTrial says how the best layouts and policies were chosen, if not by the runs shown.
func (e *experiment) onTrial() string {
	if e.triedOn == 0 {
		return ""
	}
	return fmt.Sprintf(" of those within %.0f%% of the best on %d requests of the first seed, judged by all requests of this seed", 100*closeCall, e.triedOn)
}

// spread is the ratio of a pair over seeds: ratio is the mean.
type spread struct {
	pair
	low, high float64
	seeds     int
}

// overSeeds returns the pairs of l3 on some hardware and a baseline with the means of their ratios over seeds, largest first.
func (e *experiment) overSeeds(seeds []uint64, l3System, base string) ([]spread, error) {
	var all []spread
	for _, seed := range seeds {
		pairs, err := e.pairsIfAny(seed, l3System, base)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			i := slices.IndexFunc(all, func(s spread) bool { return s.work == p.work })
			if i < 0 {
				all = append(all, spread{pair: p, low: p.ratio, high: p.ratio, seeds: 1})
				continue
			}
			s := &all[i]
			s.low, s.high = min(s.low, p.ratio), max(s.high, p.ratio)
			s.seeds++
			s.ratio += (p.ratio - s.ratio) / float64(s.seeds)
		}
	}
	all = slices.DeleteFunc(all, func(s spread) bool { return s.seeds < len(seeds) }) // another seed rejects requests
	if len(all) == 0 {
		return nil, &noPair{l3System, base}
	}
	slices.SortStableFunc(all, func(a, b spread) int { return cmp.Compare(b.ratio, a.ratio) })
	return all, nil
}

// baselinesOf returns the systems that are not l3 on some hardware.
func baselinesOf(systems []string) []string {
	return slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return strings.HasPrefix(s, "l3") })
}

// median returns the median of sorted ratios: of an even number the mean of the middle two.
func median(ratios []float64) float64 {
	return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
}

// addShort adds the page's table of throughput: without policies, and with the layout only if replicas have fewer
// than all GPUs.
func (r *Report) addShort(best *experiment, systems []string) {
	before := len(r.sections)
	r.addSystemTable(best, systems, shortTitle, "`TP4` marks replicas of 4 GPUs; else a replica has all of them. In parentheses, requests that can never fit: "+
		"rows of systems that reject different requests do not compare. `"+(&section{title: bestTitle}).file()+".csv` has each system's best policy (`run.variant`).",
		func(c *configs.Config, s *results.Summary) string {
			if c.Model.TensorParallel == c.Node.GPUs {
				return throughputCell(s)
			}
			return throughputCell(s) + " " + layout(c)
		})
	shown := []int{0, 1} // without the number of requests, which is the same for every trace
	for i := range systems {
		shown = append(shown, 3+i)
	}
	for i := range r.sections[before:] {
		s := &r.sections[before+i]
		s.table = s.table.Select(shown)
	}
}

// addLayouts adds the page's tables of both choices of layouts.
func (r *Report) addLayouts(systems []string, best, table3 *experiment) error {
	answer, err := best.answer(r.Seeds, systems)
	if err != nil {
		return err
	}
	r.sections = append(r.sections, *answer)
	for _, system := range systems {
		if !strings.HasPrefix(system, "l3") {
			continue
		}
		ratios, err := best.ratios(r.Seeds[0], system, systems)
		if err != nil {
			return err
		}
		r.sections = append(r.sections, *ratios)
	}
	tokens := func(c *configs.Config, s *results.Summary) string {
		return strings.TrimSpace(throughputCell(s) + " " + layout(c) + " " + s.Variant)
	}
	r.addSystemTable(best, systems, bestTitle,
		"TP is the number of GPUs of a replica: the layout that rejects the fewest requests of the trace, of equals the fastest"+best.onTrial()+". Behind it is the variant of the preset (run.variant), the fastest of the system's there. "+rejectedText, tokens)
	r.addShort(best, systems)
	r.addSystemTable(best, systems, "Mean decode batch at these layouts", "", batchCell)
	r.addSystemTable(best, systems, "Preemptions a request at these layouts", "With the longest stall, where there is one.", preemptionsCell)
	ratios, err := table3.ratios(r.Seeds[0], "l3", systems)
	if err != nil {
		return err
	}
	ratios.title += ", layouts of Table 3"
	ratios.text += " No ratio where a system rejects requests."
	r.sections = append(r.sections, *ratios)
	small := r.models.served[0]
	r.addSystemTable(table3, systems, "Output tokens/s, layouts of Table 3", fmt.Sprintf("What the choice of the layout is worth: on %d GPUs, the weights of %s take %.0f%% of the memory.",
		small.Model.TensorParallel, small.Run.Model, 100*r.models.weightsOf(small)), tokens)
	return nil
}
