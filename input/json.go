package input

import (
	"encoding/json"
	"errors"
	"io"
)

// JSON reads one large JSON text part by part: token by token, or value by value where
// Decode is called between tokens. A part has at most MaxLine bytes. Numbers are kept as
// they are written.
type JSON struct {
	dec     *json.Decoder
	file    string
	bounded *boundedReader
	lines   lineEnds
}

// NewJSON returns a reader of r; file names it in errors.
func NewJSON(file string, r io.Reader) *JSON {
	j := &JSON{file: file, bounded: &boundedReader{r: r, line: 1}}
	j.lines.r = j.bounded
	j.dec = json.NewDecoder(&j.lines)
	j.dec.UseNumber()
	return j
}

// Token returns the next token as json.Decoder does, io.EOF behind the last one. Any
// other error is an *Error.
func (j *JSON) Token() (json.Token, error) {
	j.bounded.held = 0
	token, err := j.dec.Token()
	return token, j.wrong(err)
}

// Decode reads the next value. A value of another type than v is a *json.UnmarshalTypeError
// in an *Error; reading then goes on behind it.
func (j *JSON) Decode(v any) error {
	j.bounded.held = 0
	return j.wrong(j.dec.Decode(v))
}

// More says whether the array or object that is being read has another element. It says
// yes, too, where it cannot be read: the next Token or Decode has the error.
func (j *JSON) More() bool {
	j.bounded.held = 0
	return j.dec.More()
}

// Skip reads over the next value, however long it is.
func (j *JSON) Skip() error {
	for depth := 0; ; {
		token, err := j.Token()
		if err != nil {
			return err
		}
		if d, ok := token.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// End reads the end of the text, behind its outermost value, and refuses anything else there.
func (j *JSON) End(value string) error {
	_, err := j.Token()
	switch err {
	case io.EOF:
		return nil
	case nil:
		err = &Error{File: j.file, Line: j.Line(), Expected: "nothing behind " + value}
	}
	return err
}

// Line returns the line on which what was read last ends, from 1.
func (j *JSON) Line() int { return j.lines.before(j.dec.InputOffset()) }

// errCut is the error for a file that ends where its text does not.
var errCut = errors.New("the file ends within a value")

// Cut makes io.EOF within a value an error as any other.
func (j *JSON) Cut(err error) error {
	if err == io.EOF {
		err = &Error{File: j.file, Line: j.lines.last(), Err: errCut}
	}
	return err
}

// wrong is an error with its place: the line on which a value that is no JSON begins, or
// that on which the text ends.
func (j *JSON) wrong(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		err = errors.New("not JSON: " + syntax.Error())
	case err == io.ErrUnexpectedEOF:
		return j.Cut(io.EOF)
	}
	return Edit(FileError(j.file, err), func(e *Error) { e.Line = j.Line() })
}

// lineEnds passes on what it reads and remembers where lines end.
type lineEnds struct {
	r      io.Reader
	read   int64
	passed int     // line ends before all of ends
	ends   []int64 // offsets of those that before has not passed
}

// Read notes the offsets of the line ends that it passes on.
func (l *lineEnds) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

// last returns the line of what was read last, from 1.
func (l *lineEnds) last() int {
	n := l.passed + len(l.ends) + 1
	if len(l.ends) > 0 && l.ends[len(l.ends)-1] == l.read-1 {
		n-- // the text ends with its line
	}
	return n
}

// before returns the line of the byte at offset, from 1. Offsets do not fall.
func (l *lineEnds) before(offset int64) int {
	n := 0
	for n < len(l.ends) && l.ends[n] < offset {
		n++
	}
	l.passed, l.ends = l.passed+n, l.ends[n:]
	return l.passed + 1
}
