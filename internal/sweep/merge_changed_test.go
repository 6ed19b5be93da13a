package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// TestMergeRefusesChangedShards: a shard's file that differs from the plan is detected.
func TestMergeRefusesChangedShards(t *testing.T) {
	dir := t.TempDir()
	p := fake(plan(t, grid))
	var folders []string
	for i := range 2 {
		folders = append(folders, filepath.Join(dir, fmt.Sprint(i)))
		runShard(t, p, Shard{i, 2}, folders[i], -1)
	}
	path := filepath.Join(folders[1], shardName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][3]string{
		{`"seed":1`, `"seed":9`, "the points that this plan was dealt"}, {`"name":"gpus`, `"name":"GPUs`, "the points that this plan was dealt"},
		{`"keys":["node.gpus",`, `"keys":["x",`, ":1: points = 12: expected the points and columns of one plan"},
		{`"columns":["node.gpus",`, `"columns":["x",`, ":1: points = 12: expected the points and columns of one plan"},
		{`"points":12`, `"points":13`, ":1: points = 13: expected the points and columns of one plan"},
		{"\n{", "\n[", ":2: not a line of JSON"}, {`{"index":`, `{"index":99`, ":2: expected a point with an index below points"},
		{`"cells":[`, `"cells":["x",`, ":2: expected a point with an index below points and a cell a column"},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatal(change, changed)
		}
		if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(folders); !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), folders[1]) || !strings.Contains(err.Error(), change[2]) {
			t.Errorf("%s: got %v", change[1], err)
		}
	}
}

// TestMergeKeepsTheFirstRun: of equal results of a point the first started counts, in any order of
// the folders.
func TestMergeKeepsTheFirstRun(t *testing.T) {
	p := fake(plan(t, grid))
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i := range dirs { // one after the other
		runShard(t, p, Shard{0, 1}, dirs[i], -1)
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}} {
		m, err := Merge([]string{dirs[order[0]], dirs[order[1]], dirs[order[2]]})
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := ReadJournal(dirs[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range m.Outcome.Entries {
			if want := first[p.Points[i].Hash]; !e.Started.Equal(want.Started) || e.WallS != want.WallS {
				t.Fatalf("order %v: %s started at %v, first at %v", order, e.Name, e.Started, want.Started)
			}
		}
	}
}
