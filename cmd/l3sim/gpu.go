package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/lab/measure"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
)

func (a *app) newGPUCommand() *cobra.Command {
	group := a.newGroup("gpu", "Predict, validate and fit times and energy on GPUs")
	group.Long = `Predict, validate and fit times and energy on GPUs, of kernels and whole iterations.

A GPU is a preset (see 'l3sim config list') or a TOML file with a section [gpu], as
'l3sim gpu fit' writes it. A file may start from a preset (preset = "a100-sxm-80gb" in
[gpu]) and give only what differs.

Attention kernels come in suites: those of servers, and those of PyTorch, which not every
GPU has. Without --suite they are the GPU's own (gpu.suite).`
	group.AddCommand(a.newGPUPredictCommand(), a.newGPUIterationCommand(), a.newGPUModelCommand(), a.newGPUValidateCommand(), a.newGPUFitCommand())
	return group
}

// gpuFlags are the flags that most gpu commands have.
type gpuFlags struct {
	gpu, suite string
}

func (f *gpuFlags) register(a *app, flags *pflag.FlagSet, jsonUsage string) {
	flags.StringVar(&f.gpu, "gpu", "", "GPU: a preset or a `file`")
	suiteFlag(flags, &f.suite)
	flags.BoolVar(&a.json, "json", false, jsonUsage)
}

// suites are the values of --suite.
var suites = []gpu.Suite{gpu.SuiteServer, gpu.SuitePyTorch}

// suiteFlag adds --suite.
func suiteFlag(flags *pflag.FlagSet, suite *string) {
	flags.StringVar(suite, "suite", "", "attention kernels: server or pytorch (default: the GPU's own)")
}

// knownSuite refuses a value of --suite that is of no GPU.
func knownSuite(suite string) error {
	if suite == "" || slices.Contains(suites, gpu.Suite(suite)) {
		return nil
	}
	return input.UnknownName("--suite", suite, []string{string(gpu.SuiteServer), string(gpu.SuitePyTorch)})
}

// setSuite gives a target, which is valid, the attention kernels of --suite; "" keeps its
// own.
func setSuite(t *measure.Target, suite string) error {
	if suite == "" {
		return nil
	}
	t.GPU.Suite = gpu.Suite(suite)
	return input.Edit(input.Validate(&t.GPU), func(bad *input.Error) { bad.Key = "--suite" })
}

// target returns the GPU of --gpu, which must be given.
func (f *gpuFlags) target(cmd *cobra.Command) (*measure.Target, error) {
	expected := "a file or one of " + strings.Join(configs.Names(configs.GPUs), ", ")
	if err := requireFlag(cmd, "gpu", expected); err != nil {
		return nil, err
	}
	t, err := loadTarget("--gpu", f.gpu)
	if err != nil {
		return nil, err
	}
	return t, setSuite(t, f.suite)
}

// measuredFlags are the flags of commands that read measurements.
type measuredFlags struct{ measured, launch string }

// register adds the flags; of says whose small_limit bounds --launch.
func (f *measuredFlags) register(flags *pflag.FlagSet, of string) {
	flags.StringVar(&f.measured, "measured", "", "CSV file, or `folder` of them")
	flags.StringVar(&f.launch, "launch", "0us", "launch `time` that all-reduces measured one at a time include, taken off up to "+of+" small_limit")
}

// readMeasured reads measurements, and says which files of a folder hold something else.
func (a *app) readMeasured(path string) ([]measure.Sample, error) {
	return measure.ReadTelling(path, measuredModel, func(other *input.Error) {
		a.note("%s left out: its columns are of no kind that 'l3sim gpu validate --help' lists", other.File)
	})
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

// measuredModel returns the shape of a model that measurements name: a preset, or a file.
func measuredModel(name string) (*llm.Model, error) {
	m, err := configs.LoadModel("model", name, &gpu.Spec{}, 0)
	if err != nil {
		return nil, err
	}
	own := *m
	return &own, nil
}

// noteSuites names files whose attention another suite fits much better: they were
// probably measured with its kernels.
func (a *app) noteSuites(t *measure.Target, samples []measure.Sample) {
	if a.quiet {
		return
	}
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
	for _, suite := range suites {
		other := *t
		if suite == t.GPU.Suite || setSuite(&other, string(suite)) != nil {
			continue
		}
		for _, file := range files {
			own, its := t.Judge(byFile[file]).MAPE, other.Judge(byFile[file]).MAPE
			if its <= own/2 {
				a.note("%s fits the suite %s better (%.1f%% off in the mean, %s %.1f%%): --suite %s",
					file, suite, 100*its, t.GPU.Suite, 100*own, suite)
			}
		}
	}
}
