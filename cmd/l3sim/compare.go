package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/sweep"
)

// comparisonOf returns the sweep that --system a,b or --model a,b describes: all
// combinations of the names, nil where each flag has one.
func comparisonOf(o configs.Options) *sweep.File {
	file := &sweep.File{Config: o.ConfigFile, Sets: o.Sets, Repeats: 1}
	for _, f := range o.Flags {
		names := strings.Split(f.Value, ",")
		if len(names) == 1 || f.Key != "run.system" && f.Key != "run.model" {
			file.Set = append(file.Set, sweep.Setting{Key: f.Key, Value: f.Value})
			continue
		}
		axis := sweep.Axis{Kind: "list"}
		for _, name := range names {
			axis.Choices = append(axis.Choices, sweep.Choice{Settings: []sweep.Setting{{Key: f.Key, Value: strconv.Quote(strings.TrimSpace(name))}}})
		}
		file.Axes = append(file.Axes, axis)
	}
	if len(file.Axes) == 0 {
		return nil
	}
	return file
}

// compare runs a comparison and prints one table, a row a system or model.
func (a *app) compare(cmd *cobra.Command, file *sweep.File) error {
	for _, flag := range []string{"json", "out", "dry-run", "exact", "check", "timeline", "timeline-window"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return &input.InputError{Key: "--" + flag, Expected: "one system and one model with it; 'l3sim sweep' writes files of several"}
		}
	}
	plan, err := sweep.NewPlan(file, "")
	if err != nil {
		return err
	}
	outcome, err := a.runPlan(cmd.Context(), plan, sweep.RunOptions{})
	if err != nil {
		return err
	}
	all, err := plan.Table(outcome)
	if err != nil {
		return err
	}
	columns := slices.Concat(plan.Keys, headlineOf(all))
	if outcome.Failed > 0 {
		columns = append(columns, results.ErrorColumn)
	}
	chosen, err := chooseColumns(all, columns)
	if err != nil {
		return err
	}
	t := all.Select(chosen)
	shorten(t)
	for i := range plan.Keys {
		t.Columns[i] = strings.TrimPrefix(t.Columns[i], "run.")
	}
	if err := t.WriteText(a.stdout); err != nil {
		return err
	}
	return failedPoints(plan.Points, outcome)
}
