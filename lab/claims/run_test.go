package claims

import (
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
)

// TestRun carries out all claims for real, in a quick run those of Fig 11, with few requests, and again from
// the cache.
func TestRun(t *testing.T) {
	deep.Heavy(t)
	target, most, least := Fig11, Fig11, 10
	if deep.On() {
		target, most, least = ClaimsOnly, AllTargets, 40
	}
	dir := t.TempDir()
	var reports [2]*Report
	for i := range reports {
		journal, err := sweep.OpenJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		points := int64(0)
		o := Options{Target: target, Requests: 12, Seeds: 1, Version: "test", Journal: journal, Traces: dir, Planned: func(n int64) { points = n }}
		reports[i], err = Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := journal.Close(); err != nil {
			t.Fatal(err)
		}
		if entries, _, err := sweep.ReadJournal(dir); err != nil || int64(len(entries)) != points || points < int64(least) {
			t.Errorf("%v: %d entries of %d points", err, len(entries), points)
		}
	}
	first, again := reports[0].Judgements, reports[1].Judgements
	if len(first) != len(claims(t, most)) {
		t.Fatalf("%d claims", len(first))
	}
	for i := range first {
		if again[i].claim = first[i].claim; !reflect.DeepEqual(first[i], again[i]) {
			t.Errorf("first %+v\nagain %+v", first[i], again[i])
		}
		// Even few requests show which systems win.
		if j := &first[i]; j.claim.Ratio && j.claim.Kind == exactly && j.Ours < 0.95 {
			t.Errorf("%s: %v", j.ID, j.Ours)
		}
	}
}
