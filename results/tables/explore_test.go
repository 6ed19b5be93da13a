package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
	"pgregory.net/rapid"
)

// designSpace is the results of a sweep over all combinations of 8 ranksets, 4 link rates and a
// switch, with 2 seeds: throughput rises with the ranksets, so does latency unless the links are
// fast, and the switch does nothing. One point failed, one has no latency.
func designSpace() *Table {
	t := &Table{Name: "results.csv", Columns: []string{"point", "node.ranksets", "pcie.rate_GB_per_s", "comm.rotation", "run.seed", "status", "error", "config_sha256", "output_tokens_per_s", "tbt_p99_ms"}}
	add := func(name string, cells ...string) {
		for seed := 1; seed <= 2; seed++ {
			row := append([]string{name}, cells[:3]...)
			row = append(row, strconv.Itoa(seed), cells[3], "", "x")
			for _, v := range cells[4:] {
				if x, err := strconv.ParseFloat(v, 64); err == nil {
					v = ftoa(x + float64(2*seed-3)) // plus or minus one
				}
				row = append(row, v)
			}
			t.Rows = append(t.Rows, list.Map(row, parse))
		}
	}
	for ranks := 1; ranks <= 8; ranks++ {
		for _, rate := range []int{10, 20, 40, 80} {
			for _, rotation := range []string{"true", "false"} {
				add(fmt.Sprintf("r%d,l%d,%s", ranks, rate, rotation), strconv.Itoa(ranks), strconv.Itoa(rate), rotation, StatusDone,
					strconv.Itoa(100*ranks), strconv.Itoa(50+10*ranks+800/rate))
			}
		}
	}
	add("broken", "16", "10", "true", StatusFailed, "", "")
	add("idle", "1", "5", "true", StatusDone, "0", "")
	return t
}

