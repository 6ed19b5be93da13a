package whole

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// TestFitHosts finds the host time of rows that have one, group by group, and none if predictions are above
// the measurements.
func TestFitHosts(t *testing.T) {
	const us = units.Microsecond
	host := gpu.HostSpec{Exposed: 1200 * us, Step: 4000 * us, Sequence: 40 * us}
	var rows []Compared
	for _, g := range []string{"a", "b", "c", "d"} {
		for _, seats := range []int{1, 8, 64, 128} {
			for _, ms := range []float64{2, 5, 20} {
				took := units.Duration(ms * float64(units.Millisecond))
				row := Row{Model: g, Framework: "vllm"}
				rows = append(rows, Compared{Row: row, Metric: TPOT, Judged: true, Seats: seats, Predicted: ms, Measured: ms + host.Visible(took, seats).Seconds()*1e3})
				row.Framework = "sglang"
				rows = append(rows, Compared{Row: row, Metric: TPOT, Judged: true, Seats: seats, Predicted: ms, Measured: 0.9 * ms})
			}
		}
	}
	fits := FitHosts(report("f", rows))
	if len(fits) != 2 || fits[0].Framework != "sglang" || fits[0].All != (gpu.HostSpec{}) || fits[0].With != fits[0].Without {
		t.Errorf("%+v", fits)
	}
	if v := fits[1]; v.All != host || v.Half != host || v.Groups != 4 || v.Rows != 48 || v.With > 1e-9 || v.HeldOut > 1e-9 || v.Without < 0.1 {
		t.Errorf("%+v", v)
	}
	var out bytes.Buffer
	if err := WriteHosts(&out, fits); err != nil || !strings.Contains(out.String(), `vllm, 4 groups of 48 rows: exposed = "1.2ms", step = "4ms", sequence = "40us"`) {
		t.Errorf("%v %s", err, out.String())
	}
}

// TestFitHostsOfUnequalGroups: four groups of one row each, predicted at 10 ms, take 2, 4, 6 and 20 ms more. Errors are relative to the measurement,
// so the rows weigh 1/12, 1/14, 1/16 and 1/30: the weighted median is 4 ms, and that of the first and third group 2 ms. Rows of other metrics, and
// rows that are not judged, do not count.
func TestFitHostsOfUnequalGroups(t *testing.T) {
	row := func(model, framework string, ms float64) Compared {
		return Compared{Row: Row{Model: model, Framework: framework}, Metric: TPOT, Judged: true, Seats: 1, Predicted: 10, Measured: 10 + ms}
	}
	rows := []Compared{row("a", "vllm", 2), row("b", "vllm", 4), row("c", "vllm", 6), row("d", "vllm", 20), row("a", "sglang", 3)}
	unjudged, other := row("a", "vllm", 17), row("a", "vllm", 18)
	unjudged.Judged, other.Metric = false, "ttft"
	fits := FitHosts(report("f", append(rows, unjudged, other)))
	if len(fits) != 2 || fits[0].Framework != "sglang" || fits[0].Groups != 1 || fits[0].Rows != 1 || fits[0].HeldOut != 0 || fits[0].HeldOutWithout != 0 {
		t.Fatalf("%+v", fits)
	}
	v := fits[1]
	for _, c := range []struct {
		of   string
		host gpu.HostSpec
		ms   units.Duration
	}{{"all groups", v.All, 4}, {"half of them", v.Half, 2}} {
		if got := c.host.Visible(10*units.Millisecond, 1); got != c.ms*units.Millisecond {
			t.Errorf("%s: %v, by hand %d ms", c.of, got, c.ms)
		}
	}
	for what, c := range map[string][2]float64{ // the mean of the middle two
		"without": {v.Without, (4./14 + 6./16) / 2}, "with": {v.With, (2./12 + 2./16) / 2}, // 2/12, 0, 2/16, 16/30
		"held out": {v.HeldOut, (2./14 + 18./30) / 2}, "held out, without": {v.HeldOutWithout, (4./14 + 20./30) / 2},
	} {
		if math.Abs(c[0]-c[1]) > 1e-9 {
			t.Errorf("%s: %v, by hand %v", what, c[0], c[1])
		}
	}
	if v.Groups != 4 || v.Rows != 4 {
		t.Errorf("%+v", v)
	}
}
