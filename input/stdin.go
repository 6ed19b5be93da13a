package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Stdin is the path that stands for standard input wherever a file is read. A
// file of that name is "./-".
const Stdin = "-"

// Name returns what errors and results call the file at path.
func Name(path string) string {
	if path == Stdin {
		return "standard input"
	}
	return path
}

// Open opens the file at path, or standard input for Stdin. Standard input can be opened again and
// then starts over: its text is kept. Errors are of type *Error if the file is at fault.
func Open(path string) (io.ReadCloser, error) {
	if path == Stdin {
		return io.NopCloser(&replay{from: &stdin}), nil
	}
	f, err := os.Open(path)
	if err == nil {
		if info, statErr := f.Stat(); statErr == nil && info.IsDir() {
			return nil, errors.Join(&Error{File: path, Expected: "a file, not a folder"}, f.Close())
		}
		return f, nil
	}
	return nil, FileError(path, err)
}

// MaxText is the size in bytes of the longest text that is read as a whole: configurations, sweep
// files, figure definitions. A mebibyte holds ten thousand explicit points; nobody writes more by
// hand.
const MaxText = 1 << 20

// ReadFile returns the text of the file that Open opens, of MaxText bytes at most, without a byte-order mark.
// Any error is an *Error.
func ReadFile(path string) ([]byte, error) { return ReadUpTo(path, MaxText) }

// ReadUpTo is ReadFile of at most that many bytes.
func ReadUpTo(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, FileError(path, err)
	}
	if len(text) > most {
		return nil, &Error{File: Name(path), Expected: fmt.Sprintf("at most %d MiB", most>>20)}
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, &Error{File: Name(path), Expected: "text in UTF-8, not UTF-16"}
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), nil
}

// FileError is the error for a file at path that the system cannot open or read. It
// says its name once.
func FileError(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if path == "" {
		return &Error{Value: `""`, Err: err, Expected: "the name of a file"}
	}
	return &Error{File: Name(path), Err: err}
}

// maxKept is the most bytes of standard input that are kept: a longer input must be a file, which
// can be read again.
const maxKept = 1 << 28

// kept is a stream with the text read from it so far.
type kept struct {
	mu     sync.Mutex
	stream io.Reader
	text   []byte
	err    error // of the stream, once it has ended
}

// stdin is standard input of the process, which all readers of "-" share.
var stdin = kept{stream: os.Stdin}

// replay reads a stream from its beginning.
type replay struct {
	from *kept
	at   int
}

// Read returns the kept text, then reads on.
func (r *replay) Read(p []byte) (int, error) {
	k := r.from
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.at == len(k.text) && k.err == nil {
		n, err := k.stream.Read(p)
		if len(k.text)+n > maxKept {
			n, err = 0, fmt.Errorf("more than %d MiB; give its path instead", maxKept>>20)
		}
		k.text, k.err = append(k.text, p[:n]...), err
	}
	n := copy(p, k.text[r.at:])
	r.at += n
	if n == 0 && k.err != nil {
		return 0, k.err
	}
	return n, nil
}
