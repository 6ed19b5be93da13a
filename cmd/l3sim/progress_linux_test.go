package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/l3sim/l3sim/internal/deep"
)

// openTerminal returns a pseudo-terminal: the other end reads what a program writes to tty.
func openTerminal(t *testing.T) (end, tty *os.File) {
	t.Helper()
	end, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { end.Close() })
	if err := unix.IoctlSetPointerInt(int(end.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(int(end.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 120}); err != nil {
		t.Fatal(err)
	}
	return end, tty
}

// TestProgressOnTerminal: commands that take seconds show their progress on a terminal.
func TestProgressOnTerminal(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"pim attention --context 4194304 --json", " clocks"},
		{"run --requests 300000 --system gpu-only --model llama-2-7b --json", "reading the trace"},
	}[:deep.Of(1, 2, 2)] {
		end, tty := openTerminal(t)
		shown := make(chan string)
		go func() {
			var all strings.Builder
			buffer := make([]byte, 1<<12)
			for {
				n, err := end.Read(buffer)
				all.Write(buffer[:n])
				if err != nil || strings.Contains(all.String(), c.want) {
					shown <- all.String()
					return
				}
			}
		}()
		done := make(chan int, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- run(ctx, strings.Fields(c.args), io.Discard, tty) }()
		select {
		case <-shown:
			go io.Copy(io.Discard, end)
			cancel()
			<-done
			tty.Close()
		case code := <-done:
			tty.Close() // ends the reader
			if text := <-shown; !strings.Contains(text, c.want) {
				t.Errorf("%s: ends with %d and showed no %q", c.args, code, c.want)
			}
			cancel()
		}
	}
}
