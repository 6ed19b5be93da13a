package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
)

// The default part and ranks per channel of the dram commands.
const (
	defaultDRAM  = "ddr4-3200-8gb-x8"
	defaultRanks = 4
)

func (a *app) newDRAMCommand() *cobra.Command {
	group := cli.NewGroup("dram", "Replay request traces on DRAM, check command logs, show standards' tables")
	group.AddCommand(a.newDRAMReplayCommand(), a.newDRAMCheckCommand(), a.newDRAMSpecCommand())
	return group
}

func applySets(sets []string, set func(key, value string) error) error {
	for _, text := range sets {
		key, value, ok := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" {
			return &input.Error{Key: "--set", Value: fmt.Sprintf("%q", text), Expected: "KEY=VALUE, such as tRFC=880"}
		}
		if err := set(key, value); err != nil {
			return input.Edit(err, func(e *input.Error) { e.File = "--set" })
		}
	}
	return nil
}
