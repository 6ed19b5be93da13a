package input

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// MaxLine is the length in bytes of the longest line, or record of several lines, that is read. The longest are lines of results:
// a point's name holds the values of its keys, which a sweep file of MaxText can make long.
const MaxLine = 16 << 20

// ErrLongLine is the error for a line of more than MaxLine bytes.
var ErrLongLine = fmt.Errorf("longer than the %d MiB that a line may have", MaxLine>>20)

// ReadLine returns the next line of r with its line end. At the end it returns the rest after the last line end, if any, and
// io.EOF. Of a line longer than MaxLine it returns a part slightly longer than MaxLine, and ErrLongLine; the next call continues
// with the rest of that line.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return line, ErrLongLine
		case err != bufio.ErrBufferFull:
			return line, err
		}
	}
}

// boundedReader passes on what it reads until a record becomes longer than MaxLine.
type boundedReader struct {
	r    io.Reader
	held int  // bytes of the record and of the buffered text after it
	line int  // line of the next byte, from 1
	ends bool // the last byte ends a line
}

// lastLine returns the line, from 1, of the last byte read.
func (b *boundedReader) lastLine() int {
	if b.ends {
		return b.line - 1
	}
	return b.line
}

// Read returns ErrLongLine once the current record is longer than MaxLine.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.held > MaxLine {
		return 0, ErrLongLine
	}
	n, err := b.r.Read(p)
	b.held += n
	b.line += bytes.Count(p[:n], []byte("\n"))
	b.ends = n > 0 && p[n-1] == '\n' || n == 0 && b.ends
	return n, err
}
