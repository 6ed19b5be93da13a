package input

import "io"

// FiniteJSON returns a reader of a JSON text with NaN, Infinity and -Infinity, which Python's json writes and JSON lacks,
// replaced by null. Line numbers stay the same.
func FiniteJSON(r io.Reader) io.Reader { return &finite{r: r} }

// finite replaces NaN and Infinity outside of strings. No other JSON word begins with N or I.
type finite struct {
	r       io.Reader
	err     error
	in      [4096]byte
	all     []byte // the replacement of in
	out     []byte // the part of all that is not read yet
	quoted  bool   // within a string
	escaped bool   // after a backslash
	minus   bool   // a minus was read but is not in out yet
	word    string // the rest of the word that must follow
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

// flush writes a minus that begins no Infinity. For half a word it writes '?', so that the text is invalid JSON.
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
		f.quoted, f.escaped = false, false // no JSON string continues on the next line
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
