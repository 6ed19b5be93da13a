package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
)

// newOptimiseCommand returns what says where the command of the last release went. It is to be dropped after the next one.
func (a *app) newOptimiseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "optimise", Hidden: true, DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return &input.Error{Key: "'l3sim optimise'", Expected: "'l3sim sweep' of a file with [latin_hypercube], then 'l3sim explore'"}
		},
	}
}
