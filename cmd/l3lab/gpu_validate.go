package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/lab/measure"
)

// validateFlags are the flags of `gpu validate`.
type validateFlags struct {
	cli.GPUFlags
	measuredFlags
	maxMAPE float64
}

func (a *app) newGPUValidateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Compare predictions with measured kernels, iterations and energy",
		Long: `Compare predictions with measured kernels, iterations and energy.

Measurements are CSV files; the columns say what a file measures:
  m,n,k,us                                      gemm
  batch,context,q_heads,kv_heads,head_dim,us    decode_attention
  batch,length,q_heads,kv_heads,head_dim,us     prefill_attention
  chunk,finished,q_heads,kv_heads,head_dim,us   prefill_attention
  chunk,finished,q_heads,kv_heads,head_dim,graph_us,unsplit_us
                                                extend_attention (keys split over thread blocks, and not)
  gpus,bytes,us                                 all_reduce
  direction,bytes,us                            pcie
  op,m,d,us                                     elementwise (layernorm, add, gelu, copy)
  op,batch,context,q_heads,kv_heads,head_dim,page,pages,us
                                                page_sparse (page_score, topk, attention); decode_attention (dense)
  model,tp,kind,batch,context,chunk,finished,ms[,joules]
                                                decode_iteration, prefill_iteration, mixed_iteration; iteration_energy
  op,detail,seconds,joules,bytes                power, of a kernel for seconds
  busy_us,seconds,joules,iterations             power, of work with gaps
Elements are 16 bits wide. Kernels with graph_us,sustained_us in place of us were measured
in graphs, for milliseconds and for seconds, others alone. Joules are of all GPUs. A model
is a preset or a file; iterations use NCCL. A column prefill_kernels names the suite (server,
pytorch) of an iteration's prefill attention where it is another. Of a folder, files with
other columns are left out.

All attention is judged as of one suite: give it with --suite, and keep the other's apart.`,
		Example: `  l3lab gpu validate --gpu a100-sxm-80gb --measured measured/a100
  l3lab gpu validate --gpu mine.toml --measured gemm.csv --max-mape 0.1`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuValidate(cmd, &f) },
	}
	flags := cmd.Flags()
	f.GPUFlags.Register(a.App, flags)
	f.measuredFlags.register(flags, "the GPU's")
	flags.Float64Var(&f.maxMAPE, "max-mape", 0, "fail if a kind's mean absolute percentage error, as a fraction, is above")
	return cmd
}

// gpuValidate judges each kind of measurements and reports.
func (a *app) gpuValidate(cmd *cobra.Command, f *validateFlags) error {
	g, link, err := f.Load(cmd)
	if err != nil {
		return err
	}
	t := &measure.Target{GPU: *g, Link: *link}
	if err := cli.RequireFlag(cmd, "measured", "a CSV file or a folder of them"); err != nil {
		return err
	}
	if cmd.Flags().Changed("max-mape") && !(f.maxMAPE >= 0) {
		return &input.Error{Key: "--max-mape", Value: fmt.Sprint(f.maxMAPE), Expected: "at least 0"}
	}
	samples, err := f.read(a, t)
	if err != nil {
		return err
	}
	a.noteSuites(t, samples)
	report := judge(t, samples)
	if err := a.Print(report.errors, report.writeText); err != nil {
		return err
	}
	if !cmd.Flags().Changed("max-mape") {
		return nil
	}
	return report.above(f.maxMAPE)
}

// validation is the errors of a target by kind, in the order of reports.
type validation struct {
	target *measure.Target
	kinds  []measure.Kind
	errors map[measure.Kind]measure.Errors
}

// judge returns the errors of a target's predictions, by kind of sample.
func judge(t *measure.Target, samples []measure.Sample) *validation {
	v := &validation{target: t, errors: map[measure.Kind]measure.Errors{}}
	byKind := measure.ByKind(samples)
	for _, kind := range measure.Kinds() {
		if len(byKind[kind]) > 0 {
			v.kinds = append(v.kinds, kind)
			v.errors[kind] = t.Judge(byKind[kind])
		}
	}
	return v
}

// worstShown is the number of worst predictions in a report.
const worstShown = 10

// writeText writes a table of kinds and regions, then the worst predictions.
func (v *validation) writeText(w io.Writer) error {
	if err := v.writeErrors(w); err != nil {
		return err
	}
	return v.writeWorst(w)
}

// writeErrors writes the table of kinds and regions.
func (v *validation) writeErrors(w io.Writer) error {
	return cli.Aligned(w, tabwriter.AlignRight, func(table io.Writer) {
		fmt.Fprintf(table, "%s\tpoints\tmean\tmedian\tp90\tbias\t\n", v.target.GPU.Name)
		line := func(name string, e measure.Errors) {
			fmt.Fprintf(table, "%s\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%+.1f%%\t\n",
				name, e.Points, 100*e.MAPE, 100*e.Median, 100*e.P90, 100*e.Bias)
		}
		for _, kind := range v.kinds {
			e := v.errors[kind]
			line(string(kind), e)
			samples := list.Map(e.Relative, func(p measure.Point) measure.Sample { return p.Sample })
			for _, region := range measure.Regions(kind) {
				if in := region.Select(samples); len(in) > 0 {
					line(region.Name, v.target.Judge(in))
				}
			}
		}
	})
}

// writeWorst writes the worst predictions of each kind.
func (v *validation) writeWorst(w io.Writer) error {
	for _, kind := range v.kinds {
		e := v.errors[kind]
		unit, scale := kind.Unit()
		fmt.Fprintf(w, "\nworst of %s\n", kind)
		err := cli.Aligned(w, 0, func(worst io.Writer) {
			for _, p := range e.Worst(worstShown) {
				fmt.Fprintf(worst, "  %+.0f%%\tpredicted %.2f %s\tmeasured %.2f %s\t%s\t%s:%d\n",
					100*p.Error, p.Predicted*scale, unit, p.Sample.Seconds*scale, unit, p.Sample.String(), p.Sample.File, p.Sample.Line)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// above returns an error that names the kinds whose mean error is above limit.
func (v *validation) above(limit float64) error {
	var over []string
	for _, kind := range v.kinds {
		if mape := v.errors[kind].MAPE; mape > limit {
			over = append(over, fmt.Sprintf("%s %.4f", kind, mape))
		}
	}
	if len(over) == 0 {
		return nil
	}
	return fmt.Errorf("mean absolute percentage error above %v: %s", limit, strings.Join(over, ", "))
}
