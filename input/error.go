package input

import (
	"fmt"
	"sort"
	"strings"

	"github.com/agext/levenshtein"
)

// InputError is an error in what the user gave: a flag, a file, a key or a
// value. Only the fields that apply are set.
type InputError struct {
	File     string // path as the user gave it, or "--set", "--model"
	Line     int    // 1-based; 0 where the input has no lines
	Key      string // full dotted key, column or field
	Value    string // the offending value as written
	Expected string // what would have been right: "one of a, b", "at least 1", "key of [dram]"
	Nearest  string // the nearest valid name, "" where none is near
	Err      error  // the cause, where another package reported it
}

// Error returns "FILE:LINE: KEY = VALUE: expected EXPECTED; did you mean NEAREST?"
// with the absent parts left out.
func (e *InputError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	} else if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	switch {
	case e.Key != "" && e.Value != "":
		fmt.Fprintf(&b, "%s = %s: ", e.Key, e.Value)
	case e.Key != "":
		fmt.Fprintf(&b, "%s: ", e.Key)
	case e.Value != "":
		fmt.Fprintf(&b, "%s: ", e.Value)
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
		if e.Expected != "" {
			b.WriteString("; ")
		}
	}
	if e.Expected != "" {
		fmt.Fprintf(&b, "expected %s", e.Expected)
	}
	if e.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Nearest)
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ":")
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// Errorf returns an InputError whose message is formatted; %w sets its cause.
func Errorf(format string, args ...any) *InputError {
	return &InputError{Err: fmt.Errorf(format, args...)}
}

// UnknownName returns the error for a name that is none of valid. Key says
// what was named ("--model", "dram.tRCDD"), and the message lists the valid
// names in sorted order and the nearest one.
func UnknownName(key, name string, valid []string) *InputError {
	sorted := append([]string(nil), valid...)
	sort.Strings(sorted)
	return &InputError{
		Key: key, Value: fmt.Sprintf("%q", name),
		Expected: "one of " + strings.Join(sorted, ", "),
		Nearest:  Nearest(name, valid),
	}
}

// Nearest returns the valid name closest to name in edit distance without
// regard to case, or "" where none is closer than half of the name's length.
// Ties go to the name that sorts first.
func Nearest(name string, valid []string) string {
	best, bestDistance := "", 0
	sorted := append([]string(nil), valid...)
	sort.Strings(sorted)
	for _, v := range sorted {
		d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(v), nil)
		if 2*d > max(len(name), len(v)) {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = v, d
		}
	}
	return best
}
