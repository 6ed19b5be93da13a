package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/lab/requests"
	"github.com/l3sim/l3sim/results"
)

// validateRequests compares a run with the log of a server.
func (a *app) validateRequests(cmd *cobra.Command, f *serviceFlags, given configs.Options) error {
	log, err := requests.Read(f.log)
	if err != nil {
		return err
	}
	report, err := requests.Judge(cmd.Context(), log, given)
	if err != nil {
		return err
	}
	if f.rows != "" {
		if err := results.WriteFileAtomic(f.rows, report.WriteRows); err != nil {
			return err
		}
	}
	draw := func(w io.Writer, format string) error {
		page, err := report.Page()
		if err != nil {
			return err
		}
		return page.Write(w, format)
	}
	if err := f.draw(draw); err != nil {
		return err
	}
	return a.Print(report, report.WriteText)
}
