package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/system"
)

// examples is the folder of example sweeps from these pages.
const examples = "../../examples"

// read returns a file.
func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// built builds l3sim and l3lab into a folder.
func built(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", dir, "github.com/l3sim/l3sim/cmd/l3sim", "github.com/l3sim/l3sim/lab/cmd/l3lab").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// planSweep reads a sweep file and plans its points.
func planSweep(path string) (*sweep.Plan, error) {
	file, err := design.ReadFile(system.Configs(), path)
	if err != nil {
		return nil, err
	}
	version, err := sweep.CodeVersion()
	if err != nil {
		return nil, err
	}
	return sweep.NewPlan(file, version)
}

// rounds reports whether a value is a number of a page when rounded to its digits.
func rounds(cell string, value float64) bool {
	cell = strings.ReplaceAll(cell, ",", "")
	_, decimals, _ := strings.Cut(cell, ".")
	return strconv.FormatFloat(value, 'f', len(decimals), 64) == cell
}

// TestLinks: links of the pages lead to files.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%v, %d pages", err, len(pages))
	}
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`") // Go's Section[T](cfg) is not a link
	for _, path := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(read(t, path)), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil && !strings.HasPrefix(m[1], "http") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestAnchors: links that name a heading lead to one, by GitHub's names: lower case, dashes for spaces, no punctuation.
func TestAnchors(t *testing.T) {
	fences := regexp.MustCompile("(?s)```.*?```")
	heading := regexp.MustCompile(`(?m)^#+ +(.*)$`)
	named := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	marks := regexp.MustCompile(`[^\pL\pN_ -]`)
	anchors := func(path string) (all []string) {
		for _, m := range heading.FindAllStringSubmatch(fences.ReplaceAllString(string(read(t, path)), ""), -1) {
			text := strings.ToLower(marks.ReplaceAllString(named.ReplaceAllString(m[1], "$1"), ""))
			all = append(all, strings.ReplaceAll(text, " ", "-"))
		}
		return all
	}
	checked := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/reference/*.md", "*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v, %d pages", pattern, err, len(pages))
		}
		for _, path := range pages {
			for _, m := range regexp.MustCompile(`\]\(([^)#: ]*)#([^) ]+)\)`).FindAllStringSubmatch(fences.ReplaceAllString(string(read(t, path)), ""), -1) {
				target := path
				if m[1] != "" {
					target = filepath.Join(filepath.Dir(path), m[1])
				}
				if checked++; filepath.Ext(target) == ".md" && !slices.Contains(anchors(target), m[2]) {
					t.Errorf("%s: %s has no heading %q", path, target, m[2])
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d links name a heading", checked)
	}
}

// TestReproducedNumbers: README.md shows numbers of 'l3lab reproduce' with the command. Those of 'reproduce fair', which takes half an hour, are in
// reproduction.md, which it writes; others, at full length, are in the command's output.
func TestReproducedNumbers(t *testing.T) {
	bin, checked := t.TempDir(), 0
	for _, line := range strings.Split(string(read(t, "../../README.md")), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		text, ok := strings.CutPrefix(strings.TrimSpace(cells[len(cells)-1]), "`l3lab reproduce ")
		if !strings.HasPrefix(line, "|") || !ok {
			continue
		}
		checked++
		args := strings.Fields(strings.TrimSuffix(text, "`"))
		out := string(read(t, "reproduction.md"))
		if args[0] != "fair" {
			if !deep.Long() {
				continue
			}
			built(t, bin)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "l3lab"), append([]string{"--quiet", "reproduce"}, args...)...)
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+bin)
			printed, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			out = string(printed)
		}
		for _, cell := range cells[:len(cells)-1] {
			if cell = strings.Trim(cell, " *"); regexp.MustCompile(`^[0-9][0-9., to()]*$`).MatchString(cell) && !strings.Contains(out, cell) {
				t.Errorf("%s\nlacks %s of README.md:\n%s", text, cell, out)
			}
		}
	}
	if checked == 0 {
		t.Error("README.md has no numbers of 'l3lab reproduce'")
	}
}
