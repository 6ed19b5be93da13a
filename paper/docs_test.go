package paper

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs is the folder of the committed page.
const docs = "../docs"

// TestDocs: the committed page is what this generator writes, word by word and
// table by table, but for what the runs decide. It fails where the wording of a claim, a
// reason, a caption or a table has changed since the page was written.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, and TestRun runs as much in parallel")
	}
	page := readFile(t, filepath.Join(docs, PageFile))
	written := filepath.Join(t.TempDir(), PageFile)
	for _, target := range []Target{AllTargets, Sensitivity, Fair} {
		o := fakeOptions(t, target)
		if target == AllTargets {
			o.Seeds = 3
		}
		r, err := o.run(t.Context(), newFake(plausible).run)
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.page(written)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(written, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, want := shape(page), shape(readFile(t, written))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("the page is not the generator's, write it again:\npage      %s\ngenerator %s", got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the page has %d lines, the generator writes %d", len(got), len(want))
	}
	for name := range captions {
		if _, err := os.Stat(filepath.Join(docs, figureFolder, "reproduction_"+name+".png")); err != nil {
			t.Error(err)
		}
	}
}

// resultPatterns are what runs decide in a line of the page, in order: each match
// becomes its replacement.
var resultPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\((opt|gpt)-\d+b on \w+\)|(opt|gpt)-\d+b on \w+`), "CASE"},
	{regexp.MustCompile(`largest of three models and prompts of 512 to 8,192 tokens: \S+,`), "largest, MODEL,"},
	{regexp.MustCompile(`(GPUs|ranksets) (\d+% busy (before|after))`), "RESOURCE $2"},
	{regexp.MustCompile(`\(\d+ never fit\)|\(-?[\d.]+ to -?[\d.]+\)|\([-+]\d+%\)`), ""},
	{regexp.MustCompile(`\| (` + Reproduced + `|` + Direction + `|` + NotReproduced + `) +\|`), "| VERDICT |"},
	{regexp.MustCompile(`TP\d`), "TP"},
	{regexp.MustCompile(`[-+]?\b\d[\d,.]*(e[-+]\d+)?`), "#"},
	{regexp.MustCompile(`-{3,}:?`), "-"}, // the width of a column
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`\| - `), "| # "}, // no ratio
}

// shape returns the lines of a page without what runs decide. The notes on claims
// depend on the verdicts and are left to TestDocsNotes.
func shape(page string) []string {
	page = notes.ReplaceAllString(page, "")
	for _, r := range resultPatterns {
		page = r.pattern.ReplaceAllString(page, r.with)
	}
	return strings.Split(page, "\n")
}

// notes matches the sections of writeNotes.
var notes = regexp.MustCompile(`(?s)\n## What did not come out, and why\n.*?(\n## What cannot be reproduced)`)

// TestDocsNotes: under every claim of the committed page stands the note that belongs
// to its verdict there, and no other.
func TestDocsNotes(t *testing.T) {
	page := readFile(t, filepath.Join(docs, PageFile))
	section := notes.FindString(page)
	for _, c := range Claims() {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(c.ID) + "` .*").FindString(oldPart(page, parts[0]))
		verdict := regexp.MustCompile(`\| (` + Reproduced + `|` + Direction + `|` + NotReproduced + `) +\|`).FindStringSubmatch(row)
		if verdict == nil {
			t.Errorf("%s has no verdict on the page", c.ID)
			continue
		}
		want := misses[c.ID]
		if verdict[1] == Reproduced {
			want = caveats[c.ID]
		}
		line := regexp.MustCompile("(?m)^- `"+regexp.QuoteMeta(c.ID)+"`, [^:]*: (.*)$").FindAllStringSubmatch(section, -1)
		switch {
		case want == "" && len(line) > 0, want != "" && len(line) != 1, want != "" && line[0][1] != want:
			t.Errorf("%s, %s: the page's note is not the generator's: %v", c.ID, verdict[1], line)
		}
		if misses[c.ID] == "" && c.Kind != RangeEnd && verdict[1] != Reproduced {
			t.Errorf("%s is %s without a reason", c.ID, verdict[1])
		}
	}
}
