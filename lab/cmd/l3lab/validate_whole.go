package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/whole"
	"github.com/l3sim/l3sim/results"
)

// validateWhole compares measured servers of whole models.
func (a *app) validateWhole(cmd *cobra.Command, f *serviceFlags, o configs.Options) error {
	for _, other := range []string{"service", "hostkv", "loop", "requests", "figure"} {
		if cmd.Flags().Changed(other) {
			return &input.Error{Key: "--" + other, Expected: "no --whole beside it: one set of measurements at a time"}
		}
	}
	rows, err := whole.Read(f.whole)
	if err != nil {
		return err
	}
	if f.fit {
		o.Sets = append(o.Sets, whole.NoHost...)
	}
	show := a.NewProgress("rows")
	show.Start(int64(len(rows)))
	report, err := whole.Judge(cmd.Context(), input.Name(f.whole), rows, whole.Options{Configs: o, Workers: f.workers, Progress: show.Set})
	show.Done()
	if err != nil {
		return err
	}
	if f.fit {
		return whole.WriteHosts(cmd.OutOrStdout(), whole.FitHosts(report))
	}
	if f.rows != "" {
		if err := results.WriteFileAtomic(f.rows, report.WriteRows); err != nil {
			return err
		}
	}
	return a.Print(report, report.WriteText)
}
