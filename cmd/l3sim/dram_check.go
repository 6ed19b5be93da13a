package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
)

func (a *app) newDRAMCheckCommand() *cobra.Command {
	var name string
	var ranks int
	var allow, sets []string
	cmd := &cobra.Command{
		Use:   "check COMMANDS",
		Short: "Check that a log of DRAM commands breaks no rule of the standard",
		Long: `Check that a log of DRAM commands breaks no rule of the standard.

COMMANDS is a CSV file, plain or gzip, with the header clock,command,rank,bankgroup,bank,row,column or DRAMsim3's
cycle,cmd,rank,bankgroup,bank,row,col; an absent part is -1 or empty. Comment lines before the header can declare the
part, its ranks and waived rules, and win over the flags. A log that breaks a rule ends with exit code 1.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			spec, err := a.partOf("--dram", name)
			if err != nil {
				return err
			}
			if err := applySets(sets, spec.Set); err != nil {
				return err
			}
			if err := cmp.Or(input.Validate(spec), cli.Between("--ranks", ranks, 1, dram.MaxRanks),
				check.KnownRules("--allow", allow, append(dram.Standards(), spec.Rules())...)); err != nil {
				return err
			}
			return a.checkLog(args[0], spec, ranks, allow)
		},
	}
	cmd.Flags().StringVar(&name, "dram", defaultDRAM, cli.DRAMUsage)
	cmd.Flags().IntVar(&ranks, "ranks", defaultRanks, "ranks of the channel")
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "list breaks of this `rule` without failing (repeatable)")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field of the part, `KEY=VALUE` (repeatable)")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage+", with every violation")
	return cmd
}

// checkLog checks a log of commands and prints its violations. Violations of rules that --allow or the log's
// header names are listed but are no failure.
func (a *app) checkLog(path string, spec *dram.Spec, ranks int, allow []string) error {
	f, err := input.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	log, err := check.NewLogReader(input.Name(path), f, spec.Rules())
	if err != nil {
		return err
	}
	found, unread := check.Log(log, spec, ranks)
	if unread != nil && !errors.Is(unread, check.ErrManyViolations) {
		return unread
	}
	allow = append(allow, log.Header.Allow...)
	r := check.NewReport(input.Name(path), log.Records(), found, allow)
	if err := a.Print(r, r.WriteText); err != nil {
		return err
	}
	if r.Failing > 0 {
		return fmt.Errorf("%s: %s", input.Name(path), input.Plural(r.Failing, "violation", "violations"))
	}
	return nil
}
