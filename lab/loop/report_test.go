package loop

import (
	"strings"
	"testing"
)

// TestTextByHand: each series, and all together, have the errors with the measured GPU part before those with own kernels; rows that are not judged have a
// reason.
func TestTextByHand(t *testing.T) {
	c := Case{Model: "m", GPUs: 2, SubBatches: 3, Batch: 4, StandIn: Device}
	chunks := c
	chunks.Chunk, chunks.Finished, chunks.StandIn = 5, 6, Host
	e := func(n float64) Errors {
		return Errors{Rows: int(n), MAPE: n / 100, P90: n / 50, Bias: -n / 100, JoulesBias: n / 200}
	}
	r := &Report{File: "f.csv", Node: "node", Series: []SeriesErrors{{c, e(1)}, {chunks, e(2)}}, Own: []SeriesErrors{{c, e(3)}, {chunks, e(4)}},
		All: []Whole{{false, e(5)}, {true, e(6)}}, OwnAll: []Whole{{false, e(7)}, {true, e(8)}}, Left: []LeftOut{{chunks, "why"}}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	want := []string{
		"f.csv on node rows mean p90 bias joules own kernels: mean p90 bias joules",
		"m, 2 GPUs, 3 sub-batches of 4, device 1 1.0% 2.0% -1.0% +0.5% 3.0% 6.0% -3.0% +1.5%",
		"m, 2 GPUs, 3 sub-batches of 4 + 5 after 6, host 2 2.0% 4.0% -2.0% +1.0% 4.0% 8.0% -4.0% +2.0%",
		"all without chunks 5 5.0% 10.0% -5.0% +2.5% 7.0% 14.0% -7.0% +3.5%",
		"all with chunks 6 6.0% 12.0% -6.0% +3.0% 8.0% 16.0% -8.0% +4.0%",
		"not judged: m, 2 GPUs, 3 sub-batches of 4 + 5 after 6, host: why", "",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if err := nothingToFit("f.csv"); err.Error() != "f.csv: expected three judged rows or more" {
		t.Errorf("got %v", err)
	}
}
