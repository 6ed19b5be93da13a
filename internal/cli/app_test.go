package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/l3sim/l3sim/input"
)

func TestExitCode(t *testing.T) {
	wrapped := fmt.Errorf("run: %w", &input.Error{Key: "--model"})
	for _, c := range []struct {
		err     error
		started bool
		want    int
	}{
		{nil, true, OK},
		{errors.New("disk full"), true, Failure},
		{errors.New("accepts 1 arg"), false, WrongInput},
		{wrapped, true, WrongInput},
		{&input.Error{File: "a.csv", Err: &fs.PathError{Op: "read", Path: "a.csv", Err: syscall.EIO}}, true, Failure},
		{FolderError("--out", "a", &fs.PathError{Op: "open", Path: "a", Err: syscall.ENOSPC}), true, Failure},
		{FolderError("--out", "a", &fs.PathError{Op: "mkdir", Path: "a", Err: syscall.ENOTDIR}), true, WrongInput},
		{fmt.Errorf("run: %w", context.Canceled), true, Interrupted},
	} {
		if got := (&App{started: c.started}).exitCode(c.err); got != c.want {
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
	if got := describeBuild(info).String(); !strings.HasPrefix(got, Version+", commit abc123 (modified), go1.") {
		t.Errorf("got %s", got)
	}
}

func TestProgressLine(t *testing.T) {
	p := &Progress{name: "l3sim", unit: "requests", total: 1000}
	p.Set(250)
	p.Set(100) // a slower replica reports late
	if got, want := p.line(10*time.Second), "l3sim: 250/1000 requests (25%), 10s, about 30s left"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Set(1000)
	if got, want := p.line(12*time.Second), "l3sim: 1000/1000 requests (100%), 12s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p = &Progress{name: "l3sim", unit: "runs"} // of an unknown total
	p.Set(7)
	if got, want := p.line(9*time.Second), "l3sim: 7 runs, 9s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestProgressBecomesRarer: half an hour without a terminal gives 10 lines, after 5, 15, 35, 75, 155, 315, 615, 915, 1215 and 1515
// seconds.
func TestProgressBecomesRarer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := (&App{Stderr: &out}).NewProgress("steps")
		p.Start(2000)
		for i := range int64(1800) {
			time.Sleep(time.Second)
			p.Set(i + 1)
		}
		p.Done()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 || !strings.Contains(lines[2], "), 35s, ") || !strings.Contains(lines[9], "), 25m15s, ") {
			t.Errorf("%d lines:\n%s", len(lines), out.String())
		}
	})
}

// TestProgressConcurrent counts from several goroutines while lines are written: the race detector
// finds a missing lock, and the last line has the final count.
func TestProgressConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := (&App{Stderr: &out}).NewProgress("steps")
		p.Start(4000)
		var group sync.WaitGroup
		for g := range 4 {
			group.Go(func() {
				for i := range 1000 {
					p.Set(int64(1000*g + i + 1))
					if i%10 == 0 {
						time.Sleep(lineInterval) // all continue together, and the next line is due
					}
				}
			})
		}
		group.Wait()
		time.Sleep(lineLongest)
		synctest.Wait()
		p.Done()
		p.Done()
		shown := out.String()
		if lines := strings.Split(strings.TrimSpace(shown), "\n"); len(lines) < 5 || !strings.HasPrefix(lines[len(lines)-1], ": 4000/4000 steps (100%)") {
			t.Errorf("the last of several lines shows another count:\n%s", shown)
		}
		time.Sleep(2 * lineLongest)
		synctest.Wait()
		if out.String() != shown {
			t.Error("lines after Done")
		}
	})
}

func TestProgressQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := (&App{Stderr: &out, Quiet: true}).NewProgress("steps")
		p.Start(10)
		p.Set(10)
		time.Sleep(2 * lineLongest)
		synctest.Wait()
		p.Done()
		if shown := out.String(); shown != "" {
			t.Errorf("quiet, but wrote %q", shown)
		}
	})
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

// TestChangelog: the newest release in the changelog is the programs' version, with its date. Unreleased changes
// may precede it.
func TestChangelog(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), 2)
	if len(sections) > 0 && sections[0][1] == "Unreleased" {
		sections = sections[1:]
	}
	if want := regexp.MustCompile(`^` + regexp.QuoteMeta(strings.TrimPrefix(Version, "v")) + ` \(\d{4}-\d{2}-\d{2}\)$`); len(sections) == 0 || !want.MatchString(sections[0][1]) {
		t.Errorf("CHANGELOG.md has the sections %q, the programs say %s", sections, Version)
	}
}
