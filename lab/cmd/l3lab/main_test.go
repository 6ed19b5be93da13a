package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/internal/deep"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"l3lab": main})
}

func TestScripts(t *testing.T) {
	models, err := filepath.Abs("../../lm/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Files: deep.Files(t, "testdata/script/*.txtar", 2, "gpu_iteration"), RequireExplicitExec: true, RequireUniqueNames: true, Condition: deepOnly, Setup: func(env *testscript.Env) error {
		env.Setenv("LM", models)
		return nil
	}})
}

// TestBoth runs the scripts in which l3sim reads output of l3lab.
func TestBoth(t *testing.T) {
	deep.Only(t)
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/l3sim/l3sim/cmd/l3sim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/both", RequireExplicitExec: true, Condition: deepOnly, Setup: func(env *testscript.Env) error {
		env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
		return nil
	}})
}

// deepOnly evaluates the conditions [deep] and [long] of scripts.
func deepOnly(name string) (bool, error) {
	switch name {
	case "deep":
		return deep.On(), nil
	case "long":
		return deep.Long(), nil
	}
	return false, fmt.Errorf("no condition %q", name)
}

// run runs a command line in this process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program.Run(ctx, args, stdout, stderr)
}

// object runs a command and reads the JSON object that it prints.
func object(t *testing.T, into any, args ...string) {
	t.Helper()
	var out, messages bytes.Buffer
	if code := run(t.Context(), append([]string{"--quiet"}, args...), &out, &messages); code != cli.OK {
		t.Fatalf("%v: exit code %d: %s", args, code, messages.String())
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// near says that two numbers are equal up to rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// TestGenerates runs the sample of lab/docs/sparse.md: text, clocks and bytes agree with the page.
func TestGenerates(t *testing.T) {
	deep.Heavy(t)
	page, err := os.ReadFile("../../docs/sparse.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "--precision fp32 --stats\n```\n\n```text\n")
	sample, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no sample of generate")
	}
	var out, messages bytes.Buffer
	args := []string{"generate", "--prompt", "func (b *Buffer) Write(", "--tokens", "96", "--precision", "fp32", "--stats"}
	if code := run(t.Context(), args, &out, &messages); code != cli.OK || messages.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, messages.String())
	}
	// Times on this machine, and the last digits of its float32.
	own := regexp.MustCompile(`(?m)^(this machine|largest error).*$`)
	if got, want := own.ReplaceAllString(out.String(), "$1"), own.ReplaceAllString(sample, "$1"); got != want {
		t.Errorf("the sample of the page is out of date; the command now prints\n%s", out.String())
	}
}

// TestMeasurementsAreBounded: a file without end is refused like any wrong input.
func TestMeasurementsAreBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "gemm.csv")); err != nil {
		t.Skip(err)
	}
	var out, messages bytes.Buffer
	code := run(t.Context(), []string{"gpu", "validate", "--gpu", "a100-sxm-80gb", "--measured", dir}, &out, &messages)
	if code != cli.WrongInput || !strings.HasPrefix(messages.String(), "l3lab: ") || messages.Len() > cli.LongestMessage {
		t.Errorf("exit code %d: %.500s", code, messages.String())
	}
}
