package plan

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// cell is a column of the table for people.
type cell struct {
	title string
	of    func(i int, r *Row) string
	vary  bool // the column is left out where all rows have the same
}

// cells returns the columns of the table.
func cells() []cell {
	called := func(k int) func(int, *Row) string { return func(_ int, r *Row) string { return r.Called[k] } }
	return []cell{
		{"#", func(i int, _ *Row) string { return strconv.Itoa(i + 1) }, false},
		{"system", func(_ int, r *Row) string {
			return r.Called[0] + results.Limits{Boards: r.BeyondBoards, Slot: r.BeyondSlot}.Sign()
		}, false},
		{"model", called(1), true}, {"gpu", called(2), false}, {"policy", called(3), true},
		{"GPUs", func(_ int, r *Row) string { return strconv.Itoa(r.GPUs) }, false},
		{"TP", func(_ int, r *Row) string { return strconv.Itoa(r.TensorParallel) }, false},
		{"ranksets", func(_ int, r *Row) string { return strconv.Itoa(r.Ranksets) }, true},
		{"memory GiB", func(_ int, r *Row) string { return fmt.Sprintf("%.0f", r.MemoryGiB) }, true},
		{"prices", func(_ int, r *Row) string { return r.Prices }, true},
		{"users", func(_ int, r *Row) string { return strconv.Itoa(r.Users) }, true},
		{"requests/s", rateCell, false},
		{"attainment", func(_ int, r *Row) string { return fmt.Sprintf("%.2f%%", 100*r.Attainment) }, false},
		{"kW", func(_ int, r *Row) string { return fmt.Sprintf("%.1f", r.Watts/1e3) }, false},
		{"USD/Mtoken", func(_ int, r *Row) string { return fmt.Sprintf("%.2f", r.USD) }, false},
		{"low-high", func(_ int, r *Row) string { return fmt.Sprintf("%.2f-%.2f", r.USDLow, r.USDHigh) }, false},
		{"TTFT p99", func(_ int, r *Row) string { return fmt.Sprintf("%.0f", r.TTFT.P99) }, false},
		{"TBT p99 ms", func(_ int, r *Row) string { return fmt.Sprintf("%.1f", r.TBT.P99) }, false},
		{"limit", func(_ int, r *Row) string {
			if len(r.Limit) == 0 {
				return "-"
			}
			return r.Limit[0].Name
		}, false},
		{"binds", func(_ int, r *Row) string { return r.binding() }, false},
	}
}

// rateCell returns the cell of the rate: of one that is asked for and fails, what of it holds.
func rateCell(_ int, r *Row) string {
	switch {
	case r.holds():
		return fmt.Sprintf("%.4g", r.RatePerS)
	case r.Asked == nil || r.Asked.Users > 0:
		return fmt.Sprintf("%.4g ✗", r.RatePerS)
	}
	return fmt.Sprintf("%.4g of %.4g ✗", r.RatePerS, r.Asked.RatePerS)
}

// writeTable writes a row a line. What all rows have in common stands above.
func (r *Report) writeTable(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d requests measured at each rate; %s\n", r.Trace.Name, r.Measured, Targets(&r.SLO, r.Target))
	all := cells()
	var common []string
	all = slices.DeleteFunc(all, func(c cell) bool {
		first := c.of(0, &r.Rows[0])
		same := !slices.ContainsFunc(r.Rows, func(x Row) bool { return c.of(0, &x) != first })
		if c.vary && same && (c.title == "model" || c.title == "policy") {
			common = append(common, c.title+" "+first)
		}
		return c.vary && same && (c.title != "users" || first == "0")
	})
	fmt.Fprintf(out, "%s\n\n", strings.Join(common, "; "))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, strings.Join(list.Map(all, func(c cell) string { return c.title }), "\t")+"\t")
	var beyond results.Limits
	for i := range r.Rows {
		x := &r.Rows[i]
		beyond = beyond.Or(results.Limits{Boards: x.BeyondBoards, Slot: x.BeyondSlot})
		fmt.Fprintln(w, strings.Join(list.Map(all, func(c cell) string { return c.of(i, x) }), "\t")+"\t")
	}
	err := w.Flush()
	if legend := beyond.Legend(); legend != "" {
		fmt.Fprintln(out, legend)
	}
	return err
}

