package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/system"
)

func (a *app) newPoliciesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "List attention policies: what each attends to, stores and moves, and where it runs",
		Long: `List attention policies: what each attends to, stores and moves, which systems run it, and its keys.

'l3sim run --policy NAME' says what a policy costs, 'l3lab eval --policy NAME' what it does to the
output of a small language model. Each has its own keys: --set policy.quest.budget=2048.`,
		Example: `  l3sim config policies
  l3sim run --system gpu-only --policy lserve --set policy.lserve.budget=2048
  l3sim config policies iteration --policy dense,quest,lserve --model llama-3-8b --context 8192,65536`,
		RunE: func(*cobra.Command, []string) error {
			all := system.Policies(system.Configs())
			return a.Print(all, func(w io.Writer) error {
				for i := range all {
					if err := all[i].WriteText(w); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print a JSON array")
	cmd.AddCommand(a.newPolicyIterationCommand())
	return cmd
}

func (a *app) newSystemsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "systems",
		Short: "List the systems that can be simulated, what each models and its source",
		Example: `  l3sim config systems
  l3sim run --system l3,gpu-only,hbm-pim --requests 200`,
		RunE: func(*cobra.Command, []string) error {
			return a.Print(system.Systems(system.Configs()), func(w io.Writer) error {
				for i, s := range system.Systems(system.Configs()) {
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
