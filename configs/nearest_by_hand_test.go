package configs

import (
	"strings"
	"testing"
)

// TestChipsByHand: two names may mean one GPU if their numbers match in order, and so do the letters before the first number.
func TestChipsByHand(t *testing.T) {
	for name, want := range map[string]string{"rtx-a6000": "rtxa6000", "a100-sxm-80gb": "a100", "gb200": "gb200", "b 200_x": "b200", "tpu": "", "4090": "4090"} {
		if got := chip(name); got != want {
			t.Errorf("the chip of %s is %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		name, preset   string
		numbers, alike bool
	}{
		{"a6000", "rtx-a6000", true, true}, {"rtx-a6000", "a6000", true, true}, {"h20", "h200-sxm", false, false}, {"h200", "h200-sxm", true, true}, {"b200", "gb200", true, true}, {"a100-80", "a100-sxm-80gb", true, true},
		{"a80-100", "a100-sxm-80gb", false, false}, {"sxm", "h100-sxm", true, true}, {"h100", "a100-sxm-80gb", true, false}, {"a100-100", "a100-sxm-80gb", false, true},
	} {
		if got := numbersWithin(c.name, c.preset); got != c.numbers {
			t.Errorf("the numbers of %s are in %s: %v", c.name, c.preset, got)
		}
		if got := sameChip(c.name, c.preset); got != c.alike {
			t.Errorf("%s and %s are one chip: %v", c.name, c.preset, got)
		}
	}
	for name, want := range map[string]string{"H300": "h100", "h20": "h100", "x9": "", "": ""} {
		got := strings.Join(sameSeries(name), " ")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "a100") || strings.Contains(got, "gh200") {
			t.Errorf("of the series of %q: %s", name, got)
		}
	}
	for name, want := range map[string]string{"b200": "b200-sxm", "A100": "a100-sxm-80gb", "a100-40gb": "a100-sxm-40gb", "h100sxm": "h100-sxm", "h20": ""} {
		if got := nearestPreset(GPUs, name); got != want {
			t.Errorf("%s is nearest to %q, want %q", name, got, want)
		}
	}
}

// TestTitlesByHand: a title names up to four changed keys, and the number of the others.
func TestTitlesByHand(t *testing.T) {
	for n, want := range []string{"x", "x, changed: a", "x, changed: a, b", "x, changed: a, b, c", "x, changed: a, b, c, d", "x, changed: a, b, c, d and 1 more", "x, changed: a, b, c, d and 2 more"} {
		if got := titled("x", strings.Fields("a b c d e f")[:n]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
