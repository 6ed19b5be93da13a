package tables

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

func ftoa(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// TestOlderTable: a table whose columns had other names is refused by its version.
func TestOlderTable(t *testing.T) {
	_, err := readTable("r.csv", strings.NewReader("point,energy_token_j\na,1\n"))
	if want := "r.csv:1: column 2 = energy_token_j: expected gpu_energy_per_output_token_j: this table is of l3sim/results/1"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// TestMetrics: every number of a summary is a column, with its unit last, and
// the value is that number.
func TestMetrics(t *testing.T) {
	s := &results.Summary{Throughput: results.Throughput{OutputTokensPerS: 1.0 / 3}, Latencies: results.Latencies{TBT: results.Latency{P99: 1e-7}}, Energy: results.Energy{Token: 0.25}, KVBytes: results.KVBytes{Peak: 1 << 40}, About: results.About{Seed: 9}, WallS: 7}
	names, values := results.MetricNames(), s.MetricValues()
	if len(names) != len(values) {
		t.Fatalf("%d names, %d values", len(names), len(values))
	}
	got := map[string]any{}
	for i, n := range names {
		got[n] = values[i]
	}
	if len(got) != len(names) {
		t.Error("two metrics share a name")
	}
	for name, want := range map[string]float64{
		"output_tokens_per_s": 1.0 / 3, "tbt_p99_ms": 1e-7, "kv_peak_bytes": 1 << 40, "requests": 0, "utilization_gpu": 0, "gpu_energy_per_output_token_j": 0.25, "decode_batch_max": 0,
	} {
		if v, ok := Of(got[name]).Float(); !ok || v != want {
			t.Errorf("%s is %v, want %g", name, got[name], want)
		}
	}
	for name, want := range map[string]results.Better{
		"gpu_energy_per_output_token_j": results.Lower, "tbt_p99_ms": results.Lower, "output_tokens_per_s": results.Higher, "utilization_gpu": results.Higher, "decode_batch_max": results.Neither,
	} {
		if got := results.MetricBetter(name); got != want {
			t.Errorf("%s: better is %d, want %d", name, got, want)
		}
	}
	for _, absent := range []string{"wall_s", "seed", "run.seed"} {
		if _, ok := got[absent]; ok {
			t.Errorf("%s is no metric", absent)
		}
	}
}

func TestColumn(t *testing.T) {
	table := &Table{Name: "t.csv", Columns: []string{"point", "node.ranksets", "node.memory_capacity_bytes", "pcie.latency_ns", "gpu.memory_capacity_bytes", "tbt_p99_ms"}}
	for name, want := range map[string]int{
		"node.ranksets": 1, "ranksets": 1, "node.memory_capacity": 2, "latency": 3, "pcie.latency": 3, "latency_ns": 3, "tbt_p99": 5,
	} {
		if got, err := table.Column("--x", name); err != nil || got != want {
			t.Errorf("%s: column %d, %v; want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"rankset":         `did you mean "node.ranksets"?`,
		"memory_capacity": "one of the columns node.memory_capacity_bytes and gpu.memory_capacity_bytes",
		"tbt_p98_ms":      `did you mean "tbt_p99_ms"?`,
	} {
		if _, err := table.Column("--x", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestTableText(t *testing.T) {
	table := &Table{Columns: []string{"point", "n"}, Rows: texted([][]string{{"a|b", "1"}, {"ü", "1,000.5"}})}
	for _, c := range []struct {
		write func(*bytes.Buffer) error
		want  string
	}{
		{func(b *bytes.Buffer) error { return table.WriteText(b) }, "point        n\na|b          1\nü      1,000.5\n"},
		{func(b *bytes.Buffer) error { return table.WriteMarkdown(b) }, "| point |       n |\n| ----- | ------: |\n| a\\|b  |       1 |\n| ü     | 1,000.5 |\n"},
		{func(b *bytes.Buffer) error { return table.WriteCSV(b) }, "point,n\na|b,1\nü,\"1,000.5\"\n"},
	} {
		var b bytes.Buffer
		if err := c.write(&b); err != nil || b.String() != c.want {
			t.Errorf("got\n%s%v, want\n%s", b.String(), err, c.want)
		}
	}
}

func TestLabels(t *testing.T) {
	for column, want := range map[string]string{
		"output_tokens_per_s": "throughput (output tokens/s)", "decode_batch_step_mean": "requests in a decode step, mean",
		"decode_batch_mean": "requests in decode, mean over time", "decode_batch_max": "requests in a decode step, maximum", "tbt_p99_ms": "TBT p99 (ms)", "kv_peak_bytes": "KV peak",
		"node.ranksets": "ranksets", "pcie.latency_ns": "PCIe latency (ns)", "utilization_pcie_down": "PCIe down utilization",
		"gpu_energy_total_j": "GPU energy, total (J)", "site_energy_dram_read_j": "site energy, DRAM read (J)", "policy.name": "policy", "gpu_energy_per_output_token_j": "energy per output token (J)",
	} {
		if got := Label(column); got != want {
			t.Errorf("%s: %q, want %q", column, got, want)
		}
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add("point,run.seed,status\na,1,done\n")
	f.Add("a,a\n1,2\n")
	f.Add("\"x\ny\",z\n1\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := readTable("t.csv", strings.NewReader(text))
		if err != nil {
			return
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Fatal("a row of another length")
			}
		}
	})
}

// TestTableOfHeader: a table without rows is one, a file without a header is none.
func TestTableOfHeader(t *testing.T) {
	if table, err := readTable("t.csv", strings.NewReader("a,b\n")); err != nil || len(table.Columns) != 2 || len(table.Rows) != 0 {
		t.Errorf("got %+v, %v", table, err)
	}
	if _, err := readTable("t.csv", strings.NewReader("")); err == nil || err.Error() != "t.csv: expected a header line" {
		t.Errorf("got %v", err)
	}
}
