package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// runShard runs a shard of the plan into dir and returns its outcome. A negative
// stopAfter lets it finish; else it is interrupted after that number of points.
func runShard(t interface{ Fatal(...any) }, p *Plan, s Shard, dir string, stopAfter int) *Outcome {
	part := p.Part(s)
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Describe(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var calls atomic.Int64
	outcome, err := part.Run(ctx, RunOptions{Journal: j, Workers: 2, Progress: func(int64, int64) {
		if n := calls.Add(1) - 1; stopAfter >= 0 && n >= int64(stopAfter) {
			cancel()
		}
	}})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return outcome
}

var wallTime = regexp.MustCompile(`"wall_s": [^,\n]+`)

// folder returns the text of all results in a folder, without wall times.
func folder(t interface{ Fatal(...any) }, dir string) map[string]string {
	texts := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == journalName {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		texts[name] = wallTime.ReplaceAllString(string(text), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func sameFolder(t interface{ Fatalf(string, ...any) }, got, want map[string]string) {
	if len(got) != len(want) {
		t.Fatalf("%d files, want %d", len(got), len(want))
	}
	for name, text := range want {
		if got[name] != text {
			t.Fatalf("%s:\n%s\nwant\n%s", name, got[name], text)
		}
	}
}

// manyPoints has repeats, points that fail, points that share a run, and lengths that depend on a
// model's trace.
const manyPoints = `repeats = 2
[set]
run.requests = 2
traces.max_tokens = 20000
run.model = "llama-2-7b"
[grid]
run.trace = ["longbench", "openr1"]
node.gpus = [4, 8]
model.tensor_parallel = [1, 8]
[[list]]
name = "a"
node.ranksets = 4
[[list]]
name = "b"
node.memory_capacity = "2TiB"
[[list]]
name = "c"
node.ranksets = 2
`

// whole runs a plan at once and returns its folder.
func whole(t interface{ Fatal(...any) }, p *Plan, dir string) map[string]string {
	outcome, err := p.Run(context.Background(), RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(dir, outcome); err != nil {
		t.Fatal(err)
	}
	return folder(t, dir)
}

// TestShardsMergeToOneRun: any number of shards, run in any order, some twice in another folder,
// some interrupted or with a torn journal and resumed, merge to the bytes of one run. Before the
// last one is complete, the merge says so.
func TestShardsMergeToOneRun(t *testing.T) {
	deep.Heavy(t)
	p := fake(plan(t, manyPoints))
	want := whole(t, p, t.TempDir())
	memory := "" // a file system with instant syncs, if there is one
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		memory = "/dev/shm"
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory, "shards")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		n := rapid.IntRange(1, 60).Draw(t, "shards")
		if rapid.Bool().Draw(t, "few") {
			n = n%6 + 1
		}
		var folders, interrupted []string
		of := map[string]Shard{}
		for _, i := range rapid.Permutation(firstIndices(n)).Draw(t, "order") {
			for copies := range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "copies") {
				to := filepath.Join(dir, fmt.Sprintf("%d-%d", i, copies))
				folders, of[to] = append(folders, to), Shard{i, n}
				stop := rapid.IntRange(-5, 4).Draw(t, "stop after")
				if o := runShard(t, p, of[to], to, stop); o.Missing > 0 {
					interrupted = append(interrupted, to)
					if rapid.Bool().Draw(t, "torn") {
						tear(t, to)
					}
				}
			}
		}
		if merged, err := Merge(folders); err == nil {
			for _, e := range merged.Outcome.Entries {
				if e == nil {
					t.Fatal("a merge without error lacks an entry")
				}
			}
		} else if incomplete := new(incompleteError); !errors.As(err, &incomplete) || len(interrupted) == 0 {
			t.Fatal(err)
		}
		for _, to := range interrupted {
			if o := runShard(t, p, of[to], to, -1); o.Missing > 0 {
				t.Fatalf("%s lacks %d points", to, o.Missing)
			}
		}
		merged, err := Merge(rapid.Permutation(folders).Draw(t, "merge order"))
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "merged")
		if err := merged.Write(out); err != nil {
			t.Fatal(err)
		}
		sameFolder(t, folder(t, out), want)
		// The merged folder is a sweep's: nothing is left to run.
		j, err := OpenJournal(out)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		if o, err := p.Run(context.Background(), RunOptions{Journal: j}); err != nil || o.Ran != 0 || o.Missing != 0 {
			t.Fatal(o, err)
		}
	})
}

