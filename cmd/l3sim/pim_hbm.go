package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim/hbm"
)

type pimHBMFlags struct {
	contexts           []int
	heads, rate        int
	dim, valueDim      int
	level, rules       string
	unlimited, resting bool
	config             cli.ConfigFlags
}

func (a *app) newPIMHBMCommand() *cobra.Command {
	var f pimHBMFlags
	cmd := &cobra.Command{
		Use:   "hbm",
		Short: "Time attention on units in an HBM3 stack, command by command",
		Long: `Time attention on units in an HBM3 stack, command by command: AttAcc's programs, with 16-bit elements.

The factor is the bandwidth of keys and values over that of plain HBM3 at its peak rate. By AttAcc's rules all banks
open at once; by JEDEC's they keep tRRD and tFAW. W is the power of a stack, by the constants energy.hbm_*.`,
		Example: `  l3sim pim hbm --context 128,2048,32768
  l3sim pim hbm --level bg
  l3sim pim hbm --context 2048 --heads 128 --rules jedec --no-power-limit --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimHBM(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&f.contexts, "context", []int{128, 512, 2048, 8192}, "tokens of each head; several to compare")
	flags.IntVar(&f.heads, "heads", hbm.Channels, "heads on the stack's 16 channels, 1 to 4096")
	flags.IntVar(&f.dim, "head-dim", 128, "elements of a head, 1 to 1024")
	flags.IntVar(&f.valueDim, "value-dim", 0, "elements of a value where it is not as wide as a key: 1 to 1024 (default: --head-dim)")
	flags.StringVar(&f.level, "level", string(hbm.Bank), "`level` of the units: "+strings.Join(hbm.Levels(), ", "))
	flags.StringVar(&f.rules, "rules", string(hbm.AttAcc), "timing `rules`: attacc or jedec")
	flags.IntVar(&f.rate, "rate", 0, "Mb/s a pin: 4800, 5200, 5600, 6000 or 6400 (default: 5200, by JEDEC's rules 6400)")
	flags.BoolVar(&f.unlimited, "no-power-limit", false, "all banks or bank groups read every 4 clocks, without the limit of the stack's power")
	flags.BoolVar(&f.resting, "no-refresh", false, "without refresh")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	f.config.Register(cmd)
	return cmd
}

func (a *app) pimHBM(cmd *cobra.Command, f *pimHBMFlags) error {
	if err := cli.Between("--heads", f.heads, 1, 4096); err != nil {
		return err
	}
	spec := hbm.Spec{Level: hbm.Level(f.level), Rules: hbm.Rules(f.rules), Rate: f.rate, PowerLimited: !f.unlimited, NoRefresh: f.resting}
	if f.rate == 0 {
		spec.Rate = 5200
		if spec.Rules == hbm.JEDEC {
			spec.Rate = 6400
		}
	}
	part, err := spec.Part()
	if err != nil {
		return input.Edit(err, func(e *input.Error) {
			e.Key = map[string]string{"level": "--level", "rules": "--rules", "rate": "--rate"}[e.Key]
		})
	}
	c, err := f.config.Load(cmd)
	if err != nil {
		return err
	}
	at := c.Energy.At(energy.Mid)
	costs := hbm.CostsOf(&at)
	var rows []hbm.Row
	for _, context := range f.contexts {
		load := hbm.StackLoad(hbm.Shape{HeadDim: f.dim, ElementBytes: 2, ValueDim: f.valueDim}, context, f.heads)
		run, err := hbm.Measure(spec, load, nil)
		if err != nil {
			return input.Edit(err, func(e *input.Error) {
				e.Key = map[string]string{"context": "--context", "head_dim": "--head-dim", "value_dim": "--value-dim", "heads": "--heads"}[e.Key]
			})
		}
		rows = append(rows, hbm.NewRow(spec, part, load, run, costs))
	}
	plain, interleaved := costs.PlainWatts(part)
	out := map[string]any{"schema": "l3sim/pim-hbm/1", "level": f.level, "part": part.Name, "rows": rows, "plain_stack_w": plain, "interleaved_stack_w": interleaved}
	return a.Print(out, func(w io.Writer) error {
		if err := hbm.WriteRows(w, spec.Level, part.Name, rows); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "\nPlain reads at the peak rate draw %.1f W in a stack, %.1f W with four rows opened in each tFAW.\n", plain, interleaved)
		return err
	})
}
