package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/power"
	"github.com/l3sim/l3sim/units"
)

const reportSchema = "l3sim/plan/1" // names the form of `plan --json`

// Report is the rows of a plan, the best first.
type Report struct {
	Schema   string        `json:"schema"`
	Trace    results.Trace `json:"trace"`
	SLO      results.SLO   `json:"slo_ms"`
	Target   float64       `json:"attainment_target"`
	Measured int           `json:"measured_requests"`
	By       string        `json:"by"` // the column that ranks
	Rows     []Row         `json:"rows"`
	Unable   []string      `json:"unable,omitempty"` // of each combination that is no row, why
}

// Row is a combination of hardware with the knobs that serve it best.
type Row struct {
	capacity.Load
	TensorParallel int         `json:"tensor_parallel"`
	Replicas       int         `json:"replicas"`
	Ranksets       int         `json:"ranksets"`
	BeyondBoards   bool        `json:"beyond_boards"` // as in results.Summary
	BeyondSlot     bool        `json:"beyond_slot"`   // a DIMM draws more than its slot supplies
	MemoryGiB      float64     `json:"memory_gib"`    // of DIMMs
	Prices         string      `json:"prices"`
	Sets           []string    `json:"set"` // of knobs, beyond what was given
	Binds          []Bind      `json:"binds"`
	Command        string      `json:"command"` // that gives the row
	configured     units.Bytes // node.memory_capacity, which is the same for any number of GPUs
}

// column is a column of the rows: a number by which they may be ranked.
type column struct {
	name string
	of   func(*Row) float64
}

var columns = []column{
	{"usd_per_million_output_tokens", func(r *Row) float64 { return r.USD }},
	{"usd_per_million_output_tokens_low", func(r *Row) float64 { return r.USDLow }},
	{"usd_per_million_output_tokens_high", func(r *Row) float64 { return r.USDHigh }},
	{"rate_per_s", func(r *Row) float64 { return r.RatePerS }},
	{"gpus", func(r *Row) float64 { return float64(r.GPUs) }},
	{"site_power_mean_w", func(r *Row) float64 { return r.Watts }},
	{"attainment", func(r *Row) float64 { return r.Attainment }},
	{"goodput_tokens_per_s", func(r *Row) float64 { return r.GoodputTokens }},
	{"ttft_p50_ms", func(r *Row) float64 { return r.TTFT.P50 }},
	{"ttft_p99_ms", func(r *Row) float64 { return r.TTFT.P99 }},
	{"tbt_p50_ms", func(r *Row) float64 { return r.TBT.P50 }},
	{"tbt_p99_ms", func(r *Row) float64 { return r.TBT.P99 }},
	{"tpot_p99_ms", func(r *Row) float64 { return r.TPOT.P99 }},
	{"e2e_p99_ms", func(r *Row) float64 { return r.E2E.P99 }},
}

// ColumnNames returns the columns that rows may be ranked by.
func ColumnNames() []string { return list.Map(columns, func(c column) string { return c.name }) }

// Add adds what a search found for a combination that is called by a name. One that holds no rate is no row.
func (r *Report) Add(t *Tuned, called, command string) {
	a, c := t.Answer, t.Config
	r.Schema, r.SLO, r.Target, r.Measured = reportSchema, results.NewSLO(&c.SLO), c.SLO.Attainment, a.Measured
	switch {
	case !a.Best.Met && c.Arrivals.RatePerS > 0:
		r.Unable = append(r.Unable, fmt.Sprintf("%s: does not hold %.4g requests/s within the targets: attainment %.1f%%", called, c.Arrivals.RatePerS, 100*a.Best.Attainment))
		return
	case !a.Best.Met:
		r.Unable = append(r.Unable, fmt.Sprintf("%s: no rate meets the targets: at %.3g requests/s, TTFT p99 is %s, TBT p99 %s", called, a.Tried[0].RatePerS, results.TimeText(a.Best.TTFT.P99), results.TimeText(a.Best.TBT.P99)))
		return
	}
	best := a.Best
	best.Model = c.Model.Name // however it lies on the GPUs
	r.Rows = append(r.Rows, Row{Load: best, TensorParallel: c.Model.TensorParallel, Replicas: c.Replicas(), Ranksets: c.Node.Ranksets, BeyondBoards: system.BeyondBoards(c),
		BeyondSlot: best.Summary != nil && best.Summary.Limits().Slot,
		MemoryGiB:  float64(power.Memory(c)) / (1 << 30), Prices: c.Prices.Name, Sets: append([]string{}, t.Sets...), Binds: t.Binds, Command: command, configured: c.Node.MemoryCapacity})
}

