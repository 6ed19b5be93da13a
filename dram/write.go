package dram

import (
	"fmt"
	"io"
)

// WriteStandards writes a line for each standard, and for each of its parts, with tabs between cells.
func WriteStandards(w io.Writer, standards []*Standard) {
	fmt.Fprintln(w, "standard\tparts\twhat it is")
	for _, s := range standards {
		fmt.Fprintf(w, "%s\t%d\t%s\n", s.Name, len(s.PartNames()), s.Title)
	}
	fmt.Fprintln(w, "\npart\ttCK\tbandwidth\tCL-tRCD-tRP\trank\tbank groups x banks\tchips")
	for _, standard := range standards {
		for _, name := range standard.PartNames() {
			s, err := standard.Part(name)
			if err != nil {
				continue // cannot fail: ReadStandard has composed it, and a test composes shipped ones
			}
			fmt.Fprintf(w, "%s\t%v\t%.1fGB/s\t%d-%d-%d\t%v\t%d x %d\t%d x%d\n", s.Name, s.TCK, float64(s.Bandwidth())/1e9,
				s.CL, s.TRCD, s.TRP, s.RankBytes(), s.BankGroups, s.BanksPerGroup, s.Chips(), s.DeviceWidth)
		}
	}
}

// Write writes a part, with tabs between cells: its organisation, its timings with meaning and source, its currents.
func (s *Spec) Write(w io.Writer) {
	rules := s.Rules()
	fmt.Fprintf(w, "%s: %s\n", s.Name, rules.Title)
	fmt.Fprintf(w, "%d chips x%d, %d bank groups x %d banks, %d rows of %v, %v a rank, tCK %v, bursts of %d B in %d clocks\n", s.Chips(), s.DeviceWidth,
		s.BankGroups, s.BanksPerGroup, s.Rows, s.RowBytes(), s.RankBytes(), s.TCK, s.BurstBytes(), s.BurstClocks())
	printECC(w, *s)
	if rules.PseudoChannels > 1 || rules.StepsPerClock > 1 {
		fmt.Fprintf(w, "%d pseudo-channels a channel, %d steps a clock\n", rules.PseudoChannels, rules.StepsPerClock)
	}
	fmt.Fprintln(w, "\ntiming\tclocks\tns\tmeaning\tsource")
	for _, p := range s.Parameters() {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%s\t%s\n", p.Term, p.Clocks, s.Nanoseconds(int64(p.Clocks)), p.Meaning, p.Source)
	}
	p := s.Power
	if !p.Known() {
		fmt.Fprintln(w, "\ncurrents: none are published, energy is not estimated")
	} else {
		fmt.Fprintf(w, "\ncurrent\tmA\t(one chip, VDD = %g V)\n", p.VDD)
		for _, c := range []struct {
			name  string
			value float64
		}{{"IDD0", p.IDD0}, {"IDD2N", p.IDD2N}, {"IDD2P", p.IDD2P}, {"IDD3N", p.IDD3N}, {"IDD3P", p.IDD3P}, {"IDD4R", p.IDD4R}, {"IDD4W", p.IDD4W}, {"IDD5B", p.IDD5B}, {"IDD6", p.IDD6}} {
			if c.value == 0 {
				fmt.Fprintf(w, "%s\t-\tnot published: energy counts as that of standby\n", c.name)
				continue
			}
			fmt.Fprintf(w, "%s\t%g\n", c.name, c.value)
		}
		fmt.Fprintf(w, "bank_share\t%g\tof IDD3N - IDD2N flows by open banks, the rest with the first (1 less DRAMPower's factRho)\n", p.BankShare)
	}
	fmt.Fprintln(w, "\ncommand\tbus\tsteps\tbanks\tneeds\tleaves")
	for _, c := range rules.Commands() {
		a := rules.Action(c)
		fmt.Fprintf(w, "%v\t%s\t%d\t%v\t%v\t%v\n", c, rules.Buses[a.Bus], a.Steps, a.Span, a.Needs, a.Leaves)
	}
	fmt.Fprintln(w, "\nrule\tscope\tcommand\tnext\tsteps\twindow")
	for _, c := range s.Constraints() {
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%d\t%d\n", c.Rule, c.Scope, c.Command, c.Next, c.Clocks, c.Window)
	}
}

// printECC prints the effect of each value of the key ecc on a part.
func printECC(w io.Writer, s Spec) {
	fmt.Fprint(w, "with check bits (--set ecc=...):")
	if s.ECC = SideBandECC; s.Chips() > 1 {
		fmt.Fprintf(w, " side-band %d chips,", s.Devices())
	}
	s.ECC = InlineECC
	fmt.Fprintf(w, " inline %v a rank for data,", s.RankBytes())
	s.ECC = InlineECC16
	fmt.Fprintf(w, " inline-16 %v\n", s.RankBytes())
}
