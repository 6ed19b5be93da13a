package hostkv

import (
	"strings"
	"testing"
)

// TestTextByHand: each mode has its errors in the order of the columns; a mode without rows says so.
func TestTextByHand(t *testing.T) {
	e := func(n int) Errors { return Errors{Rows: n, Median: float64(n) / 100, P90: float64(n) / 50} }
	r := &Report{File: "f.csv", Modes: []ModeErrors{{"one", e(1), e(2), e(3)}, {"two", e(0), e(4), e(5)}}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := []string{
		"iterations of f.csv through the flow of sparse-offload, with the measured GPU part", "", "mode added time, large iteration, added time small iteration, all rows",
		"one 1: 1.0%, 2.0% 2: 2.0%, 4.0% 3: 3.0%, 6.0%", "two no rows 4: 4.0%, 8.0% 5: 5.0%, 10.0%", "",
		"rows: median and 90th percentile of the absolute error; added time is that beyond the GPU's part, and large where it is 10% of that or more", "",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