// explain says what is the matter with a row that does not hold what is asked for: why, what of it holds, and what would help.
func (r *Row) explain(slo *results.SLO) string {
	if r.holds() {
		return ""
	}
	text := ""
	switch {
	case r.Asked != nil && r.Asked.Users > 0:
		text = fmt.Sprintf("fails %d users: %s (attainment %.1f%%)", r.Asked.Users, why(r.Asked.Fails), 100*r.Asked.Attainment)
	case r.Asked != nil:
		text = fmt.Sprintf("fails %.4g requests/s: %s (attainment %.1f%%)", r.Asked.RatePerS, why(r.Asked.Fails), 100*r.Asked.Attainment)
	default:
		text = "no rate meets the targets"
	}
	switch {
	case r.Highest > 0 && r.Asked != nil:
		text += fmt.Sprintf("; holds %.4g, so that %d such nodes hold it together", r.Highest, r.Asked.Nodes)
	case r.Alone:
		text += fmt.Sprintf("; nor does any rate: %s, even where no request waits for another. Alone on the node, TTFT is up to %s and TBT up to %s", why(r.Limit), results.TimeText(r.TTFT.Max), results.TimeText(r.TBT.Max))
	default:
		text += fmt.Sprintf("; nor does any rate: at the lowest that was tried, %s. There TTFT p99 is %s and TBT p99 %s", why(r.Limit), results.TimeText(r.TTFT.P99), results.TimeText(r.TBT.P99))
	}
	if missed := slo.TBT; r.Highest == 0 && missed > 0 && r.TBT.P50 > float64(missed) {
		text += fmt.Sprintf("; the target of TBT, %s, is below the %s between tokens of an empty node", results.TimeText(float64(missed)), results.TimeText(r.TBT.P50))
	}
	if len(r.Binds) > 0 {
		return text + "; twice of each alone would help: " + Text(r.Binds) + "\n"
	}
	return text + "; twice of no resource alone would help\n"
}

// chartWidth and chartHeight are the characters of a chart.
const chartWidth, chartHeight = 60, 12

// WriteChart writes cost over latency for a terminal: each row's number stands at its TBT p99 and its USD a million tokens.
func (r *Report) WriteChart(out io.Writer) {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(x Row) bool { return x.Highest == 0 || !(x.USD > 0) })
	if len(rows) < 2 {
		return
	}
	span := func(of func(*Row) float64) (func(x *Row, size int) int, float64, float64) {
		low, high := math.Inf(1), 0.0
		for i := range rows {
			low, high = min(low, of(&rows[i])), max(high, of(&rows[i]))
		}
		return func(x *Row, size int) int {
			if high == low {
				return 0
			}
			return int(math.Round((of(x) - low) / (high - low) * float64(size-1)))
		}, low, high
	}
	x, left, right := span(func(r *Row) float64 { return r.TBT.P99 })
	y, bottom, top := span(func(r *Row) float64 { return r.USD })
	field := make([][]byte, chartHeight)
	for i := range field {
		field[i] = slices.Repeat([]byte{' '}, chartWidth+4)
	}
	for i := range slices.Backward(r.Rows) { // the best is on top
		if row := &r.Rows[i]; row.Highest > 0 && row.USD > 0 {
			copy(field[chartHeight-1-y(row, chartHeight)][x(row, chartWidth):], strconv.Itoa(i+1))
		}
	}
	fmt.Fprintln(out, "\nUSD/Mtoken")
	for i, line := range field {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprintf("%.2f", top)
		case chartHeight - 1:
			label = fmt.Sprintf("%.2f", bottom)
		}
		fmt.Fprintf(out, "%9s |%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(out, "%9s +%s\n%11s%-*s%s TBT p99 ms\n", "", strings.Repeat("-", chartWidth), "", chartWidth-8, fmt.Sprintf("%.1f", left), fmt.Sprintf("%.1f", right))
}

// lineColumn says in the figures' table what one line is of: what varies of system, GPU and policy.
const lineColumn = "server"

// Figures returns figures of latency, attainment and goodput over the rates of a table, which has a row for each of Tried. A line is
// of one combination; models have plots of their own.
func (r *Report) Figures(rates *tables.Table) ([]results.File, error) {
	varies := func(k int) bool {
		return slices.ContainsFunc(r.Rows, func(x Row) bool { return x.Called[k] != r.Rows[0].Called[k] })
	}
	t := &tables.Table{Name: rates.Name, Columns: append(slices.Clone(rates.Columns), lineColumn)}
	for i := range r.Tried {
		var line []string
		for k, n := range names {
			if n.column != "model" && varies(k) {
				line = append(line, r.Rows[r.origins[i]].Called[k])
			}
		}
		t.Rows = append(t.Rows, append(slices.Clone(rates.Rows[i]), tables.Of(cmp.Or(strings.Join(line, ", "), r.Tried[i].System))))
	}
	facet := ""
	if varies(1) {
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
