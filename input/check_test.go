package input

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"testing"
	"time"
)

type part struct{ share float64 }

func (p part) Check(c *Check) { c.Share("share", p.share) }

type whole struct {
	name   string
	count  int
	inner  part
	other  int
	fails  error
	nested int // calls of the rule that compares
}

func (w *whole) Check(c *Check) {
	OneOf(c, "name", w.name, "gamma", "beta")
	Within(c, "count", w.count, 1, 8)
	c.In("part", w.inner)
	c.That(w.other != 1, "other", time.Duration(w.other), "anything but %d", 1)
	c.Fails("made", w.fails)
	if c.OK() {
		w.nested++
		c.That(w.other <= w.count, "other", w.other, "at most count = %d", w.count)
	}
}

// TestCheck: every broken rule gives an error with its full key, in the order of the rules. Rules that compare keys are applied only to
// values that are valid alone.
func TestCheck(t *testing.T) {
	good := whole{name: "beta", count: 8, inner: part{1}, other: 3}
	for _, c := range []struct {
		change func(w *whole)
		want   []string
	}{
		{func(*whole) {}, nil},
		{func(w *whole) { w.count = 1; w.other = 0 }, nil},
		{func(w *whole) { w.other = 9 }, []string{"other = 9: expected at most count = 8"}},
		{func(w *whole) { w.name, w.other = "gama", 9 }, []string{`name = "gama": expected one of beta, gamma; did you mean "gamma"?`}},
		{func(w *whole) { w.inner.share, w.count = math.NaN(), 0 }, []string{"count = 0: expected 1 to 8", "part.share = NaN: expected more than 0, at most 1"}},
		{func(w *whole) { w.inner.share, w.count = 1.5, 9 }, []string{"count = 9: expected 1 to 8", "part.share = 1.5: expected more than 0, at most 1"}},
		{func(w *whole) { w.other = 1 }, []string{"other = 1ns: expected anything but 1"}},
		{func(w *whole) { w.fails = &Error{Key: "x", Expected: "y"} }, []string{"made.x: expected y"}},
		{func(w *whole) { w.fails = fs.ErrNotExist }, []string{"made: file does not exist"}},
	} {
		w := good
		c.change(&w)
		errs := Faults(&w)
		if err := Validate(&w); (err == nil) != (len(errs) == 0) || err != nil && err.Error() != errs[0].Error() {
			t.Errorf("%+v: %v, not the first of %v", w, err, errs)
		}
		if len(errs) != len(c.want) {
			t.Errorf("%+v: got %v, want %q", w, errs, c.want)
			continue
		}
		for i := range errs {
			if errs[i].Error() != c.want[i] {
				t.Errorf("got %s, want %s", errs[i], c.want[i])
			}
		}
	}
}

// TestRanges: the range that a rule expects can be read without breaking it.
func TestRanges(t *testing.T) {
	want := map[string]string{"name": "one of beta, gamma", "count": "1 to 8", "part.share": "more than 0, at most 1", "other": "anything but 1"}
	for _, w := range []*whole{{}, {name: "beta", count: 8, inner: part{1}}} {
		if got := Ranges(w); !maps.Equal(got, want) || w.nested > 0 {
			t.Errorf("got %q", got)
		}
	}
}

// TestEdit: the original error does not change.
func TestEdit(t *testing.T) {
	old := &Error{Key: "a"}
	err := Edit(old, func(e *Error) { e.File = "f" })
	if err.Error() != "f: a" || old.File != "" {
		t.Errorf("got %v of %v", err, old)
	}
	if other := Edit(fs.ErrExist, nil); !errors.Is(other, fs.ErrExist) || Edit(nil, nil) != nil {
		t.Errorf("got %v", other)
	}
}
