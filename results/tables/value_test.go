package tables

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestReadValue: cells of a file get their kind, and equal numbers are equal cells.
func TestReadValue(t *testing.T) {
	for text, want := range map[string]any{
		"": nil, "a": "a", "true": true, "false": false, "True": "True", "7": int64(7), "-7": int64(-7), "18446744073709551615": uint64(math.MaxUint64),
		"0.5": 0.5, "-0.000001": -1e-6, "inf": "inf", "NaN": "NaN", "0x1p4": "0x1p4", "1_0": "1_0", "-": "-", "1e999": "1e999", "1e300": 1e300,
		"007": int64(7), "+1": int64(1), "1e3": int64(1000), "0.50": 0.5, "-0": int64(0), "7.0": int64(7), "9223372036854775808": uint64(1 << 63),
	} {
		if got := parse(text); got.v != want {
			t.Errorf("%q is %#v, want %#v", text, got.v, want)
		}
	}
	for _, equal := range [][2]any{{1, 1.0}, {uint64(1), int64(1)}, {math.NaN(), nil}, {math.Inf(1), ""}, {float64(1 << 63), uint64(1 << 63)}, {math.Copysign(0, -1), 0}} {
		if Of(equal[0]) != Of(equal[1]) {
			t.Errorf("%v is %#v, %v is %#v", equal[0], Of(equal[0]), equal[1], Of(equal[1]))
		}
	}
	if Of("1") == Of(1) || Of("true") == Of(true) {
		t.Error("a text is a number")
	}
}

// anyValue draws any content of a cell.
var anyValue = rapid.OneOf(rapid.Float64().AsAny(), rapid.Int().AsAny(), rapid.Uint64().AsAny(), rapid.Bool().AsAny(), rapid.StringMatching(`[a-z'0-9 .=-]*`).AsAny(),
	rapid.SampledFrom([]any{nil, "", "NaN", "null", "true", "1", "-0.5", "'", "''7", "=x", math.NaN(), math.Inf(-1), 1.0, 0.1, math.MaxFloat64, 5e-324, int64(math.MinInt64), uint64(math.MaxUint64)}))

// TestValuesComeBack: any content of a cell is read back from JSON unchanged.
func TestValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Of(anyValue.Draw(t, "value"))
		text, err := json.Marshal(v)
		var back Value
		if err != nil || json.Unmarshal(text, &back) != nil || back != v {
			t.Fatalf("%s, %v: %#v read back as %#v", text, err, v, back)
		}
	})
}

// TestRound: as many digits as asked for.
func TestRound(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{{1.0 / 3, 6, "0.333333"}, {123456.7, 6, "123457"}, {1234567, 3, "1230000"}, {-2.5e-7, 1, "-0.0000003"}, {0, 3, "0"}, {99999.96, 6, "100000"}, {1, 9, "1"}} {
		if got := Of(Round(c.v, c.digits)).String(); got != c.want {
			t.Errorf("%g to %d digits: %s, want %s", c.v, c.digits, got, c.want)
		}
	}
}

// TestGroup: rows with equal values in the columns, and no others, are together, in order.
func TestGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := &Table{Columns: []string{"a", "b", "c"}}
		cell := rapid.SampledFrom([]any{nil, "", "1", 1, 1.0, true, "true", "a,b", "a"})
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			table.Add(cell.Draw(t, "a"), cell.Draw(t, "b"), cell.Draw(t, "c"))
		}
		by := rapid.SampledFrom([][]int{{}, {0}, {0, 1}, {1, 0}, {-1, 2}, {0, 1, 2}}).Draw(t, "by")
		seen := []int{}
		group := make([]int, len(table.Rows))
		firsts := []int{}
		for g, rows := range table.Group(table.All(), by...) {
			if !slices.IsSorted(rows) {
				t.Fatal("rows out of order")
			}
			for _, r := range rows {
				seen, group[r] = append(seen, r), g
			}
			firsts = append(firsts, rows[0])
		}
		slices.Sort(seen)
		if !slices.Equal(seen, table.All()) || !slices.IsSorted(firsts) {
			t.Fatalf("%v of %d rows, first %v", seen, len(table.Rows), firsts)
		}
		for i, a := range table.Rows {
			for k, b := range table.Rows {
				alike := !slices.ContainsFunc(by, func(c int) bool { return c >= 0 && a[c] != b[c] })
				if alike != (group[i] == group[k]) {
					t.Fatalf("rows %v and %v by %v: groups %d and %d", a, b, by, group[i], group[k])
				}
			}
		}
	})
}

// TestDistinct: numbers by size, other values in the order of the rows.
func TestDistinct(t *testing.T) {
	table := &Table{Columns: []string{"n", "x"}}
	for i, n := range []int{16, 8, 32, 8} {
		table.Add(n, []any{16, "b", nil, "b"}[i])
	}
	for column, want := range []string{"[8 16 32]", "[16 b ]"} {
		values, numbers := table.Distinct(table.All(), column)
		if got := "[" + joined(values) + "]"; got != want || numbers != (column == 0) {
			t.Errorf("got %s, %t, want %s", got, numbers, want)
		}
	}
	if v, ok := table.Float(2, "n"); !ok || v != 32 || !table.Value(0, "nope").Empty() || table.Value(1, "x").String() != "b" || strconv.FormatBool(table.Varies(0)) != "true" {
		t.Error(v, ok)
	}
}

func joined(values []Value) (text string) {
	for i, v := range values {
		if i > 0 {
			text += " "
		}
		text += v.String()
	}
	return text
}
