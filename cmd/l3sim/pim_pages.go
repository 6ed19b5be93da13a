package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
)

// pagesFlags are the flags of `pim attention` for selected pages.
type pagesFlags struct{ load pim.PageLoad }

// pageOnly are the flags that need --budget.
var pageOnly = []string{"page", "logical-page", "select", "reuse", "top-k-latency", "seed", "local"}

// register adds the flags that say how pages are chosen.
func (p *pagesFlags) register(flags *pflag.FlagSet) {
	l := &p.load
	flags.IntVar(&l.Budget, "budget", 0, "attend to selected pages, of this many tokens in all")
	flags.IntVar(&l.Page, "page", 512, "tokens of a page")
	flags.IntVar(&l.Logical, "logical-page", 16, "tokens with bounds of their own")
	flags.StringVar(&l.Select, "select", pim.SelectBank, "what scores pages: the units at the banks, the rank's, the gpu (no clocks here) or none")
	flags.IntVar(&l.Reuse, "reuse", 1, "steps that a list of pages serves")
	flags.IntVar(&l.TopK, "top-k-latency", 64, "clocks from the last score to the list: a register an entry, at most 64 of them")
	flags.Uint64Var(&l.Seed, "seed", 1, "seed of keys and queries")
	flags.Float64Var(&l.Local, "local", 0.98, "correlation of successive keys")
}

// given says whether pages are asked for.
func (p *pagesFlags) given(cmd *cobra.Command) (bool, error) {
	if cmd.Flags().Changed("budget") {
		for _, name := range []string{"commands"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed {
				return false, &input.Error{Key: "--" + name, Value: flag.Value.String(), Expected: "to be left out with --budget"}
			}
		}
		return true, nil
	}
	for _, name := range pageOnly {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			return false, &input.Error{Key: "--" + name, Value: flag.Value.String(), Expected: "--budget beside it"}
		}
	}
	return false, nil
}

// pimPagesResult is the JSON of pim attention with pages.
type pimPagesResult struct {
	Context    int     `json:"context"`
	Queries    int     `json:"queries"` // heads of the group
	HeadDim    int     `json:"head_dim"`
	KVBits     int     `json:"kv_bits"`
	Budget     int     `json:"budget"`
	Page       int     `json:"page"`
	Logical    int     `json:"logical_page"`
	Select     string  `json:"select"`
	Reuse      int     `json:"reuse"`
	Pages      int     `json:"pages"`
	Tokens     int     `json:"tokens"`
	Rows       int     `json:"rows"` // of keys, and as many of values
	Bounds     int     `json:"bounds"`
	Attention  int64   `json:"attention_cycles"`
	Selecting  int64   `json:"select_cycles"` // of a list
	Total      int64   `json:"total_cycles"`  // of a step on average
	Dense      int64   `json:"dense_cycles"`
	Speedup    float64 `json:"speedup"`
	List       []int   `json:"list"`
	TCKps      int64   `json:"tCK_ps"`
	Activation string  `json:"activation"`
}

// pimPages measures a head that attends to pages, and prints.
func (a *app) pimPages(f *pimAttentionFlags, spec *pim.Spec, d *dram.Spec, load pim.Load) error {
	if load.KVHeads != 1 {
		return &input.Error{Key: "--kv-heads", Value: fmt.Sprint(load.KVHeads), Expected: "1 with --budget, which times one KV head"}
	}
	l := f.pages.load
	l.Context, l.Shape = load.Context, load.Shape
	m, err := pim.MeasurePages(spec, d, l)
	if err != nil {
		return input.Edit(err, func(bad *input.Error) {
			if !strings.Contains(bad.Key, ".") {
				bad.Key = "--" + strings.ReplaceAll(bad.Key, "_", "-")
			}
		})
	}
	r := &pimPagesResult{
		Context: l.Context, Queries: l.Shape.Queries, HeadDim: l.Shape.HeadDim, KVBits: l.Shape.KVBits, Budget: l.Budget, Page: l.Page, Logical: l.Logical,
		Select: l.Select, Reuse: l.Reuse, Pages: m.Pages, Tokens: m.Tokens, Rows: m.Rows, Bounds: m.Bounds, Attention: m.AttentionCycles, Selecting: m.SelectCycles,
		Total: m.TotalCycles, Dense: m.DenseCycles, Speedup: float64(m.DenseCycles) / float64(m.TotalCycles), List: m.List, TCKps: int64(d.TCK), Activation: spec.Activation,
	}
	return a.Print(r, r.writeText)
}

func (r *pimPagesResult) writeText(w io.Writer) error {
	return cli.Aligned(w, 0, func(t io.Writer) {
		fmt.Fprintf(t, "one KV head of %d query heads, %d of %d tokens in %d pages, %s activation\n\n", r.Queries, r.Tokens, r.Context, r.Pages, r.Activation)
		fmt.Fprintf(t, "rows\t%d\tof keys, and as many of values\n", r.Rows)
		fmt.Fprintf(t, "attention\t%d\tclocks\n", r.Attention)
		fmt.Fprintf(t, "selection\t%d\tclocks for %d bounds, once in %d steps\n", r.Selecting, r.Bounds, r.Reuse)
		fmt.Fprintf(t, "step\t%d\tclocks, %.3f ms\n", r.Total, float64(r.Total)*float64(r.TCKps)/1e9)
		fmt.Fprintf(t, "dense\t%d\tclocks, %.1f times as many\n", r.Dense, r.Speedup)
	})
}