func firstIndices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// tear cuts a journal's last line, as a crash may.
func tear(t *rapid.T, dir string) {
	path := filepath.Join(dir, journalName)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := rapid.Int64Range(0, min(300, info.Size()-1)).Draw(t, "cut")
	if err := os.Truncate(path, info.Size()-cut); err != nil {
		t.Fatal(err)
	}
}

// TestMergeRefuses fixes the errors of a merge of folders that do not belong together or are
// incomplete.
func TestMergeRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	p := fake(plan(t, grid))
	for i := range 3 {
		runShard(t, p, Shard{i, 3}, at(fmt.Sprint(i)), -1)
	}
	runShard(t, p, Shard{1, 3}, at("begun"), 0)
	runShard(t, p, Shard{1, 4}, at("quarter"), -1)
	runShard(t, fake(plan(t, small+"[grid]\nnode.gpus = [4, 8]\n")), Shard{1, 3}, at("other plan"), -1)
	newer, err := NewPlan(p.File, "newer")
	if err != nil {
		t.Fatal(err)
	}
	runShard(t, fake(newer), Shard{1, 3}, at("newer"), -1)
	wrong := fake(plan(t, grid))
	right := wrong.Simulate
	wrong.Simulate = func(ctx context.Context, point *Point, config *configs.Config, trace *traces.Trace) (*results.Summary, error) {
		s, err := right(ctx, point, config, trace)
		s.SimulatedS++
		return s, err
	}
	runShard(t, wrong, Shard{1, 3}, at("wrong"), -1)
	if err := os.MkdirAll(at("empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folders, want string
		incomplete    bool
	}{
		{"0 2", "shard 1/3 is missing", true},
		{"1", "shard 0/3 is missing; shard 2/3 is missing", true},
		{"0 begun 2", "shard 1/3 (" + at("begun") + ") lacks 4 of its points, the first is gpus=", true},
		{"0 1 2 quarter", "quarter/shard.jsonl:1: of = 4: expected one division into 3 shards, as in " + at("0"), false},
		{"0 1 2 newer", "newer/shard.jsonl:1: version = newer: expected results of one version of the code, test", false},
		{"0 other_plan 2", " of sweep.toml, 2 points over node.gpus: expected shards of one plan, ", false},
		{"0 1 2 wrong", "the same configuration, trace and code gave two results", false},
		{"0 1 2 empty", "empty: open ", false},
		{"0 1 2 nowhere", "expected the folder of a sweep with --shard", false},
	} {
		var folders []string
		for _, f := range strings.Fields(c.folders) {
			folders = append(folders, at(strings.ReplaceAll(f, "_", " ")))
		}
		_, err := Merge(folders)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.folders, err, c.want)
		}
		var bad *input.Error
		var incomplete *incompleteError
		if errors.As(err, &incomplete) != c.incomplete || errors.As(err, &bad) == c.incomplete {
			t.Errorf("%s: an error of type %T", c.folders, err)
		}
	}
	if _, err := Merge([]string{at("2"), at("begun"), at("1"), at("0"), at("0")}); err != nil {
		t.Errorf("a shard twice: %v", err)
	}
}