func explore(t testing.TB, table *Table, goals string) *Exploration {
	t.Helper()
	g, err := table.ParseGoals("--goals", goals)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Explore(table, g)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestGoalIsNoKnob: a key that is a goal is no knob of any point.
func TestGoalIsNoKnob(t *testing.T) {
	e := explore(t, designSpace(), "max output_tokens_per_s, min node.ranksets")
	if len(e.Front) != 8*8 || len(e.Shared) != 0 { // each number of ranksets, with any links and switch
		t.Errorf("%d points on the front share %v", len(e.Front), e.Shared)
	}
	for _, p := range e.Front {
		if got := len(p.Knobs); got != 2 || p.Knobs[0].Column == "node.ranksets" {
			t.Errorf("%v", p.Knobs)
		}
	}
	for _, k := range e.Knobs {
		if k.Column == "node.ranksets" {
			t.Errorf("%+v", k)
		}
	}
}

// TestIncompleteSeeds: a point without a goal in one of its seeds is left out; other seeds do not replace it.
func TestIncompleteSeeds(t *testing.T) {
	table := designSpace()
	tbt := slices.Index(table.Columns, "tbt_p99_ms")
	table.Rows[0][tbt] = Value{}
	e := explore(t, table, "max output_tokens_per_s, min tbt_p99_ms")
	if e.Points != 8*4*2-1 || e.Failed != 1 || e.Incomplete != 2 { // plus the point without latency
		t.Errorf("%d points, %d failed, %d incomplete", e.Points, e.Failed, e.Incomplete)
	}
}

// TestExplore: the front is all ranksets at the fastest links, with the switch on or off. The link
// rate is first among the knobs; the others are as frequent on the front as among all points.
func TestExplore(t *testing.T) {
	e := explore(t, designSpace(), "max output_tokens_per_s, min tbt_p99_ms")
	if e.Points != 64 || e.Failed != 1 || e.Incomplete != 1 || len(e.Front) != 16 {
		t.Fatalf("%+v", e)
	}
	if got := fmt.Sprint(e.Shared); got != "[{pcie.rate_GB_per_s 80}]" {
		t.Errorf("shared %s", got)
	}
	first, last := e.Front[0], e.Front[15]
	if first.Point != "r8,l80,true" || e.Front[1].Point != "r8,l80,false" || last.Point != "r1,l80,false" || first.Values[0] != 800 || first.Seeds != 2 || first.Std[0] != math.Sqrt2 {
		t.Errorf("front from %+v to %+v", first, last)
	}
	if got := fmt.Sprint(first.Knobs); got != "[{node.ranksets 8} {comm.rotation true}]" {
		t.Errorf("knobs %s", got)
	}
	want := "[{pcie.rate_GB_per_s {80  16 16} [{10  0 16} {20  0 16} {40  0 16} {80  16 16}]} " +
		"{node.ranksets {1  2 8} [{1  2 8} {2  2 8} {3  2 8} {4  2 8} {5  2 8} {6  2 8} {7  2 8} {8  2 8}]} " +
		"{comm.rotation {true  8 32} [{true  8 32} {false  8 32}]}]"
	if got := fmt.Sprint(e.Knobs); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestExploreText(t *testing.T) {
	var b, again, asJSON bytes.Buffer
	e := explore(t, designSpace(), "max output_tokens_per_s, min tbt_p99_ms")
	if err := e.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"16 of 64 points on the front of max output_tokens_per_s, min tbt_p99_ms\nleft out: 1 that failed\nleft out: 1 without a number for each goal\n",
		"node.ranksets  comm.rotation  output_tokens_per_s      std  tbt_p99_ms      std  seeds\n",
		"            8  true                           800  1.41421         140  1.41421      2\n",
		"all of them: pcie.rate_GB_per_s = 80\n",
		"pcie.rate_GB_per_s  80         16 of 16     25%  10: 0/16, 20: 0/16, 40: 0/16, 80: 16/16\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "†") {
		t.Error("a sign without a reason")
	}
	beyond := designSpace() // with more DIMMs than slots at 8 ranksets
	ranksets := slices.Index(beyond.Columns, "node.ranksets")
	beyond.Columns = append(beyond.Columns, "beyond_boards")
	for i, row := range beyond.Rows {
		beyond.Rows[i] = append(row, Of(row[ranksets] == Of(8)))
	}
	var marked bytes.Buffer
	if err := explore(t, beyond, "max output_tokens_per_s, min tbt_p99_ms").WriteText(&marked); err != nil || strings.Count(marked.String(), "          8 †  ") != 2 ||
		strings.Count(marked.String(), " †") != 2 || !strings.Contains(marked.String(), "\n"+(results.Limits{Boards: true}).Legend()+"\n") {
		t.Errorf("%v\n%s", err, marked.String())
	}
	if err := explore(t, designSpace(), "max output_tokens_per_s, min tbt_p99_ms").WriteText(&again); err != nil || again.String() != b.String() {
		t.Errorf("%v, another text the second time", err)
	}
	if err := results.WriteJSON(&asJSON, e); err != nil {
		t.Fatal(err)
	}
	var back Exploration
	if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || back.Schema != exploreSchema || len(back.Front) != 16 || back.Goals[1].Column != "tbt_p99_ms" {
		t.Errorf("%v\n%s", err, &asJSON)
	}
}

// TestNumbersForPeople: six digits for numbers of any size, all digits for whole keys, and no cell
// wider than a line.
func TestNumbersForPeople(t *testing.T) {
	for _, c := range []struct{ column, cell, want string }{
		{"x", "0", "0"},
		{"x", "1.2e-6", "1.2e-06"},
		{"x", "0.00123456789", "0.00123457"},
		{"x", "0.123456789", "0.123457"},
		{"x", "-93.0000001", "-93"},
		{"x", "123456.7", "123457"},
		{"x", "1234567.8", "1.23457e+06"},
		{"x", "1e308", "1e+308"},
		{"x", "16777217", "16777217"},
		{"x", "-", "-"},
		{"x", "NaN", "NaN"},
		{"x", "", "-"},
		{"x_bytes", "1099511627776", "1TiB"},
		{"x_bytes", "1e30", "1e+30"},
	} {
		if got := ForPeople(c.column, parse(c.cell)); got != c.want {
			t.Errorf("%s = %q: got %q, want %q", c.column, c.cell, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		text := ForPeople("x", Of(v))
		most := len("-1.23457e+308")
		if v == math.Trunc(v) {
			most = len("-9223372036854775808") // whole numbers keep all digits
		}
		if back, err := strconv.ParseFloat(text, 64); err != nil || len(text) > most || math.Abs(back-v) > 5e-6*math.Abs(v)+math.SmallestNonzeroFloat64 {
			t.Fatalf("%g as %q, %v", v, text, err)
		}
	})
}

func TestExploreRefuses(t *testing.T) {
	table := designSpace()
	goals, err := table.ParseGoals("--goals", "max output_tokens_per_s, min tbt_p99_ms")
	if err != nil {
		t.Fatal(err)
	}
	table.Rows = table.Rows[len(table.Rows)-4:]
	if _, err := Explore(table, goals); err == nil || !strings.Contains(err.Error(), "at least one point with a number for each; 1 failed, 1 lack one") {
		t.Errorf("got %v", err)
	}
	foreign := &Table{Name: "f.csv", Columns: []string{"a", "b"}, Rows: [][]Value{{Of(1), Of(2)}}}
	if goals, err = foreign.ParseGoals("--goals", "max a, min b"); err != nil {
		t.Fatal(err)
	}
	if _, err := Explore(foreign, goals); err == nil || !strings.Contains(err.Error(), "results that l3sim wrote, with a column point") {
		t.Errorf("got %v", err)
	}
}

// randomSpace is n points with a knob that determines the first goal and one without effect; the
// other goal is noise.
func randomSpace(n int, random *rand.Rand) *Table {
	t := &Table{Name: "results.csv", Columns: []string{"point", "a.decides", "b.idle", "run.seed", "status", "error", "config_sha256", "x_per_s", "y_ms"}}
	for i := range n {
		decides, idle := random.Float64(), random.Float64()
		t.Add(i, decides, idle, 1, StatusDone, "", "x", decides+0.1*random.Float64(), random.Float64()+decides)
	}
	return t
}

// TestCounts: in random spaces the values of a knob have equally many points, the counts add up,
// the most frequent value is the one that most exceeds its share, and knobs are ordered by that
// excess.
func TestCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		e := explore(t, randomSpace(60, random), "max x_per_s, min y_ms")
		excess := func(l Level) float64 { return float64(l.Front)/float64(len(e.Front)) - float64(l.All)/60 }
		before := 1.0
		for _, k := range e.Knobs {
			front, all, most := 0, 0, -1.0
			for _, l := range k.Levels {
				front, all, most = front+l.Front, all+l.All, max(most, excess(l))
				if l.All != 15 {
					t.Fatalf("a quarter of %s has %d points", k.Column, l.All)
				}
			}
			if front != len(e.Front) || all != e.Points {
				t.Fatalf("%s: %d of %d, %d of %d points", k.Column, front, len(e.Front), all, e.Points)
			}
			if excess(k.Most) != most || most > before+1e-12 {
				t.Fatalf("%s: %+v exceeds its share by %g, the most is %g, the knob before has %g", k.Column, k.Most, excess(k.Most), most, before)
			}
			before = most
		}
	}
}

func BenchmarkExplore(b *testing.B) {
	table := randomSpace(100_000, rand.New(rand.NewPCG(1, 2)))
	goals, err := table.ParseGoals("--goals", "max x_per_s, min y_ms, max idle")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Explore(table, goals); err != nil {
			b.Fatal(err)
		}
	}
}
