package whole

import (
	"bytes"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// TestFitHosts finds the host time of rows that have it, group by group, and none where predictions are above.
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