// Rank puts the best row by a column first, and rows that no board of a server holds behind all others.
func (r *Report) Rank(by string) error {
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == by })
	if i < 0 {
		return input.UnknownName("--by", by, ColumnNames())
	}
	r.By = by
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		if a.BeyondBoards != b.BeyondBoards {
			if a.BeyondBoards {
				return 1
			}
			return -1
		}
		if tables.Describe(by).Better == tables.Higher {
			a, b = b, a
		}
		return cmp.Compare(columns[i].of(&a), columns[i].of(&b))
	})
	return nil
}

// Fewest leaves of the rows that differ in the number of GPUs alone the one with the fewest.
func (r *Report) Fewest() {
	alike := func(a, b *Row) bool {
		return a.System == b.System && a.Model == b.Model && a.GPU == b.GPU && a.Policy == b.Policy && a.Ranksets == b.Ranksets && a.configured == b.configured && a.Prices == b.Prices
	}
	all := slices.Clone(r.Rows)
	r.Rows = slices.DeleteFunc(r.Rows, func(x Row) bool {
		return slices.ContainsFunc(all, func(y Row) bool { return alike(&x, &y) && y.GPUs < x.GPUs })
	})
}

// Text returns what binds as people read it: the two with the largest gains.
func Text(binds []Bind) string {
	if len(binds) == 0 {
		return "nothing alone"
	}
	return strings.Join(list.Map(binds[:min(2, len(binds))], Bind.String), ", ")
}

// WriteText writes the rows, and the commands that give them.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	one := func(of func(*Row) string) bool {
		return !slices.ContainsFunc(r.Rows, func(x Row) bool { return of(&x) != of(&r.Rows[0]) })
	}
	names := []struct {
		title string
		of    func(*Row) string
	}{
		{"model", func(r *Row) string { return r.Model }}, {"policy", func(r *Row) string { return r.Policy }},
		{"ranksets", func(r *Row) string { return strconv.Itoa(r.Ranksets) }},
		{"memory GiB", func(r *Row) string { return fmt.Sprintf("%.0f", r.MemoryGiB) }}, {"prices", func(r *Row) string { return r.Prices }},
	}
	names = slices.DeleteFunc(names, func(n struct {
		title string
		of    func(*Row) string
	}) bool {
		return one(n.of)
	})
	if len(r.Rows) > 0 {
		fmt.Fprintf(out, "%s, %d requests measured at each rate; %s\n\n", r.Trace.Name, r.Measured, capacity.Targets(&r.SLO, r.Target))
		fmt.Fprint(w, "#\tsystem\tgpu\tGPUs\tTP\t")
		for _, n := range names {
			fmt.Fprint(w, n.title+"\t")
		}
		fmt.Fprintln(w, "requests/s\tkW\tUSD/Mtoken\tlow-high\tTTFT p99\tTBT p99 ms\tbinds\t")
	}
	var beyond results.Limits
	for i := range r.Rows {
		x := &r.Rows[i]
		limits := results.Limits{Boards: x.BeyondBoards, Slot: x.BeyondSlot}
		name := x.System + limits.Sign()
		beyond = beyond.Or(limits)
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t", i+1, name, x.GPU, x.GPUs, x.TensorParallel)
		for _, n := range names {
			fmt.Fprint(w, n.of(x)+"\t")
		}
		fmt.Fprintf(w, "%.4g\t%.1f\t%.2f\t%.2f-%.2f\t%.0f\t%.1f\t%s\t\n", x.RatePerS, x.Watts/1e3, x.USD, x.USDLow, x.USDHigh, x.TTFT.P99, x.TBT.P99, Text(x.Binds))
	}
	err := w.Flush()
	if legend := beyond.Legend(); legend != "" {
		fmt.Fprintln(out, legend)
	}
	for i := range r.Rows {
		fmt.Fprintf(out, "%s%d: %s\n", strings.Repeat("\n", 1-min(i, 1)), i+1, r.Rows[i].Command)
	}
	for i, text := range r.Unable {
		fmt.Fprintf(out, "%s%s\n", strings.Repeat("\n", 1-min(i, 1)), text)
	}
	return err
}
