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

// Token returns the next token as json.Decoder does, and io.EOF after the last one. Any other error is an *Error.
func (j *JSON) Token() (json.Token, error) {
	j.bounded.held = 0
	token, err := j.dec.Token()
	return token, j.wrong(err)
}

// Decode reads the next value. A value of another type than v gives an *Error that wraps a *json.UnmarshalTypeError; reading can
// then continue after that value.
func (j *JSON) Decode(v any) error {
	j.bounded.held = 0
	return j.wrong(j.dec.Decode(v))
}

// More reports whether the current array or object has another element. It also returns true if the text is broken: the next
// Token or Decode returns the error.
func (j *JSON) More() bool {
	j.bounded.held = 0
	return j.dec.More()
}

// Skip reads past the next value, however long it is.
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

// End checks that nothing follows the outermost value.
func (j *JSON) End(value string) error {
	_, err := j.Token()
	if err == nil {
		return &Error{File: j.file, Line: j.Line(), Expected: "nothing behind " + value}
	} else if err == io.EOF {
		return nil
	}
	return err
}

// Line returns the line, from 1, on which the last token or value ends.
func (j *JSON) Line() int {
	ahead, _ := io.ReadAll(j.dec.Buffered()) // of a buffer
	return j.bounded.line - bytes.Count(ahead, []byte("\n"))
}

// Wrong returns the error for a value, just read, that is not what was expected.
func (j *JSON) Wrong(expected string) error {
	return &Error{File: j.file, Line: j.Line(), Expected: expected}
}

// Cut turns io.EOF within a value into an ordinary error.
func (j *JSON) Cut(err error) error {
	if err == io.EOF {
		err = &Error{File: j.file, Line: j.bounded.lastLine(), Err: errors.New("the file ends within a value"), Expected: "a whole file: copy or fetch it again"}
	}
	return err
}

// wrong adds the place to an error: the line on which the invalid value begins, or on which the text ends.
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
	line := j.Line()
	if syntax != nil { // white space before the value is not read yet
		ahead, _ := io.ReadAll(j.dec.Buffered())
		line = j.bounded.line - bytes.Count(bytes.TrimLeft(ahead, " \t\r\n"), []byte("\n"))
	}
	return Edit(FileError(j.file, err), func(e *Error) { e.Line = line })
}
