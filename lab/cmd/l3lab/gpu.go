package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/lab/measure"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

func (a *app) newGPUCommand() *cobra.Command {
	return cli.NewGroup("gpu", "Validate and fit times and energy on GPUs", a.newGPUValidateCommand(), a.newGPUFitCommand())
}

// loadTarget returns the GPU that --gpu or --base names, a preset or a file, with its link.
func loadTarget(flag, name string) (*measure.Target, error) {
	g, link, err := cli.LoadGPU(flag, name)
	if err != nil {
		return nil, err
	}
	return &measure.Target{GPU: *g, Link: *link}, nil
}

type measuredFlags struct{ measured, launch string } // the flags of commands that read measurements

// register adds the flags; of names the GPU whose small_limit bounds --launch.
func (f *measuredFlags) register(flags *pflag.FlagSet, of string) {
	flags.StringVar(&f.measured, "measured", "", "CSV file, or `folder` of them")
	flags.StringVar(&f.launch, "launch", "0us", "launch `time` that all-reduces measured one at a time include, taken off up to "+of+" small_limit")
}

// read reads measurements, reports skipped files of a folder, and subtracts the launch time from small
// all-reduces.
func (f *measuredFlags) read(a *app, t *measure.Target) ([]measure.Sample, error) {
	var d units.Duration
	if err := d.UnmarshalText([]byte(f.launch)); err != nil {
		return nil, &input.Error{Key: "--launch", Value: fmt.Sprintf("%q", f.launch), Err: err}
	}
	if d < 0 {
		return nil, &input.Error{Key: "--launch", Value: f.launch, Expected: "at least 0us"}
	}
	samples, err := measure.ReadTelling(f.measured, measuredModel, func(other *input.Error) {
		a.Note("%s left out: its columns are of no kind that 'l3lab gpu validate --help' lists", other.File)
	})
	if err != nil || d == 0 {
		return samples, err
	}
	return measure.WithoutLaunch(samples, d, t.GPU.Collective.SmallLimit), nil
}

// measuredModel returns the shape of a model that measurements name: a preset, or a file.
func measuredModel(name string) (*llm.Model, error) {
	m, err := configs.LoadModel("model", name, &gpu.Spec{}, 0)
	if err != nil {
		return nil, err
	}
	own := *m
	return &own, nil
}

// noteSuites names files whose attention fits another suite much better: they were probably
// measured with its kernels.
func (a *app) noteSuites(t *measure.Target, samples []measure.Sample) {
	var files []string
	byFile := map[string][]measure.Sample{}
	for _, s := range samples {
		if s.Kind().Attends() {
			if byFile[s.File] == nil {
				files = append(files, s.File)
			}
			byFile[s.File] = append(byFile[s.File], s)
		}
	}
	for _, suite := range cli.Suites {
		other := *t
		if a.Quiet || suite == t.GPU.Suite || cli.SetSuite(&other.GPU, string(suite)) != nil {
			continue
		}
		for _, file := range files {
			own, its := t.Judge(byFile[file]).MAPE, other.Judge(byFile[file]).MAPE
			if its <= own/2 {
				a.Note("%s fits the suite %s better (%.1f%% off in the mean, %s %.1f%%): --suite %s",
					file, suite, 100*its, t.GPU.Suite, 100*own, suite)
			}
		}
	}
}
