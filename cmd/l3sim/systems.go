package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/system"
)

func (a *app) newSystemsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "systems",
		Short: "List the systems that can be simulated, what each models and its source",
		Example: `  l3sim systems
  l3sim run --system l3,gpu-only,hbm-pim --requests 200`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.printJSON(system.Systems())
			}
			for i, s := range system.Systems() {
				if i > 0 {
					fmt.Fprintln(a.stdout)
				}
				fmt.Fprintf(a.stdout, "%s\n  hardware  %s\n  schedule  %s\n  sections  %s\n  source    %s\n",
					s.Name, s.Hardware, s.Schedule, s.Sections, s.Source)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}
