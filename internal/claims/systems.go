package claims

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// rejectedText explains throughputCell.
const rejectedText = "In parentheses the requests that can never fit, and are rejected; rows of systems that reject different requests do not compare."

// addSystems adds the page's tables of Fig 8.
func (r *Report) addSystems(x *experiment) error {
	systems := x.systems()
	ratios, err := x.ratios(r.Seeds[0], "l3", systems)
	if err != nil {
		return err
	}
	r.sections = append(r.sections, *ratios)
	common := x.pick(func(i int) bool { return x.configs[i].Run.CommonTo == "all" })
	own := x.pick(func(i int) bool { return x.configs[i].Run.CommonTo == "" })
	tokens := func(_ *configs.Config, s *results.Summary) string { return throughputCell(s) }
	r.addSystemTable(common, systems, "Output tokens/s on the requests that every system can hold",
		"Ratios of the claims compare these. Requests are those left of the trace.", tokens)
	r.addSystemTable(common, systems, "Mean decode batch on the same requests", "", batchCell)
	r.addSystemTable(own, systems, "Output tokens/s of each system on all that it can hold",
		rejectedText+" The paper reports GPUs out of memory for OPT-66B on two traces.", tokens)
	return nil
}

// cell writes the cell of a table for a point.
type cell func(*configs.Config, *results.Summary) string

// throughputCell is a system's throughput, with the requests that it rejects.
func throughputCell(s *results.Summary) string {
	if s.RejectedRequests == 0 {
		return fmt.Sprintf("%.1f", s.OutputTokensPerS)
	}
	return fmt.Sprintf("%.1f (%d never fit)", s.OutputTokensPerS, s.RejectedRequests)
}

func batchCell(_ *configs.Config, s *results.Summary) string {
	return fmt.Sprintf("%.1f", s.DecodeBatch.StepMean)
}

func (e *experiment) systems() []string {
	var systems []string
	for i := range e.configs {
		if e.configs[i] == nil {
			continue
		}
		if s := e.systemOf(i); !slices.Contains(systems, s) {
			systems = append(systems, s)
		}
	}
	return systems
}

// addSystemTable adds a table of one cell for each model and trace, a row, and
// system, a column. The points are one for each of these and seed.
func (r *Report) addSystemTable(x *experiment, systems []string, title, text string, show cell) {
	t := &tables.Table{Columns: append([]string{"model", "trace", "requests"}, systems...)}
	rows := map[work]int{}
	for i := range x.plan.Points {
		c, s := x.configs[i], x.outcome.Entries[i].Summary
		if c == nil || s == nil || x.plan.Points[i].Seed != r.Seeds[0] {
			continue
		}
		at, ok := rows[x.workOf(i)]
		if !ok {
			at = len(t.Rows)
			rows[x.workOf(i)] = at
			t.Add(append([]any{c.Run.Model, c.Run.Trace, s.Trace.Requests}, slices.Repeat([]any{"-"}, len(systems))...)...)
		}
		t.Rows[at][3+slices.Index(systems, x.systemOf(i))] = tables.Of(show(c, s))
	}
	if len(t.Rows) > 0 {
		r.sections = append(r.sections, section{title, text, t})
	}
}

const ratiosTitle = "Throughput of l3 over that of each baseline"

// ratios is the throughput of l3, on some hardware, over that of each baseline.
func (x *experiment) ratios(seed uint64, l3System string, systems []string) (*section, error) {
	t := &tables.Table{Columns: []string{"model", "trace"}}
	baselines := baselinesOf(systems)
	rows := map[work]int{}
	for _, l3 := range x.compared(seed, l3System) {
		rows[l3.work] = len(t.Rows)
		t.Add(append([]any{l3.model, l3.trace}, slices.Repeat([]any{"-"}, len(baselines))...)...)
	}
	text := "Below 1 the baseline is faster:"
	for i, base := range baselines {
		t.Columns = append(t.Columns, "over "+base)
		all, err := x.pairs(seed, l3System, base, throughput)
		if err != nil {
			return nil, err
		}
		slower := 0
		for _, p := range all {
			t.Rows[rows[p.work]][2+i] = tables.Of(math.Round(100*p.ratio) / 100)
			if p.ratio < 1 {
				slower++
			}
		}
		text += fmt.Sprintf(" %s in %d of %d,", base, slower, len(all))
	}
	return &section{strings.Replace(ratiosTitle, "l3", l3System, 1), strings.TrimSuffix(text, ",") + " cases.", t}, nil
}

// layout names the GPUs of a replica.
func layout(c *configs.Config) string { return fmt.Sprintf("TP%d", c.Model.TensorParallel) }

// addFair compares systems on whole traces, each at its best layout, and shows what
// the layouts of Table 3 would give. The claims of Fig 8 stand beside, not judged:
// the paper did not make this comparison.
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

