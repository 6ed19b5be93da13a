package gpu

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/reference/gpu-parameters.md")

// entry is a key of a preset with its value and comment.
type entry struct{ key, value, comment string }

// presetEntries returns the keys of a GPU preset in their order.
func presetEntries(t *testing.T, name string) (entries []entry, of map[string]entry) {
	t.Helper()
	lines := []string{}
	for _, folder := range []string{"gpus", "fits"} { // the fit has the GPU's name
		text, err := os.ReadFile(filepath.Join("..", "configs", folder, name+".toml"))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	section, of, inFit := "", map[string]entry{}, false
	for _, line := range lines {
		if strings.HasPrefix(line, "[") {
			inFit = strings.HasPrefix(line, "[fit")
		}
		if inFit || strings.HasPrefix(line, "fit = ") {
			continue
		}
		if strings.HasPrefix(line, "[gpu") {
			section = strings.TrimPrefix(strings.Trim(line, "[]")+".", "gpu.")
		}
		key, rest, ok := strings.Cut(line, " = ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value, comment, _ := strings.Cut(rest, "#")
		e := entry{section + key, strings.Trim(strings.TrimSpace(value), `"`), strings.TrimSpace(comment)}
		entries, of[e.key] = append(entries, e), e
	}
	return entries, of
}

// TestParameterTable: docs/reference/gpu-parameters.md has every key of the presets, its values and
// where they are from, and how many are fitted.
func TestParameterTable(t *testing.T) {
	h200, of := presetEntries(t, "h200-sxm")
	_, h100 := presetEntries(t, "h100-sxm")
	_, a100 := presetEntries(t, "a100-sxm-80gb")
	count := func(of map[string]entry) (n int) {
		for _, e := range of {
			if strings.HasPrefix(e.comment, "fit") {
				n++
			}
		}
		return n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Fitted: %d of the %d numbers and choices of the H200 (both suites), %d of the H100's, %d of the A100's.\n\n", count(of), len(of), count(h100), count(a100))
	b.WriteString("| key of [gpu] | H200 | H100 | A100 | source of the H200's; what it moves |\n| --- | --- | --- | --- | --- |\n")
	for _, e := range h200 {
		if e.key == "name" {
			continue
		}
		short := func(of map[string]entry) string {
			if v := of[e.key].value; v != "" {
				return v
			}
			return "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", e.key, e.value, short(h100), short(a100), e.comment)
	}
	path := filepath.Join("..", "docs", "reference", "gpu-parameters.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- parameters: go test ./gpu -run ParameterTable -update -->\n", "<!-- end of parameters -->\n"
	head, rest, ok := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("docs/reference/gpu-parameters.md has no place for the parameters")
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Error("docs/reference/gpu-parameters.md is not what the presets have: go test ./gpu -run ParameterTable -update")
	}
}
