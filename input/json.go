package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// JSON reads one large JSON text part by part: token by token, or value by value where Decode is
// called between tokens. A part has at most MaxLine bytes. Numbers are kept as they are written.
type JSON struct {
	dec     *json.Decoder
	file    string
	bounded *boundedReader
}

// NewJSON returns a reader of r; file names it in errors.
func NewJSON(file string, r io.Reader) *JSON {
	j := &JSON{file: file, bounded: &boundedReader{r: r, line: 1}}
	j.dec = json.NewDecoder(j.bounded)
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
	if err == nil {
		return &Error{File: j.file, Line: j.Line(), Expected: "nothing behind " + value}
	} else if err == io.EOF {
		return nil
	}
	return err
}

// Line returns the line on which what was read last ends, from 1.
func (j *JSON) Line() int {
	ahead, _ := io.ReadAll(j.dec.Buffered()) // of a buffer
	return j.bounded.line - bytes.Count(ahead, []byte("\n"))
}

// Wrong is the error for a value that is none of what is expected: it ends where reading stands.
func (j *JSON) Wrong(expected string) error {
	return &Error{File: j.file, Line: j.Line(), Expected: expected}
}

// Cut makes io.EOF within a value an error as any other.
func (j *JSON) Cut(err error) error {
	if err == io.EOF {
		err = &Error{File: j.file, Line: j.bounded.lastLine(), Err: errors.New("the file ends within a value")}
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
