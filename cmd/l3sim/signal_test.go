//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/l3sim/l3sim/internal/deep"
)

// waiting waits for a command in parallel with the test: the channel is closed when it has ended, in
// whatever way.
func waiting(cmd *exec.Cmd) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the test checks what it left
	}()
	return ended
}

// recorded waits until a journal has so many lines, and reports whether that was before its sweep ended.
func recorded(t *testing.T, dir string, lines int, ended <-chan struct{}) bool {
	t.Helper()
	for journalLines(t, dir) < lines {
		select {
		case <-ended:
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// TestSignals ends a shard's run with the signals of a user and of a batch system while points run:
// the exit code names the signal, and recorded points stay.
func TestSignals(t *testing.T) {
	deep.Heavy(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.toml")
	if err := os.WriteFile(file, []byte(strings.Replace(crashSweep, "run.requests = 2", "run.requests = 200", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	l3sim := linked(t, dir)
	out := filepath.Join(dir, "out")
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		says   string
	}{{syscall.SIGTERM, 143, "l3sim: terminated"}, {syscall.SIGINT, 130, "l3sim: interrupted"}} {
		var messages bytes.Buffer
		cmd := exec.Command(l3sim, "sweep", file, "--workers", "1", "--shard", "0/2", "--out", out)
		cmd.Stderr = &messages
		before := journalLines(t, out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := waiting(cmd)
		if !recorded(t, out, before+2, ended) {
			t.Fatalf("no point was recorded: %s", messages.String())
		}
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		<-ended
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%v: exit code %d, want %d", c.signal, got, c.code)
		}
		if text := messages.String(); !strings.HasSuffix(text, c.says+"\n") || !strings.Contains(text, "of 40 points are recorded") {
			t.Errorf("%v: %s", c.signal, text)
		}
		if text := read(t, filepath.Join(out, "journal.jsonl")); text[len(text)-1] != '\n' {
			t.Errorf("%v: the journal ends within a line", c.signal)
		}
	}
}
