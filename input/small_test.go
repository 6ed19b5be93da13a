package input

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestEnded: a context that has ended gives its error; a nil context gives an error that says what is needed.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := Ended(ctx); err != nil {
		t.Error(err)
	}
	if cancel(); !errors.Is(Ended(ctx), context.Canceled) {
		t.Errorf("got %v", Ended(ctx))
	}
	var none context.Context
	if err := Ended(none); err == nil || err.Error() != "context = nil: expected context.Background() or another" {
		t.Errorf("got %v", err)
	}
}

// TestPlural: one has its own form.
func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 boxes", 1: "1 box", 2: "2 boxes"} {
		if got := Plural(n, "box", "boxes"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestEndOfJSON: after the outermost value there may only be white space.
func TestEndOfJSON(t *testing.T) {
	for text, want := range map[string]string{"1 \n": "", "1\n\n2": "f:3: expected nothing behind the number", "1 x": "f:1: "} {
		j := NewJSON("f", strings.NewReader(text))
		if _, err := j.Token(); err != nil {
			t.Fatal(err)
		}
		err := j.End("the number")
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.HasPrefix(got, want) || errors.Is(err, io.EOF) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		} else if want != "" {
			t.Errorf("%q: no error, want %s", text, want)
		}
	}
}
