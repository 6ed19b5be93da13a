package dram

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/l3sim/l3sim/input"
)

// maxClock bounds the clocks of any input, so that sums of a clock and
// constraints stay far from overflow.
const maxClock = 1 << 56

// MaxRanks bounds the ranks of a channel.
const MaxRanks = 64

// maxLine is the longest line that a trace or a log may have.
const maxLine = 1 << 16

// lineReader reads lines of a plain or gzip stream without allocation.
type lineReader struct {
	file string
	b    *bufio.Reader
	line int
}

// newLineReader recognises gzip by its magic number, whatever the file's name.
func newLineReader(file string, r io.Reader) (*lineReader, error) {
	b := bufio.NewReaderSize(r, maxLine)
	if magic, err := b.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, &input.Error{File: file, Err: err, Expected: "a whole gzip file"}
		}
		b = bufio.NewReaderSize(z, maxLine)
	}
	return &lineReader{file: file, b: b}, nil
}

// next returns the next line without its end; the bytes are valid until the
// next call. After the last line the error is io.EOF, else an
// *input.Error.
func (l *lineReader) next() ([]byte, error) {
	text, err := l.b.ReadSlice('\n')
	if len(text) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	l.line++
	switch {
	case err == nil || err == io.EOF:
		return trim(text), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, l.at(&input.Error{Expected: "a line of at most 65536 bytes"})
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, l.at(&input.Error{Err: errors.New("the gzip stream ends early"), Expected: "a whole gzip file"})
	}
	return nil, l.at(&input.Error{Err: err})
}

// at gives err the file and line of the line last read.
func (l *lineReader) at(err error) error {
	return input.Edit(err, func(e *input.Error) { e.File, e.Line = l.file, l.line })
}

// trim removes white space from both ends.
func trim(b []byte) []byte { return bytes.TrimSpace(b) }

// clip shortens text for an error message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// parseInt reads a decimal number, with sign, that fits int64.
func parseInt(b []byte) (int64, bool) {
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
