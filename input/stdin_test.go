package input

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReplay: a stream can be read again from its beginning, however far it was read
// before, and its error comes where it came first.
func TestReplay(t *testing.T) {
	broken := errors.New("broken pipe")
	k := &kept{stream: io.MultiReader(iotest.OneByteReader(strings.NewReader("abcdef")), iotest.ErrReader(broken))}
	if text, err := io.ReadAll(io.LimitReader(&replay{from: k}, 2)); string(text) != "ab" || err != nil {
		t.Fatalf("got %q, %v", text, err)
	}
	if len(k.text) != 2 {
		t.Errorf("%d bytes were read for 2", len(k.text))
	}
	for range 2 {
		if text, err := io.ReadAll(&replay{from: k}); string(text) != "abcdef" || !errors.Is(err, broken) {
			t.Errorf("got %q, %v", text, err)
		}
	}
}

// TestOpen: a folder and a missing file are faults of the input, named once.
func TestOpen(t *testing.T) {
	for path, want := range map[string]string{
		".":           ".: expected a file, not a folder",
		"nosuch.toml": "nosuch.toml: no such file or directory",
	} {
		_, err := Open(path)
		var bad *InputError
		if !errors.As(err, &bad) || bad.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
