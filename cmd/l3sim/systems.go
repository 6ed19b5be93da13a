package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/system"
)

func (a *app) newSystemsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "systems",
		Short: "List the systems that can be simulated, what each models and its source",
		Example: `  l3sim config systems
  l3sim run --system l3,gpu-only,hbm-pim --requests 200`,
		RunE: func(*cobra.Command, []string) error {
			return a.Print(system.Systems(), func(w io.Writer) error {
				for i, s := range system.Systems() {
					if i > 0 {
						fmt.Fprintln(w)
					}
					fmt.Fprintf(w, "%s\n  hardware  %s\n  schedule  %s\n  sections  %s\n  source    %s\n",
						s.Name, s.Hardware, s.Schedule, s.Sections, s.Source)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print a JSON array")
	return cmd
}
