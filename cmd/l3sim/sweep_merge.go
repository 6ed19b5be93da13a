package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/sweep"
)

func (a *app) newMergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Put the shards of a sweep together",
		Long: `Put the shards of a sweep together.

Each DIR is the --out of an 'l3sim sweep --shard'. --out gets what one run of the whole sweep gives, but for wall
times. All shards must be of one plan and one version of l3sim. Where something is missing, it is named and nothing
is written.`,
		Example: `  l3sim sweep merge out/ranks/shards/* --out out/ranks`,
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return a.merge(args, out) },
	}
	cmd.Flags().StringVar(&out, "out", "", "`folder` of the results")
	return cmd
}

// merge reads the shards in dirs and writes their results into out.
func (a *app) merge(dirs []string, out string) error {
	if out == "" {
		return &input.Error{Key: "--out", Expected: "a folder for the results"}
	}
	merged, err := sweep.Merge(dirs)
	if err != nil {
		return err
	}
	for i := range merged.Damage {
		a.Note("%v; another line records the same", &merged.Damage[i])
	}
	if err := cli.Creatable(out); err != nil {
		return err
	}
	if err := cli.OutError(out, merged.Write(out)); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s of %s: %d failed; results in %s\n", input.Plural(len(merged.Points), "point", "points"),
		input.Plural(merged.Shards, "shard", "shards"), merged.Outcome.Failed, out)
	return failedPoints(merged.Points, merged.Outcome)
}
