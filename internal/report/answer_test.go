package report

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestAnswer: a sentence names the best point of a goal with its unit and band of prices, and the best of another system or, if
// there is one system, the next best point. Numbers that stand for names are explained.
func TestAnswer(t *testing.T) {
	table := &tables.Table{Columns: []string{tables.PointColumn, "run.system", "output_tokens_per_s", "tbt_p99_ms", "usd_per_million_output_tokens", "usd_per_million_output_tokens_low", "usd_per_million_output_tokens_high"}}
	table.Add("a", "gpu-only", 99.5, 40.0, 4.0, 3.0, 5.0)
	table.Add("b", "l3", 210.44, 50.0, 2.0, 1.5, 2.5)
	table.Add("c", "gpu-only", 90.0, 20.0, 5.0, 4.0, 6.0)
	table.Add("d", "l3", nil, 32.0, 6.0, 5.0, 7.0)
	s := &Set{Names: []string{"a", "b", "c", "d"}, Signs: make([]string, 4)}
	goals, err := table.ParseGoals("", "max output_tokens_per_s, min tbt_p99_ms, min usd_per_million_output_tokens")
	if err != nil {
		t.Fatal(err)
	}
	check := func(goal, best int, want string) {
		t.Helper()
		if got, _ := s.answers(table, goals[goal], best); got != want {
			t.Errorf("%s\nnot %s", got, want)
		}
	}
	check(0, 1, "l3 has the highest throughput: 210 output tokens/s (design b), 2.11 times that of gpu-only at its best (99.5, design a).")
	check(1, 2, "gpu-only has the lowest time between tokens, 99th percentile: 20 ms (design c), 37.5% less than l3 at its best (32, design d).")
	check(2, 1, "l3 has the lowest cost: 2 USD per million output tokens, 1.5 to 2.5 by the bands of prices (design b), 50% less than gpu-only at its best (4, design a).")
	s.Names[2], table.Rows[2][0] = "#3", tables.Of("x=1,y=2")
	check(0, 2, "gpu-only has the highest throughput: 90 output tokens/s (design #3: x=1, y=2), 57.2% less than l3 at its best (210, design b).")
	for _, row := range table.Rows {
		row[1] = tables.Value{}
	}
	check(0, 1, "Design b has the highest throughput: 210 output tokens/s, 2.11 times that of the next best (99.5, design a).")
	check(1, 3, "Design d has the lowest time between tokens, 99th percentile: 32 ms, 60% more than the next best (20, design #3).")
	s.Names, s.Signs, table.Rows = s.Names[1:2], s.Signs[1:2], table.Rows[1:2]
	check(1, 0, "time between tokens, 99th percentile: 50 ms.")
}

func TestReadable(t *testing.T) {
	for v, want := range map[float64]string{41.4859: "41.5", 0.0123456: "0.0123", 1234.56: "1235", 99.96: "100", -5.4321: "-5.43", -100.4: "-100", -100: "-100", 100: "100"} {
		if got := readable("tbt_p99_ms", v); got != want {
			t.Errorf("%g: %s, not %s", v, got, want)
		}
	}
	for _, c := range []struct {
		value, base float64
		want        string
	}{{3, 3, "as much as"}, {3, 0, "beside"}, {6, 3, "2 times that of"}, {4.5, 3, "50% more than"}, {1.5, 3, "50% less than"}} {
		if got := ahead(c.value, c.base); got != c.want {
			t.Errorf("%g and %g: %q", c.value, c.base, got)
		}
	}
}

// TestSpread: each goal has the deviation over each point's seeds, also if points are left out.
func TestSpread(t *testing.T) {
	dir := folder(t, 40, func(i int) string { return "p" + strings.Repeat("x", i) })
	r, err := Read([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sets[0]
	s.thin()
	if len(s.Spread) != len(s.Rows) || len(s.Names) != len(s.Rows) || s.Names[1] != s.Rows[1][0] || s.Names[len(s.Names)-1] != "#40" {
		t.Fatalf("%d spreads and %q of %d points", len(s.Spread), s.Names, len(s.Rows))
	}
	for _, stds := range s.Spread {
		for i := range s.Goals {
			if stds[i] != 0.707 { // the second seed's values are 1 more
				t.Fatalf("%v", stds)
			}
		}
	}
}

// TestAnswerIsBuilt: the best design for a goal is one that a board can hold, and is compared only with such; a sentence names a better
// one that none can hold. Signs follow names.
func TestAnswerIsBuilt(t *testing.T) {
	table := &tables.Table{Columns: []string{tables.PointColumn, "run.system", "output_tokens_per_s", "beyond_boards"}}
	for i, boards := range []bool{false, true, false, true} {
		table.Add(string(rune('a'+i)), "l3", 100.0*float64(i+1), boards)
	}
	s := &Set{Names: []string{"a", "b", "c", "d"}, Signs: []string{"", " †", " ‡", " †"}}
	goals, err := table.ParseGoals("", "max output_tokens_per_s, min beyond_boards")
	if err != nil {
		t.Fatal(err)
	}
	want := "Design c ‡ has the highest throughput: 300 output tokens/s, 3 times that of the next best (100, design a)." +
		" Design d † would have 400 output tokens/s, but no board of a server holds it."
	if got, row := s.answers(table, goals[0], 3); got != want || row != 2 {
		t.Errorf("%d: %s\nnot %s", row, got, want)
	}
	for i := range table.Rows {
		table.Rows[i][3] = tables.Of(true)
	}
	want = "No board of a server holds any of these designs. Design d † has the highest throughput: 400 output tokens/s, 33.3% more than the next best (300, design c ‡)."
	if got, _ := s.answers(table, goals[0], 3); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
}
