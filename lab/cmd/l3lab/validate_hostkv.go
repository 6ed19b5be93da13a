package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/hostkv"
)

// validateHostKV judges the flow of sparse-offload against measured iterations.
func (a *app) validateHostKV(cmd *cobra.Command, f *serviceFlags, o configs.Options) error {
	for _, other := range []string{"service", "rows", "workers", "loop", "fit", "requests", "figure"} {
		if cmd.Flags().Changed(other) {
			return &input.Error{Key: "--" + other, Expected: "no --hostkv beside it: one set of measurements at a time"}
		}
	}
	rows, err := hostkv.Read(f.hostKV)
	if err != nil {
		return err
	}
	report, err := hostkv.Judge(f.hostKV, rows, o)
	if err != nil {
		return err
	}
	return a.Print(report, report.WriteText)
}
