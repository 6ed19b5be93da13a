package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/loop"
)

// validateLoop judges the dataflow of l3 against measured iterations.
func (a *app) validateLoop(cmd *cobra.Command, f *serviceFlags, o configs.Options) error {
	for _, other := range []string{"service", "rows", "workers"} {
		if cmd.Flags().Changed(other) {
			return &input.Error{Key: "--" + other, Expected: "no --loop beside it: one set of measurements at a time"}
		}
	}
	measured, err := loop.Read(f.loop)
	if err != nil {
		return err
	}
	o.Preset = "dgx-h100-l3"
	if strings.Contains(filepath.Base(f.loop), "h200") {
		o.Preset = "dgx-h200-l3"
	}
	if f.fit {
		found, err := loop.Fit(measured, o)
		if err != nil {
			return err
		}
		for _, set := range found {
			fmt.Fprintln(a.Stderr, "fitted:", set)
		}
		o.Sets = append(o.Sets, found...)
	}
	report, err := loop.Judge(measured, o)
	if err != nil {
		return err
	}
	if err := f.draw(report.WriteFigure); err != nil {
		return err
	}
	return a.Print(report, report.WriteText)
}
