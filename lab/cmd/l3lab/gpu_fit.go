package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/measure"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/results"
)

type fitFlags struct {
	measuredFlags
	name, out, fit, base, suite string
	tables                      []string // folders of LLMServingSim's tables
	published                   measure.Tables
}

func (a *app) newGPUFitCommand() *cobra.Command {
	var f fitFlags
	cmd := &cobra.Command{
		Use:   "fit",
		Short: "Fit a GPU's parameters to measured kernels, iterations and energy",
		Long: `Fit a GPU's parameters to measured kernels, iterations and energy.

Efficiencies, overheads and latencies are fitted; peaks, bandwidth, SMs and memory come from --base, which is without
the flag the preset nearest to the measurements. Kinds that are not measured keep the base's parameters. The reported
error is on shapes that the fit did not see. 'l3lab gpu validate --help' has the format of the measurements.

--out writes a GPU, --fit the parameters of its kernels alone, for GPUs whose data sheet is elsewhere:
l3sim run --gpu a100-sxm-80gb --set gpu.fit=FILE.

In place of --measured, --llmservingsim takes LLMServingSim's tables of vLLM's kernels: a folder of a model with
meta.yaml and tp1, or several of one card. Attention of prompts is fitted with that of requests that decode in the
same kernel, and runs have both in one. Unequal contexts are fitted where there is a skew.csv. Decode attention whose keys and values the base's L2 may have kept is left out.

--aiconfigurator takes AIConfigurator's tables of one GPU and framework: products and attention in 16, 8 and 4 bits, and where the folder has
them those of experts, latents, indexers, all-reduces, NCCL and DeepEP (of the newest version). The folder has them as the source does
(h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet, ...), or as CSV files (h200_vllm/gemm.csv, decode_attention.csv, prefill_attention.csv, moe.csv, ...).
Rows that an odd_rows.tsv in the folder lists are left out, and those beyond the sizes of servers; notes say which. All other kernels stay
the base's.`,
		Example: `  l3lab gpu fit --measured measured/a100 --name my-a100 --out my-a100.toml
  l3lab gpu fit --llmservingsim tables/Llama-3.1-8B/bf16 --base my-sheet.toml --name my-gpu --out my-gpu.toml
  l3lab gpu fit --aiconfigurator systems/data --system b200_sxm --framework trtllm --version 1.3.0rc20 \
      --base my-sheet.toml --name b200-sxm.trtllm-1.3 --fit b200-sxm.trtllm-1.3.toml`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuFit(cmd, &f) },
	}
	flags := cmd.Flags()
	f.register(flags, "the base's")
	flags.StringArrayVar(&f.tables, "llmservingsim", nil, "`folder` of a model's kernel tables, as LLMServingSim profiles vLLM; may be repeated")
	flags.StringVar(&f.published.Folder, "aiconfigurator", "", "`folder` of AIConfigurator's kernel tables, of --system, --framework and --version")
	flags.StringVar(&f.published.System, "system", "", "GPU of these tables, as AIConfigurator names it: h200_sxm")
	flags.StringVar(&f.published.Framework, "framework", "", "framework of these tables: "+strings.Join(measure.Frameworks, ", "))
	flags.StringVar(&f.published.Version, "version", "", "version of the framework of these tables: 0.24.0")
	flags.StringVar(&f.name, "name", "", "name of the GPU")
	flags.StringVar(&f.out, "out", "", "`file` to write, with a section [gpu]")
	flags.StringVar(&f.fit, "fit", "", "`file` to write that gpu.fit can name, with the parameters of kernels alone")
	cli.SuiteFlag(flags, &f.suite)
	flags.StringVar(&f.base, "base", "", "GPU whose data sheet and starting point to take: a preset or a `file`")
	return cmd
}

