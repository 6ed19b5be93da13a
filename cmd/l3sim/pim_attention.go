package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/results/timeline"
	"github.com/l3sim/l3sim/system/flow"
)

const noScales = "none" // --kv-scales for one scale per tensor

type pimAttentionFlags struct {
	context, heads, kvHeads, headDim, valueDim, kvBits int
	scales                                             string

	config   cli.ConfigFlags
	commands string
	timeline string
	pages    values.PageLoad
}

func (a *app) newPIMAttentionCommand() *cobra.Command {
	var f pimAttentionFlags
	cmd := &cobra.Command{
		Use:   "attention --context L",
		Short: "Time the attention of one decode step on one rank, DRAM command by DRAM command",
		Long: `Time the attention of one decode step on one rank, DRAM command by DRAM command.

The first table is one query head alone, without refresh. The second is all heads one after another, each with the
append of its newest key and value, and with refresh. With --budget, one KV head attends to selected pages instead,
whose keys and queries are drawn (--seed, --local).`,
		Example: `  l3sim pim attention --context 8192
  l3sim pim attention --context 32768 --kv-bits 8 --multipliers 8
  l3sim pim attention --context 8192 --heads 128 --kv-heads 1 --head-dim 576 --value-dim 512
  l3sim pim attention --context 512 --commands log.csv && l3sim dram check log.csv
  l3sim pim attention --context 8192 --timeline head.json.gz
  l3sim pim attention --context 131072 --budget 4096 --page 512 --select bank --reuse 4`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimAttention(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.context, "context", 0, "tokens attended to, the newest included")
	flags.IntVar(&f.heads, "heads", 1, "query heads on the rank")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "KV heads that the query heads share (default: one each)")
	flags.IntVar(&f.headDim, "head-dim", 128, headDimUsage)
	flags.IntVar(&f.valueDim, "value-dim", 0, valueDimUsage)
	flags.IntVar(&f.kvBits, "kv-bits", 16, "bits of an element of keys and values: 4, 8 or 16, beside queries of 16")
	flags.StringVar(&f.scales, "kv-scales", noScales, "`scales`: scale and zero of each token's key and value: none, or in the rows")
	f.config.Register(cmd, cli.DRAMFlag, cli.PrecisionFlag, activationFlag, multipliersFlag)
	flags.StringVar(&f.commands, "commands", "", "write every DRAM command of all heads to this `file`")
	flags.StringVar(&f.timeline, "timeline", "", commandTimelineUsage+": banks, buses, units and refresh over the run of all heads")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	f.registerPages(flags)
	return cmd
}

func (a *app) pimAttention(cmd *cobra.Command, f *pimAttentionFlags) error {
	if err := cli.RequireFlag(cmd, "context", "tokens attended to, such as --context 8192"); err != nil {
		return err
	}
	if err := cmp.Or(cli.NotEmpty(cmd, "timeline", "commands"), timelineFile(f.timeline, f.commands)); err != nil {
		return err
	}
	load, err := f.load()
	if err != nil {
		return err
	}
	c, err := f.config.Load(cmd)
	if err != nil {
		return err
	}
	if err := f.checkPages(cmd); err != nil {
		return err
	}
	if cmd.Flags().Changed("budget") {
		return a.pimPages(f, &c.PIM, &c.DRAM.Spec, load)
	}
	show := a.ProgressOnTerminal("clocks")
	m, err := f.measure(cmd.Context(), &c.PIM, c.RankSpec(), load, show)
	show.Done()
	if err != nil {
		return widthFlags(err)
	}
	out := machine.NewReport(load, &c.PIM, &c.DRAM.Spec, m, c.Energy.PIMRead.Estimate().Value)
	if err := energyLaw(&out.EnergyMJ); err != nil {
		return err
	}
	return a.PrintAligned(out, 0, out.WriteLines)
}

