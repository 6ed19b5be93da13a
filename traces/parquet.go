package traces

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	parquetformat "github.com/parquet-go/parquet-go/format"

	"github.com/l3sim/l3sim/input"
)

// parquetMagic begins a Parquet file, https://parquet.apache.org/docs/file-format/.
const parquetMagic = "PAR1"

// maxParquet bounds a Parquet file in bytes that is compressed or comes from standard input. It must be held in memory, since the positions
// of its columns are at its end.
const maxParquet = 1 << 28

const parquetBatch = 1024 // number of values of a column read at a time

// readParquet adds the rows of a Parquet file until there are enough. In errors, a row counts as a line. text is the decompressed content
// of file.
func (c *collector) readParquet(text, file io.Reader) (err error) {
	c.format = "parquet"
	// The library checks little of the file's metadata and may panic.
	defer func() {
		if fault := recover(); fault != nil {
			err = &input.Error{File: c.file, Err: fmt.Errorf("not Parquet: %v", fault)}
		}
	}()
	at, size, err := c.randomAccess(text, file)
	if err != nil {
		return err
	}
	if err := checkFooter(at, size); err != nil {
		return &input.Error{File: c.file, Err: fmt.Errorf("not Parquet: %w", err)}
	}
	p, err := parquet.OpenFile(at, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return &input.Error{File: c.file, Err: fmt.Errorf("not Parquet: %w", err)}
	}
	columns, err := c.parquetColumns(p)
	if err != nil {
		return err
	}
	for i, group := range p.Metadata().RowGroups {
		for _, at := range columns.at {
			// For a broken block of LZ4 the library would allocate until memory runs out.
			if codec := group.Columns[at].MetaData.Codec; codec == parquetformat.Lz4Raw {
				return &input.Error{File: c.file, Key: fmt.Sprintf("group %d of rows", i+1), Expected: "another compression than LZ4"}
			}
		}
	}
	row := 0
	for _, group := range p.RowGroups() {
		if c.enough() {
			break
		}
		if err := c.readRowGroup(group, columns, &row); err != nil {
			return err
		}
	}
	return nil
}

// randomAccess returns a reader of any part of a file: file itself, or the rest of text in memory.
func (c *collector) randomAccess(text, file io.Reader) (io.ReaderAt, int64, error) {
	if f, ok := file.(*os.File); ok {
		magic := make([]byte, len(parquetMagic))
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == parquetMagic { // not compressed
				return f, info.Size(), nil
			}
		}
	}
	all, err := io.ReadAll(io.LimitReader(text, maxParquet+1))
	if err != nil {
		return nil, 0, input.FileError(c.file, err)
	}
	if len(all) > maxParquet {
		return nil, 0, &input.Error{File: c.file, Expected: fmt.Sprintf("at most %d MiB; give the path of a file that is not packed", maxParquet>>20)}
	}
	return bytes.NewReader(all), int64(len(all)), nil
}

// parquetColumns are the positions of a table's columns in a Parquet file.
type parquetColumns struct {
	table
	at []int // of input, output and, if present, arrivals
}

func (c *collector) parquetColumns(p *parquet.File) (*parquetColumns, error) {
	schema := p.Schema()
	tables := slices.Concat([]table{vidur}, own)
	s := parquetSample(p)
	f := c.understand(s, tables)
	if f == nil {
		f = &tables[0]
	}
	found := &parquetColumns{table: *f}
	for _, name := range []string{found.input, found.output, found.arrival} {
		leaf, ok := schema.Lookup(name)
		if !ok {
			leaf, ok = schema.Lookup(strings.Split(name, ".")...) // a nested field
		}
		switch {
		case name == "" || !ok && name == found.arrival && !found.required:
			continue
		case !ok:
			return nil, &input.Error{File: c.file, Expected: "a column " + name + ", or the file's own names in --columns", Nearest: input.Nearest(name, s.names)}
		case leaf.MaxRepetitionLevel > 0 || !isNumber(leaf) && !(name == found.arrival && found.name == timestamps.name):
			expected := "a column of numbers"
			if decimals(leaf) > 0 {
				expected = "a column of whole numbers or reals, such as this decimal cast to DOUBLE"
			}
			return nil, &input.Error{File: c.file, Key: name, Expected: expected}
		}
		found.at = append(found.at, leaf.ColumnIndex)
	}
	if lost := c.unreadInParquet(s); len(lost) > 0 {
		c.note("%s: not read from Parquet; JSON lines keep hashes of prefixes and conversations", strings.Join(lost, " and "))
	}
	c.use(f, "parquet")
	c.format = "parquet"
	return found, nil
}

