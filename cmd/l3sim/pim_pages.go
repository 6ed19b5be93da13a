package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
)

func (f *pimAttentionFlags) registerPages(flags *pflag.FlagSet) {
	l := &f.pages
	flags.IntVar(&l.Budget, "budget", 0, "attend to selected pages, of this many tokens in all")
	flags.IntVar(&l.Page, "page", 512, "tokens of a page")
	flags.IntVar(&l.Logical, "logical-page", 16, "tokens with bounds of their own")
	flags.StringVar(&l.Select, "select", tables.SelectBank, "`units` that score pages: those at the banks, the rank's, the gpu (no clocks here) or none")
	flags.IntVar(&l.Reuse, "reuse", 1, "steps that a list of pages serves")
	flags.IntVar(&l.TopK, "top-k-latency", 64, "clocks from the last score to the list: a register an entry, at most 64 of them")
	flags.Uint64Var(&l.Seed, "seed", 1, "seed of keys and queries")
	flags.Float64Var(&l.Local, "local", 0.98, "correlation of successive keys")
}

// checkPages refuses flags of pages without --budget, and --commands and --timeline together with
// it.
func (f *pimAttentionFlags) checkPages(cmd *cobra.Command) error {
	names, expected := []string{"page", "logical-page", "select", "reuse", "top-k-latency", "seed", "local"}, "--budget beside it"
	if cmd.Flags().Changed("budget") {
		names, expected = []string{"commands", "timeline"}, "to be left out with --budget"
	}
	for _, name := range names {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			return &input.Error{Key: "--" + name, Value: flag.Value.String(), Expected: expected}
		}
	}
	return nil
}

// pimPagesResult is the JSON of pim attention with pages.
type pimPagesResult struct {
	Context int `json:"context"`
	Queries int `json:"queries"` // heads of the group
	HeadDim int `json:"head_dim"`
	// ValueDim is the width of values if it differs from that of keys.
	ValueDim int `json:"value_dim,omitempty"`
	KVBits   int `json:"kv_bits"`
	values.PageLoad
	*values.PageMeasurement
	Speedup    float64 `json:"speedup"`
	List       []int   `json:"list"`
	TCKps      int64   `json:"tCK_ps"`
	Activation string  `json:"activation"`
}

// pimPages measures a head that attends to pages, and prints the result.
func (a *app) pimPages(f *pimAttentionFlags, spec *pim.Spec, d *dram.Spec, load machine.Load) error {
	if load.KVHeads != 1 {
		return &input.Error{Key: "--kv-heads", Value: fmt.Sprint(load.KVHeads), Expected: "1 with --budget, which times one KV head"}
	}
	l := f.pages
	l.Context, l.Shape = load.Context, load.Shape
	m, err := values.MeasurePages(spec, d, l)
	if err != nil {
		return input.Edit(err, func(bad *input.Error) {
			if !strings.Contains(bad.Key, ".") {
				bad.Key = "--" + strings.ReplaceAll(bad.Key, "_", "-")
			}
		})
	}
	valueDim := l.Shape.ValueDim
	if valueDim == l.Shape.HeadDim {
		valueDim = 0
	}
	r := &pimPagesResult{Context: l.Context, Queries: l.Shape.Queries, HeadDim: l.Shape.HeadDim, ValueDim: valueDim, KVBits: l.Shape.KVBits, PageLoad: l, PageMeasurement: m,
		Speedup: float64(m.DenseClocks) / float64(m.TotalClocks), List: m.List, TCKps: int64(d.TCK), Activation: spec.Activation}
	return a.PrintAligned(r, 0, func(t io.Writer) {
		fmt.Fprintf(t, "one KV head of %d query heads, %d of %d tokens in %d pages, %s activation\n\n", r.Queries, m.Tokens, r.Context, m.Pages, r.Activation)
		fmt.Fprintf(t, "rows\t%d\tof keys, and as many of values\n", m.Rows)
		fmt.Fprintf(t, "attention\t%d\tclocks\n", m.AttentionClocks)
		fmt.Fprintf(t, "selection\t%d\tclocks for %d bounds, once in %d steps\n", m.SelectClocks, m.Bounds, l.Reuse)
		fmt.Fprintf(t, "step\t%d\tclocks, %.3f ms\n", m.TotalClocks, float64(m.TotalClocks)*float64(r.TCKps)/1e9)
		fmt.Fprintf(t, "dense\t%d\tclocks, %.1f times as many\n", m.DenseClocks, r.Speedup)
	})
}
