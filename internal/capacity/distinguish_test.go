package capacity

import "testing"

// TestDistinguish: a name that two choices of a flag share gets what the user calls each in front, in the rows
// and in the rates that were tried; other names stay.
func TestDistinguish(t *testing.T) {
	load := func(gpu string) Load { return Load{System: "l3", GPU: gpu} }
	r := &Report{Rates: []ReportedRate{{Load: load("h100")}, {Load: load("h100")}, {Load: load("a100")}}, Tried: []Load{load("a100"), load("h100")}, origins: []int{2, 1}}
	r.Distinguish([]map[string]string{{"gpu.preset": "one.toml"}, {"gpu.preset": "two.toml"}, {"gpu.preset": "a100"}})
	got := []string{r.Rates[0].GPU, r.Rates[1].GPU, r.Rates[2].GPU, r.Tried[0].GPU, r.Tried[1].GPU, r.Rates[0].System, r.called[1][2]}
	for i, want := range []string{"one.toml: h100", "two.toml: h100", "a100", "a100", "two.toml: h100", "l3", "two.toml"} {
		if got[i] != want {
			t.Errorf("%d: %s, want %s", i, got[i], want)
		}
	}
}