// gpuFit fits each measured kind, reports the held-out errors and writes the specification.
func (a *app) gpuFit(cmd *cobra.Command, f *fitFlags) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	target, base, err := f.start(a)
	if err != nil {
		return err
	}
	if f.base == "" {
		a.Note("data sheet and starting point from %s, the preset nearest to the measurements (--base takes another)", base)
	}
	samples, from, err := f.samples(a, target)
	if err != nil {
		return err
	}
	target.GPU.Name = f.name
	var o measure.Options
	if len(f.tables) > 0 {
		o.MaxSamples = 500 // tables are dense grids of a few shapes
	}
	fitted, err := f.fitTo(a, target, samples, o)
	if err != nil {
		return err
	}
	base = strings.TrimSuffix(filepath.Base(base), ".toml")
	report := fitReport{base: base, kinds: fitted, about: configs.Fit{Source: from, Kinds: map[string]configs.FitKind{}}}
	for i := range fitted {
		k := &fitted[i]
		line := fmt.Sprintf("%-18s %5d samples of a single shape: fitted, and none held out", k.Kind, k.Samples)
		if e := &k.Held; k.HeldOut {
			line = fmt.Sprintf("%-18s %5d held out: mean %5.1f%%, median %5.1f%%, p90 %5.1f%%, bias %+5.1f%%",
				k.Kind, e.Points, 100*e.MAPE, 100*e.Median, 100*e.P90, 100*e.Bias)
		}
		report.link = report.link || k.Kind == measure.PCIe
		report.about.Rows += k.Samples
		report.about.Kinds[string(k.Kind)] = k.Entry()
		fmt.Fprintln(a.Stdout, line)
		report.lines = append(report.lines, line)
	}
	return f.write(a, target, &report)
}

// fitTo fits all kinds of the samples.
func (f *fitFlags) fitTo(a *app, t *measure.Target, samples []measure.Sample, o measure.Options) ([]measure.Fitted, error) {
	if f.published.Folder == "" {
		return t.FitAll(samples, o)
	}
	p, err := t.FitPublished(f.published.Framework, samples, o)
	if err != nil {
		return nil, err
	}
	for _, l := range p.Left {
		a.Note("%s", l)
	}
	return p.Kinds, nil
}

// fitReport is the description of a fit in its files.
type fitReport struct {
	base  string
	kinds []measure.Fitted
	link  bool     // the link was measured; otherwise a run with the file keeps its node's links
	lines []string // of errors, one per kind
	about configs.Fit
}

// write writes the GPU, its kernels alone, or both.
func (f *fitFlags) write(a *app, t *measure.Target, r *fitReport) error {
	comment := func(rest string) []string {
		return append([]string{
			f.name + ": fitted by 'l3lab gpu fit' to " + r.about.Source + ".",
			rest,
			"Attention kernels fitted are those of the suite " + string(t.GPU.Suite) + ".",
			"Errors are mean, median and 90th percentile of |predicted/measured - 1| on shapes held out of the fit.",
		}, r.lines...)
	}
	var link *pcie.Spec
	switch {
	case r.link && f.out == "":
		a.Note("the link to the host is in [pcie], which is no part of a fit: --out writes it")
	case r.link:
		link = &t.Link
	}
	if f.out != "" {
		whole := comment("Peaks, bandwidth, SMs and memory are those of " + r.base + ", as are kinds not listed here.")
		err := results.WriteFileAtomic(f.out, func(w io.Writer) error { return measure.WriteGPU(w, &t.GPU, link, whole) })
		if err != nil || f.fit == "" {
			return err
		}
	}
	kernels := comment("Kinds not listed here are those of " + r.base + ".")
	r.about.Base = r.base
	if f.published.Folder != "" {
		if m := &t.GPU.Measured; r.base != strings.ReplaceAll(f.published.System, "_", "-") { // of another GPU
			r.about.Scaled = true
			m.SmallRows = 0
			if _, ok := r.about.Kinds[string(measure.AllReduce)]; !ok {
				m.AllReduceGPUs, m.AllReduceBytes = 0, 0
			}
		}
		kernels = kernels[:1]
	}
	return results.WriteFileAtomic(f.fit, func(w io.Writer) error { return measure.WriteFit(w, &t.GPU, r.about, kernels, r.kinds, r.base) })
}

// samples reads the measurements and their origin.
func (f *fitFlags) samples(a *app, t *measure.Target) (all []measure.Sample, from string, err error) {
	if p := &f.published; p.Folder != "" {
		all, left, err := p.Read()
		for _, l := range left {
			a.Note("%s", l)
		}
		return all, fmt.Sprintf("AIConfigurator's tables of %s, %s %s", p.System, p.Framework, p.Version), err
	}
	if len(f.tables) == 0 {
		all, err = f.read(a, t)
		return all, f.measured, err
	}
	for i, folder := range f.tables {
		samples, card, err := measure.ReadTables(folder, measuredModel)
		if err != nil {
			return nil, "", err
		}
		if i > 0 && card.String() != from {
			return nil, "", &input.Error{File: folder, Key: "gpu, vllm_version", Value: card.String(), Expected: "one card and version; the first folder has " + from}
		}
		all, from = append(all, samples...), card.String()
	}
	// vLLM runs prompts and decoding requests in one kernel, which splits no keys.
	t.GPU.Prefill.JoinsDecode, t.GPU.Extend.MaxSplits = true, 1
	return t.Cold(all), from + ", as LLMServingSim profiled it", nil
}