// TestPlanWithoutPlaces: another spelling of the sweep file's path, or a further line in it,
// changes no point, valid or not, and no record.
func TestPlanWithoutPlaces(t *testing.T) {
	deep.Heavy(t)
	identity := func(path, text string) (string, string) {
		f, err := design.ParseFile(system.Configs(), path, text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(f, "test")
		if err != nil {
			t.Fatal(err)
		}
		o, err := p.Run(context.Background(), RunOptions{})
		if err != nil || o.Failed != 2 {
			t.Fatal(o, err)
		}
		return p.Identity(), table(t, p, o)
	}
	plan, rows := identity("sweep.toml", grid)
	otherPlan, otherRows := identity("./a/../sweep.toml", "# a comment\n"+grid)
	if plan != otherPlan {
		t.Error("another place, another plan")
	}
	if rows != otherRows || strings.Contains(rows, "sweep.toml") {
		t.Errorf("places in results:\n%s\n%s", rows, otherRows)
	}
}

// TestMergeOrder: within a folder the later of two results of a point counts, before folders are
// compared; and results count in any folder, so the order of folders does not matter.
func TestMergeOrder(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	p, wrong := fake(plan(t, grid)), fake(plan(t, grid))
	right := wrong.Simulate
	wrong.Simulate = func(ctx context.Context, point *Point, config *configs.Config, trace *traces.Trace) (*results.Summary, error) {
		s, err := right(ctx, point, config, trace)
		s.SimulatedS++
		return s, err
	}
	// "mended" was wrong and was forced to run again; "stray" has all its points from a run of the
	// whole plan, and is later described as a shard of two.
	runShard(t, wrong, Shard{0, 2}, at("mended"), -1)
	force(t, p, Shard{0, 2}, at("mended"))
	runShard(t, p, Shard{0, 2}, at("0"), -1)
	runShard(t, p, Shard{0, 1}, at("stray"), -1)
	if err := os.Remove(filepath.Join(at("stray"), shardName)); err != nil {
		t.Fatal(err)
	}
	runShard(t, p, Shard{0, 2}, at("stray"), -1)
	runShard(t, p, Shard{1, 2}, at("begun"), 0)
	for _, folders := range [][]string{{at("mended"), at("0"), at("stray"), at("begun")}, {at("begun"), at("0"), at("stray"), at("mended")},
		{at("stray"), at("begun"), at("mended"), at("0")}} {
		if _, err := Merge(folders); err != nil {
			t.Errorf("%v: %v", folders, err)
		}
	}
}

// force runs a shard and all its points again.
func force(t *testing.T, p *Plan, s Shard, dir string) {
	t.Helper()
	j, err := OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := p.Part(s).Run(context.Background(), RunOptions{Journal: j, Force: true}); err != nil {
		t.Fatal(err)
	}
}

// TestShardFolderIsItsOwn: two shards of a plan cannot share a folder; a folder of an older plan is
// reused with its points.
func TestShardFolderIsItsOwn(t *testing.T) {
	dir := t.TempDir()
	p := fake(plan(t, grid))
	runShard(t, p, Shard{0, 2}, dir, -1)
	var bad *input.Error
	if err := p.Part(Shard{1, 2}).Describe(dir); !errors.As(err, &bad) || !strings.Contains(err.Error(), "holds shard 0/2 of the same plan") {
		t.Errorf("got %v", err)
	}
	wider := fake(plan(t, strings.Replace(grid, "[4, 8]", "[4, 8, 16]", 1)))
	if o := runShard(t, wider, Shard{0, 1}, dir, -1); o.Reused != 6 || o.Missing != 0 {
		t.Errorf("%+v", o)
	}
}

func FuzzReadShard(f *testing.F) {
	head := `{"schema":"l3sim/shard/2","plan":"a","version":"b","shard":0,"of":2,"points":3,"columns":["run.seed"]}` + "\n"
	f.Add([]byte(head + `{"index":2,"point":"c","name":"d","seed":1,"cells":["1"]}` + "\n"))
	f.Add([]byte(head + `{"index":3,"point":"c"}`))
	f.Add([]byte("{}\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, shardName), text, 0o666); err != nil {
			t.Fatal(err)
		}
		head, err := readShard(dir, func(p *pointLine) error {
			if p.Index < 0 || p.Index >= 100_000 || p.Point == "" {
				t.Fatalf("point %+v", p)
			}
			return nil
		})
		var bad *input.Error
		if err != nil && !errors.As(err, &bad) || err == nil && (head.Shard < 0 || head.Shard >= head.Of) {
			t.Fatalf("%+v, %v", head, err)
		}
	})
}
