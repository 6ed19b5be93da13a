package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
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

// batchCell is a system's mean decode batch.
func batchCell(_ *configs.Config, s *results.Summary) string {
	return fmt.Sprintf("%.1f", s.DecodeBatch.StepMean)
}

// systems returns the systems of the experiment in their order.
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
	t := &results.Table{Columns: append([]string{"model", "trace", "requests"}, systems...)}
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
			row := slices.Repeat([]string{"-"}, len(t.Columns))
			row[0], row[1], row[2] = c.Run.Model, c.Run.Trace, fmt.Sprint(s.Trace.Requests)
			t.Rows = append(t.Rows, row)
		}
		t.Rows[at][3+slices.Index(systems, x.systemOf(i))] = show(c, s)
	}
	if len(t.Rows) > 0 {
		r.sections = append(r.sections, section{title, text, t})
	}
}

// ratios is the throughput of l3, on some hardware, over that of each baseline.
func (x *experiment) ratios(seed uint64, l3System string, systems []string) (*section, error) {
	t := &results.Table{Columns: []string{"model", "trace"}}
	baselines := baselinesOf(systems)
	rows := map[work]int{}
	for _, l3 := range x.find(seed, func(p *point) bool { return p.system == l3System && x.compares(p) }) {
		run := &l3.config.Run
		rows[work{run.Model, run.Trace}] = len(t.Rows)
		t.Rows = append(t.Rows, append([]string{run.Model, run.Trace}, slices.Repeat([]string{"-"}, len(baselines))...))
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
			t.Rows[rows[work{p.model, p.trace}]][2+i] = fmt.Sprintf("%.2f", p.ratio)
			if p.ratio < 1 {
				slower++
			}
		}
		text += fmt.Sprintf(" %s in %d of %d,", base, slower, len(all))
	}
	return &section{"Throughput of " + l3System + " over that of each baseline", strings.TrimSuffix(text, ",") + " cases.", t}, nil
}
