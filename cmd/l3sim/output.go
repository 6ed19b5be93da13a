package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// jsonUsage is the help of --json.
const jsonUsage = "print one JSON object"

// print prints a result: v with --json, else text for people.
func (a *app) print(v any, text func(io.Writer) error) error {
	if a.json {
		return results.WriteJSON(a.stdout, v)
	}
	return text(a.stdout)
}

// note writes a line to standard error, unless --quiet forbids it.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		a.warn(format, args...)
	}
}

// warn writes a line to standard error.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(printable{a.stderr}, "l3sim: "+format+"\n", args...)
}

// aligned writes lines whose cells tabs divide in columns; flags are those of package
// tabwriter.
func aligned(w io.Writer, flags uint, lines func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', flags)
	lines(t)
	return t.Flush()
}

// between refuses the value of a flag ("--workers") out of a range.
func between(flag string, value, least, most int) error {
	if value < least || value > most {
		return &input.Error{Key: flag, Value: fmt.Sprint(value), Expected: fmt.Sprintf("%d to %d", least, most)}
	}
	return nil
}

// plural returns n with the noun's form for it.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
