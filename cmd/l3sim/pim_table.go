package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// Forms of `pim table`.
const (
	formCSV              = "csv"
	formJSON             = "json"
	formLLMServingSim    = "llmservingsim"
	formLLMServingSimPIM = "llmservingsim-pim"
	formVidur            = "vidur"
)

// tableForms returns the forms that a table can be written in, by name.
func tableForms() []string {
	return []string{formCSV, formJSON, formLLMServingSim, formLLMServingSimPIM, formVidur}
}

// pimTableFlags are the flags of `pim table`.
type pimTableFlags struct {
	grid   system.AttentionGrid
	drams  []string
	form   string
	out    string
	config cli.ConfigFlags
}

func (a *app) newPIMTableCommand() *cobra.Command {
	var f pimTableFlags
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Tabulate latency and energy of decode attention on DIMM-PIM, for other simulators",
		Long: `Tabulate latency and energy of decode attention on DIMM-PIM, for other simulators.

A row is one layer's attention of a batch whose KV heads are dealt to ranks: the time of the busiest rank, with
refresh, and the joules of all of them (docs/lab/energy.md) with their band. Nothing moves to the ranks or from them: the
links are the other simulator's. Each row bounds the error of linear interpolation from the row before it, over
contexts and over batches.

Forms: csv and json have all columns. llmservingsim is the rows of attention.csv in a profile of LLMServingSim 2 that decode
alone; llmservingsim-pim is a file for its configs/pim with the line for pim_model.py in a comment; vidur is the
decoding rows of Vidur's attention.csv. In these three kv is the history, a token less than the context, and
the first grouping, heads, ranks and DRAM are taken.`,
		Example: `  l3sim pim table > table.csv
  l3sim pim table --context 1024,8192,65536 --batch 1,16 --heads 32 --grouping 1,4 --ranks 16,64 --form json
  l3sim pim table --heads 32 --grouping 4 --ranks 4 --form llmservingsim --out out/attention.csv
  l3sim pim table --heads 32 --grouping 4 --ranks 1 --form llmservingsim-pim --out out/DDR4_l3.ini`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pimTable(cmd, &f) },
	}
	flags, g := cmd.Flags(), &f.grid
	flags.IntSliceVar(&g.Contexts, "context", []int{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072}, "tokens of each request, rising")
	flags.IntSliceVar(&g.Batches, "batch", []int{1, 2, 4, 8, 16, 32, 64, 128}, "requests, rising")
	flags.IntSliceVar(&g.Heads, "heads", []int{32}, "query heads of a layer, rising")
	flags.IntSliceVar(&g.Groups, "grouping", []int{1}, "query heads of a KV head, rising")
	flags.IntSliceVar(&g.Ranks, "ranks", []int{64}, "ranks that the KV heads are dealt to, rising")
	flags.IntVar(&g.HeadDim, "head-dim", 128, "elements of a head, 8 to 512")
	flags.StringSliceVar(&f.drams, "dram", []string{"ddr4-3200-8gb-x8"}, "DRAM parts, or FILE.toml with your own ('l3sim dram spec' lists them)")
	flags.StringVar(&f.form, "form", formCSV, "form of the table: "+strings.Join(tableForms(), ", "))
	flags.StringVar(&f.out, "out", "", "write to this `file`, not to standard output")
	f.config.Register(cmd, cli.PrecisionFlag, activationFlag, multipliersFlag)
	return cmd
}

// pimTable tabulates and writes.
func (a *app) pimTable(cmd *cobra.Command, f *pimTableFlags) error {
	if !slices.Contains(tableForms(), f.form) {
		return input.UnknownName("--form", f.form, tableForms())
	}
	var rows []system.AttentionRow
	var line *system.AttentionLine
	var first *configs.Config
	for _, name := range f.drams {
		o, err := f.config.Given(cmd)
		if err != nil {
			return err
		}
		o.Flags = append(o.Flags, configs.Flag{Name: "--dram", Key: "dram.preset", Value: name})
		cfg, err := system.Load(o)
		if err != nil {
			return err
		}
		if first == nil {
			first = cfg
		}
		if f.form == formLLMServingSimPIM {
			line, err = system.NewAttentionLine(cfg, &f.grid)
		} else {
			var more []system.AttentionRow
			more, err = system.AttentionRows(cfg, f.own())
			rows = append(rows, more...)
		}
		if err != nil {
			return input.Edit(err, func(bad *input.Error) {
				if !strings.Contains(bad.Key, ".") {
					bad.Key = "--" + bad.Key
				}
			})
		}
		if f.foreign() {
			break
		}
	}
	write := func(w io.Writer) error {
		switch f.form {
		case formJSON:
			return results.WriteJSON(w, map[string]any{"schema": "l3sim/attention/1", "rows": rows})
		case formLLMServingSim:
			return writeLLMServingSim(w, rows)
		case formLLMServingSimPIM:
			return writePIMINI(w, first, &f.grid, line)
		case formVidur:
			return writeVidur(w, rows, &f.grid)
		}
		return writeAttentionCSV(w, rows)
	}
	if f.out != "" {
		return results.WriteFileAtomic(f.out, write)
	}
	return write(a.Stdout)
}

// foreign says that the form is another simulator's.
func (f *pimTableFlags) foreign() bool { return f.form != formCSV && f.form != formJSON }

