package docs

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// designsOf returns the names of a sweep's list, in order.
func designsOf(t *testing.T, sweep string) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^\[\[list\]\]\nname = "([^"]+)"$`).FindAllStringSubmatch(string(read(t, filepath.Join(examples, sweep+".toml"))), -1) {
		names = append(names, m[1])
	}
	if len(names) < 5 {
		t.Fatalf("%s has %d designs", sweep, len(names))
	}
	return names
}

// rowsOf returns a cell of each row of the tables between marks of a page, by table, without the signs for designs that boards
// cannot hold.
func rowsOf(page string, cell func(table string) int) map[string][]string {
	shown := map[string][]string{}
	for _, m := range ablationTable.FindAllStringSubmatch(page, -1) {
		for _, line := range strings.Split(strings.TrimSpace(m[2]), "\n")[2:] {
			text := strings.TrimSpace(strings.Split(line, "|")[1+cell(m[1])])
			shown[m[1]] = append(shown[m[1]], strings.TrimRight(text, " †‡"))
		}
	}
	return shown
}

// scriptWrites checks that an example script prints these tables of a page.
func scriptWrites(t *testing.T, page string, tables []string, args ...string) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	built(t, bin)
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(examples)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+bin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range ablationTable.FindAllStringSubmatch(string(read(t, page)), -1) {
		if !slices.Contains(tables, m[1]) {
			continue
		}
		if found++; !strings.Contains(string(out), m[2]) {
			t.Errorf("%s has\n%s\nthe script writes\n%s", page, m[2], out)
		}
	}
	if found != len(tables) {
		t.Errorf("%s has %d tables of %q", page, found, tables)
	}
}

// TestDesignsPage: the tables of lab/docs/findings.md have each design of examples/designs.toml once, in order, and compare them. At full
// length examples/designs.sh writes the same table of designs.
func TestDesignsPage(t *testing.T) {
	names, shown := designsOf(t, "designs"), rowsOf(string(read(t, findingsPage)), func(string) int { return 0 })
	if !slices.Equal(shown["designs"], names) {
		t.Errorf("the page has the designs\n%q\nthe sweep has\n%q", shown["designs"], names)
	}
	for _, pair := range shown["sure"] {
		first, second, _ := strings.Cut(pair, ", over ")
		if !slices.Contains(names, first) || !slices.Contains(names, second) {
			t.Errorf("%s: no two designs", pair)
		}
	}
	if len(shown["sure"]) == 0 {
		t.Error("the page says of no pair how sure it is")
	}
	checkRatios(t, string(read(t, findingsPage)))
	if deep.Long() {
		scriptWrites(t, findingsPage, []string{"designs"}, "examples/designs.sh", "", "out", "", "1") // the table has no draws
	}
}

// checkRatios checks the ratios of the table "sure" against the rounded tokens a second of the table "designs".
func checkRatios(t *testing.T, page string) {
	t.Helper()
	rows := map[string][][]string{}
	for _, m := range ablationTable.FindAllStringSubmatch(page, -1) {
		for _, line := range strings.Split(strings.TrimSpace(m[2]), "\n")[2:] {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimRight(strings.TrimSpace(cells[i]), " †‡")
			}
			rows[m[1]] = append(rows[m[1]], cells)
		}
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	tokens := map[string][]string{}
	for _, row := range rows["designs"] {
		tokens[row[0]] = append(slices.Clone(row[1:4]), row[7:10]...)
	}
	for _, row := range rows["sure"] {
		first, second, _ := strings.Cut(row[0], ", over ")
		for i, cell := range row[1:] {
			shown, _, _ := strings.Cut(cell, ",")
			_, decimals, _ := strings.Cut(shown, ".")
			half := 0.5 * math.Pow10(-len(decimals))
			a, b, ratio := number(tokens[first][i]), number(tokens[second][i]), number(shown)
			if low, high := (a-0.5)/(b+0.5), (a+0.5)/(b-0.5); ratio+half < low || ratio-half > high {
				t.Errorf("%s, column %d: %s, and the designs serve %g and %g", row[0], i+1, shown, a, b)
			}
		}
	}
}

// TestMeasuresPage: the tables of lab/docs/findings.md have each design of their sweeps once for each model, in order; rates are those of
// designs of the first sweep. At full length examples/measures.sh writes all tables but that of rates.
func TestMeasuresPage(t *testing.T) {
	shown := rowsOf(string(read(t, findingsPage)), func(table string) int { return map[string]int{"context": 1}[table] })
	measures, contexts := designsOf(t, "measures"), designsOf(t, "measures_context")
	for table, want := range map[string][]string{"measures": measures, "ddr5": designsOf(t, "measures_ddr5"), "context": slices.Concat(contexts, contexts)} {
		if !slices.Equal(shown[table], want) {
			t.Errorf("table %s has the designs\n%q\nthe sweep has\n%q", table, shown[table], want)
		}
	}
	for _, name := range append(shown["rates"], contexts...) {
		if !slices.Contains(measures, name) {
			t.Errorf("%s is not in examples/measures.toml", name)
		}
	}
	if len(shown["rates"]) == 0 {
		t.Error("the page has no rates")
	}
	if deep.Long() {
		rates := filepath.Join(t.TempDir(), "rates.csv") // no rates: they take hours
		if err := os.WriteFile(rates, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		scriptWrites(t, findingsPage, []string{"measures", "ddr5", "context"}, "examples/measures.sh", "", "out", "", rates)
	}
}
