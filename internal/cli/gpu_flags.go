package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pcie"
)

// GPUFlags are the flags that most gpu commands have.
type GPUFlags struct{ gpu, suite string }

// Register adds --gpu, --suite and --json.
func (f *GPUFlags) Register(a *App, flags *pflag.FlagSet) {
	flags.StringVar(&f.gpu, "gpu", "", "GPU: a preset or a `file`")
	SuiteFlag(flags, &f.suite)
	flags.BoolVar(&a.JSON, "json", false, JSONUsage)
}

// Load returns the GPU of --gpu, which must be given, and its link (see LoadGPU).
func (f *GPUFlags) Load(cmd *cobra.Command) (*gpu.Spec, *pcie.Spec, error) {
	if err := RequireFlag(cmd, "gpu", "a file or one of "+strings.Join(configs.Names(configs.GPUs), ", ")); err != nil {
		return nil, nil, err
	}
	g, link, err := LoadGPU("--gpu", f.gpu)
	if err != nil {
		return nil, nil, err
	}
	return g, link, SetSuite(g, f.suite)
}

// LoadGPU returns the GPU that a flag names, a preset or a file. Its link is the file's or, if it
// has none, that of the GPU's generation.
func LoadGPU(flag, name string) (*gpu.Spec, *pcie.Spec, error) {
	g, link, err := configs.LoadGPU(flag, name)
	if err != nil {
		return nil, nil, err
	}
	own := *g
	if link == nil {
		typical := pcie.Typical(g.PCIeGeneration)
		link = &typical
	}
	return &own, link, nil
}

// Suites are the values of --suite.
var Suites = []gpu.Suite{gpu.SuiteServer, gpu.SuitePyTorch}

// SuiteFlag adds --suite.
func SuiteFlag(flags *pflag.FlagSet, suite *string) {
	flags.StringVar(suite, "suite", "", "attention `kernels`: server or pytorch (default: the GPU's own)")
}

// KnownSuite refuses a value of --suite that no GPU has.
func KnownSuite(suite string) error {
	if suite == "" || slices.Contains(Suites, gpu.Suite(suite)) {
		return nil
	}
	return input.UnknownName("--suite", suite, []string{string(gpu.SuiteServer), string(gpu.SuitePyTorch)})
}

// SetSuite gives a valid GPU the attention kernels of --suite; "" keeps its own.
func SetSuite(g *gpu.Spec, suite string) error {
	if suite == "" {
		return nil
	}
	g.Suite = gpu.Suite(suite)
	return FlagName(input.Validate(g), "--suite")
}
