package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/list"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// typed is a table with columns of every type, in no alphabetical order, with
// the edges of each.
func typed() (*Table, []reflect.Type) {
	return &Table{
			Name:    "results.parquet",
			Columns: []string{"point", "node.ranksets", "node.capacity_bytes", "run.seed", "comm.rotation", "status", "error", "tbt_p99_ms"},
			Rows: texted([][]string{
				{"a", "4", "2199023255552", "18446744073709551615", "true", "done", "", "107.25"},
				{"b, \"quoted\" ü", "-9223372036854775808", "9223372036854775807", "0", "false", "done", "", "0.0000001"},
				{"c", "", "", "1", "", "failed", "no\troom", ""},
				{"d", "8", "1", "2", "true", "done", "", "-123456789.5"},
			}),
		}, []reflect.Type{
			texts, integer, integer, unsigned, boolean, texts, texts, float,
		}
}

// texted reads cells as a CSV file's.
func texted(rows [][]string) [][]Value {
	return list.Map(rows, func(row []string) []Value { return list.Map(row, parse) })
}

// The types of columns.
var (
	texts, integer, unsigned = reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[uint64]()
	float, boolean           = reflect.TypeFor[float64](), reflect.TypeFor[bool]()
)

func writeParquet(t testing.TB, table *Table, types []reflect.Type, provenance map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := table.WriteParquet(&b, types, provenance); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readParquet reads a file that WriteParquet wrote, as the CSV file would hold
// it.
func readParquet(data []byte) (*Table, error) {
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	table := &Table{}
	types := file.Schema().Fields()
	for _, f := range types {
		table.Columns = append(table.Columns, f.Name())
	}
	rows := make([]parquet.Row, file.NumRows())
	for _, group := range file.RowGroups() {
		reader := group.Rows()
		defer reader.Close()
		for len(table.Rows) < len(rows) {
			n, err := reader.ReadRows(rows[len(table.Rows):])
			if n == 0 && err != nil {
				return nil, err
			}
			for _, values := range rows[len(table.Rows):][:n] {
				row := make([]string, len(types))
				for c, v := range values {
					switch {
					case v.Column() != c:
						return nil, fmt.Errorf("column %d in the place of column %d", v.Column(), c)
					case v.IsNull():
					case v.Kind() == parquet.Double:
						row[c] = strconv.FormatFloat(v.Double(), 'f', -1, 64)
					case types[c].Type().String() == "INT(64,false)":
						row[c] = strconv.FormatUint(v.Uint64(), 10)
					default:
						row[c] = v.String()
					}
				}
				table.Rows = append(table.Rows, list.Map(row, parse))
			}
		}
	}
	return table, nil
}

// TestParquet: names, order and types of columns, the metadata, and nothing of
// the machine: twice the same bytes.
func TestParquet(t *testing.T) {
	table, types := typed()
	provenance := map[string]string{MetaSchema: ParquetSchema, MetaVersion: "v1", MetaPlan: "00ff"}
	data := writeParquet(t, table, types, provenance)
	if !bytes.Equal(data, writeParquet(t, table, types, provenance)) {
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

// TestParquetReadsBack: from a table through Parquet to CSV is the same as
// straight to CSV, over several batches of rows too.
func TestParquetReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := map[reflect.Type]func() string{
			texts:    func() string { return rapid.String().Draw(t, "text") },
			integer:  func() string { return strconv.FormatInt(rapid.Int64().Draw(t, "integer"), 10) },
			unsigned: func() string { return strconv.FormatUint(rapid.Uint64().Draw(t, "unsigned"), 10) },
			float:    func() string { return strconv.FormatFloat(rapid.Float64().Draw(t, "real"), 'f', -1, 64) },
			boolean:  func() string { return strconv.FormatBool(rapid.Bool().Draw(t, "boolean")) },
		}
		table, types := &Table{Name: "t"}, []reflect.Type{}
		for i := range rapid.IntRange(1, 6).Draw(t, "columns") {
			table.Columns = append(table.Columns, string(rune('z'-i))+".key_ms")
			types = append(types, rapid.SampledFrom([]reflect.Type{texts, integer, unsigned, float, boolean}).Draw(t, "type"))
		}
		distinct := rapid.IntRange(0, 4).Draw(t, "rows")
		for range distinct {
			row := make([]string, len(types))
			for c := range row {
				if rapid.Bool().Draw(t, "filled") {
					row[c] = cell[types[c]]()
				}
			}
			table.Rows = append(table.Rows, list.Map(row, parse))
		}
		if distinct > 0 {
			for i := range rapid.SampledFrom([]int{0, 0, 3, 255, 600}).Draw(t, "copies") {
				table.Rows = append(table.Rows, table.Rows[i%distinct])
			}
		}
		var b bytes.Buffer
		if err := table.WriteParquet(&b, types, nil); err != nil {
			t.Fatal(err)
		}
		back, err := readParquet(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var direct, through bytes.Buffer
		if err := table.WriteCSV(&direct); err != nil {
			t.Fatal(err)
		}
		if err := back.WriteCSV(&through); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(direct.Bytes(), through.Bytes()) {
			t.Fatalf("got\n%s\nwant\n%s", &through, &direct)
		}
	})
}

// TestParquetCells: what does not read as its column's type is null, and text
// that is not UTF-8 becomes so.
func TestParquetCells(t *testing.T) {
	table := &Table{Columns: []string{"n", "t"}, Rows: [][]Value{{Of("many"), Of("a\xff")}}}
	data := writeParquet(t, table, []reflect.Type{integer, texts}, nil)
	back, err := readParquet(data)
	if err != nil || !back.Rows[0][0].Empty() || back.Rows[0][1] != Of("a\uFFFD") {
		t.Errorf("%v, %q", err, back.Rows)
	}
	if err := table.WriteParquet(&bytes.Buffer{}, nil, nil); err == nil {
		t.Error("types for no column")
	}
}

// TestParquetIsNotRead: the commands read the CSV, and say so.
func TestParquetIsNotRead(t *testing.T) {
	table, types := typed()
	path := filepath.Join(t.TempDir(), ParquetFile)
	if err := os.WriteFile(path, writeParquet(t, table, types, nil), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTable(path); err == nil || !strings.Contains(err.Error(), "expected the results.csv beside it") {
		t.Errorf("got %v", err)
	}
}

// TestParquetElsewhere has a reader read the file that shares no code with the
// writer: hyparquet, in JavaScript.
func TestParquetElsewhere(t *testing.T) {
	const reader = "testdata/hyparquet"
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node")
	}
	if _, err := os.Stat(filepath.Join(reader, "node_modules/hyparquet")); err != nil {
		t.Skip("no hyparquet: npm ci --prefix results/" + reader)
	}
	table, types := typed()
	path := filepath.Join(t.TempDir(), ParquetFile)
	if err := os.WriteFile(path, writeParquet(t, table, types, map[string]string{MetaSchema: ParquetSchema, MetaVersion: "v1"}), 0o666); err != nil {
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
	stored := map[reflect.Type]string{texts: "BYTE_ARRAY STRING", integer: "INT64 INTEGER", unsigned: "INT64 INTEGER", float: "DOUBLE ", boolean: "BOOLEAN "}
	for c, column := range got.Columns {
		if column.Name != table.Columns[c] || column.Type+" "+column.Logical != stored[types[c]] {
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
	base, types := typed()
	table := &Table{Columns: base.Columns}
	for i := range 100_000 {
		row := slices.Clone(base.Rows[i%len(base.Rows)])
		row[0] = Of(fmt.Sprintf("ranksets=%d,latency=%dns", i%64, i))
		table.Rows = append(table.Rows, row)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := table.WriteParquet(io.Discard, types, nil); err != nil {
			b.Fatal(err)
		}
	}
}
