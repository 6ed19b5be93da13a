package claims

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
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

// cell returns the cell of a table for a point.
type cell func(*configs.Config, *results.Summary) string

// throughputCell is a system's throughput, with the requests that it rejects.
func throughputCell(s *results.Summary) string {
	text := fmt.Sprintf("%.1f", s.OutputTokensPerS)
	if s.OutputTokensPerS >= 100 { // a fourth digit has no meaning, and rows are wide
		text = fmt.Sprintf("%.0f", s.OutputTokensPerS)
	}
	if s.RejectedRequests > 0 {
		text += fmt.Sprintf(" (%d)", s.RejectedRequests)
	}
	return text
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

// addSystemTable adds a table with a row for each model and trace and a column for each system.
// There is one point for each of these and seed.
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

// ratios returns the throughput of l3, on some hardware, over that of each baseline.
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
		all, err := x.pairsIfAny(seed, l3System, base)
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

// noPair is the error if no model and trace has been run by both systems without a rejected request.
type noPair struct{ l3, base string }

func (e *noPair) Error() string {
	return fmt.Sprintf("no model and trace that both %s and %s have run", e.l3, e.base)
}

// pairsIfAny returns the pairs of throughputs of l3 and a baseline. Their absence is no error: a baseline with little memory may reject a
// request of each trace.
func (x *experiment) pairsIfAny(seed uint64, l3System, base string) ([]pair, error) {
	all, err := x.pairs(seed, l3System, base, throughput)
	if nobody := (*noPair)(nil); errors.As(err, &nobody) {
		return nil, nil
	}
	return all, err
}

// work is the model and trace on which systems are compared.
type work struct {
	model, trace string
}

func (e *experiment) workOf(i int) work {
	return work{e.configs[i].Run.Model, e.configs[i].Run.Trace}
}

// pick returns the experiment with the points for which where is true.
func (e *experiment) pick(where func(i int) bool) *experiment {
	plan := *e.plan
	plan.Points = nil
	out := &experiment{experimentSpec: e.experimentSpec, plan: &plan, whole: e.whole, triedOn: e.triedOn}
	for i := range e.plan.Points {
		if e.configs[i] != nil && where(i) {
			plan.Points, out.configs = append(plan.Points, e.plan.Points[i]), append(out.configs, e.configs[i])
			if len(e.outcome.Entries) > 0 { // it has run
				out.outcome.Entries = append(out.outcome.Entries, e.outcome.Entries[i])
			}
		}
	}
	return out
}
