package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newTraceStatsCommand() *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "stats FILE",
		Short: "Describe a file of requests: rate, bursts, lengths, prefixes that are shared",
		Long: `Describe a file of requests: rate, bursts, lengths, prefixes that are shared.

Burstiness is the coefficient of variation of the times between arrivals: 1 for a Poisson process. Percentiles are
of nearest rank. Shared tokens are what a prefix cache without end would find, in the blocks of the file's hashes.`,
		Example: `  l3sim trace stats requests.csv
  l3sim trace stats BurstGPT.csv --window 0s:86400s --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := a.readTrace(cmd, args[0], &f)
			if err != nil {
				return err
			}
			s := traces.NewReport(t)
			return a.Print(s, s.WriteText)
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	f.register(cmd.Flags())
	return cmd
}
