package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system/power"
)

func (a *app) newPIMTableCommand() *cobra.Command {
	var g power.AttentionGrid
	var config cli.ConfigFlags
	var out string
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Tabulate latency and energy of decode attention on DIMM-PIM, for other simulators",
		Long: `Tabulate latency and energy of decode attention on DIMM-PIM as CSV, for other simulators.

A row is one layer's attention of a batch whose KV heads are dealt to ranks: the time of the busiest rank, with
refresh, and the joules of all ranks with their band. No transfers are in it: the links are the other simulator's.
Each row bounds the error of linear interpolation from the row before it, over contexts and over batches.`,
		Example: `  l3sim pim table > table.csv
  l3sim pim table --context 1024,8192,65536 --batch 1,16 --heads 32 --grouping 1,4 --ranks 16,64 --out out/table.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd)
			if err != nil {
				return err
			}
			rows, err := power.AttentionRows(cfg, &g)
			if err != nil {
				return input.Edit(err, func(bad *input.Error) {
					if !strings.Contains(bad.Key, ".") {
						bad.Key = "--" + bad.Key
					}
				})
			}
			return a.Output(out, attentionTable(rows).WriteCSV)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&g.Contexts, "context", []int{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}, "tokens of each request, rising")
	flags.Lookup("context").DefValue = "[256,512,...,131072]"
	flags.IntSliceVar(&g.Batches, "batch", []int{1, 2, 4, 8, 16, 32, 64, 128}, "requests, rising")
	flags.IntSliceVar(&g.Heads, "heads", []int{32}, "query heads of a layer, rising")
	flags.IntSliceVar(&g.Groups, "grouping", []int{1}, "query heads of a KV head, rising")
	flags.IntSliceVar(&g.Ranks, "ranks", []int{64}, "ranks that the KV heads are dealt to, rising")
	flags.IntVar(&g.HeadDim, "head-dim", 128, "elements of a head, 8 to 512")
	flags.StringVar(&out, "out", "", "write to this `file`, not to standard output")
	config.Register(cmd, cli.DRAMFlag, cli.PrecisionFlag, activationFlag, multipliersFlag)
	return cmd
}

func attentionTable(rows []power.AttentionRow) *tables.Table {
	t := &tables.Table{Columns: []string{"dram", "context_tokens", "batch", "query_heads", "kv_heads", "ranks", "latency_us", "energy_uj", "energy_low_uj", "energy_high_uj",
		"context_error", "batch_error", "not_estimated"}}
	for i := range rows {
		r := &rows[i]
		row := []any{r.DRAM, r.Context, r.Batch, r.Heads, r.KVHeads, r.Ranks}
		for _, v := range []float64{r.LatencyUS, r.EnergyUJ, r.EnergyLow, r.EnergyTop, r.ContextError, r.BatchError} {
			row = append(row, tables.Round(v, 9))
		}
		t.Add(append(row, r.NotEstimated)...)
	}
	return t
}
