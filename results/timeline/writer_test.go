package timeline

import (
	"bytes"
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/perfetto"
	"github.com/l3sim/l3sim/units"
)

// TestNanoseconds: times are rounded to the nearest nanosecond, also near the largest time.
func TestNanoseconds(t *testing.T) {
	for ps, want := range map[units.Duration]units.Duration{0: 0, 499: 0, 500: 1, 1499: 1, 1500: 2, math.MaxInt64: math.MaxInt64/1000 + 1} {
		if got := nanoseconds(ps); got != want {
			t.Errorf("%d ps: got %d ns, want %d", ps, got, want)
		}
	}
}

// TestArrows: a slice that rounds to zero is left out of a chain, and a chain of one slice is not
// drawn.
func TestArrows(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text)
	var chain []Place
	for i, s := range []Slice{{Start: 0, End: 2000}, {Start: 3000, End: 3100}, {Start: 4000, End: 9000}} {
		on := Track{0, i}
		w.Slice(on, &s)
		chain = append(chain, Place{on, s.Start, s.End})
	}
	w.Arrows("all", chain)
	w.Arrows("one", chain[:2])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, faults, err := perfetto.Read(bytes.NewReader(text.Bytes())); err != nil || len(faults) > 0 {
		t.Error(faults, err)
	}
	if n := bytes.Count(text.Bytes(), []byte(`"cat":"arrow"`)); n != 2 {
		t.Errorf("%d ends of arrows, want 2", n)
	}
}
