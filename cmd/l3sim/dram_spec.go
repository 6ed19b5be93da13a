package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

func (a *app) newDRAMSpecCommand() *cobra.Command {
	var sequence, out string
	var ranks int
	cmd := &cobra.Command{
		Use:   "spec [STANDARD|PART|FILE.toml]",
		Short: "List the DRAM standards and parts, print one's tables, validate your own, time a command sequence",
		Long: `List the DRAM standards and parts, print one's tables, validate your own, time a command sequence.

A PART is printed with its timings and every rule that follows from them. FILE.toml is a table
of your own, in the form of docs/reference/dram.md; FILE.toml:PART is one part of it.

--sequence "ACT 0.0.0, RD 0.0.0 x4, PRE 0.0.0" issues commands at RANK.BANKGROUP.BANK (REFsb
0.*.1, REF 0), each as early as the rules allow, and prints when; --out draws the timing.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.OneArgument(dram.SpecNames),
		Example: `  l3sim dram spec
  l3sim dram spec ddr5-4800-16gb-x8
  l3sim dram spec hbm3-6400-16gb-8h --ranks 4 --sequence "ACT 0.0.0, ACT 2.0.0, RD 0.0.0 x4, RD 2.0.0 x4" --out timing.svg`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, flag := range []string{"sequence", "ranks", "out"} {
					if cmd.Flags().Changed(flag) {
						return &input.Error{Key: "--" + flag, Expected: "a part before it, such as 'l3sim dram spec ddr5-4800-16gb-x8 --" + flag + " ...'"}
					}
				}
				return cli.Aligned(a.Stdout, 0, func(w io.Writer) { dram.WriteStandards(w, dram.Standards()) })
			}
			standard, spec, err := a.findDRAM(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("sequence") || out != "" {
				if spec == nil {
					return &input.Error{Key: "--sequence", Expected: "a part: " + strings.Join(standard.PartNames(), ", ")}
				}
				if err := cli.Between("--ranks", ranks, 1, dram.MaxRanks); err != nil {
					return err
				}
				return a.printSequence(spec, ranks, sequence, out)
			}
			if spec == nil {
				return cli.Aligned(a.Stdout, 0, func(w io.Writer) { dram.WriteStandards(w, []*dram.Standard{standard}) })
			}
			return cli.Aligned(a.Stdout, 0, spec.Write)
		},
	}
	cmd.Flags().StringVar(&sequence, "sequence", "ACT 0.0.0, RD 0.0.0 x2, WR 0.0.0, PRE 0.0.0", "`commands` to time")
	cmd.Flags().IntVar(&ranks, "ranks", defaultRanks, "ranks of the channel, those of all pseudo-channels")
	cmd.Flags().StringVar(&out, "out", "", "draw the timing into this `file`: .png, .svg or .pdf")
	return cmd
}

// findDRAM returns the standard that an argument names, and its part if it names one: a built-in
// standard or part, FILE.toml or FILE.toml:PART.
func (a *app) findDRAM(name string) (*dram.Standard, *dram.Spec, error) {
	path, part := dram.TablePart(name)
	if part == "" && !strings.HasSuffix(name, ".toml") {
		for _, s := range dram.Standards() {
			if strings.EqualFold(s.Name, name) {
				return s, nil, nil
			}
		}
		spec, err := dram.LookupSpec(name)
		if err != nil {
			return nil, nil, err
		}
		return spec.Rules(), spec, nil
	}
	f, err := input.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	standard, err := dram.ReadStandard(path, f)
	if err != nil {
		return nil, nil, err
	}
	if part == "" && len(standard.PartNames()) > 1 {
		return standard, nil, nil
	}
	spec, err := standard.OnePart(part)
	return standard, spec, err
}

// partOf is findDRAM for a flag, which must name a part.
func (a *app) partOf(flag, name string) (*dram.Spec, error) {
	standard, spec, err := a.findDRAM(name)
	if err != nil {
		return nil, input.Edit(err, func(e *input.Error) {
			if e.File == "" {
				e.Key = flag
			}
		})
	}
	if spec == nil {
		return nil, &input.Error{Key: flag, Value: name, Expected: "one of its parts: " + strings.Join(standard.PartNames(), ", ")}
	}
	return spec, nil
}

// printSequence prints when each command of a sequence issues, and draws it if out names a file.
func (a *app) printSequence(s *dram.Spec, ranks int, text, out string) error {
	format := ""
	if out != "" {
		var err error
		if format, err = figure.Format("--out", out); err != nil {
			return err
		}
	}
	if err := cli.WritableFile("--out", out); err != nil {
		return err
	}
	commands, err := check.ParseSequence("--sequence", s, ranks, text)
	if err != nil {
		return err
	}
	records := check.TimeSequence(s, ranks, commands)
	err = cli.Aligned(a.Stdout, 0, func(w io.Writer) {
		fmt.Fprintln(w, "clock\tns\tcommand\tdata")
		for _, r := range records {
			clock := float64(r.Clock) / float64(s.BusSteps(1))
			data := ""
			if end := float64(s.DataEnd(r.Command)) / float64(s.BusSteps(1)); r.Command.IsRead() || r.Command.IsWrite() {
				data = fmt.Sprintf("%g to %g", clock+end-float64(s.BurstClocks()), clock+end)
			}
			fmt.Fprintf(w, "%g\t%.3f\t%v %s\t%s\n", clock, clock*s.Nanoseconds(1), r.Command, check.Place(r.Address), data)
		}
	})
	if err != nil || out == "" {
		return err
	}
	lanes := sequenceLanes(s, ranks, records)
	return results.WriteFileAtomic(out, func(w io.Writer) error { return lanes.Write(w, format) })
}
