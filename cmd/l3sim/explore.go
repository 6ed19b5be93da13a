package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results/tables"
)

func (a *app) newExploreCommand() *cobra.Command {
	var goals string
	var where []string
	cmd := &cobra.Command{
		Use:   "explore RESULTS...",
		Short: "Find a sweep's best trade-offs and what they have in common",
		Long: `Find a sweep's best trade-offs and what they have in common.

RESULTS is a folder of --out or its results.csv, or several. The command prints the Pareto front of two or three goals: the points
that no other point equals or beats in every goal and beats in one. Seeds of a point are averaged; points that
failed, or that lack a number for some goal, are left out and counted. Column names may omit section and unit.

For each key that varies, the command then names the value whose share of the front most exceeds its share of all
points, with counts for every value. More than eight numbers are grouped by quartiles.`,
		Example: `  l3sim explore out/explore --goals 'max output_tokens_per_s, min tbt_p99_ms'
  l3sim explore out/explore --goals 'max output_tokens_per_s, min tbt_p99_ms, min memory_capacity' --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.explore(args, goals, where) },
	}
	cli.ListVar(cmd.Flags(), &goals, "goals", "", "", "`goals`, two or three of 'max COLUMN' and 'min COLUMN', joined by commas")
	cmd.Flags().StringArrayVar(&where, "where", nil, "only rows with `column=value`, or with <=, >=, < or > between numbers (repeatable)")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// explore prints the front of a table and what its points have in common.
func (a *app) explore(paths []string, goals string, where []string) error {
	if goals == "" {
		return &input.Error{Key: "--goals", Expected: `two or three goals, such as "max output_tokens_per_s, min tbt_p99_ms"`}
	}
	t, err := tables.ReadTables(paths)
	if err != nil {
		return err
	}
	if t, err = t.Where("--where", where); err != nil {
		return err
	}
	parsed, err := t.ParseGoals("--goals", goals)
	if err != nil {
		return err
	}
	e, err := tables.Explore(t, parsed)
	if err != nil {
		return err
	}
	return a.Print(e, e.WriteText)
}
