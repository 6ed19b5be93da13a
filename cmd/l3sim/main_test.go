package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/lab/perfetto"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"l3sim": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Defer(func() { checkTimelines(env) })
			return nil
		},
	})
}

// checkTimelines reads every timeline that a script has left as Perfetto does.
func checkTimelines(env *testscript.Env) {
	err := filepath.WalkDir(env.WorkDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".json.gz") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, []byte("\x1f\x8b")) && !bytes.HasPrefix(text, []byte(`{"displayTimeUnit"`)) {
			return err
		}
		n, faults, err := perfetto.Faults(bytes.NewReader(text))
		if strings.HasSuffix(path, ".gz") && err != nil {
			return nil // something else that is packed
		}
		if err != nil || n == 0 || len(faults) > 0 {
			return fmt.Errorf("%s: %d slices, %d faults, %v, %v", path, n, len(faults), faults[:min(3, len(faults))], err)
		}
		return nil
	})
	if err != nil {
		env.T().Fatal(err)
	}
}

func TestExitCode(t *testing.T) {
	wrapped := fmt.Errorf("run: %w", &input.Error{Key: "--model"})
	for _, c := range []struct {
		err     error
		started bool
		want    int
	}{
		{nil, true, exitOK},
		{errors.New("disk full"), true, exitFailure},
		{errors.New("accepts 1 arg"), false, exitInput},
		{wrapped, true, exitInput},
		{&input.Error{File: "a.csv", Err: &fs.PathError{Op: "read", Path: "a.csv", Err: syscall.EIO}}, true, exitFailure},
		{folderError("--out", "a", &fs.PathError{Op: "open", Path: "a", Err: syscall.ENOSPC}), true, exitFailure},
		{folderError("--out", "a", &fs.PathError{Op: "mkdir", Path: "a", Err: syscall.ENOTDIR}), true, exitInput},
		{fmt.Errorf("run: %w", context.Canceled), true, exitInterrupted},
	} {
		if got := (&app{started: c.started}).exitCode(c.err); got != c.want {
			t.Errorf("%v (started %t): got %d, want %d", c.err, c.started, got, c.want)
		}
	}
}

func TestVersionLine(t *testing.T) {
	if got := describeBuild(nil).String(); !strings.Contains(got, "unknown commit") {
		t.Errorf("no build information: %s", got)
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got := describeBuild(info).String(); !strings.HasPrefix(got, "l3sim v1.2.3, commit abc123 (modified), go1.") {
		t.Errorf("got %s", got)
	}
}

func TestProgressLine(t *testing.T) {
	p := &progress{unit: "requests", total: 1000}
	p.Set(250)
	p.Set(100) // a slower replica reports late
	if got, want := p.line(10*time.Second), "l3sim: 250/1000 requests (25%), 10s, about 30s left"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Set(1000)
	if got, want := p.line(12*time.Second), "l3sim: 1000/1000 requests (100%), 12s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p = &progress{unit: "runs"} // of which nobody knows how many there will be
	p.Set(7)
	if got, want := p.line(9*time.Second), "l3sim: 7 runs, 9s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestProgressConcurrent counts from several goroutines while lines are
// written: the race detector sees a missing lock, and the last line the count.
func TestProgressConcurrent(t *testing.T) {
	var out lockedBuffer
	p := (&app{stderr: &out}).newProgress("steps")
	p.interval = time.Millisecond
	p.Start(4000)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 1000 {
				p.Set(int64(1000*g + i + 1))
			}
		})
	}
	group.Wait()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(out.String(), "4000/4000 steps (100%)"); {
		if time.Now().After(deadline) {
			t.Fatalf("the count never showed: %s", out.String())
		}
		time.Sleep(time.Millisecond)
	}
	p.Done()
	p.Done()
	shown := out.String()
	time.Sleep(5 * time.Millisecond)
	if out.String() != shown {
		t.Error("lines after Done")
	}
}

func TestProgressQuiet(t *testing.T) {
	var out bytes.Buffer
	p := (&app{stderr: &out, quiet: true}).newProgress("steps")
	p.interval = time.Microsecond
	p.Start(10)
	p.Set(10)
	time.Sleep(2 * time.Millisecond)
	p.Done()
	if out.Len() > 0 {
		t.Errorf("quiet, but wrote %q", out.String())
	}
}

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
