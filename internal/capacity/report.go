package capacity

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

const schema = "l3sim/capacity/2" // names the form of `capacity --json`

// Report is the answers of several searches, as the command capacity prints them.
type Report struct {
	Schema   string        `json:"schema"`
	Trace    results.Trace `json:"trace"`
	Arrivals string        `json:"arrivals"`
	SLO      results.SLO   `json:"slo_ms"`
	Target   float64       `json:"attainment_target"`
	Measured int           `json:"measured_requests"`
	// Rates are the answers, in the order of the flags.
	Rates []ReportedRate `json:"rates"`
	// Tried are all rates that were tried, of one system after another.
	Tried   []Load `json:"tried"`
	origins []int  // of each of Tried: the place of its answer in Rates
	// called is what the user calls the names of a row of Rates, in the order of names.
	called [][]string
}

// ReportedRate is the highest rate of a system.
type ReportedRate struct {
	Load
	// Dips says that a lower rate did not meet the targets.
	Dips bool `json:"lower_rate_fails"`
	// Alone says that where RatePerS is 0, requests miss the targets without waiting for one another.
	Alone    bool `json:"alone_fails"`
	TooLarge int  `json:"rejected_requests"`
	// Binds says which resources and targets bind, and by how much the rate rises with twice of each.
	Binds string `json:"binds"`
	// Set is the settings of knobs that --tune found.
	Set []string `json:"set,omitempty"`
	// Notes are those of its configuration, as a run's summary has them.
	Notes []string `json:"notes,omitempty"`
}

// Add adds the answer of a search on a configuration's trace, what binds there, and the settings of knobs that were found.
func (c *Report) Add(cfg *configs.Config, trace *traces.Trace, found *Answer, binds string, set []string) {
	c.Schema, c.Trace, c.Arrivals, c.Target = schema, results.DescribeTrace(trace), cfg.Arrivals.Kind, cfg.SLO.Attainment
	c.SLO = results.NewSLO(&cfg.SLO)
	c.Measured = found.Measured
	c.origins = append(c.origins, slices.Repeat([]int{len(c.Rates)}, len(found.Tried))...)
	c.Rates = append(c.Rates, ReportedRate{found.Best, found.Dips, found.Alone, found.TooLarge, binds, set, append(system.Notes(cfg), found.notes()...)})
	c.Tried = append(c.Tried, found.Tried...)
}

// notes say where runs were too short for the answer.
func (a *Answer) notes() (notes []string) {
	if a.Beyond != "" {
		notes = []string{a.Beyond}
	}
	if a.Needed == 0 {
		return notes
	}
	n := a.Next
	return append(notes, fmt.Sprintf("%s: the next rate, %.4g requests/s, attains the targets and fails only as the number of requests in the system grew. "+
		"Requests stay up to %.0f s, so that a run this short may only show the node filling: --requests %d tells, and the rate may be higher",
		n.System, n.RatePerS, n.E2E.P99/1e3, roundUp(a.Needed)))
}

// roundUp rounds a number of requests up to two digits.
func roundUp(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return (n + unit - 1) / unit * unit
}

type name struct {
	key, column string
	of          func(*Load) *string
}

// names are what a list of a flag may vary between the rows of capacity: the key that the
// flag sets, its column, and what a row has there.
var names = []name{
	{"run.system", "system", func(l *Load) *string { return &l.System }},
	{"run.model", "model", func(l *Load) *string { return &l.Model }},
	{"gpu.preset", "gpu", func(l *Load) *string { return &l.GPU }},
	{"policy.name", "policy", func(l *Load) *string { return &l.Policy }},
}

