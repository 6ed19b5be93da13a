package sweep

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/results/tables"
)

// TestParquetFile: the typed table has the columns of the CSV beside it, in order, and a second run
// of the plan with another number of workers gives the same bytes.
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
		if files[i], err = os.ReadFile(filepath.Join(dir, tables.ParquetFile)); err != nil {
			t.Fatal(err)
		}
		table, err := tables.ReadTable(dir)
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
func checkParquet(t *testing.T, data []byte, table *tables.Table, p *Plan) {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := file.Lookup(tables.MetaVersion); v != p.Version {
		t.Errorf("version %q, want %q", v, p.Version)
	}
	if v, _ := file.Lookup(tables.MetaPlan); len(v) != 64 {
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
			switch cell := table.Rows[r][c].String(); {
			case v.IsNull() && cell == "":
			case v.Kind() == parquet.Double && isNumber && v.Double() == x:
			case v.Kind() != parquet.Double && strings.TrimSpace(v.String()) == cell:
			default:
				t.Errorf("%s, row %d: %v, want %q", names[c], r, v, cell)
			}
		}
	}
}

// TestWriteLeavesNothingStale: a reused folder has only the points of the new plan, no table until
// that is complete, and no files of killed writers; other files stay.
func TestWriteLeavesNothingStale(t *testing.T) {
	dir := t.TempDir()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	run := func(p *Plan, o RunOptions) *Outcome {
		t.Helper()
		o.Journal = j
		outcome, err := p.Run(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	long := strings.Repeat("x", 120)
	old := fake(plan(t, grid+"[[list]]\nname = \""+long+"\"\nnode.ranksets = 2\n"))
	if err := old.Write(dir, run(old, RunOptions{})); err != nil {
		t.Fatal(err)
	}
	kept := []string{"points/notes.json", "points/.hidden.tmp", "points/a,seed=1.json.bak", "notes.csv", "points/.mine.1-2.tmp"}
	stale := []string{"points/.l3sim-gpus=4,seed=1.json.12-0.tmp", ".l3sim-results.csv.12-0.tmp", ".l3sim-shard.jsonl.7-1.tmp", ".l3sim-123.tmp", "points/" + long[:100] + "-0123456789abcdef.json"}
	for _, name := range append(slices.Clone(kept), stale...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := fake(plan(t, grid))
	if o := run(p, RunOptions{Workers: 1, FailFast: true}); o.Missing == 0 {
		t.Fatal("nothing is missing")
	}
	for _, name := range []string{tables.ResultsFile, tables.ParquetFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of another plan beside an unfinished one: %v", name, err)
		}
	}
	outcome := run(p, RunOptions{})
	if err := p.Write(dir, outcome); err != nil {
		t.Fatal(err)
	}
	want := whole(t, p, t.TempDir())
	for _, name := range kept {
		want[name] = ""
	}
	sameFolder(t, folder(t, dir), want)
	if run(p, RunOptions{}); !exists(filepath.Join(dir, tables.ResultsFile)) {
		t.Error("a run without anything to do removed the results")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestColumnsOnce: the table shows system, model, trace and seed once each, even if axes set them.
func TestColumnsOnce(t *testing.T) {
	shown := []string{"run.system", "run.model", "run.trace", "run.seed"}
	for _, axes := range []string{
		"node.ranksets = [2, 4]", "run.system = [\"l3\", \"gpu-only\"]", "run.model = [\"llama-2-7b\", \"opt-66b\"]", "run.trace = [\"longbench\", \"openr1\"]", "run.seed = [1, 2]",
		"run.trace = [\"longbench\"]\nrun.system = [\"l3\", \"gpu-only\"]\nrun.seed = [3, 4]\nrun.model = [\"llama-2-7b\"]",
	} {
		header := plan(t, "[set]\nrun.requests = 1\n[grid]\n"+axes+"\n").header()
		for _, key := range append(slices.Clone(shown), "point", "status", "error", "config_sha256") {
			if n := len(slices.DeleteFunc(slices.Clone(header), func(c string) bool { return c != key })); n != 1 {
				t.Errorf("%s: the table has %d columns %s", axes, n, key)
			}
		}
		if seed, trace := slices.Index(header, "run.seed"), slices.Index(header, "run.trace"); seed < trace || slices.Index(header, "status") != seed+1 {
			t.Errorf("%s: the seed is column %d of %v, expected the last key", axes, seed, header[:seed+2])
		}
	}
}
