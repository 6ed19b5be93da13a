package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/gpu/measure"
	"github.com/l3sim/l3sim/input"
)

// gpuIterations predicts the iterations of --measured and prints each beside what was
// measured, with the errors by kind.
func (a *app) gpuIterations(t *measure.Target, f *iterationFlags) error {
	all, err := a.readMeasured(f.measured)
	if err != nil {
		return err
	}
	var samples []measure.Sample
	for _, s := range all {
		if s.Kind().Iteration() {
			samples = append(samples, s)
		}
	}
	if len(samples) == 0 {
		return &input.Error{Key: "--measured", Value: f.measured, Expected: "iterations, with columns model,tp,kind,batch,context,chunk,finished,ms"}
	}
	a.noteSuites(t, samples)
	r := &iterations{judge(t, samples), t.Iterations(samples)}
	return a.print(r.json(), r.writeText)
}

// iterations are predictions of measured iterations.
type iterations struct {
	*validation
	rows []measure.Iteration
}

// json returns the errors by kind, and all rows.
func (r *iterations) json() map[string]any {
	out := map[string]any{"rows": r.rows}
	for kind, e := range r.errors {
		out[string(kind)] = e
	}
	return out
}

// writeText writes the errors by kind, then a line for each iteration.
func (r *iterations) writeText(w io.Writer) error {
	if err := r.writeErrors(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return aligned(w, tabwriter.AlignRight, func(w io.Writer) {
		fmt.Fprint(w, "model\ttp\tkind\tbatch\tcontext\tchunk\tfinished\tmeasured ms\tms\terror\tmeasured J\tJ\terror\t\n")
		for i := range r.rows {
			x := &r.rows[i]
			kind := strings.TrimSuffix(string(x.Kind), "_iteration")
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\t%d\t%.3f\t%.3f\t%+.1f%%\t", x.Model, x.GPUs, kind, x.Batch, x.Context, x.Chunk, x.Finished,
				x.MeasuredMS, x.MS, 100*x.Error)
			if x.MeasuredJoules == nil {
				fmt.Fprintf(w, "\t%.3f\t\t\n", x.Joules)
				continue
			}
			fmt.Fprintf(w, "%.3f\t%.3f\t%+.1f%%\t\n", *x.MeasuredJoules, x.Joules, 100**x.JoulesError)
		}
	})
}
