//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/l3sim/l3sim/internal/deep"
)

// crashSweep is 80 points of some milliseconds each; the 20 with more GPUs a replica than the node has fail.
const crashSweep = `repeats = 2
[set]
run.model = "llama-2-7b"
run.requests = 2
[grid]
node.gpus = [4, 8]
model.tensor_parallel = [4, 8]
node.ranksets = [2, 4, 6, 8, 10]
pcie.latency = ["1us", "2us"]
`

// TestSweepSurvivesKills ends a sweep of 80 points at 20 random moments, by signals that can and
// that cannot be caught, and resumes it each time: the final table equals that of an uninterrupted
// sweep, byte for byte, and no point is in the journal twice.
func TestSweepSurvivesKills(t *testing.T) {
	deep.Only(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.toml")
	if err := os.WriteFile(file, []byte(crashSweep), 0o666); err != nil {
		t.Fatal(err)
	}
	l3sim := linked(t, dir)
	sweep := func(out string) *exec.Cmd { return exec.Command(l3sim, "sweep", file, "--quiet", "--out", out) }
	whole := filepath.Join(dir, "whole")
	timed := func() time.Duration {
		start := time.Now()
		if out, err := sweep(whole).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("20 points of 80 failed")) {
			t.Fatalf("uninterrupted: %v\n%s", err, out)
		}
		return time.Since(start)
	}
	run, startup := timed(), timed() // the second run finds all in the journal
	want := read(t, filepath.Join(whole, "results.csv"))

	random := rand.New(rand.NewPCG(1, 2))
	broken := filepath.Join(dir, "broken")
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM}
	grown, ended := 0, false
	for kill := range 20 {
		before := journalLines(t, broken)
		cmd := sweep(broken)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The next run is killed after some more points, or before the first. Times only choose the moments; no verdict depends on
		// them.
		gone := waiting(cmd)
		if more := random.IntN(5); more > 0 {
			recorded(t, broken, before+more, gone)
			time.Sleep(time.Duration(random.Int64N(int64(run / 80))))
		} else {
			time.Sleep(time.Duration(random.Int64N(int64(startup))))
		}
		_ = cmd.Process.Signal(signals[random.IntN(len(signals))])
		<-gone // killed or interrupted
		if journalLines(t, broken) > before {
			grown++
		}
		if _, err := os.Stat(filepath.Join(broken, "results.csv")); err == nil {
			t.Logf("the sweep ended before kill %d", kill) // too late
			ended = true
			break
		}
	}
	if grown < 3 && !ended {
		t.Errorf("only %d of 20 kills came while points ran", grown)
	}
	left := journalLines(t, broken)
	if out, err := sweep(broken).CombinedOutput(); err == nil {
		t.Fatalf("the failed points are forgotten:\n%s", out)
	}
	if got := read(t, filepath.Join(broken, "results.csv")); !bytes.Equal(got, want) {
		t.Errorf("the table differs from an uninterrupted run's:\n%s\nwant\n%s", got, want)
	}
	if len(bytes.Split(bytes.TrimSpace(want), []byte("\n"))) != 81 {
		t.Error("not 80 points")
	}
	points := map[string]int{}
	for line := range bytes.Lines(read(t, filepath.Join(broken, "journal.jsonl"))) {
		var e struct{ Point string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		points[e.Point]++
	}
	delete(points, "") // the first line
	for point, n := range points {
		if n != 1 {
			t.Errorf("point %s ran %d times", point, n)
		}
	}
	if len(points) != 80 {
		t.Errorf("%d points in the journal", len(points))
	}
	files, err := filepath.Glob(filepath.Join(broken, ".*"))
	if err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	t.Logf("uninterrupted %v, start-up %v; %d of 20 kills came while points ran, %d of 80 points were left for the last run", run, startup, grown, 81-left)
}

// linked returns the path of this test's executable under the name by which
// testscript.Main runs main.
func linked(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "l3sim")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// journalLines returns the whole lines of a sweep's journal, 0 where there is
// none.
func journalLines(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}
