package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
)

func main() { os.Exit(program.Main()) }

// program is l3lab.
var program = &cli.Program{
	Name: "l3lab", Short: "Prove and fit what l3sim simulates with",
	Commands: func(a *cli.App, root *cobra.Command) { (&app{a}).register(root) },
}

type app struct{ *cli.App } // has the commands as methods

func (a *app) register(root *cobra.Command) {
	cli.AddGroup(root, "Repeat papers", a.newReproduceCommand())
	cli.AddGroup(root, "Compare with measurements", a.newValidateCommand(), a.newCalibrateCommand(), a.newPredictCommand(), a.newGPUCommand())
	cli.AddGroup(root, "Decode a language model", a.newGenerateCommand(), a.newEvalCommand(), a.newLatentCommand())
	root.AddCommand(a.NewVersionCommand())
}