// check reports missing or wrong flags before a fit of minutes.
func (f *fitFlags) check(cmd *cobra.Command) error {
	for _, pair := range [][2]string{{"measured", "llmservingsim"}, {"measured", "aiconfigurator"}, {"llmservingsim", "aiconfigurator"}} {
		if err := cli.Exclusive(cmd, pair[0], pair[1]); err != nil {
			return err
		}
	}
	if err := f.checkPublished(cmd); err != nil {
		return err
	}
	source := struct{ name, expected string }{"measured", "a CSV file or a folder of them"}
	if len(f.tables) > 0 || f.published.Folder != "" {
		source = struct{ name, expected string }{"base", "a GPU with the card's data sheet: a preset or a file"}
	}
	required := []struct{ name, expected string }{source, {"name", "a name"}}
	if !cmd.Flags().Changed("fit") {
		required = append(required, struct{ name, expected string }{"out", "a file to write; or --fit, for the kernels alone"})
	}
	for _, flag := range required {
		if err := cli.RequireFlag(cmd, flag.name, flag.expected); err != nil {
			return err
		}
	}
	if f.name == "" || strings.ContainsAny(f.name, "\n\r\"\\") {
		return &input.Error{Key: "--name", Value: fmt.Sprintf("%q", f.name), Expected: "a name on one line"}
	}
	for _, file := range [][2]string{{"out", f.out}, {"fit", f.fit}} {
		if !cmd.Flags().Changed(file[0]) {
			continue
		}
		if filepath.Ext(file[1]) != ".toml" {
			return &input.Error{Key: "--" + file[0], Value: fmt.Sprintf("%q", file[1]), Expected: "a .toml file"}
		}
		if err := cli.WritableFile("--"+file[0], file[1]); err != nil {
			return err
		}
	}
	if f.fit != "" && f.fit == f.out {
		return &input.Error{Key: "--fit", Value: fmt.Sprintf("%q", f.fit), Expected: "another file than --out"}
	}
	return nil
}

// checkPublished reports what is missing for --aiconfigurator.
func (f *fitFlags) checkPublished(cmd *cobra.Command) error {
	of := []struct{ name, expected string }{{"system", "a GPU as AIConfigurator names it: h200_sxm"},
		{"framework", "one of " + strings.Join(measure.Frameworks, ", ")}, {"version", "the version of the framework: 0.24.0"}}
	for _, flag := range of {
		if !cmd.Flags().Changed("aiconfigurator") {
			if cmd.Flags().Changed(flag.name) {
				return &input.Error{Key: "--" + flag.name, Expected: "--aiconfigurator with it"}
			}
			continue
		}
		if err := cli.RequireFlag(cmd, flag.name, flag.expected); err != nil {
			return err
		}
	}
	if p := &f.published; cmd.Flags().Changed("aiconfigurator") && !slices.Contains(measure.Frameworks, p.Framework) {
		return &input.Error{Key: "--framework", Value: fmt.Sprintf("%q", p.Framework), Expected: of[1].expected, Nearest: input.Nearest(p.Framework, measure.Frameworks)}
	}
	return nil
}

// start returns the specification from which the fit starts, and its name: that of --base, else of
// the nearest preset with the suite.
func (f *fitFlags) start(a *app) (*measure.Target, string, error) {
	if f.base != "" {
		t, err := loadTarget("--base", f.base)
		if err != nil {
			return nil, "", err
		}
		return t, f.base, cli.SetSuite(&t.GPU, f.suite)
	}
	if err := cli.KnownSuite(f.suite); err != nil {
		return nil, "", err
	}
	samples, err := measure.Read(f.measured, measuredModel)
	if err != nil {
		return nil, "", err
	}
	var best *measure.Target
	bestName, bestLoss := "", math.Inf(1)
	for _, name := range configs.Names(configs.GPUs) {
		t, err := loadTarget("--base", name)
		if err != nil {
			return nil, "", err
		}
		if cli.SetSuite(&t.GPU, f.suite) != nil {
			continue // it has no such kernels
		}
		if loss := t.Loss(samples); best == nil || loss < bestLoss {
			best, bestName, bestLoss = t, name, loss
		}
	}
	return best, bestName, nil
}
