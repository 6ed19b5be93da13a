package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// maxTokens is the largest number of input or output tokens of a request that
// a trace may hold.
const maxTokens = 1 << 24

// Load reads the first n requests of the trace file at path, and no more of the file. n = 0
// reads all requests, at most maxWhole. The first line gives the format and the magic number
// gives gzip, not the file's name. Requests are sorted by arrival, and arrivals count from
// the first.
//
// An error in the file is an *input.Error that names file, line and column.
func Load(path string, n int) (*Trace, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	defer f.Close()
	return Read(input.Name(path), f, n)
}

// openError returns an error for a path that cannot be opened. A path that does not exist
// may be a misspelt name of a built-in trace.
func openError(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &input.Error{
		Key: "run.trace", Value: strconv.Quote(path), Err: errors.Unwrap(err),
		Expected: "a trace file or one of " + strings.Join(BuiltinNames(), ", "),
		Nearest:  input.Nearest(path, BuiltinNames()),
	}
}

// Read is Load from a reader; name stands for the file in errors and names the
// trace.
func Read(name string, r io.Reader, n int) (*Trace, error) {
	if n < 0 || n > maxRequests {
		return nil, badRequests(n)
	}
	text, err := unzip(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, &input.Error{File: name, Err: err}
	}
	first, err := text.Peek(1)
	if err != nil && err != io.EOF {
		return nil, input.FileError(name, err)
	}
	rows := &rows{file: name, want: n}
	if len(first) == 1 && first[0] == '{' {
		err = readMooncake(name, text, rows)
	} else {
		err = readCSV(name, text, rows)
	}
	if err != nil {
		return nil, err
	}
	switch found := len(rows.all); {
	case found == 0:
		return nil, &input.Error{File: name, Expected: "at least one request"}
	case found < n:
		return nil, &input.Error{
			Key: "run.requests", Value: fmt.Sprint(n), Expected: fmt.Sprintf("1 to %d, the number of requests in %s", found, name),
		}
	}
	return newTrace(name, rows.all)
}

// unzip returns the text of r: decompressed where it begins as a gzip file
// does (RFC 1952), and without a byte-order mark.
func unzip(r *bufio.Reader) (*bufio.Reader, error) {
	if magic, _ := r.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, _ := r.Peek(3); string(mark) == "\ufeff" {
		if _, err := r.Discard(3); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// newTrace makes a trace of the rows of the file called name.
func newTrace(name string, rows []row) (*Trace, error) {
	slices.SortStableFunc(rows, func(a, b row) int { return a.arrival.compare(b.arrival) })
	t := &Trace{Name: name, Requests: make([]Request, len(rows))}
	for i, r := range rows {
		arrival, ok := r.arrival.since(rows[0].arrival)
		if !ok {
			return nil, &input.Error{
				File: name, Line: r.line,
				Expected: "an arrival within 106 days of the first request's",
			}
		}
		t.Requests[i] = Request{ID: i, Arrival: arrival, Input: r.input, Output: r.output}
	}
	return t, nil
}

// row is one request as a file gives it.
type row struct {
	arrival       instant
	input, output int
	line          int
}

// maxWhole is the largest number of requests of a file that is read to its end. A
// simulation of more takes tens of gigabytes. Of a larger file the first n can be read.
const maxWhole = 1_000_000

// rows are the rows that are read from a file.
type rows struct {
	file string
	want int // 0: all
	all  []row
}

// enough says that nothing more needs to be read.
func (r *rows) enough() bool { return r.want > 0 && len(r.all) >= r.want }

// add adds a row, unless a file that is read to its end has too many.
func (r *rows) add(next row) error {
	if r.want == 0 && len(r.all) == maxWhole {
		return &input.Error{
			File: r.file, Line: next.line,
			Expected: fmt.Sprintf("at most %d requests; run.requests = N (--requests N) reads the first N alone", maxWhole),
		}
	}
	r.all = append(r.all, next)
	return nil
}

// tokens checks a number of tokens.
func tokens(file string, line int, column string, n int64, written string) (int, error) {
	if n < 1 || n > maxTokens {
		return 0, &input.Error{
			File: file, Line: line, Key: column, Value: written,
			Expected: fmt.Sprintf("a whole number of tokens from 1 to %d", maxTokens),
		}
	}
	return int(n), nil
}

// instant is a time of arrival in the file's own epoch: whole seconds and
// picoseconds, as the seconds since 1970 do not fit a count of picoseconds.
type instant struct {
	seconds     int64
	picoseconds int64 // 0 to 10^12 - 1
}

func (i instant) compare(j instant) int {
	return cmp.Or(cmp.Compare(i.seconds, j.seconds), cmp.Compare(i.picoseconds, j.picoseconds))
}
