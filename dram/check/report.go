package check

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

const shownViolations = 50 // number of violations in the table

// Report is the JSON of dram
type Report struct {
	Schema   string      `json:"schema"`
	Log      string      `json:"log"`
	Commands int64       `json:"commands"`
	Failing  int         `json:"violations"`
	Allowed  int         `json:"allowed_violations"`
	Found    []Violation `json:"found"`
}

// NewReport returns the report of a log with the given number of commands. Violations of allowed rules are listed but do not fail.
func NewReport(log string, commands int64, found []Violation, allowed []string) *Report {
	r := &Report{Schema: "l3sim/dram_check/1", Log: log, Commands: commands, Found: append([]Violation{}, found...)}
	for i := range r.Found {
		if v := &r.Found[i]; slices.Contains(allowed, v.Rule) {
			v.Allowed = true
			r.Allowed++
		}
	}
	r.Failing = len(found) - r.Allowed
	return r
}

// WriteText writes counts by rule and a table of the first violations: first those that fail, then allowed ones.
func (r *Report) WriteText(w io.Writer) error {
	if len(r.Found) > 0 {
		if err := aligned(w, r.writeCounts); err != nil {
			return err
		}
		fmt.Fprintln(w)
		if err := aligned(w, r.writeFirst); err != nil {
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

// writeCounts writes the number of violations of each rule. Rules of shipped standards come first, in the order of their tables.
func (r *Report) writeCounts(w io.Writer) {
	names, counts, notes := RuleNames(), map[string]int{}, map[string]string{}
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

func (r *Report) writeFirst(w io.Writer) {
	shown := slices.Clone(r.Found)
	slices.SortStableFunc(shown, func(a, b Violation) int {
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

// record writes a command as "clock NAME rank.bankgroup.bank row column" without the absent parts.
func record(r Record) string {
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

// aligned writes tab-separated cells in aligned columns.
func aligned(w io.Writer, lines func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	lines(t)
	return t.Flush()
}
