package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/units"
)

// Time is an instant, or a span, in integer picoseconds.
type Time = units.Duration

// Span is the time that a resource spent on one piece of work. Resource, Kind,
// A and B are indices to which the recorder gives a meaning.
type Span struct {
	Start, End Time
	Resource   int32
	Kind, A, B int32
}

// Timeline collects spans. A nil *Timeline collects nothing, so that a
// simulation records without asking whether someone looks.
type Timeline struct {
	Spans []Span // in order of recording
}

// Add records s.
func (t *Timeline) Add(s Span) {
	if t != nil {
		t.Spans = append(t.Spans, s)
	}
}

// Check returns an error where a span ends before it starts or two spans of
// one resource overlap: laws of every schedule on exclusive resources.
func (t *Timeline) Check() error {
	if t == nil {
		return nil
	}
	sorted := slices.Clone(t.Spans)
	slices.SortStableFunc(sorted, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	for i, s := range sorted {
		if s.End < s.Start {
			return fmt.Errorf("sim: span %+v ends before it starts", s)
		}
		if i > 0 && sorted[i-1].Resource == s.Resource && s.Start < sorted[i-1].End {
			return fmt.Errorf("sim: spans %+v and %+v overlap", sorted[i-1], s)
		}
	}
	return nil
}