// parquetSample returns the first rows of a file, and the units of columns that have a time type.
func parquetSample(p *parquet.File) *sample {
	s := &sample{values: map[string][]string{}, units: map[string]string{}}
	groups := p.RowGroups()
	for _, path := range p.Schema().Columns() {
		leaf, ok := p.Schema().Lookup(path...)
		if !slices.Contains(s.names, path[0]) {
			s.names = append(s.names, path[0])
		}
		if !ok || leaf.MaxRepetitionLevel > 0 {
			continue
		}
		name := strings.Join(path, ".")
		s.nested = append(s.nested, name)
		if of := leaf.Node.Type().LogicalType(); of != nil {
			var unit parquetformat.TimeUnit
			switch of := of.Value.(type) {
			case *parquetformat.TimestampType:
				unit = of.Unit
			case *parquetformat.TimeType:
				unit = of.Unit
			}
			if unit.Value != nil {
				s.units[name] = map[time.Duration]string{time.Millisecond: "ms", time.Microsecond: "us", time.Nanosecond: "ns"}[unit.Value.Duration()]
			}
		}
		if isDay(leaf) {
			s.values[name] = []string{"a day"}
		}
		rank, _ := timeName(name)
		if len(groups) == 0 || !isNumber(leaf) && (rank < 0 || leaf.Node.Type().Kind() != parquet.ByteArray) ||
			p.Metadata().RowGroups[0].Columns[leaf.ColumnIndex].MetaData.Codec == parquetformat.Lz4Raw {
			continue
		}
		at := cursor{pages: groups[0].ColumnChunks()[leaf.ColumnIndex].Pages(), batch: make([]parquet.Value, sampleRows)}
		for range min(groups[0].NumRows(), sampleRows) {
			v, err := at.next()
			if err != nil {
				break // the error appears when the column is read
			}
			s.values[name] = append(s.values[name], parquetText(v))
		}
		_ = at.pages.Close() // reading only: a close error does not matter
	}
	return s
}

// cursor reads the values of one column one by one.
type cursor struct {
	pages  parquet.Pages
	values parquet.ValueReader
	batch  []parquet.Value
	left   []parquet.Value
}

func (c *cursor) next() (parquet.Value, error) {
	for len(c.left) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, err
			}
			c.values = page.Values()
		}
		n, err := c.values.ReadValues(c.batch)
		c.left = c.batch[:n]
		if err == io.EOF || err == nil && n == 0 {
			c.values = nil
		} else if err != nil {
			return parquet.Value{}, err
		}
	}
	v := c.left[0]
	c.left = c.left[1:]
	return v, nil
}

// readRowGroup adds the rows of a group; row counts the rows of the file.
func (c *collector) readRowGroup(group parquet.RowGroup, columns *parquetColumns, row *int) (err error) {
	cursors := make([]cursor, len(columns.at))
	for i, column := range columns.at {
		cursors[i] = cursor{pages: group.ColumnChunks()[column].Pages(), batch: make([]parquet.Value, parquetBatch)}
		defer func() { err = errors.Join(err, cursors[i].pages.Close()) }()
	}
	for range group.NumRows() {
		if c.enough() {
			return nil
		}
		*row++
		var texts [3]string
		for i := range cursors {
			v, err := cursors[i].next()
			if err != nil {
				return &input.Error{File: c.file, Line: *row, Err: fmt.Errorf("not Parquet: %w", err)}
			}
			texts[i] = parquetText(v)
		}
		cells := cells{input: texts[0], output: texts[1], arrival: texts[2], hasArrival: len(cursors) > 2}
		if err := c.add(columns.row(c.file, *row, &cells)); err != nil {
			return err
		}
	}
	return nil
}

// parquetText writes a number as the shortest decimal that reads back equal, so that 0.1 stays 0.1.
func parquetText(v parquet.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.Kind() == parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10)
	case v.Kind() == parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10)
	case v.Kind() == parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'f', -1, 32)
	case v.Kind() == parquet.ByteArray:
		return string(v.ByteArray())
	}
	return strconv.FormatFloat(v.Double(), 'f', -1, 64)
}

// Bounds of a Parquet file's footer, in bytes and in list elements. Ten thousand row groups with ten columns use a tenth of them.
const (
	maxFooter   = 1 << 26
	maxElements = 1 << 20
)

// checkFooter refuses a footer with a size larger than the actual one, which the library would allocate. The footer is a struct of Thrift's
// compact protocol, https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
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

// The types of Thrift's compact protocol.
const (
	thriftTrue, thriftFalse, thriftByte, thriftI16, thriftI32, thriftI64       = 1, 2, 3, 4, 5, 6
	thriftDouble, thriftBinary, thriftList, thriftSet, thriftMap, thriftStruct = 7, 8, 9, 10, 11, 12
)

// maxThriftDepth bounds the nesting of a footer's structs; Parquet's nest far less.
const maxThriftDepth = 32

// walker reads through a text of the compact protocol.
type walker struct {
	text     []byte // the rest
	elements int    // total of all lists so far
	err      error
}

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

// skip reads past a value.
func (w *walker) skip(kind byte, depth int) {
	if depth > maxThriftDepth && w.err == nil {
		w.err = errors.New("a footer that nests too deep")
	}
	if w.err != nil {
		return
	}
	switch kind {
	case thriftTrue, thriftFalse, thriftByte: // in a list; as struct fields, booleans take no bytes
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

// skipAll reads past n elements, each of which has the given parts.
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

// skipFields reads past the fields of a struct.
func (w *walker) skipFields(depth int) {
	for w.err == nil {
		head := w.take(1)[0]
		if head == 0 || w.err != nil {
			return
		}
		if head>>4 == 0 { // the field's number follows separately
			w.varint()
		}
		if kind := head & 15; kind != thriftTrue && kind != thriftFalse {
			w.skip(kind, depth+1)
		}
	}
}
