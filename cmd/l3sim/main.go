package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Exit codes, as docs and scripts may rely on them.
const (
	exitOK          = 0
	exitFailure     = 1   // the program failed
	exitInput       = 2   // the user's input (flag, file, key, value) is wrong
	exitInterrupted = 130 // Ctrl-C: 128 + SIGINT, as shells report it
)

func main() { os.Exit(mainCode()) }

// mainCode is main without the exit, so that its deferred calls run.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// The first Ctrl-C asks the command to stop; a second one ends the process
	// at once, as the default handler is back.
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run executes one command line (without the program's name) and returns the
// exit code. An error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code := a.exitCode(err)
	switch code {
	case exitOK:
	case exitInterrupted:
		fmt.Fprintln(stderr, "l3sim: interrupted")
	default:
		fmt.Fprintln(stderr, "l3sim: "+strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return code
}

// exitCode maps the error of a command line to the program's exit code.
func (a *app) exitCode(err error) int {
	var bad *input.InputError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &bad), !a.started:
		// What fails before a command's own code starts is a usage error of
		// cobra's: arguments, required flags, flag groups.
		return exitInput
	}
	return exitFailure
}