// drawFair draws the models and traces of which every system holds all requests.
func (r *Report) drawFair(best *experiment) error {
	rejects := func(i int) bool {
		s := best.outcome.Entries[i].Summary
		return s == nil || s.RejectedRequests > 0
	}
	var excluded []work
	for i := range best.plan.Points {
		if rejects(i) {
			excluded = append(excluded, best.workOf(i))
		}
	}
	drawn := best.pick(func(i int) bool { return !slices.Contains(excluded, best.workOf(i)) })
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

// work is what systems are compared on.
type work struct {
	model, trace string
}

func (e *experiment) workOf(i int) work {
	return work{e.configs[i].Run.Model, e.configs[i].Run.Trace}
}

func (e *experiment) pick(where func(i int) bool) *experiment {
	plan := *e.plan
	plan.Points = nil
	out := &experiment{experimentSpec: e.experimentSpec, plan: &plan, whole: e.whole}
	for i := range e.plan.Points {
		if e.configs[i] != nil && where(i) {
			plan.Points, out.configs = append(plan.Points, e.plan.Points[i]), append(out.configs, e.configs[i])
			out.outcome.Entries = append(out.outcome.Entries, e.outcome.Entries[i])
		}
	}
	return out
}

// table3Layouts returns the points with the layouts of Table 3, which are those of the
// models' presets.
func (e *experiment) table3Layouts(m *models) *experiment {
	return e.pick(func(i int) bool {
		return slices.ContainsFunc(m.served, func(c *configs.Config) bool {
			return c.Run.Model == e.configs[i].Run.Model && c.Model.TensorParallel == e.configs[i].Model.TensorParallel
		})
	})
}

// bestLayouts returns the points with the best layout of each model, trace and system: over all
// seeds the one that rejects the fewest requests, of equals the one with the highest throughput.
func (e *experiment) bestLayouts() *experiment {
	type use struct {
		work
		system   string
		parallel int
	}
	type sum struct {
		rejected   int64
		throughput float64
	}
	sums := map[use]sum{}
	of := func(i int) use { return use{e.workOf(i), e.systemOf(i), e.configs[i].Model.TensorParallel} }
	for i, entry := range e.outcome.Entries {
		if e.configs[i] != nil && entry.Summary != nil {
			s := sums[of(i)]
			sums[of(i)] = sum{s.rejected + entry.Summary.RejectedRequests, s.throughput + entry.Summary.OutputTokensPerS}
		}
	}
	return e.pick(func(i int) bool {
		own := sums[of(i)]
		for u, s := range sums {
			less := cmp.Or(cmp.Compare(s.rejected, own.rejected), cmp.Compare(own.throughput, s.throughput), cmp.Compare(u.parallel, of(i).parallel))
			if u.work == e.workOf(i) && u.system == e.systemOf(i) && less < 0 {
				return false
			}
		}
		return true
	})
}

// preemptionsCell is how often a system preempts a request, with the longest stall.
func preemptionsCell(_ *configs.Config, s *results.Summary) string {
	if s.Preemptions == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f, %.0f s", float64(s.Preemptions)/float64(s.Trace.Requests), s.Stall.Max/1000)
}

// The titles of the comparison in short, and of the throughput at the best layouts.
const answerTitle, bestTitle = "The realistic answer", "Output tokens/s, each system at its best layout"

// answer is the comparison in short: for l3 on each hardware its throughput over that of
// each baseline, the median over the models and traces, and the range.
func (e *experiment) answer(seed uint64, systems []string) (*section, error) {
	baselines := baselinesOf(systems)
	t := &tables.Table{Columns: append([]string{"system"}, list.Map(baselines, func(s string) string { return "over " + s })...)}
	for _, l3 := range systems {
		if !strings.HasPrefix(l3, "l3") {
			continue
		}
		row := []any{l3}
		for _, base := range baselines {
			all, err := e.pairs(seed, l3, base, throughput)
			if err != nil {
				return nil, err
			}
			faster := 0
			for _, p := range all {
				if p.ratio > 1 {
					faster++
				}
			}
			row = append(row, fmt.Sprintf("%.2f (%.2f to %.2f), %d of %d", median(all), all[len(all)-1].ratio, all[0].ratio, faster, len(all)))
		}
		t.Add(row...)
	}
	return &section{answerTitle, "Output tokens/s of l3 over those of each baseline, every system at its best policy and layout, over the models and traces: the median (least to most), and in how many cases l3 is faster.", t}, nil
}

// baselinesOf returns the systems that are not l3 on some hardware.
func baselinesOf(systems []string) []string {
	return slices.DeleteFunc(slices.Clone(systems), func(s string) bool { return strings.HasPrefix(s, "l3") })
}

// median returns the median ratio of pairs in order, of two in the middle their mean.
func median(all []pair) float64 {
	return (all[(len(all)-1)/2].ratio + all[len(all)/2].ratio) / 2
}

// addLayouts adds the page's tables of both choices of layouts.
func (r *Report) addLayouts(systems []string, best, table3 *experiment) error {
	answer, err := best.answer(r.Seeds[0], systems)
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
		"TP is the number of GPUs of a replica: the layout that rejects the fewest requests of the trace, of equals the fastest. Behind it is the variant of the preset (run.variant), the fastest of the system's. "+rejectedText, tokens)
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
