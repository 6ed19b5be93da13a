package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep"
)

// Exit codes, as docs and scripts may rely on them.
const (
	exitOK          = 0
	exitFailure     = 1   // the program failed
	exitInput       = 2   // the user's input (flag, file, key, value) is wrong
	exitInterrupted = 130 // Ctrl-C: 128 + SIGINT, as shells report it
	exitTerminated  = 143 // 128 + SIGTERM, which a batch system sends before it kills
)

func main() { os.Exit(mainCode()) }

// mainCode is main without the exit, so that its deferred calls run.
func mainCode() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// The first signal asks the command to stop; a second one ends the process at
	// once, as the default handler is back.
	go func() {
		received := <-signals
		signal.Stop(signals)
		if received == syscall.SIGTERM {
			cancel(errTerminated)
			return
		}
		cancel(context.Canceled)
	}()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// longestMessage bounds the message of an error, in bytes: input.Error bounds its
// own parts, but not how many of them there are.
const longestMessage = 10_000

// errTerminated is why a command stops that got SIGTERM.
var errTerminated = fmt.Errorf("terminated: %w", context.Canceled)

// run executes one command line (without the program's name) and returns the
// exit code. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	a := &app{stdout: out, stderr: stderr}
	root := a.newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if out.err != nil {
		a.started = true // whatever the library makes of it, it is no usage error
		if err == nil {
			err = fmt.Errorf("standard output: %w", out.err)
		}
	}
	code := a.exitCode(err)
	if code == exitInterrupted && errors.Is(context.Cause(ctx), errTerminated) {
		code = exitTerminated
	}
	switch code {
	case exitOK:
	case exitTerminated:
		fmt.Fprintln(stderr, "l3sim: terminated")
	case exitInterrupted:
		fmt.Fprintln(stderr, "l3sim: interrupted")
	default:
		message := strings.ReplaceAll(err.Error(), "\n", " ")
		a.warn("%s", input.Shorten(message, longestMessage))
		var bad *input.Error
		if errors.As(err, &bad) {
			for _, line := range bad.Details {
				fmt.Fprintln(printable{stderr}, "  "+strings.ReplaceAll(line, "\n", " "))
			}
		}
	}
	return code
}

// output is standard output. It remembers that it could not be written to, for
// commands, and the library's help, that do not look.
type output struct {
	w   io.Writer
	err error // the first
}

// Write keeps the first error, so that a command whose output is lost fails.
func (o *output) Write(p []byte) (int, error) {
	n, err := printable{o.w}.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// exitCode maps the error of a command line to the program's exit code.
func (a *app) exitCode(err error) int {
	var bad *input.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case sweep.IsSystemFault(err):
		return exitFailure // also beneath an error of the input: another try may read it
	case errors.As(err, &bad), !a.started:
		// What fails before a command's own code starts is a usage error of
		// cobra's: arguments, required flags, flag groups.
		return exitInput
	}
	return exitFailure
}
