package tables

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

func ftoa(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// TestOlderTable: a table with older names of columns is refused, and the error names its version.
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

// TestMarked: for people, a run beyond what boards hold has a sign at its first cell, and the table a legend; results older
// than that column have neither.
func TestMarked(t *testing.T) {
	table := &Table{Columns: []string{"point", "n", "beyond_boards"}, Rows: texted([][]string{{"a", "1.23456789", "false"}, {"b", "2.23456789", "true"}})}
	for _, c := range []struct {
		columns []int
		want    string
	}{{[]int{0, 1}, "point        n\na      1.23457\nb †    2.23457\n"}, {[]int{1}, "        n\n  1.23457\n2.23457 †\n"}} {
		var b bytes.Buffer
		marked, legend := table.Marked(c.columns)
		if err := marked.WriteText(&b); err != nil || b.String() != c.want || legend != (results.Limits{Boards: true}).Legend() {
			t.Errorf("got\n%s%v, %s, want\n%s", b.String(), err, legend, c.want)
		}
	}
	if table.Value(1, "point") != Of("b") {
		t.Error("the table itself is marked")
	}
	hot := &Table{Columns: []string{"point", "dimm_peak_w", "dimm_limit_w"}, Rows: texted([][]string{{"a", "15.5", "10"}, {"b", "10", "10"}})}
	if marked, legend := hot.Marked([]int{0}); marked.Value(0, "point") != Of("a ‡") || marked.Value(1, "point") != Of("b") || legend != (results.Limits{Slot: true}).Legend() {
		t.Errorf("%v, %q", marked.Rows, legend)
	}
	older := table.Select([]int{0, 1})
	if marked, legend := older.Marked([]int{0}); legend != "" || marked.Value(1, "point") != Of("b") {
		t.Errorf("%v, %q", marked.Rows, legend)
	}
}

// TestDescribe: unit, direction, kind and meaning of columns, by their names.
func TestDescribe(t *testing.T) {
	for name, want := range map[string]Column{
		"tbt_p99_ms": {Unit: "ms", Better: Lower, Kind: Real}, "output_tokens_per_s": {Unit: "tokens/s", Better: Higher, Kind: Real}, "utilization_gpu": {Better: Higher, Kind: Real},
		"gpu_energy_per_output_token_j": {Unit: "J", Better: Lower, Kind: Real}, "decode_batch_max": {Kind: Integer}, "saturated": {Kind: Truth}, "kv_peak_bytes": {Unit: "bytes", Kind: Integer},
		"arrivals_rate_per_s": {Unit: "1/s", Kind: Real}, "dimm_limit_w": {Unit: "W", Kind: Real}, "dimm_peak_w": {Unit: "W", Better: Lower, Kind: Real}, "capital_usd": {Better: Lower, Kind: Real},
		"usd_per_million_output_tokens": {Better: Lower, Kind: Real}, "preemptions": {Better: Lower, Kind: Integer}, "goodput_attainment": {Better: Higher, Kind: Real}, "attainment": {Better: Higher},
		"point": {Kind: Text}, "pcie.latency_us": {Unit: "us"}, "arrivals.rate_per_s": {Unit: "1/s"}, "node.ranksets": {},
	} {
		got := Describe(name)
		if got.Unit != want.Unit || got.Better != want.Better || got.Kind != want.Kind || got.Name != name || (got.Meaning != "") != (want.Kind != "") {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestKind: if a column's name does not show its kind, the cells do.
func TestKind(t *testing.T) {
	of := func(cells []any) *Table {
		table := &Table{Columns: []string{"x"}}
		for _, cell := range cells {
			table.Add(cell)
		}
		return table
	}
	for kind, cells := range map[Kind][]any{Integer: {1, nil, -2}, Unsigned: {nil, uint64(1 << 63)}, Real: {1, 0.5}, Truth: {true, nil}, Text: {1, "a"}} {
		table := of(cells)
		if got := table.Kind(0); got != kind {
			t.Errorf("%v: %s, want %s", cells, got, kind)
		}
		if table.Kinds = map[string]Kind{"x": Real}; table.Kind(0) != Real {
			t.Error("what is set counts first")
		}
	}
	for _, cells := range [][]any{{}, {nil}, {true, 1}, {0.5, "a"}, {"a", true}} {
		if got := of(cells).Kind(0); got != Text {
			t.Errorf("%v: %s", cells, got)
		}
	}
}

func TestLabels(t *testing.T) {
	for column, want := range map[string]string{
		"output_tokens_per_s": "throughput (output tokens/s)", "decode_batch_step_mean": "requests in a decode step, mean",
		"decode_batch_mean": "requests in decode, mean over time", "decode_batch_max": "requests in a decode step, maximum", "tbt_p99_ms": "TBT p99 (ms)", "kv_peak_bytes": "KV peak",
		"node.ranksets": "ranksets", "pcie.latency_ns": "PCIe latency (ns)", "utilization_pcie_down": "PCIe down utilization",
		"gpu_energy_total_j": "GPU energy, total (J)", "site_energy_dram_read_j": "site energy, DRAM read (J)", "policy.name": "policy", "gpu_energy_per_output_token_j": "energy per output token (J)",
		"output_tokens_per_s_per_user": "output tokens/s per user", "output_tokens_per_s_per_mw": "throughput of a megawatt (output tokens/s)", "usd_per_million_output_tokens": "cost (USD per million output tokens)",
		"kg_co2_per_million_output_tokens": "carbon (kg CO2 per million output tokens)", "site_power_mean_w": "power, mean (W)", "arrivals.rate_per_s": "request rate (requests/s)", "nll_nats": "negative log-likelihood (nats)",
		"attention_attended_tokens_mean": "attended tokens, mean", "traces.input_mean": "mean input length (tokens)", "traces.output_mean": "mean output length (tokens)",
	} {
		if got := Describe(column).Label; got != want {
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

// TestTableOfHeader: a table without rows is valid, a file without a header is not.
func TestTableOfHeader(t *testing.T) {
	if table, err := readTable("t.csv", strings.NewReader("a,b\n")); err != nil || len(table.Columns) != 2 || len(table.Rows) != 0 {
		t.Errorf("got %+v, %v", table, err)
	}
	if _, err := readTable("t.csv", strings.NewReader("")); err == nil || err.Error() != "t.csv: expected a header line" {
		t.Errorf("got %v", err)
	}
}
