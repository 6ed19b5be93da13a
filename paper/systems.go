package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results"
)

// addSystems adds what the page shows of Fig 8 in numbers.
func (r *Report) addSystems(x *experiment) error {
	seed := r.Seeds[0]
	var systems []string
	for _, c := range x.configs {
		if c != nil && !slices.Contains(systems, c.Run.System) {
			systems = append(systems, c.Run.System)
		}
	}
	ratios, err := x.ratios(seed, systems)
	if err != nil {
		return err
	}
	r.sections = append(r.sections, *ratios)
	for _, v := range []struct {
		commonTo, title, text string
		cell                  func(s *results.Summary) string
	}{
		{"all", "Output tokens/s on the requests that every system can hold",
			"Ratios of the claims compare these. Requests are those left of the trace.",
			func(s *results.Summary) string { return fmt.Sprintf("%.1f", s.OutputTokensPerS) }},
		{"all", "Mean decode batch on the same requests", "",
			func(s *results.Summary) string { return fmt.Sprintf("%.1f", s.DecodeBatch.StepMean) }},
		{"", "Output tokens/s of each system on all that it can hold",
			"In parentheses the requests that can never fit, and are rejected: where they are many, the paper reports GPUs out of " +
				"memory. Rows of systems that reject different requests do not compare.",
			func(s *results.Summary) string {
				if s.RejectedRequests == 0 {
					return fmt.Sprintf("%.1f", s.OutputTokensPerS)
				}
				return fmt.Sprintf("%.1f (%d never fit)", s.OutputTokensPerS, s.RejectedRequests)
			}},
	} {
		t := &results.Table{Columns: append([]string{"model", "trace", "requests"}, systems...)}
		rows := map[string]int{}
		for i := range x.plan.Points {
			c, s := x.configs[i], x.outcome.Entries[i].Summary
			if c == nil || s == nil || x.plan.Points[i].Seed != seed || c.Run.CommonTo != v.commonTo {
				continue
			}
			key := c.Run.Model + " " + c.Run.Trace
			at, ok := rows[key]
			if !ok {
				at = len(t.Rows)
				rows[key] = at
				row := make([]string, len(t.Columns))
				row[0], row[1], row[2] = c.Run.Model, c.Run.Trace, fmt.Sprint(s.Trace.Requests)
				t.Rows = append(t.Rows, row)
			}
			t.Rows[at][3+slices.Index(systems, c.Run.System)] = v.cell(s)
		}
		if len(t.Rows) > 0 {
			r.sections = append(r.sections, section{v.title, v.text, t})
		}
	}
	return nil
}

// ratios is the throughput of l3 over that of each baseline.
func (x *experiment) ratios(seed uint64, systems []string) (*section, error) {
	t := &results.Table{Columns: []string{"model", "trace"}}
	text := "Below 1 the baseline is faster:"
	rows := map[string]int{}
	for _, base := range systems {
		if base == "l3" {
			continue
		}
		all, err := x.pairs(seed, base, throughput)
		if err != nil {
			return nil, err
		}
		t.Columns = append(t.Columns, "over "+base)
		slower := 0
		for _, l3 := range x.find(seed, func(p *point) bool { return p.config.Run.System == "l3" && p.config.Run.CommonTo == "all" }) {
			run := &l3.config.Run
			i := slices.IndexFunc(all, func(p pair) bool { return p.model == run.Model && p.trace == run.Trace })
			if i < 0 {
				continue
			}
			key := run.Model + " " + run.Trace
			if _, ok := rows[key]; !ok {
				rows[key] = len(t.Rows)
				t.Rows = append(t.Rows, []string{run.Model, run.Trace})
			}
			t.Rows[rows[key]] = append(t.Rows[rows[key]], fmt.Sprintf("%.2f", all[i].ratio))
			if all[i].ratio < 1 {
				slower++
			}
		}
		text += fmt.Sprintf(" %s in %d of %d,", base, slower, len(all))
	}
	return &section{"Throughput of l3 over that of each baseline", strings.TrimSuffix(text, ",") + " cases.", t}, nil
}
