package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
)

func (a *app) newDRAMSpecCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "spec [NAME]",
		Short:             "List the DRAM parts, or print one part's timings and every rule that follows from them",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: oneArgument(dram.SpecNames),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return aligned(a.stdout, 0, listParts)
			}
			s, err := dram.LookupSpec(args[0])
			if err != nil {
				return err
			}
			return aligned(a.stdout, 0, func(w io.Writer) { printPart(w, s) })
		},
	}
}

func listParts(w io.Writer) {
	fmt.Fprintln(w, "name\ttCK\tbandwidth\tCL-tRCD-tRP\trank\tbank groups x banks\tchips")
	for _, name := range dram.SpecNames() {
		s, _ := dram.LookupSpec(name) // it has what it lists
		fmt.Fprintf(w, "%s\t%v\t%.1fGB/s\t%d-%d-%d\t%v\t%d x %d\t%d x%d\n", s.Name, s.TCK, float64(s.Bandwidth())/1e9,
			s.CL, s.TRCD, s.TRP, s.RankBytes(), s.BankGroups, s.BanksPerGroup, s.Chips(), s.DeviceWidth)
	}
}

func printPart(w io.Writer, s *dram.Spec) {
	fmt.Fprintf(w, "%s: %d chips x%d, %d bank groups x %d banks, %d rows of %v, %v a rank, tCK %v\n\n", s.Name,
		s.Chips(), s.DeviceWidth, s.BankGroups, s.BanksPerGroup, s.Rows, s.RowBytes(), s.RankBytes(), s.TCK)
	fmt.Fprintln(w, "timing\tclocks\tns\tmeaning\tsource")
	for _, p := range s.Parameters() {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%s\t%s\n", p.Term, p.Clocks, s.Nanoseconds(int64(p.Clocks)), p.Meaning, p.Source)
	}
	p := s.Power
	fmt.Fprintf(w, "\ncurrent\tmA\t(one chip, VDD = %g V)\n", p.VDD)
	for _, c := range []struct {
		name  string
		value float64
	}{{"IDD0", p.IDD0}, {"IDD2N", p.IDD2N}, {"IDD3N", p.IDD3N}, {"IDD4R", p.IDD4R}, {"IDD4W", p.IDD4W}, {"IDD5B", p.IDD5B}} {
		fmt.Fprintf(w, "%s\t%g\n", c.name, c.value)
	}
	fmt.Fprintln(w, "\nrule\tscope\tcommand\tnext\tclocks\twindow")
	for _, c := range s.Constraints() {
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%d\t%d\n", c.Rule, c.Scope, c.Command, c.Next, c.Clocks, c.Window)
	}
}
