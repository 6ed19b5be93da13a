package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

// capacityName is one of capacityNames.
type capacityName struct {
	key, column string
	of          func(*capacity.Load) *string
}

// capacityNames are what a list of a flag may vary between the rows of capacity: the key that the
// flag sets, its column, and what a row has there.
var capacityNames = []capacityName{
	{"run.system", "system", func(l *capacity.Load) *string { return &l.System }},
	{"run.model", "model", func(l *capacity.Load) *string { return &l.Model }},
	{"gpu.preset", "gpu", func(l *capacity.Load) *string { return &l.GPU }},
	{"policy.name", "policy", func(l *capacity.Load) *string { return &l.Policy }},
}

// distinguish sets what the user calls each row, and adds it to a name that two choices of a flag
// share, as two files that change the same keys of one GPU do.
func (c *capacityJSON) distinguish(all []sweep.Combination) {
	c.called = make([][]string, len(all))
	for _, n := range capacityNames {
		choices := map[string][]string{} // by the name that came of them
		for i := range all {
			name := *n.of(&c.Rates[i].Load)
			given := cmp.Or(all[i].Names[n.key], name)
			c.called[i] = append(c.called[i], given)
			if !slices.Contains(choices[name], given) {
				choices[name] = append(choices[name], given)
			}
		}
		add := func(l *capacity.Load, i int) {
			if name := n.of(l); len(choices[*name]) > 1 {
				*name = all[i].Names[n.key] + ": " + *name
			}
		}
		for i := range c.Rates {
			add(&c.Rates[i].Load, i)
		}
		for i := range c.Tried {
			add(&c.Tried[i], c.origins[i])
		}
	}
}

// varies says that the rows differ in a name.
func (c *capacityJSON) varies(of func(*capacity.Load) *string) bool {
	return slices.ContainsFunc(c.Rates, func(r capacityAnswer) bool { return *of(&r.Load) != *of(&c.Rates[0].Load) })
}

// writeText writes a table, a row a combination. What all rows have in common stands above it.
func (c *capacityJSON) writeText(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d requests measured at each rate; %g%% of them within", c.Trace.Name, c.Measured, 100*c.Target)
	for _, t := range []struct {
		name string
		ms   float64
	}{{"TTFT", c.SLO.TTFT}, {"TBT", c.SLO.TBT}} {
		if t.ms > 0 {
			fmt.Fprintf(out, " %s %g ms", t.name, t.ms)
		}
	}
	var common, columns, notes []string
	var cells []int // places in capacityNames
	note := func(text string) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for k, n := range capacityNames {
		if n.column == "system" || n.column == "model" || c.varies(n.of) {
			columns, cells = append(columns, n.column), append(cells, k)
			for i := range c.Rates {
				if name, called := *n.of(&c.Rates[i].Load), c.called[i][k]; name != called {
					note(called + " is " + strings.TrimPrefix(name, called+": "))
				}
			}
		} else {
			common = append(common, n.column+" "+*n.of(&c.Rates[0].Load))
		}
	}
	if len(common) > 0 {
		fmt.Fprintf(out, "\n%s", strings.Join(common, "; "))
	}
	fmt.Fprint(out, "\n\n")
	err := cli.Aligned(out, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprintln(w, strings.Join(columns, "\t")+"\trequests/s\tattainment\tgoodput tokens/s\tTTFT p50\tp99 ms\tTBT p50\tp99 ms\t")
		for i := range c.Rates {
			r := &c.Rates[i]
			for _, k := range cells {
				fmt.Fprintf(w, "%s\t", c.called[i][k])
			}
			fmt.Fprintf(w, "%.4g\t%.2f%%\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%s\n", r.RatePerS, 100*r.Attainment, r.GoodputTokens,
				r.TTFT.P50, r.TTFT.P99, r.TBT.P50, r.TBT.P99, r.remark())
		}
	})
	for i := range c.Rates {
		for _, text := range c.Rates[i].Notes {
			note(text)
		}
	}
	for i, text := range notes {
		fmt.Fprintf(out, "%snote: %s\n", strings.Repeat("\n", 1-min(i, 1)), text)
	}
	return err
}

// remark says what is special about an answer.
func (r *capacityAnswer) remark() string {
	switch {
	case r.RatePerS == 0 && r.Alone:
		return "no rate meets the targets, as requests do not even where none waits for another"
	case r.RatePerS == 0:
		return "no rate meets the targets; latencies of the lowest tried"
	case r.Dips:
		return "a lower rate fails"
	}
	return ""
}

// lines returns how many lines a figure of combinations has, in each model's plot.
func lines(all []sweep.Combination) int {
	models := map[string]bool{}
	for i := range all {
		models[all[i].Names["run.model"]] = true
	}
	return len(all) / max(len(models), 1)
}

// lineColumn says in the figures' table what one line is of: what varies of system, GPU and policy.
const lineColumn = "server"

// plot draws latency, attainment and goodput over the rates that were tried into a folder, and
// writes their table there. A line is of one combination; models have plots of their own.
func (c *capacityJSON) plot(dir string) error {
	t := &results.Table{Name: "capacity", Columns: append(list.Map(capacityNames, func(n capacityName) string { return n.column }), "trace", "rate_per_s", "attainment", "goodput_tokens_per_s",
		"ttft_mean_ms", "ttft_p50_ms", "ttft_p99_ms", "tbt_mean_ms", "tbt_p50_ms", "tbt_p99_ms", "tpot_mean_ms", "e2e_mean_ms", lineColumn)}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for i := range c.Tried {
		l := &c.Tried[i]
		var row, line []string
		for k, n := range capacityNames {
			row = append(row, *n.of(l))
			if n.column != "model" && c.varies(n.of) {
				line = append(line, c.called[c.origins[i]][k])
			}
		}
		if len(line) == 0 {
			line = []string{l.System}
		}
		row = append(row, l.Trace)
		for _, v := range []float64{l.RatePerS, l.Attainment, l.GoodputTokens, l.TTFT.Mean, l.TTFT.P50, l.TTFT.P99, l.TBT.Mean, l.TBT.P50, l.TBT.P99, l.TPOT.Mean, l.E2E.Mean} {
			row = append(row, number(v))
		}
		t.Rows = append(t.Rows, append(row, strings.Join(line, ", ")))
	}
	files := []results.File{{Name: "rates.csv", Write: t.WriteCSV}}
	facet := ""
	if c.varies(func(l *capacity.Load) *string { return &l.Model }) {
		facet = "model"
	}
	for _, y := range []string{"ttft_p99_ms", "ttft_mean_ms", "tbt_p99_ms", "tpot_mean_ms", "attainment", "goodput_tokens_per_s"} {
		file, err := figure.File(t, figure.Selection{Kind: "line", X: "rate_per_s", Y: y, Group: lineColumn, Facet: facet}, y, "svg", "")
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	return cli.WriteFiles("--plots", filepath.Clean(dir), files)
}
