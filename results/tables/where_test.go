package tables

import (
	"errors"
	"github.com/l3sim/l3sim/input"
	"math"
	"strings"
	"testing"
)

func TestWhere(t *testing.T) {
	table, err := readTable("r.csv", strings.NewReader(
		"point,node.memory_capacity_bytes,run.model,status,tbt_p99_ms,pcie.bandwidth_GB_per_s\n"+
			"a,1099511627776,opt-66b,done,99.5,25\nb,2199023255552,opt-66b,done,2000,12.5\nc,2199023255552,gpt-89b,failed,,50\n"))
	if err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]string{
		"model=opt-66b": "ab", "model = gpt-89b": "c", "tbt_p99_ms<=99.5": "a", "tbt_p99_ms<99.6": "a", "tbt_p99_ms > 99.5": "b",
		"tbt_p99_ms>=2s": "b", "memory_capacity>=2TiB": "bc", "memory_capacity<2TiB": "a", "bandwidth<=0.025TB/s": "ab", "bandwidth>0.03TB/s": "c",
		"memory_capacity>1.5e12": "bc", "tbt_p99_ms>=0": "ab", // an empty cell is no number
	} {
		got, err := table.Where("--where", []string{condition})
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		points := ""
		for _, row := range got.Rows {
			points += row[0].String()
		}
		if points != want {
			t.Errorf("%s: got %s, want %s", condition, points, want)
		}
	}
	for condition, want := range map[string]string{
		"tbt_p99_ms<=fast":     `--where tbt_p99_ms = "fast": expected a number after <=, in ms or with a unit`,
		"tbt_p99_ms<=":         `--where tbt_p99_ms = "": expected a number after <=`,
		"tbt_p99_ms>2GiB":      `--where tbt_p99_ms = "2GiB": expected a number after >`,
		"tbt_p99_ms>NaN":       `--where tbt_p99_ms = "NaN": expected a number after >`,
		"tbt_p98_ms>1":         `did you mean "tbt_p99_ms"?`,
		"tbt_p99_ms>1e9":       "expected at least one row that fulfils tbt_p99_ms>1e9",
		"model>=a":             `--where run.model = "a": expected a number after >=`,
		"<=5":                  `--where = "": expected a column`,
		"model":                "expected COLUMN=VALUE",
		"tbt_p99_ms>5 and < 7": "expected a number",
	} {
		if _, err := table.Where("--where", []string{condition}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", condition, err, want)
		}
	}
}

func TestTableJSON(t *testing.T) {
	table, err := readTable("r.csv", strings.NewReader("point,a,b,c\nx,1,007,\ny,,8,-2.5e3\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := table.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	want := `{"schema":"l3sim/table/1","columns":["point","a","b","c"],"rows":[["x",1,7,null],["y",null,8,-2500]]}` + "\n"
	if b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
}

// TestLimit: a limit is read in the column's unit, and holds on one side only.
func TestLimit(t *testing.T) {
	table := &Table{Name: "t", Columns: []string{"tbt_p99_ms", "n"}}
	for _, c := range []struct {
		text  string
		want  Limit
		value float64
		holds bool
	}{
		{"tbt_p99 <= 0.1s", Limit{"tbt_p99_ms", "<=", 100, 0}, 100, true},
		{"tbt_p99 <= 0.1s", Limit{"tbt_p99_ms", "<=", 100, 0}, 150, false},
		{"tbt_p99 < 100", Limit{"tbt_p99_ms", "<", 100, 0}, 100, false},
		{"n>=-4", Limit{"n", ">=", -4, 1}, -5, false},
		{"n > 0", Limit{"n", ">", 0, 1}, -3, false},
		{"n > 0", Limit{"n", ">", 0, 1}, 3, true},
	} {
		l, err := table.parseLimit("f", c.text)
		if err != nil || l != c.want || l.Holds(c.value) != c.holds {
			t.Errorf("%s of %g: %v, %+v", c.text, c.value, err, l)
		}
	}
}

// TestNothingAsked: without conditions a table stays as it is, even without rows.
func TestNothingAsked(t *testing.T) {
	table := &Table{Columns: []string{"a"}}
	if got, err := table.Where("--where", nil); got != table || err != nil {
		t.Error(got, err)
	}
	if got, err := table.Best("--best", ""); got != table || err != nil {
		t.Error(got, err)
	}
}

// FuzzConditions: conditions, limits of a change and goals are refused with an input.Error or work.
func FuzzConditions(f *testing.F) {
	table, err := readTable("r.csv", strings.NewReader(
		"point,node.memory_capacity_bytes,run.model,status,tbt_p99_ms,pcie.bandwidth_GB_per_s\n"+
			"a,1099511627776,opt-66b,done,99.5,25\nb,2199023255552,opt-66b,done,2000,12.5\nc,2199023255552,gpt-89b,failed,,50\n"))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"model=opt-66b", "tbt_p99_ms >= 2s", "memory_capacity<2TiB", "tbt_p99_ms<-2%", "status>=", "=", "<=", "max tbt_p99_ms over model", "min tbt_p99_ms over model, status", " over "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		refused := func(err error) bool {
			var bad *input.Error
			if err != nil && !errors.As(err, &bad) {
				t.Fatalf("%q: %T: %v", text, err, err)
			}
			return err != nil
		}
		if some, err := table.Where("--where", []string{text}); !refused(err) && (len(some.Rows) == 0 || len(some.Rows) > len(table.Rows)) {
			t.Fatalf("%q: %d rows", text, len(some.Rows))
		}
		rule, err := ParseRule("--fail-if", text, []string{"tbt_p99_ms"})
		if !refused(err) && (rule.Column != "tbt_p99_ms" || math.IsNaN(rule.Value)) {
			t.Fatalf("%q: %+v", text, rule)
		}
		if goal, over, err := table.parseBest("--best", text); !refused(err) && (len(over) == 0 || goal.Column == "") {
			t.Fatalf("%q: %+v over %v", text, goal, over)
		}
	})
}
