// Command l3sim simulates LLM serving on GPUs with processing-in-memory DIMMs.
//
// This package is the command line alone and models nothing: one file a
// command, each with a constructor newXCommand that this file registers. What it
// shares with lab/cmd/l3lab is in internal/cli. Tests are scripts in testdata/script, which run the
// program as a user does.
//
// Read this file, then run.go; docs/reference/architecture.md maps the packages that they call.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
)

func main() { os.Exit(program.Main()) }

// program is l3sim.
var program = &cli.Program{
	Name: "l3sim", Short: "Simulate LLM serving on GPUs with processing-in-memory DIMMs",
	Commands: func(a *cli.App, root *cobra.Command) { (&app{a}).register(root) }, Moved: moved,
}

type app struct{ *cli.App } // adds the commands as methods

func (a *app) register(root *cobra.Command) {
	cli.AddGroup(root, "Simulate", a.newRunCommand(), a.newCapacityCommand(), a.newPlanCommand(), a.newSweepCommand())
	cli.AddGroup(root, "Look", a.newTableCommand(), a.newPlotCommand(), a.newDiffCommand(), a.newExploreCommand(), a.newReportCommand())
	for _, c := range root.Commands() {
		completeColumns(c)
	}
	cli.AddGroup(root, "Inputs", a.newTraceCommand(), a.newConfigCommand(), a.newSupportCommand())
	cli.AddGroup(root, "Devices", a.newPIMCommand(), a.newDRAMCommand(), a.newGPUCommand())
	cli.AddGroup(root, "About", a.NewVersionCommand())
}

// moved maps removed commands and flags of the last release to their replacements. Drop it after the
// next release.
var moved = map[string]string{
	"merge":                    "'l3sim sweep merge'",
	"optimise":                 "'l3sim sweep' of a file with [latin_hypercube], then 'l3sim explore'",
	"systems":                  "'l3sim config systems'",
	"policies":                 "'l3sim config policies'",
	"generate":                 "'l3lab generate'",
	"eval":                     "'l3lab eval'",
	"predict":                  "'l3lab predict'",
	"validate":                 "'l3lab validate'",
	"reproduce":                "'l3lab reproduce'",
	"gpu fit":                  "'l3lab gpu fit'",
	"gpu validate":             "'l3lab gpu validate'",
	"pim area":                 "a version before this one: docs keep its table of areas",
	"pim table --form":         "the CSV: its columns context_tokens, batch and latency_us are what LLMServingSim's and Vidur's tables of attention hold",
	"capacity --plots":         "'l3sim plot' of the folder of --out, with --kind line --x rate_per_s --y ttft_p99_ms --group system",
	"trace plot --format":      "the ending of --out, which is a file",
	"gpu iteration --measured": "'l3lab gpu validate --measured', which compares measured iterations with predictions",
}
