package input

import "io"

// FiniteJSON returns a reader of a JSON text in which null stands for NaN, Infinity and -Infinity, which Python's json writes
// and JSON lacks. Lines stay where they are.
func FiniteJSON(r io.Reader) io.Reader { return &finite{r: r} }

// finite replaces words outside of strings. No other word of JSON begins with one of their letters.
type finite struct {
	r       io.Reader
	err     error
	in      [4096]byte
	all     []byte // what in became
	out     []byte // the part of it that is not read yet
	quoted  bool   // within a string
	escaped bool   // behind a backslash
	minus   bool   // behind a minus, which is not in out yet
	word    string // what must come of a word
}

func (f *finite) Read(p []byte) (int, error) {
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		var n int
		n, f.err = f.r.Read(f.in[:])
		f.out = f.all[:0]
		for _, b := range f.in[:n] {
			f.add(b)
		}
		if f.err != nil {
			f.flush()
		}
		f.all = f.out
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// flush writes a minus that stands before no word, and what makes half a word no JSON.
func (f *finite) flush() {
	if f.word != "" {
		f.out, f.word = append(f.out, '?'), ""
	}
	if f.minus {
		f.out, f.minus = append(f.out, '-'), false
	}
}

func (f *finite) add(b byte) {
	if f.word != "" {
		if b == f.word[0] {
			f.word = f.word[1:]
			return
		}
		f.flush() // another word
	}
	switch {
	case b == '\n':
		f.quoted, f.escaped = false, false // no string of JSON goes on
	case f.escaped:
		f.escaped = false
	case f.quoted:
		f.quoted, f.escaped = b != '"', b == '\\'
	case b == '"':
		f.quoted = true
	case b == '-' && !f.minus:
		f.minus = true
		return
	case b == 'I':
		f.minus, f.word = false, "nfinity"
		f.out = append(f.out, "null"...)
		return
	case b == 'N' && !f.minus:
		f.word = "aN"
		f.out = append(f.out, "null"...)
		return
	}
	f.flush()
	f.out = append(f.out, b)
}