func (f *pimAttentionFlags) load() (machine.Load, error) {
	kv := cmp.Or(f.kvHeads, f.heads)
	if err := cmp.Or(cli.Between("--context", f.context, 1, 1<<30), cli.Between("--heads", f.heads, 1, 1<<12), cli.Between("--head-dim", f.headDim, 8, pim.MaxHeadDim)); err != nil {
		return machine.Load{}, err
	}
	var bad error
	switch {
	case f.valueDim != 0 && (f.valueDim < 8 || f.valueDim > pim.MaxHeadDim):
		bad = &input.Error{Key: "--value-dim", Value: fmt.Sprint(f.valueDim), Expected: fmt.Sprintf("8 to %d, or 0 for --head-dim", pim.MaxHeadDim)}
	case kv < 1 || f.heads%kv != 0:
		bad = &input.Error{Key: "--kv-heads", Value: fmt.Sprint(f.kvHeads), Expected: fmt.Sprintf("a divisor of --heads = %d", f.heads)}
	case f.heads/kv > 128:
		bad = &input.Error{Key: "--kv-heads", Value: fmt.Sprint(f.kvHeads), Expected: "at most 128 query heads on a KV head"}
	case f.kvBits != 4 && f.kvBits != 8 && f.kvBits != 16:
		bad = &input.Error{Key: "--kv-bits", Value: fmt.Sprint(f.kvBits), Expected: "4, 8 or 16"}
	case f.scales != noScales && f.scales != pim.ScalesInRows:
		bad = input.UnknownName("--kv-scales", f.scales, []string{noScales, pim.ScalesInRows})
	}
	shape := pim.HeadShape{HeadDim: f.headDim, ValueDim: f.valueDim, Queries: f.heads / max(kv, 1), ElementBits: 16, KVBits: f.kvBits}
	if f.scales == pim.ScalesInRows {
		shape.ScaleBytes = 4
	}
	return machine.Load{Context: f.context, KVHeads: kv, Shape: shape}, bad
}

// The usage of the flags of a head's widths.
const (
	headDimUsage  = "elements of a head, 8 to 1024, as far as a rank has room"
	valueDimUsage = "elements of a value where it is not as wide as a key: 8 to 1024 (default: --head-dim)"
)

// widthFlags names the flag of a width that does not fit a rank.
func widthFlags(err error) error {
	return input.Edit(err, func(bad *input.Error) {
		if bad.Key == "head_dim" || bad.Key == "value_dim" {
			bad.Key = "--" + strings.ReplaceAll(bad.Key, "_", "-")
		}
	})
}

// measure runs the load, and writes the command log and the timeline if requested.
func (f *pimAttentionFlags) measure(ctx context.Context, spec *pim.Spec, d *dram.Spec, load machine.Load, show *cli.Progress) (m *machine.Measurement, err error) {
	header := check.LogHeader{Spec: d, Ranks: 1, PrivateBuses: true, Allow: machine.WaivedRules(spec)}
	err = withTimeline(f.timeline, func(w *timeline.Writer) error {
		return withLog(f.commands, header, func(log dram.Observe) (err error) {
			see := func(clock int64, cmd dram.Command, a dram.Address, _ *machine.Instruction) {
				if log != nil {
					log(clock, cmd, a)
				}
			}
			if w != nil {
				rank, logged := timeline.NewRank(w, spec, d, load.Shape), see
				defer rank.Close()
				see = func(clock int64, cmd dram.Command, a dram.Address, in *machine.Instruction) {
					logged(clock, cmd, a, in)
					rank.Instruction(clock, cmd, a, in)
				}
			}
			m, err = machine.Measure(ctx, spec, d, load, see, show.Of)
			return err
		})
	})
	return m, err
}

// energyLaw verifies the law of energy, here without a band.
func energyLaw(e *dram.Millijoules) error {
	parts := []float64{e.Activate / 1e3, e.Read / 1e3, e.UnitRead / 1e3, e.Write / 1e3, e.Refresh / 1e3, e.Background / 1e3}
	total := e.Total / 1e3
	if bad := energy.Broken(parts, total, total, total); bad != "" {
		return fmt.Errorf("law %q is broken: %s", flow.LawEnergy, bad)
	}
	return nil
}
