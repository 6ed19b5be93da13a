package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/results"
)

// noScales is --kv-scales of keys and values with a scale of each tensor.
const noScales = "none"

// pimAttentionFlags are the flags of `pim attention`.
type pimAttentionFlags struct {
	context, heads, kvHeads, headDim, kvBits int
	scales                                   string

	config   cli.ConfigFlags
	commands string
	pages    pim.PageLoad
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
  l3sim pim attention --context 512 --commands log.csv && l3sim dram check log.csv
  l3sim pim attention --context 131072 --budget 4096 --page 512 --select bank --reuse 4`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimAttention(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.context, "context", 0, "tokens attended to, the newest included")
	flags.IntVar(&f.heads, "heads", 1, "query heads on the rank")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "KV heads that the query heads share (default: one each)")
	flags.IntVar(&f.headDim, "head-dim", 128, "elements of a head, 8 to 512")
	flags.IntVar(&f.kvBits, "kv-bits", 16, "bits of an element of keys and values: 4, 8 or 16, beside queries of 16")
	flags.StringVar(&f.scales, "kv-scales", noScales, "scale and zero of each token's key and value: none, or in the rows")
	f.config.Register(cmd, cli.DRAMFlag, cli.PrecisionFlag, activationFlag, multipliersFlag)
	flags.StringVar(&f.commands, "commands", "", "write every DRAM command of all heads to this `file`")
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	f.registerPages(flags)
	return cmd
}

// pimAttention measures and prints.
func (a *app) pimAttention(cmd *cobra.Command, f *pimAttentionFlags) error {
	if err := cli.RequireFlag(cmd, "context", "tokens attended to, such as --context 8192"); err != nil {
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
		return err
	}
	out := newPIMAttentionResult(load, &c.PIM, &c.DRAM.Spec, m, c.Energy.PIMRead.Estimate().Value)
	if err := out.EnergyMJ.Law(); err != nil {
		return err
	}
	return a.PrintAligned(out, 0, out.writeLines)
}

// load returns what the flags describe.
func (f *pimAttentionFlags) load() (pim.Load, error) {
	kv := cmp.Or(f.kvHeads, f.heads)
	if err := cmp.Or(cli.Between("--context", f.context, 1, 1<<30), cli.Between("--heads", f.heads, 1, 1<<12), cli.Between("--head-dim", f.headDim, 8, 512)); err != nil {
		return pim.Load{}, err
	}
	var bad error
	switch {
	case kv < 1 || f.heads%kv != 0:
		bad = &input.Error{Key: "--kv-heads", Value: fmt.Sprint(f.kvHeads), Expected: fmt.Sprintf("a divisor of --heads = %d", f.heads)}
	case f.heads/kv > 128:
		bad = &input.Error{Key: "--kv-heads", Value: fmt.Sprint(f.kvHeads), Expected: "at most 128 query heads on a KV head"}
	case f.kvBits != 4 && f.kvBits != 8 && f.kvBits != 16:
		bad = &input.Error{Key: "--kv-bits", Value: fmt.Sprint(f.kvBits), Expected: "4, 8 or 16"}
	case f.scales != noScales && f.scales != pim.ScalesInRows:
		bad = input.UnknownName("--kv-scales", f.scales, []string{noScales, pim.ScalesInRows})
	}
	shape := pim.HeadShape{HeadDim: f.headDim, Queries: f.heads / max(kv, 1), ElementBits: 16, KVBits: f.kvBits}
	if f.scales == pim.ScalesInRows {
		shape.ScaleBytes = 4
	}
	return pim.Load{Context: f.context, KVHeads: kv, Shape: shape}, bad
}

// measure runs the load, and writes the command log where one is asked for.
func (f *pimAttentionFlags) measure(ctx context.Context, spec *pim.Spec, d *dram.Spec, load pim.Load, show *cli.Progress) (*pim.Measurement, error) {
	if f.commands == "" {
		return pim.Measure(ctx, spec, d, load, nil, show.Of)
	}
	var m *pim.Measurement
	header := check.LogHeader{Spec: d, Ranks: 1, PrivateBuses: true, Allow: pim.WaivedRules(spec)}
	err := results.WriteFileAtomic(f.commands, func(w io.Writer) error {
		log := check.NewLogWriter(w, header)
		var err error
		if m, err = pim.Measure(ctx, spec, d, load, log.Write, show.Of); err != nil {
			return err
		}
		return log.Flush()
	})
	return m, err
}

// pimAttentionResult is the JSON of pim attention.
type pimAttentionResult struct {
	Context    int    `json:"context"`
	Heads      int    `json:"heads"`
	KVHeads    int    `json:"kv_heads"`
	HeadDim    int    `json:"head_dim"`
	KVBits     int    `json:"kv_bits"`
	PaddedDim  int    `json:"padded_head_dim"`
	Precision  string `json:"precision"`
	Activation string `json:"activation"`
	TCKps      int64  `json:"tCK_ps"`

	QueryHead pimQueryHead `json:"query_head"`

	// All heads in sequence: their attention, and what appends and refresh add up to the total.
	Cycles         int64            `json:"cycles"`
	AppendCycles   int64            `json:"append_cycles"`
	RefreshCycles  int64            `json:"refresh_cycles"`
	TotalCycles    int64            `json:"total_cycles"`
	Refreshes      int64            `json:"refreshes"`
	TotalMS        float64          `json:"total_ms"`
	TotalOccupancy pim.Occupancy    `json:"total_occupancy"`
	Commands       map[string]int64 `json:"commands"`
	EnergyMJ       cli.EnergyMJ     `json:"energy_mj"`
}

// pimQueryHead is one query head alone, without append and refresh, however many there are.
type pimQueryHead struct {
	Cycles       int64         `json:"cycles"`
	Phases       pim.Phases    `json:"phases"`
	StallCycles  int64         `json:"stall_cycles"`
	AppendCycles int64         `json:"append_cycles"` // what its append would add
	PeakShare    float64       `json:"peak_share"`
	Occupancy    pim.Occupancy `json:"occupancy"`
}

func newPIMAttentionResult(l pim.Load, spec *pim.Spec, d *dram.Spec, m *pim.Measurement, unitRead float64) *pimAttentionResult {
	joules := m.Energy.UnitReads(unitRead)
	r := &pimAttentionResult{
		Context: l.Context, Heads: l.KVHeads * l.Shape.Queries, KVHeads: l.KVHeads,
		HeadDim: l.Shape.HeadDim, KVBits: l.Shape.KVBits, PaddedDim: m.Geometry.PaddedDim,
		Precision: spec.Precision.Preset, Activation: spec.Activation, TCKps: int64(d.TCK),
		QueryHead: pimQueryHead{m.Cycles, m.Phases, m.Phases.Stall, m.AppendCycles, m.PeakShare, m.Occupancy},
		Cycles:    m.AllCycles, AppendCycles: m.AllAppends, RefreshCycles: m.RefreshCycles, TotalCycles: m.TotalCycles, Refreshes: m.Refreshes,
		TotalMS: d.Nanoseconds(m.TotalCycles) / 1e6, TotalOccupancy: m.TotalOccupancy, Commands: dram.CommandCounts(m.Commands[:]),
		EnergyMJ: cli.NewEnergy(d, &joules),
	}
	return r
}

func (r *pimAttentionResult) writeLines(t io.Writer) {
	fmt.Fprintf(t, "one query head alone, %d tokens, d = %d, precision %s, keys and values of %d bits, %s activation\n\n", r.Context, r.HeadDim, r.Precision, r.KVBits, r.Activation)
	one := &r.QueryHead
	share := func(clocks int64) string { return fmt.Sprintf("%.1f%%", 100*float64(clocks)/float64(one.Cycles)) }
	for _, p := range []struct {
		name   string
		clocks int64
	}{{"load", one.Phases.Load}, {"score", one.Phases.Score}, {"context", one.Phases.Context}, {"row switches", one.Phases.RowSwitches},
		{"read-out, softmax", one.Phases.ReadOut}, {"drain", one.Phases.Drain}} {
		fmt.Fprintf(t, "%s\t%d\t%s\n", p.name, p.clocks, share(p.clocks))
	}
	fmt.Fprintf(t, "clocks\t%d\t%.3f ms, %.1f%% of the peak\n", one.Cycles, float64(one.Cycles)*float64(r.TCKps)/1e9, 100*one.PeakShare)
	fmt.Fprintf(t, "bubbles\t%d\tof score and context: the bank PUs wait for the rank's bus\n", one.StallCycles)
	fmt.Fprintf(t, "append\t%d\ton top\n", one.AppendCycles)
	if r.PaddedDim != r.HeadDim {
		fmt.Fprintf(t, "padding\t%d of %d elements\tzeros\n", r.PaddedDim-r.HeadDim, r.PaddedDim)
	}
	printOccupancy(t, &one.Occupancy)

	fmt.Fprintf(t, "\n%d query heads on %d KV heads, with append and refresh\n\n", r.Heads, r.KVHeads)
	fmt.Fprintf(t, "clocks\t%d\t%.3f ms\n", r.TotalCycles, r.TotalMS)
	fmt.Fprintf(t, "appends\t%d\tof it\n", r.AppendCycles)
	fmt.Fprintf(t, "refresh\t%d\t%d REFs\n", r.RefreshCycles, r.Refreshes)
	r.EnergyMJ.WriteLine(t)
	printOccupancy(t, &r.TotalOccupancy)
}

func printOccupancy(w io.Writer, o *pim.Occupancy) {
	fmt.Fprintf(w, "busy\t\tbank PUs %.1f%%, command bus %.1f%%, data bus %.1f%%, adders %.1f%%, softmax %.1f%%\n",
		100*o.BankPUs, 100*o.CommandBus, 100*o.DataBus, 100*o.Adders, 100*o.Softmax)
}
