package main

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu/measure"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pcie"
)

func (a *app) newGPUCommand() *cobra.Command {
	group := a.newGroup("gpu", "Predict, validate and fit GPU kernel times")
	group.Long = `Predict, validate and fit GPU kernel times.

A GPU is a preset (see 'l3sim config list') or a TOML file with a section [gpu], as
'l3sim gpu fit' writes it. A file may start from a preset (preset = "a100-sxm-80gb" in
[gpu]) and give only what differs.`
	group.AddCommand(a.newGPUPredictCommand(), a.newGPUValidateCommand(), a.newGPUFitCommand(), a.newGPUModelCommand())
	return group
}

// gpuFlags are the flags that most gpu commands have.
type gpuFlags struct {
	gpu  string
	json bool
}

func (f *gpuFlags) register(flags *pflag.FlagSet, jsonUsage string) {
	flags.StringVar(&f.gpu, "gpu", "", "GPU: a preset or a `file`")
	flags.BoolVar(&f.json, "json", false, jsonUsage)
}

// target returns the GPU of --gpu, which must be given.
func (f *gpuFlags) target(cmd *cobra.Command) (*measure.Target, error) {
	expected := "a file or one of " + strings.Join(configs.Names(configs.GPUs), ", ")
	if err := requireFlag(cmd, "gpu", expected); err != nil {
		return nil, err
	}
	return loadTarget("--gpu", f.gpu)
}

// measuredFlags are the flags of commands that read measurements.
type measuredFlags struct{ measured, launch string }

// register adds the flags; of says whose small_limit bounds --launch.
func (f *measuredFlags) register(flags *pflag.FlagSet, of string) {
	flags.StringVar(&f.measured, "measured", "", "CSV file, or `folder` of them")
	flags.StringVar(&f.launch, "launch", "0us", "launch `time` that all-reduces measured one at a time include, taken off up to "+of+" small_limit")
}

// loadTarget returns the GPU that --gpu or --base names: a preset or a file.
// Its link is the file's, or else that of the GPU's generation.
func loadTarget(flag, name string) (*measure.Target, error) {
	g, link, err := configs.LoadGPU(flag, name)
	if err != nil {
		return nil, err
	}
	t := &measure.Target{GPU: *g, Link: pcie.Typical(g.PCIeGeneration)}
	if link != nil {
		t.Link = *link
	}
	return t, nil
}

// requireFlag returns an error for a flag that must be given.
func requireFlag(cmd *cobra.Command, name, expected string) error {
	if cmd.Flags().Changed(name) {
		return nil
	}
	return &input.Error{Key: "--" + name, Expected: expected}
}

// checkFolder refuses a folder to write into that is a file, before the work
// whose result it would lose.
func checkFolder(flag, dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return &input.Error{Key: flag, Value: dir, Expected: "a folder, not a file"}
	}
	return nil
}
