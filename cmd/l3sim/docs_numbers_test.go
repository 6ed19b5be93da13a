//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/lab/deep"
)

// TestPageNumbers runs the commands in the last column of the tables of README.md. Numbers of
// the other columns are output tokens a second of the systems that a run compares, or the first one's over the
// second one's; those of 'l3sim reproduce' stand in what it prints.
func TestPageNumbers(t *testing.T) {
	deep.Only(t)
	checked := 0
	for _, line := range strings.Split(string(read(t, "../../README.md")), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		text, ok := strings.CutPrefix(strings.TrimSpace(cells[len(cells)-1]), "`l3sim ")
		if !strings.HasPrefix(line, "|") || !ok {
			continue
		}
		args := shellWords(strings.TrimSuffix(text, "`"))
		var shown []string
		for _, cell := range cells[:len(cells)-1] {
			if cell = strings.Trim(cell, " *"); regexp.MustCompile(`^[0-9][0-9., to()]*$`).MatchString(cell) {
				shown = append(shown, cell)
			}
		}
		if args[0] == "reproduce" && !deep.Long() {
			continue
		}
		checked++
		if args[0] == "reproduce" {
			out := stdout(t, args...)
			for _, cell := range shown {
				if !strings.Contains(out, cell) {
					t.Errorf("%s\nlacks %s of README.md:\n%s", text, cell, out)
				}
			}
			continue
		}
		var runs struct {
			Runs []struct {
				Throughput float64 `json:"output_tokens_per_s"`
			}
		}
		if err := json.Unmarshal([]byte(stdout(t, append(args, "--json")...)), &runs); err != nil || len(runs.Runs) != 2 {
			t.Fatalf("%s: %v, %d runs", text, err, len(runs.Runs))
		}
		l3, other := runs.Runs[0].Throughput, runs.Runs[1].Throughput
		for _, cell := range shown {
			if !rounds(cell, l3, other, l3/other) {
				t.Errorf("README.md has %s, %s gives %g and %g, %.4g times", cell, text, l3, other, l3/other)
			}
		}
	}
	if checked == 0 {
		t.Error("README.md has no table with commands")
	}
}

// rounds reports whether one of the values is a number of a page when rounded to its digits.
func rounds(cell string, values ...float64) bool {
	cell = strings.ReplaceAll(cell, ",", "")
	_, decimals, _ := strings.Cut(cell, ".")
	return slices.ContainsFunc(values, func(v float64) bool {
		return strconv.FormatFloat(v, 'f', len(decimals), 64) == cell
	})
}

// stdout runs a command and returns what it prints.
func stdout(t *testing.T, args ...string) string {
	t.Helper()
	var out, messages bytes.Buffer
	if code := run(t.Context(), append([]string{"--quiet"}, args...), &out, &messages); code != cli.OK {
		t.Fatalf("%v: exit code %d: %s", args, code, messages.String())
	}
	return out.String()
}
