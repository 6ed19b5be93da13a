package claims

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// docs is the folder of the committed page.
const docs = "../docs"

// TestDocs: the committed page equals the generator's output, word by word and table by table,
// except for results of runs. It fails if the wording of a claim, a reason, a caption or a table
// has changed since the page was written.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, and TestRun runs as much in parallel")
	}
	page := readFile(t, filepath.Join(docs, pageFile))
	written := filepath.Join(t.TempDir(), pageFile)
	targets := []Target{AllTargets, Sensitivity, Fair, Sparse}
	if !deep.On() {
		targets, page = targets[:1], oldPart(page, evaluationPart)
	}
	for _, target := range targets {
		r := sparseOnce // has no runs to fake
		if target != Sparse {
			o := fakeOptions(t, target)
			if target == AllTargets {
				o.Seeds = 3
			}
			if target == Fair {
				o.Seeds, o.Requests = 2, 250 // more than policies are tried with
			}
			r = func() (*Report, error) { return o.run(t.Context(), newFake(plausible).run) }
		}
		report, err := r()
		if err != nil {
			t.Fatal(err)
		}
		text, err := report.page(written)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(written, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text := readFile(t, written)
	if !deep.On() {
		text = oldPart(text, evaluationPart)
	}
	for _, name := range assumptions(t) {
		if deep.On() && !strings.Contains(oldPart(page, string(Sensitivity)), name) {
			t.Errorf("the sensitivity does not name %q", name)
		}
	}
	got, want := shape(withoutEffects(page)), shape(withoutEffects(text))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("the page is not the generator's, write it again:\npage      %s\ngenerator %s", got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the page has %d lines, the generator writes %d", len(got), len(want))
	}
	for _, m := range regexp.MustCompile(`\]\((figures/\S+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(docs, m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "|") && len(line) >= 200 {
			t.Errorf("a row of %d characters: %s", len(line), line)
		}
	}
}

// assumptions are the names of the sensitivity's sweep.
func assumptions(t *testing.T) []string {
	t.Helper()
	x, err := (&loader{version: "test", seeds: 1, traces: t.TempDir()}).load(&experimentSpec{Name: string(Sensitivity)}, false)
	if err != nil {
		t.Fatal(err)
	}
	return x.assumptions()
}

// withoutEffects removes the rows of the sensitivity, since runs decide which assumptions move a
// number.
func withoutEffects(page string) string {
	part := oldPart(page, string(Sensitivity))
	var kept []string
	for _, line := range strings.Split(part, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| one change") {
			kept = append(kept, line)
		}
	}
	return strings.Replace(page, part, strings.Join(kept, "\n"), 1)
}

// resultPatterns match the results of runs in a line of the page, in order: each match becomes its
// replacement.
var resultPatterns = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\((opt|gpt)-\d+b on \w+\)|(opt|gpt)-\d+b on \w+`), "CASE"},
	{regexp.MustCompile(`largest of three models and prompts of 512 to 8,192 tokens: \S+,`), "largest, MODEL,"},
	{regexp.MustCompile(`(GPUs|ranksets) (\d+% busy (before|after))`), "RESOURCE $2"},
	{regexp.MustCompile(` ?(\(\d+\)|\(-?[\d.]+ to -?[\d.]+\)|\([-+]\d+%\))`), ""},
	{regexp.MustCompile(`\b(` + notReproduced + `|` + reproduced + `|` + direction + `|` + sameSide + `|` + contradicted + `|` + shapeOnly + `|` + notJudged + `)(, on the edge)?( +\|)?\n`), "VERDICT$3\n"},
	{regexp.MustCompile(`, \d+ s( +\|)`), "$1"}, // a stall
	{regexp.MustCompile(`( TP\d)+ \|`), " |"},   // a layout other than all GPUs
	{regexp.MustCompile(`[-+]?\b\d([\d,.]*\d)?(e[-+]\d+)?`), "#"},
	{regexp.MustCompile(`-{2,}:?`), "-"}, // the width of a column
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`\n{3,}`), "\n\n"}, // around parts that conditional removes
	{regexp.MustCompile(`\| - `), "| # "},  // no ratio
	{regexp.MustCompile(`, # tied`), ""},   // no case in which the seeds disagree
}

// shape returns the lines of a page without results of runs.
func shape(page string) []string {
	page = conditional.ReplaceAllString(page, "")
	for _, r := range resultPatterns {
		page = r.pattern.ReplaceAllString(page, r.with)
	}
	return strings.Split(page, "\n")
}

// conditional matches the parts of the page that appear only with some results: those of placementNote and
// effects.
var conditional = regexp.MustCompile("(?m)^(With one placement of requests|No number moves by more than|Unchanged, these claims are reproduced:) .*\n")
