package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
)

// shownViolations is how many violations the table lists.
const shownViolations = 50

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
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "list breaks of this rule without failing (repeatable)")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "change a field of the part, KEY=VALUE (repeatable)")
	cmd.Flags().BoolVar(&a.JSON, "json", false, cli.JSONUsage+", with every violation")
	return cmd
}

// checkLog checks a log of commands and prints what it breaks. Rules that --allow or the log's header names are
// listed and are no failure.
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
	failing := 0
	for i := range found {
		if found[i].Allowed = slices.Contains(allow, found[i].Rule); !found[i].Allowed {
			failing++
		}
	}
	r := &checkResult{"l3sim/dram_check/1", input.Name(path), log.Records(), failing, len(found) - failing, append([]check.Violation{}, found...)}
	if err := a.Print(r, r.writeText); err != nil {
		return err
	}
	if failing > 0 {
		return fmt.Errorf("%s: %s", input.Name(path), cli.Plural(failing, "violation", "violations"))
	}
	return nil
}

// checkResult is the JSON of dram check.
type checkResult struct {
	Schema   string            `json:"schema"`
	Log      string            `json:"log"`
	Commands int64             `json:"commands"`
	Failing  int               `json:"violations"`
	Allowed  int               `json:"allowed_violations"`
	Found    []check.Violation `json:"found"`
}

// writeText writes counts by rule and a table of the first violations, those that fail before those that are allowed.
func (r *checkResult) writeText(w io.Writer) error {
	if len(r.Found) > 0 {
		if err := cli.Aligned(w, 0, r.writeCounts); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := cli.Aligned(w, 0, r.writeFirst); err != nil {
			return err
		}
		if more := len(r.Found) - shownViolations; more > 0 {
			fmt.Fprintf(w, "... and %d more\n", more)
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "%d commands, %d violations, %d more of allowed rules\n", r.Commands, r.Failing, r.Allowed)
	return err
}

// writeCounts counts the violations by rule: those of the standards that ship in their tables' order, then those of others.
func (r *checkResult) writeCounts(w io.Writer) {
	names, counts, notes := check.RuleNames(), map[string]int{}, map[string]string{}
	for _, v := range r.Found {
		if counts[v.Rule]++; v.Allowed {
			notes[v.Rule] = "allowed"
		}
		if !slices.Contains(names, v.Rule) {
			names = append(names, v.Rule)
		}
	}
	fmt.Fprintln(w, "rule\tcount\t")
	for _, rule := range names {
		if counts[rule] > 0 {
			fmt.Fprintf(w, "%s\t%d\t%s\n", rule, counts[rule], notes[rule])
		}
	}
}

// writeFirst lists the first violations.
func (r *checkResult) writeFirst(w io.Writer) {
	shown := slices.Clone(r.Found)
	slices.SortStableFunc(shown, func(a, b check.Violation) int {
		switch {
		case a.Allowed == b.Allowed:
			return 0
		case b.Allowed:
			return -1
		}
		return 1
	})
	fmt.Fprintln(w, "rule\tfirst\tsecond\trequired\tactual\tdetail")
	for _, v := range shown[:min(len(shown), shownViolations)] {
		if v.Allowed {
			v.Detail += " (allowed)"
		}
		first, required, actual := "-", "-", "-"
		if v.First.Clock >= 0 {
			first = record(v.First)
		}
		if v.Required > 0 {
			required, actual = fmt.Sprint(v.Required), fmt.Sprint(v.Actual)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Rule, first, record(v.Second), required, actual, v.Detail)
	}
}

// record writes a command as "clock NAME rank.bankgroup.bank row column"
// without the absent parts.
func record(r check.Record) string {
	s := fmt.Sprintf("%d %v %d", r.Clock, r.Command, r.Address.Rank)
	if r.Address.Bank >= 0 {
		s += fmt.Sprintf(".%d.%d", r.Address.BankGroup, r.Address.Bank)
	}
	if r.Address.Row >= 0 {
		s += fmt.Sprintf(" row %d", r.Address.Row)
	}
	if r.Address.Column >= 0 {
		s += fmt.Sprintf(" column %d", r.Address.Column)
	}
	return s
}
