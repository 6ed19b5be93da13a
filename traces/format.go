package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// read reads the file, whose text is unpacked and whose own reader is file.
func (c *collector) read(text *bufio.Reader, file io.Reader) error {
	first, err := text.Peek(4)
	if err != nil && err != io.EOF {
		return input.FileError(c.file, err)
	}
	switch {
	case string(first) == parquetMagic:
		return c.readParquet(text, file)
	case bytes.HasPrefix(first, []byte("[")):
		return &input.Error{File: c.file, Line: 1, Value: "[", Expected: "lengths in tokens, as CSV, JSON lines, Parquet or one object of vLLM's benchmark; " +
			"texts of conversations (ShareGPT) must be counted by the model's own tokeniser first"}
	case bytes.HasPrefix(first, []byte("{")):
		return c.readObjects(text)
	}
	return c.readCSV(text)
}

// peeked is the number of bytes that tell the format of a file that begins with an object. The results
// of vLLM's benchmark have all their numbers before their lists.
const peeked = 1 << 15

// readObjects reads a file that begins with an object: lines of them, or vLLM's one.
func (c *collector) readObjects(text *bufio.Reader) error {
	if c.options.Columns != (Columns{}) {
		t := c.options.Columns.table()
		return c.readJSONLines(text, &t)
	}
	head, _ := text.Peek(peeked) // what cannot be read is an error later
	names := topFields(head)
	if t := cmp.Or(choose(jsonTables, names, (*table).lengths), choose(jsonTables, names, (*table).others)); t != nil {
		if err := t.unreadArrivals(c.file, 1, names); err != nil {
			return err
		}
		return c.readJSONLines(text, t)
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "input_len") || name == "total_input_tokens" }) {
		return c.readVLLM(text)
	}
	return &input.Error{File: c.file, Line: 1, Value: strings.Join(list.Map(names, strconv.Quote), ", "),
		Expected: "the fields of a known format, or their names in --columns",
		Details:  append([]string{"vllm: one object with the lists input_lens, output_lens"}, knownNames(jsonTables)...)}
}

// others are the names by which JSON lines without lengths are known: what they lack is an error.
func (t *table) others() []string {
	if t.format == "llmservingsim" {
		return []string{t.arrival, callsField}
	}
	return []string{t.arrival}
}

// topFields returns the names of the fields of the object that a text begins with, as far
// as it goes.
func topFields(text []byte) (names []string) {
	dec := json.NewDecoder(bytes.NewReader(text))
	_, err := dec.Token() // the brace
	for err == nil && dec.More() {
		var token json.Token
		if token, err = dec.Token(); err == nil {
			name, _ := token.(string)
			names = append(names, name)
			err = dec.Decode(new(json.RawMessage))
		}
	}
	return names
}

// The first bytes of packed files: RFC 1952 and RFC 8878.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// zstdWindow is the most memory in bytes that a frame may ask for: what the zstd program
// takes without --long.
const zstdWindow = 1 << 27

// unpacked is the text of a file.
type unpacked struct {
	*bufio.Reader
	close func()
}

// unzip returns the text of r: decompressed where it begins as a gzip or zstd file does,
// and without a byte-order mark.
func unzip(r *bufio.Reader) (*unpacked, error) {
	u := &unpacked{r, func() {}}
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		u.Reader = bufio.NewReaderSize(z, 1<<16)
	case bytes.Equal(magic, zstdMagic):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		u.Reader, u.close = bufio.NewReaderSize(z, 1<<16), z.Close
	}
	if mark, _ := u.Peek(3); string(mark) == "\ufeff" {
		if _, err := u.Discard(3); err != nil {
			return nil, err
		}
	}
	return u, nil
}
