package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/pim"
)

// pimAreaFlags are the flags of `pim area`.
type pimAreaFlags struct {
	spec        pim.AreaSpec
	multipliers int
	chip        float64
	config      cli.ConfigFlags
}

func (a *app) newPIMAreaCommand() *cobra.Command {
	var f pimAreaFlags
	cmd := &cobra.Command{
		Use:   "area",
		Short: "Areas of L3's units, and of the hardware that selected pages, narrow keys and values and merged outputs add",
		Long: `Areas of L3's units by count and process, and of the hardware that selected pages, narrow keys and values and
merged outputs add to them.

Areas are of 28 nm logic, from published cells and units, low and high (docs/lab/pim-timing.md names them). What is
beside the banks takes ten times as much in a DRAM process (L3, Table 5), which the column of a rank has. What nobody has published is "not estimated", and so is the share of
a DRAM chip without --chip-mm2.`,
		Example: `  l3sim pim area
  l3sim pim area --entries 8 --page 512 --kv-bits 4 --multipliers 8 --json`,
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
	flags.Float64Var(&f.chip, "chip-mm2", 0, "mm² of a DRAM chip, for the share that units take; 0: not known")
	f.config.Register(cmd)
	flags.BoolVar(&a.JSON, "json", false, cli.JSONUsage)
	return cmd
}

// pimArea counts and prints.
func (a *app) pimArea(cmd *cobra.Command, f *pimAreaFlags) error {
	if err := cli.Between("--multipliers", f.multipliers, 1, 128); err != nil {
		return err
	}
	if !(f.chip >= 0 && f.chip <= 1e4) {
		return &input.Error{Key: "--chip-mm2", Value: fmt.Sprint(f.chip), Expected: "0 (not known) to 10000"}
	}
	c, err := f.config.Load(cmd)
	if err != nil {
		return err
	}
	c.PIM.Multipliers = f.multipliers
	all, err := pim.Additions(&c.PIM, &c.DRAM.Spec, f.spec)
	if err != nil {
		return input.Edit(err, func(bad *input.Error) { bad.Key = "--" + strings.ReplaceAll(bad.Key, "_", "-") })
	}
	r := &pimAreaResult{L3: l3Areas{pim.L3BankArea, pim.L3RelayoutArea + pim.L3AdderArea + pim.L3SoftmaxArea, pim.BufferChipArea}}
	for _, u := range pim.Units(&c.PIM, &c.DRAM.Spec) {
		r.Units = append(r.Units, newUnitRow(&u, f.chip*1e6))
	}
	for i := range all {
		r.Additions = append(r.Additions, newAreaRow(&all[i]))
	}
	return a.Print(r, r.writeText)
}

// pimAreaResult is the JSON of pim area: µm².
type pimAreaResult struct {
	L3        l3Areas   `json:"l3"`
	Units     []unitRow `json:"units"`
	Additions []areaRow `json:"additions"`
}

// l3Areas is L3's own: of one unit at a bank, of the unit of a rank, and of the chip that has it.
type l3Areas struct {
	Bank       float64 `json:"bank_unit_um2"` // of one, in a logic process
	Rank       float64 `json:"rank_unit_um2"`
	BufferChip float64 `json:"buffer_chip_um2"`
}

// unitRow is a kind of L3's own units. What is not estimated is null.
type unitRow struct {
	Name  string   `json:"name"`
	Place string   `json:"place"`    // "bank", of a chip, or "rank", of its buffer chip
	Count int      `json:"count"`    // of a chip or a rank
	Each  *float64 `json:"each_um2"` // in logic of 28 nm; the middle of its band, as the others are
	Low   *float64 `json:"area_low_um2"`
	High  *float64 `json:"area_high_um2"` // all of them, in the process where they are
	Share *float64 `json:"share_of_chip"` // of the DRAM chip, or of the buffer chip
}

// newUnitRow returns a unit's area beside a chip of that many mm².
func newUnitRow(u *pim.Unit, chip float64) unitRow {
	r := unitRow{Name: u.Name, Place: "rank", Count: u.Count}
	of := pim.BufferChipArea
	if u.Bank {
		r.Place, of = "bank", chip
	}
	if a, known := u.Total(); known {
		each := (u.Each.Low + u.Each.High) / 2
		r.Each, r.Low, r.High = &each, &a.Low, &a.High
		if of > 0 {
			share := (a.Low + a.High) / 2 / of
			r.Share = &share
		}
	}
	return r
}

// cells returns the row's cells for people.
func (r *unitRow) cells() []string {
	cell := func(v *float64, unit float64, format string) string {
		if v == nil {
			return "not estimated"
		}
		return fmt.Sprintf(format, *v*unit)
	}
	together := cell(r.Low, 1e-6, "%.4f")
	if r.Low != nil && *r.High > *r.Low {
		together += cell(r.High, 1e-6, " to %.4f")
	}
	return []string{r.Name, r.Place, fmt.Sprint(r.Count), cell(r.Each, 1, "%.0f"), together, cell(r.Share, 100, "%.3g%%")}
}

// areaRow is an addition to L3's units: the parts of one, and the area of one and of all of a rank.
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
	return cli.Aligned(w, 0, func(t io.Writer) {
		fmt.Fprintf(t, "L3: %.0f µm² beside each bank of a chip, %.0f µm² in the buffer chip of %.0f mm² (28 nm; Table 5)\n\n", r.L3.Bank, r.L3.Rank, r.L3.BufferChip/1e6)
		fmt.Fprintln(t, "L3's own\tplace\tcount\teach, µm²\ttogether, mm²\tof the chip")
		for i := range r.Units {
			fmt.Fprintln(t, strings.Join(r.Units[i].cells(), "\t"))
		}
		fmt.Fprintln(t)
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
