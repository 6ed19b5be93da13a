package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
)

// pimAreaFlags are the flags of `pim area`.
type pimAreaFlags struct {
	spec        pim.AreaSpec
	multipliers int
	config      configFlags
	json        bool
}

func (a *app) newPIMAreaCommand() *cobra.Command {
	var f pimAreaFlags
	cmd := &cobra.Command{
		Use:   "area",
		Short: "Count the hardware that selected pages, narrow keys and values and merged outputs add to L3's, and estimate its area",
		Long: `Count the hardware that selected pages, narrow keys and values and merged outputs add to L3's, and
estimate its area.

Areas are of 28 nm logic, from published cells and units, low and high (docs/pim-timing.md names them). What is
beside the banks takes ten times as much in a DRAM process (L3, Table 5), which the column of a rank has.`,
		Example: `  l3sim pim area
  l3sim pim area --entries 8 --page 512 --kv-bits 4 --multipliers 8 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimArea(cmd, &f) },
	}
	flags, s := cmd.Flags(), &f.spec
	s.Shape.ElementBits = 16
	flags.IntVar(&s.Shape.HeadDim, "head-dim", 128, "elements of a head, 8 to 512")
	flags.IntVar(&s.Shape.Queries, "queries", 8, "query heads on a KV head")
	flags.IntVar(&s.Shape.KVBits, "kv-bits", 8, "bits of an element of keys and values: 4, 8 or 16")
	flags.IntVar(&f.multipliers, "multipliers", 8, "multipliers of a set beside a bank of a chip, where L3 has four")
	flags.IntVar(&s.Entries, "entries", 64, "entries of a list of pages")
	flags.IntVar(&s.Context, "context", 131072, "tokens of a context at most")
	flags.IntVar(&s.Page, "page", 64, "tokens of a page")
	flags.IntVar(&s.Logical, "logical-page", 16, "tokens with bounds of their own")
	f.config.register(cmd)
	flags.BoolVar(&f.json, "json", false, jsonUsage)
	return cmd
}

// pimArea counts and prints.
func (a *app) pimArea(cmd *cobra.Command, f *pimAreaFlags) error {
	if err := between("--multipliers", f.multipliers, 1, 128); err != nil {
		return err
	}
	c, err := f.config.load(cmd)
	if err != nil {
		return err
	}
	c.PIM.Multipliers = f.multipliers
	all, err := pim.Additions(&c.PIM, &c.DRAM.Spec, f.spec)
	if err != nil {
		return input.Edit(err, func(bad *input.Error) { bad.Key = "--" + strings.ReplaceAll(bad.Key, "_", "-") })
	}
	r := &pimAreaResult{L3: l3Areas{pim.L3BankArea, pim.L3RelayoutArea + pim.L3AdderArea + pim.L3SoftmaxArea, pim.BufferChipArea}}
	for i := range all {
		r.Additions = append(r.Additions, newAreaRow(&all[i]))
	}
	return a.print(f.json, r, r.writeText)
}

// pimAreaResult is the JSON of pim area: µm².
type pimAreaResult struct {
	L3        l3Areas   `json:"l3"`
	Additions []areaRow `json:"additions"`
}

type l3Areas struct {
	Bank       float64 `json:"bank_unit_um2"` // of one, in a logic process
	Rank       float64 `json:"rank_unit_um2"`
	BufferChip float64 `json:"buffer_chip_um2"`
}

type areaRow struct {
	Name  string         `json:"name"`
	What  string         `json:"what"`
	Place string         `json:"place"`
	Count int            `json:"of_a_rank"`
	Parts map[string]int `json:"parts"` // of one
	Low   float64        `json:"area_low_um2"`
	High  float64        `json:"area_high_um2"`
	// Of a rank, what is beside banks in a DRAM process.
	RankLow  float64 `json:"rank_low_um2"`
	RankHigh float64 `json:"rank_high_um2"`
}

func newAreaRow(a *pim.Addition) areaRow {
	area, factor := a.Area(), float64(a.Count)
	r := areaRow{Name: a.Name, What: a.What, Place: "rank", Count: a.Count, Parts: map[string]int{}, Low: area.Low, High: area.High}
	if a.Bank {
		r.Place = "bank"
		factor *= pim.DRAMProcess
	}
	r.RankLow, r.RankHigh = factor*area.Low, factor*area.High
	for p, n := range a.Parts {
		if n > 0 {
			r.Parts[pim.Part(p).String()] = n
		}
	}
	return r
}

func (r *pimAreaResult) writeText(w io.Writer) error {
	return aligned(w, 0, func(t io.Writer) {
		fmt.Fprintf(t, "L3: %.0f µm² beside each bank of a chip, %.0f µm² in the buffer chip of %.0f mm² (28 nm; Table 5)\n\n", r.L3.Bank, r.L3.Rank, r.L3.BufferChip/1e6)
		fmt.Fprintln(t, "addition\tplace\teach, µm²\tof L3's unit\ta rank, mm²\tparts")
		for i := range r.Additions {
			x := &r.Additions[i]
			unit := r.L3.Rank
			if x.Place == "bank" {
				unit = r.L3.Bank
			}
			fmt.Fprintf(t, "%s\t%s\t%.0f to %.0f\t%.1f%% to %.1f%%\t%.4f to %.4f\t%s\n", x.Name, x.Place, x.Low, x.High, 100*x.Low/unit, 100*x.High/unit, x.RankLow/1e6, x.RankHigh/1e6, x.parts())
		}
	})
}

// parts returns the parts of one in words.
func (x *areaRow) parts() string {
	var words []string
	for p := range pim.Parts {
		if n := x.Parts[pim.Part(p).String()]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, strings.ReplaceAll(pim.Part(p).String(), "_", " ")))
		}
	}
	return strings.Join(words, ", ")
}
