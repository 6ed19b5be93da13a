package input

import (
	"errors"
	"io/fs"
	"testing"
)

func TestErrorMessage(t *testing.T) {
	for _, c := range []struct {
		err  *InputError
		want string
	}{
		{&InputError{File: "a.toml", Line: 3, Key: "dram.tRCD", Value: "0", Expected: "at least 1"},
			"a.toml:3: dram.tRCD = 0: expected at least 1"},
		{&InputError{File: "a.toml", Line: 3, Key: "dram.trcd", Expected: "a known key", Nearest: "dram.tRCD"},
			`a.toml:3: dram.trcd: expected a known key; did you mean "dram.tRCD"?`},
		{&InputError{File: "x.csv", Err: fs.ErrNotExist}, "x.csv: file does not exist"},
		{UnknownName("--model", "gpt175b", []string{"opt-66b", "gpt-175b"}),
			`--model = "gpt175b": expected one of gpt-175b, opt-66b; did you mean "gpt-175b"?`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestUnwrap(t *testing.T) {
	if !errors.Is(Errorf("open: %w", fs.ErrNotExist), fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}

func TestNearest(t *testing.T) {
	valid := []string{"openr1", "dolphin", "openthoughts", "longbench"}
	for name, want := range map[string]string{
		"openr2": "openr1", "Dolphin": "dolphin", "longbnech": "longbench", "zzz": "", "open-thoughts": "openthoughts",
	} {
		if got := Nearest(name, valid); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
