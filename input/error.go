package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Error is a mistake in the user's input: a flag, a file, a key or a value. Only the fields that apply are set.
type Error struct {
	File     string // path as the user gave it, or "--set", "--model"
	Line     int    // 1-based; 0 where the input has no lines
	Key      string // full dotted key, column or field
	Value    string // the offending value as written
	Expected string // what is valid: "one of a, b", "at least 1", "key of [dram]"
	Nearest  string // the nearest valid name; "" if none is near
	// OtherKeys are the other keys of the broken rule, in the order of the message: full names, or names relative to Key's
	// section. If Key still has its preset value, one of these is at fault.
	OtherKeys []string
	// Details are further hints, one a line, printed below the message. Error leaves them out: a message is one line.
	Details []string
	Err     error // the cause, where another package reported it
}

// Limits on the parts of a message, in bytes, so that long user input does not hide what was expected. A list of all valid names
// is given in full.
const (
	maxShown = 200  // a key or a value
	maxCause = 500  // text of another package's error
	maxOurs  = 5000 // a path, what was expected, or a cause that is itself an Error
)

// Error returns "FILE:LINE: KEY = VALUE: expected EXPECTED; did you mean NEAREST?". Absent parts are left out, and long parts
// lose their middle.
func (e *Error) Error() string {
	e = cmp.Or(e, &Error{})
	var b strings.Builder
	switch file := Shorten(e.File, maxOurs); {
	case file != "" && e.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", file, e.Line)
	case file != "":
		b.WriteString(file + ": ")
	case e.Line > 0:
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	key, value := Shorten(e.Key, maxShown), Shorten(e.Value, maxShown)
	if key != "" && value != "" {
		key += " = "
	}
	if key+value != "" {
		b.WriteString(key + value + ": ")
	}
	if e.Err != nil {
		limit := maxCause
		if errors.As(e.Err, new(*Error)) {
			limit = maxOurs
		}
		b.WriteString(Shorten(e.Err.Error(), limit))
		if e.Expected != "" {
			b.WriteString("; ")
		}
	}
	if e.Expected != "" {
		fmt.Fprintf(&b, "expected %s", Shorten(e.Expected, maxOurs))
	}
	if e.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Nearest)
	}
	return strings.TrimSuffix(strings.TrimSpace(b.String()), ":")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	e = cmp.Or(e, &Error{})
	return e.Err
}

// Edit returns a copy of an *Error with a change, and any other error as it is. A caller adds the file, line or full key that the
// function it called did not know.
func Edit(err error, change func(e *Error)) error {
	bad, ok := err.(*Error)
	if !ok {
		return err
	}
	changed := *bad
	change(&changed)
	return &changed
}

// Shorten returns text unchanged if it has at most limit bytes, else about limit bytes of its beginning and end, with the number
// of bytes left out in between. Quotation marks around a quoted text survive.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := strings.ToValidUTF8(text[:limit*3/4], "")
	tail := strings.ToValidUTF8(text[len(text)-limit/4:], "")
	return fmt.Sprintf("%s... (%d bytes) ...%s", head, len(text)-len(head)-len(tail), tail)
}

// Errorf returns an Error whose message is formatted; %w sets its cause.
func Errorf(format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...)}
}

// UnknownName returns the error for a name that is not in valid. Key says
// what was named ("--model", "dram.tRCDD"), and the message lists the valid
// names in sorted order and the nearest one.
func UnknownName(key, name string, valid []string) error {
	return &Error{
		Key: key, Value: strconv.Quote(name), Expected: "one of " + strings.Join(slices.Sorted(slices.Values(valid)), ", "), Nearest: Alike(name, valid),
	}
}

// Nearest returns the valid name closest to name in edit distance, ignoring case, or "" if even that distance is half of the
// name's length or more. Ties go to the name that sorts first. If more than a quarter of the letters differ, it prefers the
// shortest valid name that begins with name and a separator (begunBy).
func Nearest(name string, valid []string) string {
	best, bestDistance := "", 0
	runes := utf8.RuneCountInString(name)
	for _, v := range slices.Sorted(slices.Values(valid)) {
		// Computing the distance takes time in proportion to the product of the lengths. The difference of the lengths is a lower
		// bound.
		if n := utf8.RuneCountInString(v); 2*max(runes-n, n-runes) > max(len(name), len(v)) {
			continue
		}
		d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(v), nil)
		if 2*d > max(len(name), len(v)) {
			continue
		}
		if best == "" || d < bestDistance {
			best, bestDistance = v, d
		}
	}
	if begun := begunBy(name, valid); begun != "" && (best == "" || 4*bestDistance > len(name)) {
		return begun
	}
	return best
}

const marks = "-_. " // between the words of a name

// begunBy returns the shortest valid name that begins with name and continues with a separator, ignoring case and separators
// within name: rtx-4090-vllm for rtx4090. A name of fewer than three letters matches nothing.
func begunBy(name string, valid []string) (best string) {
	if len(name) < 3 {
		return ""
	}
	for _, v := range slices.Sorted(slices.Values(valid)) {
		if rest, begun := behind(name, v); begun && (rest == "" || strings.ContainsAny(rest[:1], marks)) && (best == "" || len(v) < len(best)) {
			best = v
		}
	}
	return best
}

// behind returns the rest of a valid name that begins with the letters of name, and false if it does not.
func behind(name, valid string) (rest string, begun bool) {
	at := 0
	for _, letter := range []byte(name) {
		if strings.IndexByte(marks, letter) >= 0 {
			continue
		}
		for at < len(valid) && strings.IndexByte(marks, valid[at]) >= 0 {
			at++
		}
		if at == len(valid) || !strings.EqualFold(valid[at:at+1], string(letter)) {
			return "", false
		}
		at++
	}
	return valid[at:], at > 0
}

// Alike returns the Nearest valid name. If there is none, it returns the shortest that contains the name, or else the longest
// that the name contains (of at least three letters).
func Alike(name string, valid []string) string {
	best, part := Nearest(name, valid), ""
	if best != "" || len(name) < 3 {
		return best
	}
	low, sorted := strings.ToLower(name), slices.Sorted(slices.Values(valid))
	for _, v := range sorted {
		if strings.Contains(strings.ToLower(v), low) && (best == "" || len(v) < len(best)) {
			best = v
		}
	}
	for _, v := range sorted {
		if best == "" && len(v) >= 3 && strings.Contains(low, strings.ToLower(v)) && len(v) > len(part) {
			part = v
		}
	}
	return cmp.Or(best, part)
}

// Ended returns the error of a context that has ended, and an error for a nil context.
func Ended(ctx context.Context) error {
	if ctx == nil {
		return &Error{Key: "context", Value: "nil", Expected: "context.Background() or another"}
	}
	return ctx.Err()
}

// Plural returns n and the singular or plural noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
