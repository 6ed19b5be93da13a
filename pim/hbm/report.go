package hbm

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/dram"
)

// Row is a row of pim hbm's output: the attention of one context length on the busiest channel.
type Row struct {
	Context  int              `json:"context"`
	Heads    int              `json:"channel_heads"`
	Clocks   int64            `json:"clocks"`
	Time     float64          `json:"time_us"`
	Factor   float64          `json:"bandwidth_factor"`
	Commands map[string]int64 `json:"commands"`
	Energy   RowEnergy        `json:"energy"`
	Watts    float64          `json:"stack_w"` // of a stack whose channels all have the same number of heads
}

// RowEnergy is the energy of the channel's commands.
type RowEnergy struct {
	Total    float64 `json:"total_uj"`
	Rows     float64 `json:"rows_uj"`     // activations and precharges
	Reads    float64 `json:"reads_uj"`    // from the cells to the units
	Multiply float64 `json:"multiply_uj"` // in the units
	Moves    float64 `json:"moves_uj"`    // of queries, scores, probabilities and sums
}

func newRowEnergy(t Tally, level Level, costs Costs) RowEnergy {
	each := costs.Each(level)
	costs.Multiply = 0
	reads := float64(t.Reads * costs.Each(level).Reads)
	return RowEnergy{1e6 * t.Joules(each), 1e6 * t.Rows * each.Rows, 1e6 * reads, 1e6 * (float64(t.Reads*each.Reads) - reads), 1e6 * (float64(t.Queries*each.Queries) + float64(t.Moves*each.Moves))}
}

// WriteRows writes the table of a part's rows.
func WriteRows(w io.Writer, level Level, part string, rows []Row) error {
	fmt.Fprintf(w, "%s, units of level %s, the busiest of 16 channels\n\n", part, level)
	var names []string
	for _, c := range dram.CommandNames() {
		if slices.ContainsFunc(rows, func(r Row) bool { return r.Commands[c] > 0 }) {
			names = append(names, c)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(append([]string{"context\theads\tclocks\tus\tfactor\tuJ\tW"}, names...), "\t")+"\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%d\t%d\t%d\t%.2f\t%.2f\t%.1f\t%.1f\t", r.Context, r.Heads, r.Clocks, r.Time, r.Factor, r.Energy.Total, r.Watts)
		for _, n := range names {
			fmt.Fprintf(t, "%d\t", r.Commands[n])
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// NewRow returns the row for a load's run on a part.
func NewRow(spec Spec, part *dram.Spec, load Load, run Run, costs Costs) Row {
	context := load.Context
	used, us := newRowEnergy(run.Tally(spec), spec.Level, costs), part.Nanoseconds(run.Clocks)/1e3
	factor := float64(load.PlainClocks(load.Heads, context)) / float64(run.Clocks)
	return Row{context, load.Heads, run.Clocks, us, factor, dram.CommandCounts(run.Commands[:]), used, Channels * used.Total / us}
}
