package hostkv

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pcie"
)

func measured(t *testing.T) *Measured {
	t.Helper()
	m, err := ReadAll("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// TestFit: the shipped parameters are those of the fit.
func TestFit(t *testing.T) {
	g, err := Fit(measured(t))
	if err != nil || g != pcie.MeasuredGather() {
		t.Errorf("fitted %+v, shipped %+v; %v", g, pcie.MeasuredGather(), err)
	}
}

// TestErrors: fetches alone and next to products are within the page's errors.
func TestErrors(t *testing.T) {
	m, g := measured(t), pcie.MeasuredGather()
	all := m.alone()
	fetches := judgeFetches(&g, all[:len(m.Fetches)])
	beside, product := JudgeBeside(&g, m.Beside)
	for _, c := range []struct {
		name        string
		got         Errors
		rows        int
		median, p90 float64
	}{{"fetches", fetches, 200, 0.021, 0.095}, {"fetches beside products", beside, 32, 0.065, 0.23}, {"products", product, 32, 0.05, 0.18}} {
		if c.got.Rows != c.rows || c.got.Median > c.median || c.got.P90 > c.p90 {
			t.Errorf("%s: %+v, expected %d rows, %v and %v", c.name, c.got, c.rows, c.median, c.p90)
		}
	}
}

// TestHeldOut: fits to all pools but one, or all row sizes but one, predict the fetches of that
// one.
func TestHeldOut(t *testing.T) {
	deep.Heavy(t)
	m := measured(t)
	all := m.alone()
	for _, key := range []func(f *Fetch) string{func(f *Fetch) string { return f.Pool }, func(f *Fetch) string { return f.Bytes.String() }} {
		var done []string
		for i := range m.Fetches {
			name := key(&m.Fetches[i])
			if slices.Contains(done, name) {
				continue
			}
			done = append(done, name)
			var in, out []sample
			for k := range all {
				if k < len(m.Fetches) && key(&m.Fetches[k]) == name {
					out = append(out, all[k])
				} else {
					in = append(in, all[k])
				}
			}
			g, err := fit(in)
			e := judgeFetches(&g, out)
			if t.Logf("%s held out: %+v", name, e); err != nil || e.Median > 0.08 || e.P90 > 0.2 {
				t.Errorf("%s held out: %+v with %+v; %v", name, e, g, err)
			}
		}
	}
}
