package tables

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results"
)

// TestValuesInJSON: numbers, texts, truth values and null are read back unchanged, whole numbers with all their digits.
func TestValuesInJSON(t *testing.T) {
	for text, want := range map[string]Value{"9007199254740993": Of(int64(9007199254740993)), "18446744073709551615": Of(uint64(math.MaxUint64)), "-3": Of(-3), "1.5": Of(1.5), `"1.5"`: Of("1.5"), `"x"`: Of("x"), "true": Of(true), "null": {}} {
		var got Value
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
	if err := json.Unmarshal([]byte("{"), new(Value)); err == nil {
		t.Error("half an object is a cell")
	}
}

// TestWordsByHand: each statistic and abbreviation in words, sections before ambiguous keys, units in brackets except bytes.
func TestWordsByHand(t *testing.T) {
	for column, want := range map[string]string{
		"x_mean_ms": "x, mean|ms", "x_max_ms": "x, maximum|ms", "x_p50_ms": "x, median|ms", "x_p90_ms": "x, 90th percentile|ms", "x_p95_ms": "x, 95th percentile|ms", "x_p99_ms": "x, 99th percentile|ms",
		"node.some_key_bytes": "some key|", "gpu.some_key": "GPU some key|", "pcie.some_key": "PCIe some key|", "policy.quest.some_key": "quest some key|", "policy.name": "policy|", "utilization_x": "x utilization|",
		"a_energy_b_j": "a energy, b|J",
	} {
		words, unit := Words(column)
		if got := words + "|" + unit; !strings.EqualFold(got, want) {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestManyValues: of more than twelve values of a key, twelve are written, then the number of others.
func TestManyValues(t *testing.T) {
	e := &Exploration{Points: 40, Front: make([]FrontPoint, 5)}
	for n := 12; n <= 14; n++ {
		k := Knob{Column: "n"}
		for i := range n {
			k.Levels = append(k.Levels, Level{Value: Of(i + 1), Front: i % 3, All: i + 2})
		}
		k.Most = k.Levels[9]
		e.Knobs = []Knob{k}
		var b strings.Builder
		if err := e.writeKnobs(&b); err != nil {
			t.Fatal(err)
		}
		want := "n 10 0 of 5 28% 1: 0/2, 2: 1/3, 3: 2/4, 4: 0/5, 5: 1/6, 6: 2/7, 7: 0/8, 8: 1/9, 9: 2/10, 10: 0/11, 11: 1/12, 12: 2/13"
		if n > 12 {
			want += fmt.Sprintf(", %d more", n-12)
		}
		if got := strings.Join(strings.Fields(b.String()), " "); !strings.HasSuffix(got, want) {
			t.Errorf("%d values: got %s\nwant %s", n, got, want)
		}
	}
	// Keys come in their order.
	one := Level{Value: Of("x"), Front: 4, All: 10}
	e.Knobs = []Knob{{Column: "b", Levels: []Level{one}, Most: one}, {Column: "a", Levels: []Level{one}, Most: one}}
	var b strings.Builder
	if err := e.writeKnobs(&b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(b.String()), " "); !strings.HasSuffix(got, " b x 4 of 5 25% x: 4/10 a x 4 of 5 25% x: 4/10") {
		t.Error(got)
	}
}

// TestNilTable: a nil table is empty, and functions that need a table say what to pass.
func TestNilTable(t *testing.T) {
	var none *Table
	_, number := none.Number(0, 0)
	_, float := none.Float(0, "a")
	marked, legend := none.Marked(nil)
	if number || float || none.Varies(0) || none.Kind(0) != "" || !none.Value(0, "a").Empty() || len(none.IsConfig())+len(none.Headline())+len(none.All())+len(none.Group(nil)) > 0 ||
		len(none.Select(nil).Columns)+len(marked.Rows)+len(legend) > 0 || none.Limits(0) != (results.Limits{}) {
		t.Error("no table has something")
	}
	for name, err := range map[string]error{
		"choose": second(none.Choose("--columns", nil)), "where": second(none.Where("--where", []string{"a=1"})), "best": second(none.Best("--best", "max a over b")), "Parquet": none.WriteParquet(&strings.Builder{}, nil),
		"CSV": none.WriteCSV(&strings.Builder{}), "JSON": none.WriteJSON(&strings.Builder{}), "text": none.WriteText(&strings.Builder{}), "LaTeX": none.WriteLaTeX(&strings.Builder{}),
		"Markdown": none.WriteMarkdown(&strings.Builder{}), "goals": second(none.ParseGoals("--goals", "max a, min b")), "column": second(none.Column("--x", "a")),
	} {
		if err == nil || err.Error() != "table = nil: expected results, as Sweep and Read return" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGoalsOfNoColumns: a table without columns has no goals.
func TestGoalsOfNoColumns(t *testing.T) {
	if goals, err := (&Table{Name: "empty.csv"}).ParseGoals("--goals", "max a, min b"); err == nil || !strings.HasPrefix(err.Error(), `--goals = "a": expected a column of empty.csv`) {
		t.Errorf("%v, %v", goals, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestHeadlinesOfStalls: columns of stalls are shown if a run has stalls or preemptions, in any order of columns.
func TestHeadlinesOfStalls(t *testing.T) {
	for _, c := range []struct {
		columns []string
		cell    any
		want    int
	}{
		{[]string{"stall_count", "tbt_decode_p99_ms"}, 1, 2}, {[]string{"preemptions", "stall_max_ms"}, 1, 2}, {[]string{"tbt_mean_ms", "stall_count"}, 1, 2}, {[]string{"stall_count", "tbt_mean_ms"}, 0, 1},
		{[]string{"stall_count", "tbt_mean_ms"}, nil, 1}, {[]string{"preemptions"}, 0, 0},
	} {
		table := &Table{Columns: c.columns}
		row := make([]any, len(c.columns))
		row[slices.IndexFunc(c.columns, func(name string) bool { return name == "stall_count" || name == "preemptions" })] = c.cell
		table.Add(row...)
		if got := table.Headline(); len(got) != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestChangeByHand: two seeds, 2 and 4 before, 3 and 8 after: means of 3 and 5.5, deviations of 1.41 and 3.54, changes of 50% and 100%.
func TestChangeByHand(t *testing.T) {
	c := newChange([]float64{2, 4}, []float64{3, 8})
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("old", c.Old, 3)
	near("new", c.New, 5.5)
	near("deviation of the old", c.oldStd, math.Sqrt2)
	near("deviation of the new", c.newStd, 2.5*math.Sqrt2)
	near("relative", float64(c.Relative), 2.5/3)
	near("deviation of the changes", c.spread, 0.25*math.Sqrt2)
	if c.seeds != 2 || !c.differs || newChange([]float64{1, 2}, []float64{1, 2}).differs || !newChange([]float64{1, 2}, []float64{2, 1}).differs {
		t.Errorf("%+v", c)
	}
	if got, err := share(math.Inf(1)).MarshalJSON(); err != nil || string(got) != "null" {
		t.Errorf("an infinite share is %s, %v", got, err)
	}
}
