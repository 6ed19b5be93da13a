package plan

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// varying are the columns that are left out if all rows agree; columns of users and likely ranges are left out only if empty.
var varying = []string{"model", "policy", "ranksets", "memory GiB", "prices", "users", "likely"}

// table returns the rows for people.
func (r *Report) table() *tables.Table {
	t := &tables.Table{Columns: []string{
		"#", "system", "model", "gpu", "policy",
		"GPUs", "TP", "ranksets", "memory GiB", "prices", "users",
		"requests/s", "likely", "attainment",
		"kW", "USD/Mtoken", "low-high",
		"TTFT p99", "TBT p99 ms", "limit", "binds",
	}}
	for i, x := range r.Rows {
		limit := "-"
		if len(x.Limit) > 0 {
			limit = x.Limit[0].Name
		}
		cost, band := "-", "-" // a node that holds nothing has no cost: its lowest tried rate depends on the length of the search
		if x.Highest > 0 || x.holds() {
			cost, band = fmt.Sprintf("%.2f", x.USD), fmt.Sprintf("%.2f-%.2f", x.USDLow, x.USDHigh)
		}
		likely := "-"
		if x.High > 0 {
			likely = fmt.Sprintf("%v-%v", x.Low, x.High)
		}
		t.Add(
			i+1, x.Called[0]+x.beyond().Sign(), x.Called[1], x.Called[2], x.Called[3],
			x.GPUs, x.TensorParallel, x.Ranksets, fmt.Sprintf("%.0f", x.MemoryGiB), x.Prices, x.Users,
			x.rate(), likely, fmt.Sprintf("%.2f%%", 100*x.Attainment),
			fmt.Sprintf("%.1f", x.Watts/1e3), cost, band,
			fmt.Sprintf("%.0f", x.TTFT.P99), fmt.Sprintf("%.1f", x.TBT.P99), limit, x.binding(),
		)
	}
	return t
}

// beyond returns the limits of real servers that the row's node exceeds.
func (r *Row) beyond() results.Limits {
	return results.Limits{Boards: r.BeyondBoards, Slot: r.BeyondSlot}
}

// rate returns the rate as text; if a requested rate fails, the part of it that holds.
func (r *Row) rate() string {
	text := fmt.Sprintf("%.4g", r.RatePerS)
	switch {
	case r.holds():
		return text
	case r.Asked != nil && r.Asked.Users == 0:
		text += fmt.Sprintf(" of %.4g", r.Asked.RatePerS)
	}
	return text + " ✗"
}

// writeTable writes a line per row, below what all rows have in common.
func (r *Report) writeTable(out io.Writer) error {
	t := r.table()
	var shown []int
	var common []string
	for k, title := range t.Columns {
		first := t.Rows[0][k].String()
		switch {
		case t.Varies(k) || !slices.Contains(varying, title) || title == "users" && first != "0" || title == "likely" && first != "-":
			shown = append(shown, k)
		case title == "model" || title == "policy":
			common = append(common, title+" "+first)
		}
	}
	fmt.Fprintf(out, "%s, %d requests measured at each rate; %s\n%s\n\n", r.Trace.Name, r.Measured, Targets(&r.SLO, r.Target), strings.Join(common, "; "))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	t = t.Select(shown)
	fmt.Fprintln(w, strings.Join(t.Columns, "\t")+"\t")
	var beyond results.Limits
	for i, line := range t.Rows {
		fmt.Fprintln(w, strings.Join(list.Map(line, tables.Value.String), "\t")+"\t")
		beyond = beyond.Or(r.Rows[i].beyond())
	}
	err := w.Flush()
	if legend := beyond.Legend(); legend != "" {
		fmt.Fprintln(out, legend)
	}
	return err
}

// text returns the request as text.
func (a *Asked) text() string {
	if a.Users > 0 {
		return fmt.Sprintf("%d users", a.Users)
	}
	return fmt.Sprintf("%.4g requests/s", a.RatePerS)
}

// explain explains a row that does not hold the request: why, how much of it holds, and what would help.
func (r *Row) explain(slo *results.SLO) string {
	if r.holds() {
		return ""
	}
	var text string
	if a := r.Asked; a != nil {
		text = fmt.Sprintf("fails %s: %s (attainment %.1f%%); ", a.text(), why(a.Fails), 100*a.Attainment)
	}
	if r.Highest > 0 && r.Asked != nil {
		text += fmt.Sprintf("holds %.4g, so that %d such nodes hold it together", r.Highest, r.Asked.Nodes)
	} else {
		where := "at the lowest that was tried"
		if r.Alone {
			where = "even where no request waits for another"
		}
		text += fmt.Sprintf("no rate meets the targets: %s, %s. There TTFT is up to %s and TBT up to %s", where, why(r.Limit), results.TimeText(r.TTFT.Max), results.TimeText(r.TBT.Max))
	}
	if missed := float64(slo.TBT); r.Highest == 0 && missed > 0 && r.TBT.P50 > missed {
		text += fmt.Sprintf("; the target of TBT, %s, is below the %s between tokens of an empty node", results.TimeText(missed), results.TimeText(r.TBT.P50))
	}
	if len(r.Binds) > 0 {
		return text + "; doubled alone, these would help: " + Text(r.Binds)
	}
	return text + "; no resource would help if doubled alone"
}

// chartWidth and chartHeight are the characters of a chart.
const chartWidth, chartHeight = 60, 12

// WriteChart draws cost over latency in characters: each row's number is at its TBT p99 and its USD per million tokens.
func (r *Report) WriteChart(out io.Writer) {
	var numbers []int // of the rows on the chart
	var latency, cost []float64
	for i, x := range r.Rows {
		if x.Highest > 0 && x.USD > 0 {
			numbers, latency, cost = append(numbers, i+1), append(latency, x.TBT.P99), append(cost, x.USD)
		}
	}
	if len(numbers) < 2 {
		return
	}
	place := func(all []float64, i, size int) int {
		low, high := slices.Min(all), slices.Max(all)
		if high == low {
			return 0
		}
		return int(math.Round((all[i] - low) / (high - low) * float64(size-1)))
	}
	field := make([][]byte, chartHeight)
	for i := range field {
		field[i] = bytes.Repeat([]byte(" "), chartWidth+4)
	}
	for i, number := range slices.Backward(numbers) { // the best is on top
		line := field[chartHeight-1-place(cost, i, chartHeight)]
		copy(line[place(latency, i, chartWidth):], strconv.Itoa(number))
	}
	fmt.Fprintf(out, "\nUSD/Mtoken, %.2f to %.2f upwards, over TBT p99, %.1f to %.1f ms to the right\n", slices.Min(cost), slices.Max(cost), slices.Min(latency), slices.Max(latency))
	for _, line := range field {
		fmt.Fprintf(out, "|%s\n", bytes.TrimRight(line, " "))
	}
	fmt.Fprintln(out, "+"+strings.Repeat("-", chartWidth))
}
