//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
)

// TestPageForm: links of all pages lead to files, pages for users are short, their prose is narrow,
// and the keys that they name exist.
func TestPageForm(t *testing.T) {
	pages, err := filepath.Glob("../../docs/reference/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%v, %d pages", err, len(pages))
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") // Go's Section[T](cfg) is not a link
	for _, path := range append(pages, "../../CONTRIBUTING.md", "../../README.md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(read(t, path)), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil && !strings.HasPrefix(m[1], "http") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	sections := regexp.MustCompile(`(?m)^\[([a-z_]+)`).FindAllStringSubmatch(string(read(t, "../../configs/systems/dgx-a100-l3.toml")), -1)
	key := regexp.MustCompile("`(?:--set )?([a-z_]+)((?:\\.[a-z0-9_]+)+)(?:=[^` ]*)?`")
	total := 0
	for _, p := range userPages(t) {
		lines, most := len(p.lines)-1, 150
		if filepath.Base(p.path) == "README.md" {
			most = 120
		} else {
			total += lines
		}
		if lines > most {
			t.Errorf("%s has %d lines, more than %d", p.path, lines, most)
		}
		code := map[int]bool{}
		for _, b := range p.blocks {
			for i := b.first - 1; i <= b.last; i++ {
				code[i] = true
			}
		}
		for i, line := range p.lines {
			if code[i] {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(p.path), m[1])); err != nil && !strings.HasPrefix(m[1], "http") {
					t.Errorf("%s:%d: %v", p.path, i+1, err)
				}
			}
			if utf8.RuneCountInString(line) > 100 && strings.Contains(line, " ") && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "![") {
				t.Errorf("%s:%d: %d characters", p.path, i+1, utf8.RuneCountInString(line))
			}
			for _, m := range key.FindAllStringSubmatch(line, -1) {
				known := slices.ContainsFunc(sections, func(s []string) bool { return s[1] == m[1] })
				ending := regexp.MustCompile(`\.(go|md|toml|csv|json|parquet)$`).MatchString(m[2])
				var out, messages bytes.Buffer
				if known && !ending && run(t.Context(), []string{"config", "explain", m[1] + m[2]}, &out, &messages) != cli.OK && !section(m[1]+m[2]) {
					t.Errorf("%s:%d: %s", p.path, i+1, messages.String())
				}
			}
		}
	}
	if total > 1500 {
		t.Errorf("the pages for users have %d lines", total)
	}
}

// section reports whether a name with a dot is a section of keys, such as policy.quest.
func section(name string) bool {
	parent, policy, _ := strings.Cut(name, ".")
	return parent == "policy" && slices.Contains(policies.Builtin().Names(), policy)
}

// TestResultColumns: docs/results.md names every column of a table of results, and no other.
func TestResultColumns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.toml")
	if err := os.WriteFile(file, []byte("[set]\nrun.requests = 5\n[grid]\nnode.ranksets = [4]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	stdout(t, "sweep", file, "--out", filepath.Join(dir, "out"))
	head, _, _ := strings.Cut(string(read(t, filepath.Join(dir, "out", "results.csv"))), "\n")
	columns := strings.Split(head, ",")
	_, page, _ := strings.Cut(string(read(t, "../../docs/results.md")), "\n## Columns\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var named []*regexp.Regexp
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			name := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(m[1]), `\*`, ".*") + "$")
			named = append(named, name)
			if !slices.ContainsFunc(columns, name.MatchString) {
				t.Errorf("docs/results.md names %s, which is no column", m[1])
			}
		}
	}
	for _, column := range columns {
		if !slices.ContainsFunc(named, func(r *regexp.Regexp) bool { return r.MatchString(column) }) && column != "node.ranksets" {
			t.Errorf("docs/results.md lacks the column %s", column)
		}
	}
}

// TestPageNumbers runs the commands in the last column of README.md's tables. Numbers of the other columns are output tokens a second of the
// compared systems, or the first over the second. It takes a minute of processor time. In a run that is not long, TestPages runs the same nodes
// with fewer requests, and this test checks that a page has such a run.
func TestPageNumbers(t *testing.T) {
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
		checked++
		if !deep.Long() {
			if !shownShorter(t, args) {
				t.Errorf("no page has a run of %s with fewer requests", text)
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

// shownShorter reports whether a block of a user page runs a command with a number of requests and all of its flags. Values may be a
// subset.
func shownShorter(t *testing.T, args []string) bool {
	t.Helper()
	for _, p := range userPages(t) {
		for _, b := range p.blocks {
			if b.language != "console" || b.has("long") || b.has("fails") {
				continue
			}
			for _, c := range p.commands(b) {
				words := shellWords(c.text)
				if slices.Contains(words, "--requests") && runs(words[1:], args) {
					return true
				}
			}
		}
	}
	return false
}

// runs reports whether the first of two command lines has the command, the flags and the values of the other.
func runs(all, some []string) bool {
	if len(all) == 0 || all[0] != some[0] {
		return false
	}
	for i := 1; i+1 < len(some); i += 2 {
		at := slices.Index(all, some[i])
		if at < 0 || at+1 == len(all) {
			return false
		}
		values := strings.Split(all[at+1], ",")
		for _, value := range strings.Split(some[i+1], ",") {
			if !slices.Contains(values, value) {
				return false
			}
		}
	}
	return true
}

// rounds reports whether one of the values, rounded to a page's digits, is its number.
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
