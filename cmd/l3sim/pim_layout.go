package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

type pimLayoutFlags struct {
	token, dim, valueDim int
	kv, out              string
	full                 bool
	config               cli.ConfigFlags
}

func (a *app) newPIMLayoutCommand() *cobra.Command {
	var f pimLayoutFlags
	cmd := &cobra.Command{
		Use:   "layout",
		Short: "Show where a token's key or value lies in the banks, as text and as a picture",
		Long: `Show where the bursts of a token's FP16 key or value lie in the banks, and with --full each element.

The row counts from the first row of the head, the column is that of a 64-byte burst over all chips, and the byte is
that within the chip's share of the burst. Elements beyond the head dimension are zeros. --out draws the token's row of
keys and that of values, bank by bank and column by column, and its elements over the chips.`,
		Example: `  l3sim pim layout --token 5 --head-dim 128 --out layout.svg
  l3sim pim layout --token 1000 --head-dim 80 --kv v --set dram.preset=ddr4-3200-8gb-x8`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimLayout(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.token, "token", 0, "token of the head, from 0")
	flags.IntVar(&f.dim, "head-dim", 128, headDimUsage)
	flags.IntVar(&f.valueDim, "value-dim", 0, valueDimUsage)
	flags.StringVar(&f.kv, "kv", "k", "`tensor`: k or v")
	flags.BoolVar(&f.full, "full", false, "list each element, with its chip and byte")
	flags.StringVar(&f.out, "out", "", "draw the layout into this `file`: .png, .svg or .pdf")
	f.config.Register(cmd, cli.DRAMFlag)
	return cmd
}

func (a *app) pimLayout(cmd *cobra.Command, f *pimLayoutFlags) error {
	kv := pim.Key
	switch f.kv {
	case "k":
	case "v":
		kv = pim.Value
	default:
		return input.UnknownName("--kv", f.kv, []string{"k", "v"})
	}
	if err := cli.Between("--token", f.token, 0, 1<<24); err != nil {
		return err
	}
	format := ""
	if err := cli.NotEmpty(cmd, "out"); err != nil {
		return err
	}
	if f.out != "" {
		var err error
		if format, err = figure.Format("--out", f.out); err != nil {
			return err
		}
		if err := cli.WritableFile("--out", f.out); err != nil {
			return err
		}
	}
	c, err := f.config.Load(cmd)
	if err != nil {
		return err
	}
	m, err := pim.NewMapping(&c.DRAM.Spec, pim.HeadShape{HeadDim: f.dim, ValueDim: f.valueDim, Queries: 1, ElementBits: 16})
	if err != nil {
		return widthFlags(err)
	}
	fmt.Fprintf(a.Stdout, `token %d, %s, d = %d (%d with padding), FP16 on %d chips x%d
%d bursts a token; %d tokens share a column of keys, %d a column of values; %d tokens a row over %d banks
re-layout: groups of %d beats, data delayed by n = %d clocks

`, f.token, kv, m.Elements(kv), m.Padded(kv), m.Chips, c.DRAM.DeviceWidth, m.Bursts(kv), m.ChunkTokens, m.ColumnTokens,
		m.RowTokens, m.Banks, m.Exchange.Group, m.Exchange.Delay())
	if err := cli.Aligned(a.Stdout, tabwriter.AlignRight, func(table io.Writer) { f.list(table, &m, kv) }); err != nil || f.out == "" {
		return err
	}
	picture := layoutPicture(&m, f.token, kv)
	return results.WriteFileAtomic(f.out, func(w io.Writer) error { return picture.Write(w, format) })
}

// list writes a line for each burst, or for each element.
func (f *pimLayoutFlags) list(table io.Writer, m *pim.Mapping, kv pim.KV) {
	if !f.full {
		fmt.Fprintln(table, "elements\tbank group\tbank\trow\tcolumn\t")
		for e := 0; e < m.Padded(kv); e += m.BurstElements() {
			p := m.Place(kv, f.token, e)
			fmt.Fprintf(table, "%d to %d\t%d\t%d\t%d\t%d\t\n", e, e+m.BurstElements()-1, p.BankGroup, p.Bank, p.Row, p.Column)
		}
		return
	}
	fmt.Fprintln(table, "element\tchip\tbank group\tbank\trow\tcolumn\tbyte\t")
	for e := range m.Padded(kv) {
		p := m.Place(kv, f.token, e)
		note := ""
		if e >= m.Elements(kv) {
			note = "  padding"
		}
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", e, p.Chip, p.BankGroup, p.Bank, p.Row, p.Column, p.Bit/8, note)
	}
}
