package service

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

const worstShown = 10 // the number of worst predictions in a report

// WriteText writes tables of series and overheads, and the worst predictions.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "GPU\tGPUs\tframework\tmodel\trows\tfitted\theld out\tmean\tmedian\tp90\tbias\tspill\tfound\tfalse\tTTFT median\tp90\t")
	for _, e := range r.Series {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%+.1f%%\t%d\t%d\t%d\t", e.GPU, e.GPUs, e.Framework, e.Model,
			e.Rows, e.Fitted, e.HeldOut, 100*e.MAPE, 100*e.Median, 100*e.P90, 100*e.Bias, e.Spill, e.SpillCorrect, e.SpillFalse)
		if e.TTFTMedian > 0 {
			fmt.Fprintf(t, "%.1f%%\t%.1f%%\t\n", 100*e.TTFTMedian, 100*e.TTFTP90)
		} else {
			fmt.Fprintln(t, "-\t-\t")
		}
	}
	fmt.Fprintln(t, "\noverhead of\ton\trows fitted\tus a step\tus a sequence and step\t")
	for _, o := range r.Overheads {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.0f\t%.1f\t\n", o.Framework, o.GPU, o.Fitted, o.PerStep, o.PerToken)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nworst of the rows held out")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, j := range r.worst(worstShown) {
		fmt.Fprintf(t, "  %+.0f%%\tpredicted %.2f s\tmeasured %.2f s\t%d x (%d + %d) of %s on %d %s, %s\t%s:%d\n",
			100*j.Error(), j.Predicted, j.Latency, j.Batch, j.Input, j.Output, j.Model, j.GPUs, j.GPU, j.Framework, j.File, j.Line)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(t, "\nnot judged: %s, %s\n", s.File, s.Reason)
	}
	return t.Flush()
}

// worst returns the held-out rows with the largest errors, largest first.
func (r *Report) worst(n int) []Judged {
	held := slices.DeleteFunc(slices.Clone(r.Rows), func(j Judged) bool { return j.Fitted || j.Spills != fits })
	slices.SortStableFunc(held, func(a, b Judged) int {
		return cmp.Compare(math.Abs(b.Error()), math.Abs(a.Error()))
	})
	return held[:min(n, len(held))]
}

// WriteRows writes a CSV line for each row: measured and predicted times, in seconds, and the row's
// outcome.
func (r *Report) WriteRows(w io.Writer) error {
	c := csv.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	lines := [][]string{append(slices.Clone(columns), "file", "line", "use", "queued", "steps", "simulated_s", "predicted_s", "error", "ttft_s", "predicted_ttft_s")}
	for i := range r.Rows {
		j := &r.Rows[i]
		use := "held out"
		switch {
		case j.Spills != fits:
			use = "spills: " + j.Spills
		case j.Fitted:
			use = "fitted"
		}
		lines = append(lines, []string{
			j.GPU, strconv.Itoa(j.GPUs), j.Framework, j.Model, strconv.Itoa(j.Input), strconv.Itoa(j.Output), strconv.Itoa(j.Batch), number(j.Latency),
			j.File, strconv.Itoa(j.Line), use, strconv.FormatBool(j.Queued), strconv.FormatInt(j.Steps, 10), number(j.Simulated), number(j.Predicted), number(j.Error()),
			number(j.TTFT), number(j.PredictedTTFT),
		})
	}
	return c.WriteAll(lines)
}
