package lines

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/l3sim/l3sim/input"
)

// Max is the longest line that a trace or a log may have, in bytes.
const Max = 1 << 16

// Reader reads lines of a plain or gzip stream without allocation.
type Reader struct {
	file string
	b    *bufio.Reader
	line int
}

// NewReader returns a reader of r. It recognises gzip by its magic number, whatever the file's name.
func NewReader(file string, r io.Reader) (*Reader, error) {
	b := bufio.NewReaderSize(r, Max)
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, &input.Error{File: file, Err: err, Expected: "a whole gzip file"}
		}
		b = bufio.NewReaderSize(z, Max)
	}
	return &Reader{file: file, b: b}, nil
}

// Next returns the next line without its end; the bytes are valid until the next call. After the last line the error is io.EOF; other
// errors are *input.Error.
func (l *Reader) Next() ([]byte, error) {
	text, err := l.b.ReadSlice('\n')
	if len(text) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	l.line++
	switch {
	case err == nil || err == io.EOF:
		return bytes.TrimSpace(text), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.At(&input.Error{Expected: "a line of at most 65536 bytes"})
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, l.At(&input.Error{Err: errors.New("the gzip stream ends early"), Expected: "a whole gzip file"})
	}
	return nil, l.At(&input.Error{Err: err})
}

// At adds to err the file and line of the line last read.
func (l *Reader) At(err error) error {
	return input.Edit(err, func(e *input.Error) { e.File, e.Line = l.file, l.line })
}

// Clip shortens text for an error message.
func Clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// ParseInt reads a decimal number with an optional sign that fits an int64.
func ParseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}
