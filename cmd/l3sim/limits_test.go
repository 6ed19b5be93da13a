//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
)

// zipped writes a text, so many times over, into a gzip file.
func zipped(t *testing.T, path, first, text string, times int) string {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write([]byte(first))
	}
	for i := 0; i < times && err == nil; i++ {
		_, err = z.Write([]byte(text))
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = os.WriteFile(path, packed.Bytes(), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInputsAreBounded gives every kind of file and text that is endless, or larger or deeper than
// any valid one: the command fails as for any wrong input, with a readable message, in normal
// memory.
func TestInputsAreBounded(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("takes some seconds, and more memory under the race detector")
	}
	const zero = "/dev/zero"
	dir := t.TempDir()
	l3sim := linked(t, dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	save := func(name, text string) string {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	link := func(name string) {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(zero, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link("zeros/results.csv")
	link("shard/shard.jsonl")
	link("journal/journal.jsonl")
	const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
	nested := strings.Repeat("a.", 50_000) + "a = 1\n"
	huge := strings.Repeat("9", 100_000) // an argument may have 128 KiB
	point := save("point.toml", "[set]\nrun.requests = 1\n")
	for name, args := range map[string][]string{
		"trace":                    {"run", "--trace", zero},
		"trace that unpacks":       {"run", "--trace", zipped(t, path("zeros.gz"), "", strings.Repeat("\x00", 1<<20), 300)},
		"trace of many requests":   {"run", "--trace", zipped(t, path("many.gz"), azure, strings.Repeat("2023-11-16 18:17:03,7,9\n", 40_000), 200)},
		"trace with a long field":  {"run", "--trace", save("long.csv", azure+"2023-11-16 18:17:03,"+strings.Repeat("7", 50<<20)+",9\n")},
		"trace with a large value": {"run", "--trace", save("large.csv", azure+"2023-11-16 18:17:03,"+strings.Repeat("7", 10<<20)+",9\n")},
		"JSON lines":               {"run", "--trace", zipped(t, path("json.gz"), "{", strings.Repeat(" ", 1<<20), 300)},
		"trace to describe":        {"trace", "stats", zero},
		"lines to skip":            {"trace", "stats", "--skip-bad", path("zeros.gz")},
		"conversations":            {"trace", "stats", zipped(t, path("talk.gz"), "[{\"conversations\": [{\"from\": \"", strings.Repeat("x", 1<<20), 300)},
		"messages":                 {"trace", "stats", zipped(t, path("talks.gz"), "[{\"conversations\": [", strings.Repeat("{\"from\": \"human\", \"value\": \"\"},\n", 40_000), 100)},
		"lists of lengths":         {"trace", "stats", zipped(t, path("lists.gz"), "{\"input_lens\": [1", strings.Repeat(",100", 1<<18), 10)},
		"other lists":              {"trace", "stats", zipped(t, path("other.gz"), "{\"total_input_tokens\": 5, \"itls\": [1", strings.Repeat(",[100]", 1<<18), 20)},
		"Parquet":                  {"trace", "stats", zipped(t, path("parquet.gz"), "PAR1", strings.Repeat("x", 1<<20), 300)},
		"rows of the same session": {"trace", "stats", zipped(t, path("session.gz"), "Timestamp,Session ID,Request tokens,Response tokens\n", strings.Repeat("1,2,3,x\n", 40_000), 100)},
		"configuration":            {"run", "--config", zero},
		"nested configuration":     {"run", "--config", save("deep.toml", nested)},
		"long value of a key":      {"run", "--config", save("value.toml", "[run]\nmodel = \""+strings.Repeat("x", 500<<10)+"\"\n")},
		"long key":                 {"run", "--config", save("key.toml", "\""+strings.Repeat("x", 500<<10)+"\" = 1\n")},
		"--set":                    {"run", "--set", "run.seed=" + strings.Repeat("[", 100_000)},
		"--set to tables":          {"run", "--set", "run.seed=" + strings.Repeat("{a=", 30_000)},
		"key of --set":             {"run", "--set", huge + "=1"},
		"--model":                  {"run", "--model", huge},
		"--requests":               {"run", "--requests", huge},
		"command":                  {huge},
		"flag":                     {"run", "--" + huge},
		"sweep file":               {"sweep", zero, "--out", path("out")},
		"nested sweep file":        {"sweep", save("deep_sweep.toml", "[set]\n"+nested), "--out", path("out")},
		"condition":                {"sweep", save("where.toml", "where = \""+strings.Repeat("(", 500<<10)+"\"\n"), "--out", path("out")},
		"overlay of a sweep":       {"sweep", save("overlay.toml", "config = \""+zero+"\"\n"), "--out", path("out")},
		"trace of a sweep":         {"sweep", save("traced.toml", "[set]\nrun.trace = \""+zero+"\"\n"), "--out", path("out")},
		"axis":                     {"sweep", save("axis.toml", "[grid]\nrun.seed = ["+distinct(150_000)+"]\n"), "--out", path("out")},
		"journal":                  {"sweep", point, "--out", path("journal")},
		"shard":                    {"sweep", "merge", path("shard"), "--out", path("out")},
		"results":                  {"table", path("zeros")},
		"results that differ":      {"diff", zero, zero},
		"results to plot":          {"plot", zero, "--kind", "line", "--x", "a", "--y", "b", "--out", path("a.svg")},
		"results to explore":       {"explore", zero, "--goals", "max a, min b"},
		"table of many rows":       {"table", save("rows.csv", strings.Repeat("1\n", 12<<20))},
		"table of many columns":    {"table", save("columns.csv", distinct(1_000_000)+"\n1\n")},
		"definition of a figure":   {"plot", path("zeros"), "--figure", zero},
		"GPU":                      {"gpu", "predict", "--gpu", zero, "--op", "gemm", "--m", "1", "--n", "1", "--k", "1"},
		"nested GPU":               {"gpu", "predict", "--gpu", path("deep.toml"), "--op", "gemm", "--m", "1", "--n", "1", "--k", "1"},
		"model":                    {"gpu", "model", "--model", zero, "--gpu", "a100-sxm-80gb"},
	} {
		t.Run(name, func(t *testing.T) {
			// Without the tested bounds the machine itself would be out of memory, or a minute of its processor gone.
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -v 8000000; ulimit -t 60; exec "$@"`, "sh", l3sim}, args...)...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			_ = cmd.Run()
			usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			message := stderr.String()
			if cmd.ProcessState.ExitCode() != cli.WrongInput || !strings.HasPrefix(message, "l3sim: ") || strings.Count(strings.ReplaceAll(message, "\n  ", ""), "\n") != 1 || len(message) > cli.LongestMessage+100 {
				t.Errorf("exit code %d: %.500s", cmd.ProcessState.ExitCode(), message)
			}
			t.Logf("%d MiB: %.400s", usage.Maxrss>>10, message)
			if usage.Maxrss > 1<<20 {
				t.Errorf("%d MiB of memory", usage.Maxrss>>10)
			}
		})
	}
}

// distinct returns n numbers separated by commas.
func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.Repeat("1", 1+i%3))
		for k := i; k > 0; k /= 10 {
			b.WriteByte('0' + byte(k%10))
		}
	}
	return b.String()
}
