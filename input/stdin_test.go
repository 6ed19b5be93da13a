package input

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestReplay: a stream can be read again from its beginning, however far it was read before, and its error comes again at the same place.
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

// TestOpen: the error about a folder or a missing file is an input error that names it once.
func TestOpen(t *testing.T) {
	for path, want := range map[string]string{
		".":           ".: expected a file, not a folder",
		"nosuch.toml": "nosuch.toml: no such file or directory",
		"":            `"": no such file or directory; expected the name of a file`,
	} {
		_, err := Open(path)
		var bad *Error
		if !errors.As(err, &bad) || bad.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}

// TestStdin: "-" means standard input wherever a file is read, any number of times, and errors call it so.
func TestStdin(t *testing.T) {
	stdin = kept{stream: iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab")))}
	defer func() { stdin = kept{stream: os.Stdin} }()
	for range 2 {
		if text, err := ReadFile("-"); len(text) > 0 || err == nil || err.Error() != "standard input: timeout" {
			t.Errorf("read %q, %v", text, err)
		}
	}
	stdin = kept{stream: strings.NewReader("abc")}
	for range 2 {
		if text, err := ReadFile("-"); string(text) != "abc" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
	}
	if got := Name("./-"); got != "./-" {
		t.Errorf("a file is called %q", got)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for n, want := range map[int]string{0: "", MaxText: "", MaxText + 1: "expected at most 1 MiB"} {
		if err := os.WriteFile(path, []byte(strings.Repeat("x", n)), 0o666); err != nil {
			t.Fatal(err)
		}
		text, err := ReadFile(path)
		if want == "" && (err != nil || len(text) != n) || want != "" && (err == nil || err.Error() != path+": "+want) {
			t.Errorf("%d bytes: read %d, %v", n, len(text), err)
		}
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file or directory", dir: "expected a file, not a folder"} {
		_, err := ReadFile(path)
		if bad := new(Error); !errors.As(err, &bad) || bad.File != path || err.Error() != path+": "+want {
			t.Errorf("got %v", err)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

// TestByteOrderMarks: text begins after a UTF-8 byte-order mark; UTF-16 is refused in both byte orders.
func TestByteOrderMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.toml")
	for text, want := range map[string]string{"\ufeffa = 1": "a = 1", "a = 1": "a = 1", "\xef\xbb": "\xef\xbb", "\xff\xfea\x00": "", "\xfe\xff\x00a": ""} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(path)
		if want == "" && (err == nil || err.Error() != path+": expected text in UTF-8, not UTF-16") || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestReadFileWithoutEnd reads a device without an end.
func TestReadFileWithoutEnd(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	if text, err := ReadFile("/dev/zero"); err == nil || len(text) > 0 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestReplayBounds: endless standard input is not kept in memory.
func TestReplayBounds(t *testing.T) {
	deep.Only(t)
	r := &replay{from: &kept{stream: &repeated{'x', 1 << 40}}}
	for range 2 {
		n, err := io.Copy(io.Discard, r)
		if err == nil || err.Error() != "more than 256 MiB; give its path instead" || n > maxKept {
			t.Errorf("read %d, %v", n, err)
		}
	}
}
