package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

type supportFlags struct {
	config            cli.ConfigFlags
	framework         string
	batch, in, output int
}

func (a *app) newSupportCommand() *cobra.Command {
	var f supportFlags
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Say of each kind of a model's kernels whether it was measured on a GPU",
		Long: `Say of each kind of a model's kernels whether it was measured on a GPU.

A kind is measured (on this GPU, with the framework of its fit), borrowed (from another framework or another GPU), from a
data sheet (another GPU's, in proportion to the data sheets), or never measured: then its parameters are those of other kernels. Errors are
in percent, on shapes that the fit has not seen. Shares are of the GPUs' time of gpu-only that serves requests of --input and
--output tokens, of which --batch decode together; a kind beyond the range measured says so. lab/docs/model-gpu.md says more.`,
		Example: `  l3sim support --model gpt-oss-120b --gpu h200-sxm --framework vllm
  l3sim support --model deepseek-v3 --gpu b200-sxm --fit b200-sxm.sglang-0.5.14 --batch 256 --json`,
		Args: cobra.NoArgs,
	}
	f.config.Register(cmd, cli.Key("model", "run.model", "", "`model`: a preset or a file"), cli.Key("gpu", "gpu.preset", "", "`GPU`: a preset or a file"),
		cli.Key("fit", "gpu.fit", "", "`fit` of the GPU's kernels: an embedded one or a file"), cli.Key("tp", "model.tensor_parallel", "", "GPUs of a replica"))
	flags := cmd.Flags()
	flags.StringVar(&f.framework, "framework", "", "`framework` whose fit of the GPU to take: vllm, trtllm or sglang")
	flags.IntVar(&f.batch, "batch", 64, "requests that decode together")
	flags.IntVar(&f.in, "input", 4096, "tokens of a prompt")
	flags.IntVar(&f.output, "output", 512, "tokens of an answer")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.support(cmd, &f) }
	return cmd
}

func (a *app) support(cmd *cobra.Command, f *supportFlags) error {
	const most = 1 << 20
	if err := cmp.Or(cli.RequireFlag(cmd, "model", "a file or a preset (see 'l3sim config list')"), cli.RequireFlag(cmd, "gpu", "a file or a preset (see 'l3sim config list')"),
		cli.Exclusive(cmd, "fit", "framework"), cli.NotEmpty(cmd, "framework"),
		cli.Between("--batch", f.batch, 1, most), cli.Between("--input", f.in, 1, most), cli.Between("--output", f.output, 1, most)); err != nil {
		return err
	}
	o, err := f.config.Given(cmd)
	if err != nil {
		return err
	}
	o.Preset, o.SectionsOnly = cmp.Or(o.Preset, "fair"), true
	o.Sets = append([]string{`run.system="gpu-only"`}, o.Sets...)
	if f.framework != "" {
		fit, err := fitOf(o.Flags, f.framework)
		if err != nil {
			return err
		}
		o.Flags = append(o.Flags, configs.Flag{Name: "--framework", Key: "gpu.fit", Value: fit})
	}
	cfg, err := system.Configs().Load(o)
	if err != nil {
		return f.config.Locate(err)
	}
	r, err := newSupport(cfg, f)
	if err != nil {
		return err
	}
	return a.Print(r, r.writeText)
}

// fitOf returns the embedded fit for a framework of the GPU in flags.
func fitOf(flags []configs.Flag, framework string) (string, error) {
	var known []string
	for _, f := range flags {
		for _, name := range configs.Names(configs.Fits) {
			of, is := strings.CutPrefix(name, f.Value+".")
			if f.Key != "gpu.preset" || !is {
				continue
			}
			if of, _, _ = strings.Cut(of, "-"); of == framework {
				return name, nil
			}
			known = append(known, of)
		}
	}
	if len(known) == 0 {
		return "", &input.Error{Key: "--framework", Value: framework, Expected: "a GPU that has fits of frameworks: " + strings.Join(fittedGPUs(), ", ") + "; --fit names any other fit"}
	}
	return "", input.UnknownName("--framework", framework, known)
}

// fittedGPUs returns the presets of GPUs that have fits of frameworks, which are named GPU.FRAMEWORK-VERSION.
func fittedGPUs() []string {
	return slices.DeleteFunc(configs.Names(configs.GPUs), func(name string) bool {
		return !slices.ContainsFunc(configs.Names(configs.Fits), func(fit string) bool { return strings.HasPrefix(fit, name+".") })
	})
}

// support is the JSON of the command.
type support struct {
	Schema string           `json:"schema"`
	Model  string           `json:"model"`
	GPU    string           `json:"gpu"`
	Source string           `json:"source,omitempty"` // of the fit's rows
	Time   results.Known    `json:"gpu_time"`
	Kinds  []supportedKinds `json:"kinds"`
}

type supportedKinds struct {
	Kind   string  `json:"kind"`
	Share  float64 `json:"share"` // of the GPUs' time
	Grade  string  `json:"known"`
	Fit    string  `json:"fit,omitempty"`
	Rows   int     `json:"rows,omitempty"`
	Mean   float64 `json:"mean_percent,omitempty"`
	Median float64 `json:"median_percent,omitempty"`
	P90    float64 `json:"p90_percent,omitempty"`
	Range  string  `json:"range,omitempty"`
	Far    float64 `json:"beyond_share,omitempty"` // of the GPUs' time
	Beyond string  `json:"beyond,omitempty"`
}

func newSupport(cfg *configs.Config, f *supportFlags) (*support, error) {
	all, err := system.KernelKinds(cfg, system.Served{Batch: float64(f.batch), Input: float64(f.in), Output: float64(f.output)}, true)
	if err != nil {
		return nil, err
	}
	r := &support{Schema: "l3sim/support/1", Model: cfg.ModelTitle(), GPU: cfg.GPU.Name, Time: system.Summed(cfg, all)}
	if slices.Contains(configs.Names(configs.Fits), cfg.GPU.Fit) {
		about, err := configs.FitOf(cfg.GPU.Fit)
		if err != nil {
			return nil, err
		}
		r.Source = about.Source
	}
	host, err := cfg.KernelsKnown("host_time")
	if err != nil {
		return nil, err
	}
	for _, k := range append(all, system.KernelKind{Kind: "host_time", Known: host}) {
		r.Kinds = append(r.Kinds, supportedKinds{k.Kind, k.Share, string(k.Grade), k.Fit, k.Rows, k.Mean, k.Median, k.P90, k.Range, k.Far, k.Beyond})
	}
	slices.SortStableFunc(r.Kinds, func(a, b supportedKinds) int { return cmp.Compare(b.Share, a.Share) })
	return r, nil
}

func (r *support) writeText(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s\nGPU time: %s\n\n", r.Model, r.GPU, r.Time.Text())
	number := func(v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", v)
	}
	err := cli.Aligned(w, 0, func(w io.Writer) {
		fmt.Fprintln(w, "kind\tshare\tknown\tfit\tmedian %\tp90 %\trange")
		for _, k := range r.Kinds {
			about := k.Range
			if k.Beyond != "" {
				about = strings.TrimPrefix(fmt.Sprintf("%s; beyond, %.1f%%: %s", about, 100*k.Far, k.Beyond), "; ")
			}
			fmt.Fprintf(w, "%s\t%.1f%%\t%s\t%s\t%s\t%s\t%s\n", k.Kind, 100*k.Share, k.Grade, cmp.Or(k.Fit, "-"), number(k.Median), number(k.P90), about)
		}
	})
	if err == nil && r.Source != "" {
		_, err = fmt.Fprintf(w, "\nmeasured: %s\n", r.Source)
	}
	return err
}
