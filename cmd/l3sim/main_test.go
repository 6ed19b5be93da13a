package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"github.com/l3sim/l3sim/internal/perfetto"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"l3sim": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Files:               deep.Files(t, "testdata/script/*.txtar", 3),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           deepOnly,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"refuses": refuses},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOGC", "400") // most of a thousand commands end before they have garbage
			env.Defer(func() { checkTimelines(env) })
			return nil
		},
	})
}

// checkTimelines reads every timeline left by a script as Perfetto does.
func checkTimelines(env *testscript.Env) {
	err := filepath.WalkDir(env.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".json.gz") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("\x1f\x8b")) && !bytes.HasPrefix(text, []byte(`{"displayTimeUnit"`)) {
			return err
		}
		var r io.Reader = bytes.NewReader(text)
		if strings.HasSuffix(path, ".gz") {
			if r, err = gzip.NewReader(r); err != nil {
				return err
			}
		}
		_, faults, err := perfetto.Read(r)
		if strings.HasSuffix(path, ".gz") && err != nil {
			return nil // another compressed file
		}
		if err != nil || len(faults) > 0 {
			return fmt.Errorf("%s: %d faults, %v, %v", path, len(faults), faults[:min(3, len(faults))], err)
		}
		return nil
	})
	if err != nil {
		env.T().Fatal(err)
	}
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

// refuses runs a command line and wants exit code 2, nothing on standard output, and a message that
// matches the first argument, a regular expression.
func refuses(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("l3sim", args[1:]...)
	var exit *exec.ExitError
	switch message := ts.ReadFile("stderr"); {
	case !errors.As(err, &exit) || exit.ExitCode() != cli.WrongInput:
		ts.Fatalf("%v: %v, want exit code 2", args[1:], err)
	case ts.ReadFile("stdout") != "":
		ts.Fatalf("%v: standard output: %s", args[1:], ts.ReadFile("stdout"))
	case !regexp.MustCompile("(?s)^l3sim: " + args[0]).MatchString(message):
		ts.Fatalf("%v: no %q in %s", args[1:], args[0], message)
	}
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
