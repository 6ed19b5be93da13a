package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/system"
)

// listedPolicy is a policy as the list shows it.
type listedPolicy struct {
	policy.Description
	Systems []string `json:"systems"` // that run it
	Refused []string `json:"refused"` // that do not
}

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
			all := listPolicies()
			return a.Print(all, func(w io.Writer) error {
				for i := range all {
					printPolicy(w, &all[i])
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print a JSON array")
	cmd.AddCommand(a.newPolicyIterationCommand())
	return cmd
}

// listPolicies returns all policies with the systems that run them.
func listPolicies() []listedPolicy {
	var all []listedPolicy
	for _, d := range policy.Descriptions() {
		p := listedPolicy{Description: d}
		for _, s := range system.Systems() {
			if slices.Contains(s.Policies(), d.Name) {
				p.Systems = append(p.Systems, s.Name)
			} else {
				p.Refused = append(p.Refused, s.Name)
			}
		}
		all = append(all, p)
	}
	return all
}

func printPolicy(w io.Writer, p *listedPolicy) {
	kind := "exact"
	if p.Lossy {
		kind = "lossy"
	}
	fmt.Fprintf(w, "%s (%s)\n  attends   %s\n  stores    %s\n  moves     %s\n  systems   %s\n", p.Name, kind, p.Attends, p.Stores, p.Moves, orNone(p.Systems))
	if len(p.Refused) > 0 {
		fmt.Fprintf(w, "  refused   %s\n", strings.Join(p.Refused, ", "))
	}
	for i, k := range p.Keys {
		head := ""
		if i == 0 {
			head = "keys"
		}
		fmt.Fprintf(w, "  %-9s %s = %s (%s)\n", head, k.Name, k.Default, k.Source)
	}
	fmt.Fprintf(w, "  source    %s\n\n", p.Source)
}

// orNone joins names.
func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

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