// own returns the grid. A foreign form has one shape, and its contexts lack the step's own token, which is added.
func (f *pimTableFlags) own() *system.AttentionGrid {
	g := f.grid
	if f.foreign() {
		g.Heads, g.Groups, g.Ranks, g.Contexts = g.Heads[:min(1, len(g.Heads))], g.Groups[:min(1, len(g.Groups))], g.Ranks[:min(1, len(g.Ranks))], slices.Clone(g.Contexts)
		for i := range g.Contexts {
			g.Contexts[i]++
		}
	}
	return &g
}

// decimal writes a number as CSV files have it.
func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }

func writeAttentionCSV(w io.Writer, rows []system.AttentionRow) error {
	t := results.Table{Columns: []string{"dram", "context_tokens", "batch", "query_heads", "kv_heads", "ranks", "latency_us", "energy_uj", "energy_low_uj", "energy_high_uj", "context_error", "batch_error", "not_estimated"}}
	for i := range rows {
		r := &rows[i]
		row := []string{r.DRAM}
		for _, n := range []int{r.Context, r.Batch, r.Heads, r.KVHeads, r.Ranks} {
			row = append(row, strconv.Itoa(n))
		}
		for _, v := range []float64{r.LatencyUS, r.EnergyUJ, r.EnergyLow, r.EnergyTop, r.ContextError, r.BatchError} {
			row = append(row, decimal(v))
		}
		t.Rows = append(t.Rows, append(row, r.NotEstimated))
	}
	return t.WriteCSV(w)
}

// writeLLMServingSim writes rows of profiler/perf/HARDWARE/MODEL/VARIANT/tpN/attention.csv of LLMServingSim 2
// (https://github.com/casys-kaist/LLMServingSim, docs/docs/profiler/output-bundle.md).
func writeLLMServingSim(w io.Writer, rows []system.AttentionRow) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(b, "0,0,%d,%d,%s\n", r.Batch, r.Context-1, decimal(r.LatencyUS))
	}
	return b.Flush()
}

// writePIMINI writes a file of LLMServingSim's configs/pim (docs/docs/reference/pim-config.md), with all keys that it reads, and
// the coefficients that its serving/core/pim_model.py has by the file's name, for its base model.
func writePIMINI(w io.Writer, cfg *configs.Config, g *system.AttentionGrid, l *system.AttentionLine) error {
	s := &cfg.DRAM.Spec
	megabytes := int64(cfg.RankRoom()) >> 20 * int64(g.Ranks[0])
	rows := int64(cfg.RankRoom()) / (int64(s.RowBytes()) * int64(s.Banks()))
	lacks := ""
	if l.NotEstimated != "" {
		lacks = "# idle_power and peak_power lack the " + l.NotEstimated + ".\n"
	}
	_, err := fmt.Fprintf(w, `# %s with L3's units on %d ranks of a channel, by l3sim pim table.
# For attn_model in serving/core/pim_model.py, under this file's name; %d query heads of %d, %d a KV head; within %.2g%% from %d to %d tokens:
#     {"slope": %.4f, "intercept": %.4f}
%s[dram_structure]
bankgroups = %d
banks_per_group = %d
rows = %d
columns = %d
device_width = %d
[timing]
tCK = %.4f
CL = %d
[system]
channel_size = %d
bus_width = %d
[other]
data_rate = %d # MT/s
idle_power = %.0f # mW, of all ranks
peak_power = %.0f # mW, of all ranks as they attend
`, cfg.DRAM.Preset, g.Ranks[0], g.Heads[0], g.HeadDim, g.Groups[0], 100*l.Error, g.Contexts[0], g.Contexts[len(g.Contexts)-1], l.SlopeNS, l.InterceptNS,
		lacks, s.BankGroups, s.BanksPerGroup, rows, s.Columns, s.DeviceWidth, s.TCK.Seconds()*1e9, s.CL, megabytes, s.BusWidth,
		int64(2e-6/s.TCK.Seconds()+0.5), 1e3*l.IdleW, 1e3*l.BusyW)
	return err
}

// vidurBlock is the tokens of a page that Vidur's published profiles have.
const vidurBlock = 16

// writeVidur writes rows of data/profiling/compute/DEVICE/MODEL/attention.csv of Vidur (https://github.com/microsoft/vidur):
// those columns that its predictor filters by and learns from.
func writeVidur(w io.Writer, rows []system.AttentionRow, g *system.AttentionGrid) error {
	b := bufio.NewWriter(w)
	operations := []string{"attn_prefill", "attn_decode", "attn_kv_cache_save", "attn_input_reshape", "attn_output_reshape"}
	columns := []string{"n_embd", "n_q_head", "n_kv_head", "block_size", "num_tensor_parallel_workers", "max_model_len", "batch_size", "prefill_chunk_size", "kv_cache_size", "is_prefill", "attention_backend"}
	for _, o := range operations {
		columns = append(columns, "time_stats."+o+".median")
	}
	fmt.Fprintln(b, strings.Join(columns, ","))
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(b, "%d,%d,%d,%d,1,%d,%d,0,%d,False,l3sim", r.Heads*g.HeadDim, r.Heads, r.KVHeads, vidurBlock, rows[len(rows)-1].Context, r.Batch, r.Context-1)
		for _, o := range operations {
			ms := 0.0 // of what the ranks do as they attend, or of what is not done there
			if o == "attn_decode" {
				ms = r.LatencyUS / 1e3
			}
			b.WriteString("," + decimal(ms))
		}
		b.WriteByte('\n')
	}
	return b.Flush()
}
