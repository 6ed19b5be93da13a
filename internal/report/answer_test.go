package report

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestAnswers: a sentence names the best point of a goal, and the best of another system or, of one
// system, the first point.
func TestAnswers(t *testing.T) {
	columns := []Column{{Name: tables.PointColumn}, {Name: "run.system"}, {Name: "output_tokens_per_s"}, {Name: "tbt_p99_ms"}}
	s := &Set{Columns: columns, Goals: []Goal{{"output_tokens_per_s", "throughput", true}, {"tbt_p99_ms", "TBT p99 (ms)", false}},
		Headline: []Headline{{Point: "b"}, {Point: "c"}},
		Rows:     [][]any{{"a", "gpu-only", 99.5, 40.0}, {"b", "l3", 210.44, 50.0}, {"c", "gpu-only", 90.0, 20.0}, {"d", "l3", 30.0, 32.0}}}
	s.answers()
	want := "b is best for throughput: 210, 2.11 times that of the best of gpu-only (99.5)./c is best for TBT p99 (ms): 20, 37.5% less than the best of l3 (32)."
	if got := strings.Join(s.Answers, "/"); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	for i := range s.Rows {
		s.Rows[i][1] = "l3"
	}
	s.Columns = []Column{columns[0], {Name: "run.trace"}, columns[2], columns[3]}
	s.Answers = nil
	s.answers()
	want = "b is best for throughput: 210, 2.11 times that of a (99.5)./c is best for TBT p99 (ms): 20, 50% less than a (40)."
	if got := strings.Join(s.Answers, "/"); got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	s.Headline[0].Point, s.Answers = "a", nil
	if s.answers(); s.Answers[0] != "a is best for throughput: 99.5." {
		t.Error(s.Answers[0])
	}
}

func TestReadable(t *testing.T) {
	for v, want := range map[float64]string{41.4859: "41.5", 0.0123456: "0.0123", 1234.56: "1235", 99.96: "100", -5.4321: "-5.43"} {
		if got := readable("tbt_p99_ms", v); got != want {
			t.Errorf("%g: %s, not %s", v, got, want)
		}
	}
	for _, c := range []struct {
		value, base float64
		want        string
	}{{3, 3, ", as"}, {3, 0, ", beside"}, {6, 3, ", 2 times that of"}, {4.5, 3, ", 50% more than"}, {1.5, 3, ", 50% less than"}} {
		if got := ahead(c.value, c.base); got != c.want {
			t.Errorf("%g and %g: %q", c.value, c.base, got)
		}
	}
}

// TestSpread: each goal has the deviation over the seeds of each point, also where points are left out.
func TestSpread(t *testing.T) {
	dir := folder(t, 40, func(i int) string { return "p" + strings.Repeat("x", i) })
	r, err := Read([]string{dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sets[0]
	s.thin()
	if len(s.Spread) != len(s.Rows) {
		t.Fatalf("%d of %d points", len(s.Spread), len(s.Rows))
	}
	for _, stds := range s.Spread {
		for i := range s.Goals {
			if math.Abs(stds[i]-math.Sqrt(0.5)) > 1e-3 { // the second seed's values are 1 more
				t.Fatalf("%v", stds)
			}
		}
	}
}
