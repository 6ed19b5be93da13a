package sweep

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/results"
)

// TestParquetFile: the typed table stands beside the CSV with its columns, in
// their order, and a second run of the plan, with other workers, gives the same
// bytes.
func TestParquetFile(t *testing.T) {
	const text = `
repeats = 2
[set]
run.model = "llama-2-7b"
run.requests = 2
[grid]
node.memory_capacity = ["1TiB", "2TiB"]
pcie.latency = ["500ns", "1us"]
comm.rotation = [true, false]
`
	var files [2][]byte
	for i := range files {
		dir := t.TempDir()
		p := fake(plan(t, text))
		j, err := OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		o, err := p.Run(context.Background(), RunOptions{Journal: j, Workers: 1 + 3*i})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(dir, o); err != nil {
			t.Fatal(err)
		}
		if files[i], err = os.ReadFile(filepath.Join(dir, results.ParquetFile)); err != nil {
			t.Fatal(err)
		}
		table, err := results.ReadTable(dir)
		if err != nil {
			t.Fatal(err)
		}
		checkParquet(t, files[i], table, p)
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two runs differ")
	}
}

// checkParquet compares a Parquet file with the CSV's table.
func checkParquet(t *testing.T, data []byte, table *results.Table, p *Plan) {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := file.Lookup(results.MetaVersion); v != p.Version {
		t.Errorf("version %q, want %q", v, p.Version)
	}
	if v, _ := file.Lookup(results.MetaPlan); len(v) != 64 {
		t.Errorf("plan %q", v)
	}
	want := map[string]string{
		"node.memory_capacity_bytes": "INT(64,true)", "pcie.latency_ns": "DOUBLE", "comm.rotation": "BOOLEAN",
		"run.seed": "INT(64,false)", "run.model": "STRING", "output_tokens_per_s": "DOUBLE", "kv_peak_bytes": "INT(64,true)",
	}
	var names []string
	for _, f := range file.Schema().Fields() {
		names = append(names, f.Name())
		if w := want[f.Name()]; w != "" && f.Type().String() != w {
			t.Errorf("%s is %s, want %s", f.Name(), f.Type(), w)
		}
		delete(want, f.Name())
	}
	if !slices.Equal(names, table.Columns) || len(want) > 0 {
		t.Errorf("columns %s\nwant %s; without %v", names, table.Columns, want)
	}
	if file.NumRows() != int64(len(table.Rows)) {
		t.Errorf("%d rows, want %d", file.NumRows(), len(table.Rows))
	}
	rows := make([]parquet.Row, len(table.Rows))
	reader := file.RowGroups()[0].Rows()
	defer reader.Close()
	if n, _ := reader.ReadRows(rows); n != len(rows) {
		t.Fatalf("%d rows read", n)
	}
	for r, row := range rows {
		for c, v := range row {
			x, isNumber := table.Number(r, c)
			switch cell := table.Rows[r][c]; {
			case v.IsNull() && cell == "":
			case v.Kind() == parquet.Double && isNumber && v.Double() == x:
			case v.Kind() != parquet.Double && strings.TrimSpace(v.String()) == cell:
			default:
				t.Errorf("%s, row %d: %v, want %q", names[c], r, v, cell)
			}
		}
	}
}
