package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
)

func (a *app) newExploreCommand() *cobra.Command {
	var goals string
	var where []string
	cmd := &cobra.Command{
		Use:   "explore RESULTS",
		Short: "Find a sweep's best trade-offs and what they have in common",
		Long: `Find a sweep's best trade-offs and what they have in common.

RESULTS is a sweep's folder or its results.csv. Of two or three goals, each max or min of
a column, it prints the Pareto front: the points that no other point equals or beats in
every goal and beats in one. Columns are named in full (node.memory_capacity_bytes) or,
where only one fits, without section and unit. Seeds of a point are averaged; points
that failed, or lack a number for some goal, are left out and counted.

Then it counts what the front has in common. For each key that varies it names the value
whose share of the front exceeds its share of all points most, and counts the points on
the front and all points for each value. Numbers of more than eight values are cut into
quarters of the points. Counts of few points can be chance, and keys may matter only together.`,
		Example: `  l3sim explore out/explore --goals 'max output_tokens_per_s, min tbt_p99_ms'
  l3sim explore out/explore --goals 'max output_tokens_per_s, min tbt_p99_ms, min memory_capacity' --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.explore(args[0], goals, where) },
	}
	cmd.Flags().StringVar(&goals, "goals", "", "`goals`, two or three of 'max COLUMN' and 'min COLUMN', joined by commas")
	cmd.Flags().StringArrayVar(&where, "where", nil, "only rows with `column=value`, or with <=, >=, < or > between numbers (repeatable)")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// explore prints the front of a table and what it has in common.
func (a *app) explore(path, goals string, where []string) error {
	if goals == "" {
		return &input.Error{Key: "--goals", Expected: `two or three goals, such as "max output_tokens_per_s, min tbt_p99_ms"`}
	}
	t, err := results.ReadTable(path)
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
	e, err := results.Explore(t, parsed)
	if err != nil {
		return err
	}
	return a.Print(e, e.WriteText)
}
