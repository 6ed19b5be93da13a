package whole

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/internal/cli"
)

// Schema names the version of Report's JSON.
const Schema = "l3sim/validate-whole/1"

// Report is the simulator's errors.
type Report struct {
	Schema  string      `json:"schema"`
	File    string      `json:"file"`
	Rows    int         `json:"rows"`
	Judged  int         `json:"judged_rows"`
	Groups  []Group     `json:"groups"`
	Summary []Summary   `json:"summary"`
	Others  []NotJudged `json:"not_judged"`
	All     []Compared  `json:"-"` // in the order of the table
}

// Group is the judged rows of a model, a GPU, a layout, a framework and a metric. Errors are fractions.
type Group struct {
	Model       string  `json:"model"`
	GPU         string  `json:"gpu"`
	Parallelism string  `json:"parallelism"`
	Framework   string  `json:"framework"`
	Rows        int     `json:"rows"`
	Metric      string  `json:"metric"`
	Median      float64 `json:"median_ape"` // median of the absolute errors
	P90         float64 `json:"p90_ape"`
	Bias        float64 `json:"bias"`  // median of the signed errors: positive if the prediction is too high
	Worst       float64 `json:"worst"` // the signed error of the row with the largest absolute error
	Fit         string  `json:"fit"`
}

// Summary is the groups of a metric.
type Summary struct {
	Metric string  `json:"metric"`
	Groups int     `json:"groups"`
	Rows   int     `json:"rows"`
	Median float64 `json:"median_ape"` // over the groups' medians
	Worst  float64 `json:"worst_group_ape"`
}

// NotJudged is rows that are not judged for the same reason.
type NotJudged struct {
	Model       string  `json:"model"`
	GPU         string  `json:"gpu"`
	Parallelism string  `json:"parallelism"`
	Framework   string  `json:"framework"`
	Rows        int     `json:"rows"`
	Lines       []int   `json:"lines"`
	Reason      string  `json:"reason"`
	Metric      string  `json:"metric,omitempty"`
	Median      float64 `json:"median_ape,omitempty"` // of rows that ran with borrowed kernels
}

// report sums up.
func report(file string, all []Compared) *Report {
	r := &Report{Schema: Schema, File: file, Rows: len(all), Groups: []Group{}, Summary: []Summary{}, Others: []NotJudged{}, All: all}
	at, errs := map[string]int{}, map[string][]float64{}
	others, borrowed := map[string]int{}, map[string][]float64{}
	for i := range all {
		c := &all[i]
		key := strings.Join([]string{c.Model, c.GPU, c.Parallelism, c.Framework, c.Metric}, "\x00")
		if !c.Judged {
			key += "\x00" + c.Reason
			if _, ok := others[key]; !ok {
				others[key] = len(r.Others)
				r.Others = append(r.Others, NotJudged{Model: c.Model, GPU: c.GPU, Parallelism: c.Parallelism, Framework: c.Framework, Reason: c.Reason})
			}
			o := &r.Others[others[key]]
			o.Rows, o.Lines = o.Rows+1, append(o.Lines, c.Line)
			if c.Predicted > 0 {
				o.Metric = c.Metric
				borrowed[key] = append(borrowed[key], math.Abs(c.Error()))
				o.Median = quantile(borrowed[key], 0.5)
			}
			continue
		}
		r.Judged++
		if _, ok := at[key]; !ok {
			at[key] = len(r.Groups)
			r.Groups = append(r.Groups, Group{Model: c.Model, GPU: c.GPU, Parallelism: c.Parallelism, Framework: c.Framework, Metric: c.Metric, Fit: c.Fit})
		}
		errs[key] = append(errs[key], c.Error())
		g := &r.Groups[at[key]]
		g.Rows, g.Bias = len(errs[key]), quantile(errs[key], 0.5)
		absolute := make([]float64, 0, g.Rows)
		for _, e := range errs[key] {
			absolute = append(absolute, math.Abs(e))
			if math.Abs(e) > math.Abs(g.Worst) {
				g.Worst = e
			}
		}
		g.Median, g.P90 = quantile(absolute, 0.5), quantile(absolute, 0.9)
	}
	slices.SortStableFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(-cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Model, b.Model), cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Framework, b.Framework), cmp.Compare(a.Parallelism, b.Parallelism))
	})
	for _, metric := range []string{TPOT, OutputRate} {
		s := Summary{Metric: metric}
		var medians []float64
		for i := range r.Groups {
			if g := &r.Groups[i]; g.Metric == metric {
				s.Groups, s.Rows, medians = s.Groups+1, s.Rows+g.Rows, append(medians, g.Median)
			}
		}
		if s.Groups > 0 {
			s.Median, s.Worst = quantile(medians, 0.5), slices.Max(medians)
			r.Summary = append(r.Summary, s)
		}
	}
	return r
}

// quantile returns a quantile of values; the median of an even number is the mean of the middle two.
func quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if q == 0.5 {
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return v[int(math.Ceil(q*float64(len(v))))-1]
}

// metricNames are the metrics in words.
var metricNames = map[string]string{TPOT: "time between tokens", OutputRate: "output tokens/s per GPU"}

// MetricName returns a metric in words.
func MetricName(metric string) string { return metricNames[metric] }

// WriteText writes the groups as tables.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%d of %d rows of %s judged, with gpu-only\n", r.Judged, r.Rows, r.File)
	for _, s := range r.Summary {
		fmt.Fprintf(w, "%s: median %.0f%% over %d groups (%d rows), the worst %.0f%%\n", MetricName(s.Metric), 100*s.Median, s.Groups, s.Rows, 100*s.Worst)
	}
	err := cli.Aligned(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "\nmodel\tGPU\tparallelism\tframework\tmetric\trows\tmedian %\tp90 %\tbias %\tfit")
		for i := range r.Groups {
			g := &r.Groups[i]
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%.0f\t%.0f\t%+.0f\t%s\n", g.Model, g.GPU, g.Parallelism, g.Framework, g.Metric, g.Rows, 100*g.Median, 100*g.P90, 100*g.Bias, g.Fit)
		}
	})
	if err != nil || len(r.Others) == 0 {
		return err
	}
	return cli.Aligned(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "\nnot judged:\nmodel\tGPU\tparallelism\tframework\trows\twhy")
		for i := range r.Others {
			o := &r.Others[i]
			why := o.Reason
			if o.Metric != "" {
				why += fmt.Sprintf(" (%s off by %.0f%%, median)", o.Metric, 100*o.Median)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", o.Model, o.GPU, o.Parallelism, o.Framework, o.Rows, why)
		}
	})
}

// WriteRows writes every row with its prediction as CSV.
func (r *Report) WriteRows(w io.Writer) error {
	var b strings.Builder
	b.WriteString("line,model,gpu,parallelism,framework,input,output,concurrency,metric,measured,predicted,error,reason\n")
	text := func(s string) string {
		if strings.ContainsAny(s, ",\"\n") {
			return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
		}
		return s
	}
	for i := range r.All {
		c := &r.All[i]
		fmt.Fprintf(&b, "%d,%s,%s,%s,%s,%d,%d,%s,%s,%.6g,", c.Line, text(c.Model), text(c.GPU), text(c.Parallelism), text(c.Framework), c.Input, c.Output, text(c.Concurrency), c.Metric, c.Measured)
		if c.Predicted > 0 {
			fmt.Fprintf(&b, "%.6g,%.4f", c.Predicted, c.Error())
		} else {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, ",%s\n", text(c.Reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
