package dram

import (
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// FuzzStandard: a table is either read into consistent parts, or refused with one input.Error that names the file.
func FuzzStandard(f *testing.F) {
	for _, s := range Standards() {
		text, err := standardFiles.ReadFile("standards/" + s.Name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
		f.Add(strings.ReplaceAll(string(text), " 1 ", " 0 "))
	}
	f.Add("standard = 'a'\nbase = 'ddr5'\nvalues = ['|tFAW|max(((1,2)']")
	f.Add("standard = 'a'\nbase = 'ddr5'\nvalues = ['|tFAW|tFAW + 1']\nparts = ['a b', '-']")
	f.Add("standard = 'a'\nbase = 'ddr4'\nparts = ['0']")
	f.Add("standard = 'a'\nbase = 'lpddr5x'\ndata_clock = 'CAS | 1 / 0'\nactivations = 'x | 2'")
	f.Fuzz(func(t *testing.T, text string) {
		standard, err := ReadStandard("t", strings.NewReader(text))
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) || bad.File != "t" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, name := range standard.PartNames()[:1] {
			s, err := standard.Part(name)
			if err != nil {
				t.Fatal(err)
			}
			q := NewSequence(s, standard.PseudoChannels)
			for _, c := range standard.Commands() {
				a := Address{0, 0, 0, 0, 0}
				if c.AllBank() {
					a.BankGroup, a.Bank = -1, -1
				}
				q.Issue(c, a, 0)
			}
		}
	})
}

// TestTableLimits: tables that would need unbounded memory or stack are refused.
func TestTableLimits(t *testing.T) {
	for text, want := range map[string]string{
		"parts = ['" + strings.Repeat("a b c d e f g h', '", 12) + "i']":     "1000 parts at most",
		"values = [' | tFAW | " + strings.Repeat("(", 1000) + "']":           "at most 200 bytes",
		"values = [' | tFAW | tFAW + 1']":                                    "depends on itself",
		"values = [' | tFAW | tRAS + 0.5']":                                  "expected a whole number",
		"values = [' | tfaw | 48']":                                          `t:3: values = tfaw: expected a key of a part, a timing, or a name that an expression has; did you mean "tFAW"`,
		"values = ['4801 | tFAW | 48']":                                      `did you mean "4800"`,
		"values = [' | tFAW | mine', ' | mine | tRAS', ' | yours | 1']":      "values = yours",
		"values = [' | tFAW']":                                               "3 cells",
		"values = [' | tFAW | mean(tRAS, tRP)']":                             "want max, min or floor",
		"values = [' | tCK | 416']":                                          "expected a time",
		"device_widths = [0]":                                                "1 to 1024",
		"counts_from = 'middle'":                                             `one of first, last`,
		"steps_per_clock = 3":                                                "1 to 2",
		"sub_channels = 9":                                                   "1 to 8",
		"pull_in = 65\ndevice_widths = [0]":                                  "1 to 64", // the first of two faults
		"rules = ['x | bank | RD | WR | 3 | 4']":                             "a window of 1 to 1024 commands of a rank",
		"commands = ['RD | command | 0 | bank | open | any']":                "1 to 16",
		"commands = ['RD | command | 1 | bank | open | any | and 1 within']": "a second half",
		"refreshes = ['REF | tNone | tRFC']":                                 "a value for tNone",
		"activations = 'RAAMMT'":                                             "2 cells",
		"data_clock = 'RD | nothing'":                                        "no value of nothing",
		"values = [' | tFAW | " + strings.Repeat("9", 15) + " * " + strings.Repeat("9", 15) + "']": "whole number",
	} {
		_, err := ReadStandard("t", strings.NewReader("standard = 'mine'\nbase = 'ddr5'\n"+text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "t:") {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}
