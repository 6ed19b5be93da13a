package tables

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dominated is the definition, over all pairs.
func dominated(values []float64, goals int) []bool {
	n := len(values) / goals
	is := make([]bool, n)
	for i := range is {
		for j := range n {
			noWorse, better := true, false
			for g := range goals {
				a, b := values[j*goals+g], values[i*goals+g]
				noWorse, better = noWorse && a <= b, better || a < b
			}
			is[i] = is[i] || noWorse && better
		}
	}
	return is
}

// TestNonDominated compares with the definition: coarse values, for ties and equal points, and fine
// ones.
func TestNonDominated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		goals := rapid.IntRange(1, 3).Draw(t, "goals")
		value := rapid.Custom(func(t *rapid.T) float64 { return float64(rapid.IntRange(-3, 3).Draw(t, "v")) })
		if rapid.Bool().Draw(t, "fine") {
			value = rapid.Float64Range(-1e300, 1e300)
		}
		values := rapid.SliceOfN(value, 0, 40*goals).Draw(t, "values")
		values = values[:len(values)/goals*goals]
		on := NonDominated(values, goals)
		for i, is := range dominated(values, goals) {
			if on[i] == is {
				t.Fatalf("point %d of %v with %d goals: on the front %t, dominated %t", i, values, goals, on[i], is)
			}
		}
	})
}

func TestParseGoals(t *testing.T) {
	table := &Table{Name: "r.csv", Columns: []string{"point", "node.memory_capacity_bytes", "output_tokens_per_s", "tbt_p99_ms"}}
	goals, err := table.ParseGoals("--goals", " max output_tokens_per_s,min tbt_p99_ms , min memory_capacity")
	if got := fmt.Sprint(goals); err != nil || got != "[max output_tokens_per_s min tbt_p99_ms min node.memory_capacity_bytes]" {
		t.Errorf("%s, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                     "expected two or three goals",
		"max tbt_p99_ms":                       "expected two or three goals",
		"max a, min b, min c, min d":           "expected two or three goals",
		"tbt_p99_ms, max output_tokens_per_s":  `--goals = "tbt_p99_ms": expected "max COLUMN" or "min COLUMN"`,
		"maximise tbt_p99_ms, min point":       `expected "max COLUMN" or "min COLUMN"`,
		"min tbt_p98_ms, max point":            `--goals = "tbt_p98_ms": expected a column of r.csv; did you mean "tbt_p99_ms"?`,
		"min tbt_p99_ms, max tbt_p99":          "expected each column once; tbt_p99_ms is there twice",
		"min tbt_p99_ms, max":                  `expected "max COLUMN" or "min COLUMN"`,
		"min tbt_p99_ms, max output tokens ms": `expected "max COLUMN" or "min COLUMN"`,
	} {
		if _, err := table.ParseGoals("--goals", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func FuzzParseGoals(f *testing.F) {
	table := &Table{Name: "r.csv", Columns: []string{"point", "node.memory_capacity_bytes", "output_tokens_per_s", "tbt_p99_ms"}}
	f.Add("max output_tokens_per_s, min tbt_p99_ms")
	f.Add("max output_tokens_per_s, min tbt_p99_ms, min memory_capacity")
	f.Add("max a,,min")
	f.Fuzz(func(t *testing.T, text string) {
		goals, err := table.ParseGoals("--goals", text)
		if err != nil {
			return
		}
		var written []string
		for _, g := range goals {
			written = append(written, g.String())
		}
		again, err := table.ParseGoals("--goals", strings.Join(written, ", "))
		if err != nil || !slices.Equal(again, goals) {
			t.Fatalf("%q reads as %v, and that as %v, %v", text, goals, again, err)
		}
	})
}

// hardFront returns n points of three goals on or near a descending plane, so that most are on the
// front.
func hardFront(n int) []float64 {
	random := rand.New(rand.NewPCG(3, 0))
	values := make([]float64, 0, 3*n)
	for range n {
		x, y := random.Float64(), random.Float64()
		values = append(values, x, y, 2-x-y+0.001*random.Float64())
	}
	return values
}

func BenchmarkNonDominated(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		values := hardFront(n)
		two := make([]float64, 0, 2*n)
		for i := range n {
			two = append(two, values[3*i], values[3*i+1])
		}
		for i, v := range [][]float64{two, values} {
			b.Run(fmt.Sprintf("goals=%d/points=%d", 2+i, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					NonDominated(v, 2+i)
				}
			})
		}
	}
}
