package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/llm"
)

func (a *app) newGPUCommand() *cobra.Command {
	group := cli.NewGroup("gpu", "Predict times and energy on GPUs: of kernels, iterations and batches",
		a.newGPUPredictCommand(), a.newGPUIterationCommand(), a.newGPUModelCommand(), a.newGPUNewCommand())
	group.Long = `Predict times and energy on GPUs: of kernels, iterations and batches.

A GPU is a preset (see 'l3sim config list') or a TOML file with a section [gpu], as
'l3lab gpu fit' writes it. A file may start from a preset (preset = "a100-sxm-80gb" in
[gpu]) and give only what differs.

Attention kernels come in suites: those of servers, and those of PyTorch, which not every
GPU has. Without --suite they are the GPU's own (gpu.suite).`
	return group
}

const nodeGPUs = 8 // largest number of GPUs per replica for models without one

// modelFlags are the flags of commands that run a model on GPUs.
type modelFlags struct {
	cli.GPUFlags
	model string
}

func (f *modelFlags) register(a *app, cmd *cobra.Command) {
	f.Register(a.App, cmd.Flags())
	cmd.Flags().StringVar(&f.model, "model", "", "model: a preset or a `file`")
}

// load returns the GPU and the model, both of which must be given.
func (f *modelFlags) load(cmd *cobra.Command) (*gpu.Spec, *llm.Model, error) {
	g, _, err := f.Load(cmd)
	if err = cmp.Or(err, cli.RequireFlag(cmd, "model", "a file or a preset (see 'l3sim config list')")); err != nil {
		return nil, nil, err
	}
	m, err := configs.LoadModel("--model", f.model, g, nodeGPUs)
	return g, m, err
}
