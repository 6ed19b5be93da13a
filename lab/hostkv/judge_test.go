package hostkv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestJudge: whole iterations are within the page's errors.
func TestJudge(t *testing.T) {
	r, err := Judge("hostkv.csv", measured(t).Iterations, configs.Options{})
	if err != nil || len(r.Modes) != 3 || len(r.Rows) != 144 {
		t.Fatalf("%+v; %v", r, err)
	}
	for i, most := range []ModeErrors{
		{Mode: Inline, Added: Errors{33, 0.016, 0.06, 0}, Small: Errors{15, 0.005, 0.015, 0}, Iteration: Errors{48, 0.006, 0.016, 0}},
		{Mode: Two8, Added: Errors{10, 0.08, 0.6, 0}, Small: Errors{38, 0.01, 0.04, 0}, Iteration: Errors{48, 0.013, 0.05, 0}},
		{Mode: Two132, Added: Errors{27, 0.03, 0.12, 0}, Small: Errors{21, 0.004, 0.022, 0}, Iteration: Errors{48, 0.007, 0.023, 0}},
	} {
		m := &r.Modes[i]
		if m.Mode != most.Mode {
			t.Errorf("%s, expected %s", m.Mode, most.Mode)
		}
		for _, e := range [][2]Errors{{m.Added, most.Added}, {m.Small, most.Small}, {m.Iteration, most.Iteration}} {
			if got, most := e[0], e[1]; got.Rows != most.Rows || got.Median > most.Median || got.P90 > most.P90 {
				t.Errorf("%s: %+v, expected at most %+v", m.Mode, got, most)
			}
		}
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "\ninline   ") {
		t.Errorf("%s; %v", b.String(), err)
	}
}

// TestJudgeFollowsTheGPU: doubling the GPU's part adds as much in kernel order, and the fetched rows stay.
func TestJudgeFollowsTheGPU(t *testing.T) {
	rows := []Row{
		{Mode: None, Batch: 8, Context: 32768, Layers: 4, MS: 2}, {Mode: Inline, Batch: 8, Context: 32768, Misses: 1000, Layers: 4, MS: 3},
		{Mode: None, Batch: 8, Context: 32769, Layers: 4, MS: 4}, {Mode: Inline, Batch: 8, Context: 32769, Misses: 1000, Layers: 4, MS: 5},
	}
	r, err := Judge("f.csv", rows, configs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.Rows[0].Says, r.Rows[1].Says; a < 0.5 || a-b > 1e-3 || b-a > 1e-3 {
		t.Errorf("%v and %v ms are added", a, b)
	}
	if _, err := Judge("f.csv", rows[1:], configs.Options{}); err == nil || !strings.Contains(err.Error(), `mode = inline: expected a row of mode none with batch 8, context 32768 and 4 layers`) {
		t.Error(err)
	}
	for _, mode := range []string{Two8, Two132} {
		rows[1].Mode = mode
		if _, err := Judge("f.csv", rows, configs.Options{}); err == nil || !strings.Contains(err.Error(), "mode = "+mode+": expected a row of mode two_none with batch 8") {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestReadRefuses: errors in malformed files name the line and the column.
func TestReadRefuses(t *testing.T) {
	head := strings.Join(Columns, ",") + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "a header line"},
		{head, "at least one row below the header"},
		{"mode,batch\n", "context is missing"},
		{head + "outline,8,100,0,16,1,0\n", ":2: mode = outline: expected one of none, inline, two8, two132, two_none"},
		{head + "none,8.5,100,0,16,1,0\n", ":2: batch = 8.5: expected a whole number of at least 1"},
		{head + "none,8,100,0,16,-1,0\n", ":2: ms = -1: expected a number of at least"},
		{head + "none,8,100,0,16,nan,0\n", ":2: ms = nan"},
		{head + "inline,8,100,101,16,1,0\n", ":2: misses = 101: expected at most the 100 tokens of context"},
		{head + "two8,7,100,0,16,1,0\n", ":2: batch = 7: expected an even number"},
	} {
		path := filepath.Join(t.TempDir(), "f.csv")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := ReadFetches(filepath.Join("testdata", "hostkv.csv")); err == nil || !strings.Contains(err.Error(), "pool_gib is missing") {
		t.Error(err)
	}
	if _, err := Read("nowhere.csv"); err == nil {
		t.Error("no error of no file")
	}
}