// Distinguish sets what the user calls each row, and adds it to a name that two choices of a flag
// share, as two files that change the same keys of one GPU do.
func (c *Report) Distinguish(all []map[string]string) {
	c.called = make([][]string, len(all))
	for _, n := range names {
		t := &tables.Table{Columns: []string{"name", "called"}}
		for i := range all {
			name := *n.of(&c.Rates[i].Load)
			t.Add(name, cmp.Or(all[i][n.key], name))
			c.called[i] = append(c.called[i], t.Rows[i][1].String())
		}
		for _, rows := range t.Group(t.All(), 0) {
			if len(t.Group(rows, 1)) == 1 {
				continue
			}
			add := func(l *Load, i int) {
				if slices.Contains(rows, i) {
					*n.of(l) = all[i][n.key] + ": " + *n.of(l)
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
}

// varies says that the rows differ in a name.
func (c *Report) varies(of func(*Load) *string) bool {
	return slices.ContainsFunc(c.Rates, func(r ReportedRate) bool { return *of(&r.Load) != *of(&c.Rates[0].Load) })
}

// WriteText writes a table, a row a combination. What all rows have in common stands above it.
func (c *Report) WriteText(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d requests measured at each rate; %s", c.Trace.Name, c.Measured, Targets(&c.SLO, c.Target))
	var common, columns, notes []string
	var cells []int // places in names
	note := func(text string) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for k, n := range names {
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join(columns, "\t")+"\trequests/s\tattainment\tTTFT p99\tTBT p99 ms\tGPUs\tkW\tUSD/Mtoken\tbinds\t")
	for i := range c.Rates {
		r := &c.Rates[i]
		for _, k := range cells {
			fmt.Fprintf(w, "%s\t", c.called[i][k])
		}
		fmt.Fprintf(w, "%.4g\t%.2f%%\t%.1f\t%.2f\t%d\t%.1f\t%.2f\t%s\t%s\n", r.RatePerS, 100*r.Attainment, r.TTFT.P99, r.TBT.P99, r.GPUs, r.Watts/1e3, r.USD, r.Binds, r.remark())
	}
	err := w.Flush()
	for i := range c.Rates {
		for _, text := range c.Rates[i].Notes {
			note(text)
		}
	}
	for i := range c.Rates {
		if set := c.Rates[i].Set; len(set) > 0 {
			note(fmt.Sprintf("%s: --set %s", c.Rates[i].System, strings.Join(set, " --set ")))
		}
	}
	for i, text := range notes {
		fmt.Fprintf(out, "%snote: %s\n", strings.Repeat("\n", 1-min(i, 1)), text)
	}
	return err
}

// Targets returns targets, which a share of the requests must attain, as people read them.
func Targets(slo *results.SLO, share float64) string {
	var all []string
	if each := slo.Each(); len(each) > 0 {
		all = append(all, fmt.Sprintf("%g%% of them within %s", 100*share, strings.Join(each, " ")))
	}
	return strings.Join(append(all, slo.Tails()...), ", ")
}

func (r *ReportedRate) remark() string {
	switch {
	case r.RatePerS == 0 && r.Alone:
		return "  no rate meets the targets: requests miss them even where none waits for another"
	case r.RatePerS == 0:
		return "  no rate meets the targets; latencies of the lowest tried"
	case r.Dips:
		return "  a lower rate fails"
	}
	return ""
}

// lineColumn says in the figures' table what one line is of: what varies of system, GPU and policy.
const lineColumn = "server"

// Figures returns figures of latency, attainment and goodput over the rates of a table, which has a row for each of Tried. A line is
// of one combination; models have plots of their own.
func (c *Report) Figures(rates *tables.Table) ([]results.File, error) {
	t := &tables.Table{Name: rates.Name, Columns: append(slices.Clone(rates.Columns), lineColumn)}
	for i := range c.Tried {
		var line []string
		for k, n := range names {
			if n.column != "model" && c.varies(n.of) {
				line = append(line, c.called[c.origins[i]][k])
			}
		}
		t.Rows = append(t.Rows, append(slices.Clone(rates.Rows[i]), tables.Of(cmp.Or(strings.Join(line, ", "), c.Tried[i].System))))
	}
	facet := ""
	if c.varies(func(l *Load) *string { return &l.Model }) {
		facet = "model"
	}
	var files []results.File
	for _, y := range []string{"ttft_p99_ms", "ttft_mean_ms", "tbt_p99_ms", "tpot_mean_ms", "goodput_attainment", "goodput_tokens_per_s"} {
		file, err := figure.File(t, figure.Selection{Kind: "line", X: "arrivals.rate_per_s", Y: y, Group: lineColumn, Facet: facet}, y, "svg", "")
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}
