package traces

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The bounds of a Parquet file's footer, in bytes and in elements of its lists. Ten
// thousand groups of rows with ten columns have a tenth of them.
const (
	maxFooter   = 1 << 26
	maxElements = 1 << 20
)

// checkFooter refuses a footer that says of itself that it is longer than it is: the
// library would make room for it. The footer is a struct of Thrift's compact protocol,
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
func checkFooter(file io.ReaderAt, size int64) error {
	const tail = 8 // the footer's length, and the magic again
	var end [tail]byte
	if size < tail+int64(len(parquetMagic)) {
		return io.ErrUnexpectedEOF
	}
	if _, err := file.ReadAt(end[:], size-tail); err != nil && err != io.EOF {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	switch {
	case string(end[4:]) != parquetMagic:
		return errors.New("no " + parquetMagic + " at the end")
	case length > maxFooter || length > size-tail:
		return fmt.Errorf("a footer of %d bytes", length)
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-tail-length); err != nil && err != io.EOF {
		return err
	}
	w := &walker{text: footer}
	w.skip(thriftStruct, 0)
	return w.err
}

// The types of Thrift's compact protocol that have parts.
const (
	thriftTrue, thriftFalse, thriftByte = 1, 2, 3
	thriftI16, thriftI32, thriftI64     = 4, 5, 6
	thriftDouble, thriftBinary          = 7, 8
	thriftList, thriftSet, thriftMap    = 9, 10, 11
	thriftStruct                        = 12
)

// maxThriftDepth is how deep the structs of a footer may nest; those of Parquet are far
// less deep.
const maxThriftDepth = 32

// walker walks over a text of the compact protocol.
type walker struct {
	text     []byte // what is left
	elements int    // of lists so far
	err      error
}

// take returns the next n bytes.
func (w *walker) take(n uint64) []byte {
	if n > uint64(len(w.text)) {
		if w.err == nil {
			w.err = io.ErrUnexpectedEOF
		}
		w.text = nil
		return make([]byte, min(n, 1))
	}
	taken := w.text[:n]
	w.text = w.text[n:]
	return taken
}

// varint reads a number of any length.
func (w *walker) varint() uint64 {
	v, n := binary.Uvarint(w.text)
	if n <= 0 {
		w.take(uint64(len(w.text)) + 1)
		return 0
	}
	w.take(uint64(n))
	return v
}

// skip walks over a value.
func (w *walker) skip(kind byte, depth int) {
	if depth > maxThriftDepth && w.err == nil {
		w.err = errors.New("a footer that nests too deep")
	}
	if w.err != nil {
		return
	}
	switch kind {
	case thriftTrue, thriftFalse, thriftByte: // elements of a list; as fields, truth values take no room
		w.take(1)
	case thriftI16, thriftI32, thriftI64:
		w.varint()
	case thriftDouble:
		w.take(8)
	case thriftBinary:
		w.take(w.varint())
	case thriftList, thriftSet:
		head := w.take(1)[0]
		n := uint64(head >> 4)
		if n == 15 {
			n = w.varint()
		}
		w.skipAll(n, depth, head&15)
	case thriftMap:
		if n := w.varint(); n > 0 {
			kinds := w.take(1)[0]
			w.skipAll(n, depth, kinds>>4, kinds&15)
		}
	case thriftStruct:
		w.skipFields(depth)
	default:
		w.err = fmt.Errorf("a value of the unknown type %d", kind)
	}
}

// skipAll walks over n elements, each of which has the given parts.
func (w *walker) skipAll(n uint64, depth int, kinds ...byte) {
	if w.elements += int(min(n, maxElements+1)); w.elements > maxElements && w.err == nil {
		w.err = errors.New("a footer of too many elements")
	}
	for ; n > 0 && w.err == nil; n-- {
		for _, kind := range kinds {
			w.skip(kind, depth+1)
		}
	}
}

// skipFields walks over the fields of a struct.
func (w *walker) skipFields(depth int) {
	for w.err == nil {
		head := w.take(1)[0]
		if head == 0 || w.err != nil {
			return
		}
		if head>>4 == 0 { // the field's number stands by itself
			w.varint()
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			w.skip(kind, depth+1)
		}
	}
}
