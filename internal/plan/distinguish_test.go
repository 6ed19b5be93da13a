package plan

import "testing"

// TestDistinguish: if two choices of a flag share a name, the user's spelling precedes it, in rows and in
// tried rates; other names stay.
func TestDistinguish(t *testing.T) {
	row := func(gpu, called string) *Row {
		return &Row{Load: Load{System: "l3", GPU: gpu}, Called: []string{"l3", "", called, ""}}
	}
	r := &Report{Rows: []*Row{row("h100", "one.toml"), row("h100", "two.toml"), row("a100", "a100")}}
	r.Rows[1].Tried, r.Rows[2].Tried = []Load{{GPU: "h100"}}, []Load{{GPU: "a100"}}
	r.List()
	got := []string{r.Rows[0].GPU, r.Rows[1].GPU, r.Rows[2].GPU, r.Tried[1].GPU, r.Tried[0].GPU, r.Rows[0].System}
	for i, want := range []string{"one.toml: h100", "two.toml: h100", "a100", "a100", "two.toml: h100", "l3"} {
		if got[i] != want {
			t.Errorf("%d: %s, want %s", i, got[i], want)
		}
	}
}
