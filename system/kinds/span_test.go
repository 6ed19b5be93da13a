package kinds

import (
	"cmp"
	"fmt"
	"github.com/l3sim/l3sim/system/flow"
	"slices"
	"testing"
)

// exclusive returns an error if a span ends before it starts or two spans of one resource overlap.
// These are laws of every schedule on exclusive resources.
func exclusive(spans []flow.Span) error {
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b flow.Span) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	for i, s := range sorted {
		if s.End < s.Start {
			return fmt.Errorf("span %+v ends before it starts", s)
		}
		if i > 0 && sorted[i-1].Resource == s.Resource && s.Start < sorted[i-1].End {
			return fmt.Errorf("spans %+v and %+v overlap", sorted[i-1], s)
		}
	}
	return nil
}

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		name  string
		spans []flow.Span
		legal bool
	}{
		{"none", nil, true},
		{"adjacent", []flow.Span{{Start: 5, End: 9}, {Start: 0, End: 5}}, true},
		{"overlap", []flow.Span{{Start: 4, End: 9}, {Start: 0, End: 5}}, false},
		{"two resources", []flow.Span{{Start: 4, End: 9}, {Start: 0, End: 5, Resource: 1}}, true},
		{"backwards", []flow.Span{{Start: 4, End: 3}}, false},
		{"an empty one where another starts", []flow.Span{{Start: 4, End: 9}, {Start: 4, End: 4}}, true},
	} {
		if err := exclusive(c.spans); (err == nil) != c.legal {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
