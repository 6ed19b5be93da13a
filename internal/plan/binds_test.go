package plan

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/internal/lab/deep"
)

// TestBinds: what binds is what raises the rate where there is twice of it, by a search of each doubled server; what does not, does not
// bind. Gains are as large as those of the searches.
func TestBinds(t *testing.T) {
	deep.Only(t)
	bound := map[string]bool{}
	for seed := range uint64(2) {
		s := randomGrid(t, seed)
		point := make([]int, len(s.knobs))
		found, err := s.binds(t.Context(), point)
		if err != nil {
			t.Fatal(err)
		}
		rate := func(sets ...string) float64 {
			cfg, err := s.load(point, sets...)
			if err != nil {
				return 0 // nobody can have it
			}
			a, err := (&capacity.Search{Precision: s.precision}).Find(t.Context(), cfg, s.trace)
			if err != nil {
				t.Fatal(err)
			}
			return a.Best.RatePerS
		}
		base := rate()
		cfg, err := s.load(point)
		if err != nil {
			t.Fatal(err)
		}
		for _, more := range doubled(cfg) {
			gain := rate(more.sets...)/base - 1
			i := slices.IndexFunc(found, func(b Bind) bool { return b.Name == more.name })
			switch {
			case i < 0 && gain > least+2*s.precision:
				t.Errorf("seed %d: %s raises the rate by %.0f%% and does not bind", seed, more.name, 100*gain)
			case i >= 0 && gain < least-2*s.precision:
				t.Errorf("seed %d: %s binds and raises the rate by %.0f%%", seed, more.name, 100*gain)
			case i >= 0:
				bound[more.name] = true
			}
		}
	}
	if len(bound) < 2 {
		t.Errorf("only %v bound anywhere", bound)
	}
}
