package main

import "github.com/spf13/cobra"

func (a *app) newPIMCommand() *cobra.Command {
	group := a.newGroup("pim", "The DIMM-PIM alone: attention in clocks and in values, and where the data lies")
	group.AddCommand(a.newPIMAttentionCommand(), a.newPIMLayoutCommand(), a.newPIMVerifyCommand())
	return group
}
