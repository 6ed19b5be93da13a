package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

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

COMMANDS is a CSV file, plain or gzip, with the header
clock,command,rank,bankgroup,bank,row,column or DRAMsim3's
cycle,cmd,rank,bankgroup,bank,row,col; an absent part is -1 or empty. Lines that begin
with # before the header can declare the part, its ranks and waived rules, and win over
the flags. A log that breaks a rule ends with exit code 1.`,
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
	allowed := func(v check.Violation) bool { return slices.Contains(allow, v.Rule) }
	failing := 0
	for _, v := range found {
		if !allowed(v) {
			failing++
		}
	}
	err = a.Print(newCheckResult(path, log.Records(), failing, found, allowed), func(w io.Writer) error {
		if err := printViolations(w, found, allowed); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "%d commands, %d violations, %d more of allowed rules\n", log.Records(), failing, len(found)-failing)
		return err
	})
	if err != nil {
		return err
	}
	if failing > 0 {
		return fmt.Errorf("%s: %s", input.Name(path), cli.Plural(failing, "violation", "violations"))
	}
	return nil
}

// checkResult is the JSON of dram check.
type checkResult struct {
	Schema   string           `json:"schema"`
	Log      string           `json:"log"`
	Commands int64            `json:"commands"`
	Failing  int              `json:"violations"`
	Allowed  int              `json:"allowed_violations"`
	Found    []checkViolation `json:"found"`
}

// checkViolation is one violation, of allowed rules too.
type checkViolation struct {
	Rule     string        `json:"rule"`
	Allowed  bool          `json:"allowed"`
	First    *checkCommand `json:"first"` // null where one command breaks the rule alone
	Second   *checkCommand `json:"second"`
	Required int64         `json:"required_clocks"` // from first to second; 0 for a rule of state
	Actual   int64         `json:"actual_clocks"`
	Detail   string        `json:"detail"`
}

// checkCommand is a command of the log; an absent part of the address is -1.
type checkCommand struct {
	Clock     int64  `json:"clock"`
	Command   string `json:"command"`
	Rank      int    `json:"rank"`
	BankGroup int    `json:"bank_group"`
	Bank      int    `json:"bank"`
	Row       int    `json:"row"`
	Column    int    `json:"column"`
}

// newCheckResult returns the JSON of a check. A violation without a command, such as a refresh that never came,
// has null in its place.
func newCheckResult(path string, commands int64, failing int, found []check.Violation, allowed func(check.Violation) bool) *checkResult {
	r := &checkResult{"l3sim/dram_check/1", input.Name(path), commands, failing, len(found) - failing, []checkViolation{}}
	command := func(r check.Record) *checkCommand {
		if r.Clock < 0 {
			return nil
		}
		a := r.Address
		return &checkCommand{r.Clock, r.Command.String(), int(a.Rank), int(a.BankGroup), int(a.Bank), int(a.Row), int(a.Column)}
	}
	for _, v := range found {
		r.Found = append(r.Found, checkViolation{v.Rule, allowed(v), command(v.First), command(v.Second), v.Required, v.Actual, v.Detail})
	}
	return r
}

// printViolations prints counts by rule and a table of the first violations,
// those that fail before those that are allowed.
func printViolations(w io.Writer, found []check.Violation, allowed func(check.Violation) bool) error {
	if len(found) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "rule\tcount\t")
	for _, rule := range ruleNames(found) {
		n, note := 0, ""
		for _, v := range found {
			if v.Rule == rule {
				n++
				if allowed(v) {
					note = "allowed"
				}
			}
		}
		if n > 0 {
			fmt.Fprintf(table, "%s\t%d\t%s\n", rule, n, note)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(table, "rule\tfirst\tsecond\trequired\tactual\tdetail")
	shown := 0
	for _, pass := range []bool{false, true} {
		for _, v := range found {
			if allowed(v) != pass || shown == shownViolations {
				continue
			}
			shown++
			detail := v.Detail
			if pass {
				detail += " (allowed)"
			}
			first, required, actual := "-", "-", "-"
			if v.First.Clock >= 0 {
				first = record(v.First)
			}
			if v.Required > 0 {
				required, actual = fmt.Sprint(v.Required), fmt.Sprint(v.Actual)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Rule, first, record(v.Second), required, actual, detail)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if shown < len(found) {
		fmt.Fprintf(w, "... and %d more\n", len(found)-shown)
	}
	fmt.Fprintln(w)
	return nil
}

// ruleNames returns the rules that are broken: those of the standards that ship in their tables'
// order, then those of others.
func ruleNames(found []check.Violation) []string {
	names := check.RuleNames()
	for _, v := range found {
		if !slices.Contains(names, v.Rule) {
			names = append(names, v.Rule)
		}
	}
	return names
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
