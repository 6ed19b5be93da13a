package loop

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestErrorsByHand: times 10% too long, 20% too short and 5% too long; joules 10% and 30% too many, in the rows that have
// them.
func TestErrorsByHand(t *testing.T) {
	rows := []Predicted{
		{MS: 10, WithGPU: 11, Own: 20, Joules: 100, WithGPUJ: 110, OwnJ: 200},
		{MS: 100, WithGPU: 80, Own: 200, WithGPUJ: 7, OwnJ: 200},
		{MS: 2, WithGPU: 2.1, Own: 4, Joules: 10, WithGPUJ: 13, OwnJ: 20},
	}
	same := func(got, want Errors) bool {
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
		return got.Rows == want.Rows && near(got.MAPE, want.MAPE) && near(got.P90, want.P90) && near(got.Bias, want.Bias) && near(got.JoulesBias, want.JoulesBias) && near(got.JoulesError, want.JoulesError)
	}
	// The sample's deviation is 0.1·√2, divided by the root of two rows.
	if got, want := summarise(rows, withGPU, withGPUJoules), (Errors{3, 0.35 / 3, 0.2, -0.05 / 3, 0.2, 0.1}); !same(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := summarise(rows, ownKernels, ownJoules), (Errors{3, 1, 1, 1, 1, 0}); !same(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := summarise(rows[:1], withGPU, withGPUJoules), (Errors{1, 0.1, 0.1, 0.1, 0.1, 0}); !same(got, want) {
		t.Errorf("one row: %+v, want %+v", got, want)
	}
	if got := summarise(nil, withGPU, withGPUJoules); got != (Errors{}) {
		t.Errorf("no row: %+v", got)
	}
}

// TestSeriesAreTheirRows: each series has the errors of its own rows, with the measured GPU part and with own kernels. The fit of two GPUs determines how their link is
// shared.
func TestSeriesAreTheirRows(t *testing.T) {
	m, err := Read("testdata/h200_tp2.csv")
	if err != nil {
		t.Fatal(err)
	}
	m.Series = m.Series[:2]
	r, err := Judge(m, configs.Options{Preset: "dgx-h200-l3"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Series) == 0 || len(r.Own) != len(r.Series) {
		t.Fatalf("%d series, %d of own kernels", len(r.Series), len(r.Own))
	}
	for i := range r.Series {
		var rows []Predicted
		for _, p := range r.Rows {
			if p.Case == r.Series[i].Case {
				rows = append(rows, p)
			}
		}
		if r.Series[i].Errors != summarise(rows, withGPU, withGPUJoules) || r.Own[i] != (SeriesErrors{r.Series[i].Case, summarise(rows, ownKernels, ownJoules)}) {
			t.Errorf("%+v and %+v are not the errors of their rows", r.Series[i], r.Own[i])
		}
	}
	sets, err := Fit(m, configs.Options{Preset: "dgx-h200-l3", Sets: []string{"pcie.join=123ns", "pcie.join_all_reduce=9us"}})
	if err != nil || len(sets) != 5 {
		t.Fatalf("%v, %v", sets, err)
	}
	for i, key := range []string{"pcie.latency=", "pcie.wake=", "pcie.join=123ns", "pcie.join_all_reduce=", "pcie.kernel_share="} {
		if !strings.HasPrefix(sets[i], key) || sets[i] == "pcie.join_all_reduce=9us" {
			t.Errorf("%s: %s", key, sets[i])
		}
	}
}
