package tables

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/list"
	"pgregory.net/rapid"
)

// TestNoFormulas: no cell is written as a formula, numbers stay numbers, and ReadTable returns what was
// written.
func TestNoFormulas(t *testing.T) {
	for cell, want := range map[string]string{
		"=1+1": "'=1+1", "+x": "'+x", "-x": "'-x", "@x": "'@x", "\tx": "'\tx", "'=x": "''=x", "''-3": "'''-3", "-inf": "'-inf", "+0x1p4": "'+0x1p4", "-1_0": "'-1_0",
		"-3": "'-3", "+4.5e-7": "'+4.5e-7", "7": "'7", "true": "'true", "a=b": "a=b", "-": "-", "": "", "'x": "'x", "'": "'", "x'=": "x'=",
	} {
		got := guarded(cell, false)
		if bare, _ := unguarded(got, false); got != want || bare != cell {
			t.Errorf("%q is written %q and read %q, want %q", cell, got, bare, want)
		}
	}
	piece := rapid.SampledFrom([]string{"'", "=", "+", "-", "@", "\t", "1", "2e", ".", "x", ",", "\"", "\n", "é"})
	cell := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "cell"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 3).Draw(t, "width")
		table := &Table{Name: "t", Columns: rapid.SliceOfNDistinct(cell.Filter(func(s string) bool { return s != "" }), width, width, rapid.ID).Draw(t, "columns")}
		for range rapid.IntRange(0, 3).Draw(t, "rows") {
			row := rapid.SliceOfN(cell, width, width).Draw(t, "row")
			if width > 1 || row[0] != "" { // an empty line is not a record
				table.Rows = append(table.Rows, list.Map(row, parse))
			}
		}
		var b bytes.Buffer
		if err := table.WriteCSV(&b); err != nil {
			t.Fatal(err)
		}
		back, err := readTable("t", &b)
		if err != nil || !slices.Equal(back.Columns, table.Columns) || !slices.EqualFunc(back.Rows, table.Rows, slices.Equal[[]Value]) {
			t.Fatalf("%q, %v; want %q", back, err, table)
		}
	})
}
