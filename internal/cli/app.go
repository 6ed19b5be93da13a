package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// Exit codes, on which docs and scripts may rely.
const (
	OK          = 0
	Failure     = 1   // the program failed
	WrongInput  = 2   // the user's input (flag, file, key, value) is wrong
	Interrupted = 130 // Ctrl-C: 128 + SIGINT, as shells report it
	Terminated  = 143 // 128 + SIGTERM, which a batch system sends before it kills
)

// Program is a program of several commands.
type Program struct {
	Name, Short string
	// Commands adds the commands to the root.
	Commands func(a *App, root *cobra.Command)
	// Moved maps commands ("gpu fit") and flags ("gpu iteration --measured") of the last release that
	// are gone to what to use instead.
	Moved map[string]string
}

// App is the state that all commands of one command line share.
type App struct {
	Stdout, Stderr io.Writer
	Quiet          bool            // --quiet: no progress and no notes; errors always show
	JSON           bool            // --json, of the command that runs
	name           string          // of the program
	started        bool            // a command's own code has begun
	noted          map[string]bool // texts of NoteOnce
}

// Main runs the command line of the process and returns the exit code.
func (p *Program) Main() int {
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
	return p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// LongestMessage bounds the message of an error, in bytes. input.Error bounds its own parts, but
// not their number.
const LongestMessage = 10_000

// errTerminated is the cause of a stop by SIGTERM.
var errTerminated = fmt.Errorf("terminated: %w", context.Canceled)

// Run executes one command line (without the program's name) and returns the
// exit code. An error is one line on stderr.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &output{w: stdout}
	a := &App{Stdout: out, Stderr: stderr, name: p.Name}
	root := p.Root(a)
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's arguments
	err := root.ExecuteContext(ctx)
	if out.err != nil {
		a.started = true // whatever the library returns now is no usage error
		if err == nil {
			err = fmt.Errorf("standard output: %w", out.err)
		}
	}
	code := a.exitCode(err)
	if code == Interrupted && errors.Is(context.Cause(ctx), errTerminated) {
		code = Terminated
	}
	switch code {
	case OK:
	case Terminated:
		a.Warn("terminated")
	case Interrupted:
		a.Warn("interrupted")
	default:
		a.report(err)
	}
	return code
}

// errorsAs names the environment variable that, set to "json", makes errors JSON, for programs that run this one.
const errorsAs = "L3SIM_ERRORS"

// report writes an error to standard error: a line of text with its details below, or one JSON object on a line.
func (a *App) report(err error) {
	message := input.Shorten(strings.ReplaceAll(err.Error(), "\n", " "), LongestMessage)
	var bad *input.Error
	if !errors.As(err, &bad) || bad == nil {
		bad = &input.Error{}
	}
	if os.Getenv(errorsAs) == "json" {
		line, _ := json.Marshal(fault{message, bad.File, bad.Line, bad.Key, bad.Value, bad.Expected, bad.Nearest, bad.Details})
		fmt.Fprintln(a.Stderr, string(line))
		return
	}
	a.Warn("%s", message)
	for _, line := range bad.Details {
		fmt.Fprintln(printable{a.Stderr}, "  "+strings.ReplaceAll(line, "\n", " "))
	}
}

// fault is an error as JSON: its text, and its parts.
type fault struct {
	Error    string   `json:"error"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Key      string   `json:"key"`
	Value    string   `json:"value"`
	Expected string   `json:"expected"`
	Nearest  string   `json:"nearest"`
	Details  []string `json:"details"`
}

// output is standard output. It remembers write errors that commands, and the library's help,
// ignore.
type output struct {
	w   io.Writer
	err error // the first
}

// Write keeps the first error, so that a command fails if its output is lost.
func (o *output) Write(p []byte) (int, error) {
	n, err := printable{o.w}.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// exitCode maps the error of a command line to the program's exit code.
func (a *App) exitCode(err error) int {
	var bad *input.Error
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled):
		return Interrupted
	case input.IsSystemFault(err):
		return Failure // also beneath an input error: another try may succeed in reading it
	case errors.As(err, &bad), !a.started:
		// Errors before a command's own code starts are cobra's usage errors: arguments, required flags,
		// flag groups.
		return WrongInput
	}
	return Failure
}

// JSONUsage is the help of --json.
const JSONUsage = "print one JSON object"

// Print prints a result: v with --json, else text for people.
func (a *App) Print(v any, text func(io.Writer) error) error {
	if a.JSON {
		return results.WriteJSON(a.Stdout, v)
	}
	return text(a.Stdout)
}

// PrintAligned is Print for text whose columns are separated by tabs (see Aligned).
func (a *App) PrintAligned(v any, flags uint, lines func(io.Writer)) error {
	return a.Print(v, func(w io.Writer) error { return Aligned(w, flags, lines) })
}

// Output writes to the file of --out, which is created only on success, or to standard output if path is "".
func (a *App) Output(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(a.Stdout)
	}
	if err := WritableFile("--out", path); err != nil {
		return err
	}
	return results.WriteFileAtomic(path, write)
}

// Note writes a line to standard error, unless --quiet forbids it.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		a.Warn(format, args...)
	}
}

// NoteOnce is Note, once for texts that several parts of a command may produce.
func (a *App) NoteOnce(text string) {
	if a.noted == nil {
		a.noted = map[string]bool{}
	}
	if !a.noted[text] {
		a.noted[text] = true
		a.Note("%s", text)
	}
}

// Warn writes a line to standard error.
func (a *App) Warn(format string, args ...any) {
	fmt.Fprintf(printable{a.Stderr}, a.name+": "+format+"\n", args...)
}

// OnTerminal says that standard output is a terminal.
func (a *App) OnTerminal() bool {
	o, ok := a.Stdout.(*output)
	return ok && IsTerminal(o.w)
}

// Aligned writes lines whose columns are separated by tabs; flags are those of package tabwriter.
func Aligned(w io.Writer, flags uint, lines func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	lines(t)
	return t.Flush()
}
