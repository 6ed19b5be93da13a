package main

import (
	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
)

func (a *app) newPIMCommand() *cobra.Command {
	group := cli.NewGroup("pim", "The DIMM-PIM alone, and units in HBM: attention in clocks and in values, where the data lies")
	group.AddCommand(a.newPIMAttentionCommand(), a.newPIMHBMCommand(), a.newPIMLayoutCommand(), a.newPIMTableCommand(), a.newPIMVerifyCommand())
	return group
}

// The flags of pim commands that set a key.
var (
	multipliersFlag = cli.Key("multipliers", "pim.multipliers", "0", "multipliers of a set, for what a read brings from a chip: 0 has four on x8 chips, as L3")
	activationFlag  = cli.Key("activation", "pim.activation", pim.Staggered, "`kind` of all-bank activation: staggered or simultaneous")
)
