package tables

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// typed is a table with columns of every kind, in non-alphabetical order, with the extremes of
// each.
func typed() *Table {
	t := &Table{
		Name:    "results.parquet",
		Columns: []string{"point", "node.ranksets", "node.capacity_bytes", "run.seed", "comm.rotation", "status", "error", "tbt_p99_ms"},
		Kinds:   map[string]Kind{"node.ranksets": Integer, "node.capacity_bytes": Integer, "run.seed": Unsigned, "comm.rotation": Truth},
	}
	t.Add("a", 4, 2199023255552, uint64(math.MaxUint64), true, "done", nil, 107.25)
	t.Add("b, \"quoted\" ü", math.MinInt64, math.MaxInt64, 0, false, "done", nil, 1e-7)
	t.Add("c", nil, nil, 1, nil, "failed", "no\troom", nil)
	t.Add("d", 8, 1, 2, true, "done", nil, -123456789.5)
	return t
}

// texted reads cells as from a CSV file.
func texted(rows [][]string) [][]Value {
	return list.Map(rows, func(row []string) []Value { return list.Map(row, parse) })
}

func writeParquet(t testing.TB, table *Table, provenance map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := table.WriteParquet(&b, provenance); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var ours = map[string]string{MetaSchema: ParquetSchema}

// reread writes a table into a file and reads it.
func reread(t rapid.TB, dir, name string, write func(io.Writer) error) *Table {
	var b bytes.Buffer
	path := filepath.Join(dir, name)
	err := write(&b)
	if err == nil {
		err = os.WriteFile(path, b.Bytes(), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadTables([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestParquet: names, order and types of columns, the metadata, and nothing specific to the
// machine: equal bytes twice.
func TestParquet(t *testing.T) {
	table := typed()
	provenance := map[string]string{MetaSchema: ParquetSchema, MetaVersion: "v1", MetaPlan: "00ff"}
	data := writeParquet(t, table, provenance)
	if !bytes.Equal(data, writeParquet(t, table, provenance)) {
		t.Error("other bytes the second time")
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range provenance {
		if got, ok := file.Lookup(key); !ok || got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	var got []string
	for _, f := range file.Schema().Fields() {
		got = append(got, fmt.Sprintf("%s %s %t", f.Name(), f.Type(), f.Optional()))
	}
	want := []string{
		"point STRING true", "node.ranksets INT(64,true) true", "node.capacity_bytes INT(64,true) true", "run.seed INT(64,false) true",
		"comm.rotation BOOLEAN true", "status STRING true", "error STRING true", "tbt_p99_ms DOUBLE true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("columns\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBothWriters: a table is read back unchanged from CSV and from Parquet, in every cell and over several batches of rows.
// Parquet also keeps the kinds of columns.
func TestBothWriters(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		cells := map[Kind]*rapid.Generator[any]{
			Text:    rapid.OneOf(rapid.StringMatching(`[a-zé'0-9 .,"\n=+-]*`), rapid.SampledFrom([]string{"", "true", "1", "0.5", "'7", "-1e3", "NaN", "null"})).AsAny(),
			Integer: rapid.Int().AsAny(), Unsigned: rapid.Uint64().AsAny(), Truth: rapid.Bool().AsAny(),
			Real: rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -3, 1e15, 1 << 62, math.NaN(), math.Inf(1), math.Copysign(0, -1)})).AsAny(),
		}
		table := &Table{Kinds: map[string]Kind{}}
		for i := range rapid.IntRange(2, 6).Draw(t, "columns") {
			name := string(rune('z'-i)) + ".key_ms"
			table.Columns = append(table.Columns, name)
			table.Kinds[name] = rapid.SampledFrom([]Kind{Text, Integer, Unsigned, Real, Truth}).Draw(t, "kind")
		}
		distinct := rapid.IntRange(0, 4).Draw(t, "rows")
		for range distinct {
			table.Add(list.Map(table.Columns, func(c string) any {
				if rapid.IntRange(0, 3).Draw(t, "empty") == 0 {
					return nil
				}
				return cells[table.Kinds[c]].Draw(t, "cell")
			})...)
		}
		if distinct > 0 {
			for i := range rapid.SampledFrom([]int{0, 0, 3, 255, 600}).Draw(t, "copies") {
				table.Rows = append(table.Rows, table.Rows[i%distinct])
			}
		}
		csv := reread(t, dir, ResultsFile, table.WriteCSV)
		typed := reread(t, dir, ParquetFile, func(w io.Writer) error { return table.WriteParquet(w, ours) })
		for _, back := range []*Table{csv, typed} {
			if !slices.Equal(back.Columns, table.Columns) || !slices.EqualFunc(back.Rows, table.Rows, slices.Equal[[]Value]) {
				t.Fatalf("%s: got\n%#v\nwant\n%#v", back.Name, back.Rows, table.Rows)
			}
		}
		if !maps.Equal(typed.Kinds, table.Kinds) {
			t.Fatalf("%v, want %v", typed.Kinds, table.Kinds)
		}
	})
}

// TestParquetCells: a value of another kind than its column's is null, and text becomes valid UTF-8.
func TestParquetCells(t *testing.T) {
	table := &Table{Columns: []string{"n", "t"}, Kinds: map[string]Kind{"n": Integer}}
	table.Add("many", "a\xff")
	back := reread(t, t.TempDir(), ParquetFile, func(w io.Writer) error { return table.WriteParquet(w, ours) })
	if !back.Rows[0][0].Empty() || back.Rows[0][1] != Of("a\uFFFD") {
		t.Errorf("%q", back.Rows)
	}
}

// TestParquetRefused: files of other versions, damaged files and other formats are input errors.
func TestParquetRefused(t *testing.T) {
	good := writeParquet(t, typed(), ours)
	path := filepath.Join(t.TempDir(), ParquetFile)
	for want, data := range map[string][]byte{
		`l3sim.schema = "l3sim/results/1": expected l3sim/results/2; another version of l3sim wrote the file: run its command again`: writeParquet(t, typed(), map[string]string{MetaSchema: "l3sim/results/1"}),
		`l3sim.schema = "": expected l3sim/results/2`: writeParquet(t, typed(), nil),
		"not Parquet": []byte("point,a\nx,1\n"),
	} {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTable(path); !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for at := range good { // no wrong byte makes the reader panic
		if !deep.Case(at, 7) {
			continue
		}
		data := slices.Clone(good)
		data[at] ^= 0x55
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTable(path); err != nil && !errors.As(err, new(*input.Error)) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
}

// TestParquetElsewhere reads the file with a reader that shares no code with the writer: hyparquet,
// in JavaScript.
func TestParquetElsewhere(t *testing.T) {
	const reader = "testdata/hyparquet"
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node")
	}
	if _, err := os.Stat(filepath.Join(reader, "node_modules/hyparquet")); err != nil {
		t.Skip("no hyparquet: npm ci --prefix results/" + reader)
	}
	table := typed()
	path := filepath.Join(t.TempDir(), ParquetFile)
	if err := os.WriteFile(path, writeParquet(t, table, map[string]string{MetaSchema: ParquetSchema, MetaVersion: "v1"}), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("node", filepath.Join(reader, "read.mjs"), path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		CreatedBy string `json:"created_by"`
		Metadata  []struct{ Key, Value string }
		Rows      int
		Columns   []struct {
			Name, Type, Logical string
			Values              []any
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if m := fmt.Sprint(got.Metadata); m != "[{l3sim.schema l3sim/results/2} {l3sim.version v1}]" || !strings.HasPrefix(got.CreatedBy, "l3sim version v1") {
		t.Errorf("metadata %s, created by %q", m, got.CreatedBy)
	}
	if got.Rows != len(table.Rows) || len(got.Columns) != len(table.Columns) {
		t.Fatalf("%d rows, %d columns", got.Rows, len(got.Columns))
	}
	stored := map[Kind]string{Text: "BYTE_ARRAY STRING", Integer: "INT64 INTEGER", Unsigned: "INT64 INTEGER", Real: "DOUBLE ", Truth: "BOOLEAN "}
	for c, column := range got.Columns {
		if column.Name != table.Columns[c] || column.Type+" "+column.Logical != stored[table.Kind(c)] {
			t.Errorf("column %d is %s, %s %s", c, column.Name, column.Type, column.Logical)
		}
		for r, v := range column.Values {
			cell, want := "", table.Rows[r][c].String()
			switch v := v.(type) {
			case nil:
			case float64:
				cell = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				cell = fmt.Sprint(v)
			}
			if cell != want || (v == nil) != (want == "") {
				t.Errorf("%s, row %d: %v, want %q", column.Name, r, v, want)
			}
		}
	}
}

func BenchmarkWriteParquet(b *testing.B) {
	base := typed()
	table := base.with(nil)
	for i := range 100_000 {
		row := slices.Clone(base.Rows[i%len(base.Rows)])
		row[0] = Of(fmt.Sprintf("ranksets=%d,latency=%dns", i%64, i))
		table.Rows = append(table.Rows, row)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := table.WriteParquet(io.Discard, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzReadParquet: bytes that are not a table of this program are refused with an input.Error, and rows have the length of the
// header.
func FuzzReadParquet(f *testing.F) {
	whole := writeParquet(f, typed(), nil)
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), ParquetFile)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := readFile(path)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Columns) {
				t.Fatalf("%d cells, %d columns", len(row), len(table.Columns))
			}
		}
	})
}
