package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
)

// full is a disk with room for a number of bytes.
type full struct{ left int }

var errFull = errors.New("no space left on device")

func (f *full) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	if f.left -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

// TestOutputFails: every command fails if its output cannot be written, at once or in part; so does
// help.
func TestOutputFails(t *testing.T) {
	deep.Heavy(t)
	dir := t.TempDir()
	sweep := filepath.Join(dir, "sweep.toml")
	text := "[set]\nrun.requests = 2\nrun.model = \"llama-2-7b\"\n[grid]\nnode.ranksets = [2, 4]\n"
	if err := os.WriteFile(sweep, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, shard := filepath.Join(dir, "out"), filepath.Join(dir, "shard")
	for _, args := range [][]string{{"sweep", sweep, "--out", out}, {"sweep", sweep, "--shard", "0/1", "--out", shard}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != cli.OK {
			t.Fatal(stderr.String())
		}
	}
	commands := map[string][]string{ // those that need arguments
		"l3sim config show":           nil,
		"l3sim config list":           nil,
		"l3sim diff":                  {out, out},
		"l3sim explore":               {out, "--goals", "max output_tokens_per_s, min ranksets"},
		"l3sim gpu predict":           {"--op", "gemm", "--gpu", "a100-sxm-80gb", "--m", "1", "--n", "1", "--k", "1"},
		"l3sim gpu model":             {"--model", "gpt-175b", "--gpu", "a100-sxm-80gb", "--in", "10", "--out", "1"},
		"l3sim help":                  {"run"},
		"l3sim sweep merge":           {shard, "--out", filepath.Join(dir, "merged")},
		"l3sim pim attention":         {"--context", "128"},
		"l3sim run":                   {"--requests", "2", "--model", "llama-2-7b"},
		"l3sim sweep":                 {sweep, "--out", out},
		"l3sim table":                 {out},
		"l3sim config systems":        {},
		"l3sim version":               {},
		"l3sim completion bash":       {},
		"l3sim __complete":            {"run", "--"},
		"l3sim sweep --dry-run":       {sweep},
		"l3sim sweep --emit":          {"slurm", sweep, "--shards", "2", "--out", filepath.Join(dir, "job")},
		"l3sim run --json":            {"--requests", "2", "--model", "llama-2-7b"},
		"l3sim run --dry-run":         {},
		"l3sim sweep --shard":         {"0/1", sweep, "--out", shard},
		"l3sim config systems --json": {},
		"l3sim table --format csv":    {out},
	}
	var lines [][]string
	for command, args := range commands {
		lines = append(lines, append(strings.Fields(command)[1:], args...))
	}
	for _, c := range everyCommand(program.Root(&cli.App{})) {
		lines = append(lines, append(strings.Fields(c.CommandPath())[1:], "--help"))
	}
	lines = append(lines, nil, []string{"help"})
	for _, args := range lines {
		var whole, stderr bytes.Buffer
		if code := run(t.Context(), args, &whole, &stderr); code != cli.OK || whole.Len() == 0 {
			t.Errorf("%q: exit code %d, %d bytes: %s", args, code, whole.Len(), stderr.String())
			continue
		}
		for _, left := range []int{1, 0}[:deep.Of(1, 2, 2)] {
			stderr.Reset()
			code := run(t.Context(), args, &full{left}, &stderr)
			if last := strings.TrimSpace(stderr.String()); code != cli.Failure || !strings.HasSuffix(last, errFull.Error()) {
				t.Errorf("%q with room for %d bytes: exit code %d, %q", args, left, code, last)
			}
		}
	}
}

// everyCommand returns a command and those below it.
func everyCommand(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.Hidden {
			continue // removed: it only names its replacement
		}
		all = append(all, everyCommand(sub)...)
	}
	return all
}

// removeWhenRecorded removes a sweep's folder once a point is recorded there, or fails once the sweep has ended without one.
func removeWhenRecorded(out string, ended <-chan struct{}) error {
	for {
		text, _ := os.ReadFile(filepath.Join(out, "journal.jsonl"))
		if bytes.Count(text, []byte("\n")) > 1 {
			return os.RemoveAll(out)
		}
		select {
		case <-ended:
			return errors.New("no point was recorded")
		case <-time.After(time.Millisecond):
		}
	}
}

// TestSweepFolderRemoved removes a sweep's folder while its points run: the sweep fails, and does
// not create a folder of results without a journal.
func TestSweepFolderRemoved(t *testing.T) {
	deep.Only(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.toml")
	text := "repeats = 400\n[set]\nrun.requests = 20\nrun.model = \"llama-2-7b\"\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, shard := range []string{"", "0/1"} {
		out := filepath.Join(dir, "out"+shard[:min(1, len(shard))])
		args := []string{"sweep", file, "--out", out, "--workers", "1"}
		if shard != "" {
			args = append(args, "--shard", shard)
		}
		removed, ended := make(chan error), make(chan struct{})
		go func() { removed <- removeWhenRecorded(out, ended) }()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, &stdout, &stderr)
		close(ended)
		if err := <-removed; err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		if code != cli.Failure || !strings.Contains(stderr.String(), "journal.jsonl was removed or moved while it was in use") || strings.Contains(stderr.String(), "goes on from there") {
			t.Errorf("exit code %d: %s%s", code, stdout.String(), stderr.String())
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there again: %v", out, err)
		}
	}
}
