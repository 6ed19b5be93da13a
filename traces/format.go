package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// read reads a file; text is its decompressed content, file its own reader.
func (c *collector) read(text *bufio.Reader, file io.Reader) error {
	if _, err := text.Peek(4); err != nil && err != io.EOF {
		return input.FileError(c.file, err)
	}
	first, _ := text.Peek(min(beginning, text.Buffered())) // the rest may arrive late, or hold an error to be reported with its line
	switch {
	case bytes.HasPrefix(first, []byte(parquetMagic)):
		return c.readParquet(text, file)
	}
	if name, instead := otherKind(first); name != "" {
		expected := "CSV, JSON lines, Parquet or one object of vLLM's benchmark, in UTF-8, packed by gzip or zstd or not"
		if instead != "" {
			expected += "; " + instead
		}
		return &input.Error{File: c.file, Value: name, Expected: expected}
	}
	switch first = bytes.TrimLeft(first, " \t\r\n"); {
	case bytes.HasPrefix(first, []byte("[")):
		return c.readArray(text)
	case bytes.HasPrefix(first, []byte("{")):
		return c.readObjects(text)
	}
	return c.readCSV(text)
}

// peeked is the number of bytes from which a file's format and time units are recognised: a few rows of long texts. Results of vLLM's
// benchmark have all their numbers before their lists.
const peeked = 1 << 20

// readObjects reads a file that begins with a JSON object: JSON lines, or vLLM's single object.
func (c *collector) readObjects(text *bufio.Reader) error {
	text = bufio.NewReaderSize(input.FiniteJSON(text), peeked)
	head, _ := text.Peek(peeked) // a read error is reported later
	s := objectSample(head)
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.names, name) })
	}
	if c.options.Columns.Input == "" {
		switch {
		case has(wekaRequests) && (has(wekaScope) || has(blockField)):
			return c.readWeka(text)
		case has("benchmarks"):
			return c.readGuideLLM(text)
		case has("resourceSpans") || has("attributes") && (has("context") || has("traceId") || has("trace_id")):
			return c.readSpans(text)
		case has(vllmCompleted, vllmInputTotal): // sums are not a request
			return c.readVLLM(text)
		}
	}
	t := c.understand(s, jsonTables)
	if t == nil && c.options.Columns.Input == "" && !s.hasTexts() {
		if i := slices.IndexFunc(others, func(t table) bool { return slices.Contains(s.names, t.mark) }); i >= 0 {
			t = &others[i]
		}
	}
	if t != nil {
		return c.readJSONLines(text, t)
	}
	if slices.ContainsFunc(s.names, func(name string) bool { return strings.HasPrefix(name, "input_len") || name == "total_input_tokens" }) {
		return c.readVLLM(text)
	}
	expected := "the fields of a known format, or their names in --columns"
	if one := s.oneLength(); one != "" {
		expected = one
	} else if s.hasTexts() {
		expected = expectedTokensOfTexts
	} else if within := listOfObjects.FindSubmatch(head); within != nil {
		path := string(within[1])
		if i := slices.IndexFunc(s.nested, func(name string) bool { return strings.HasSuffix(name, "."+path) }); i >= 0 && !slices.Contains(s.names, path) {
			path = s.nested[i]
		}
		expected = fmt.Sprintf("requests as lines or one array; jq -c '.%s[]' FILE writes those of this file so", path)
	}
	if err := json.Unmarshal(head, new(json.RawMessage)); len(s.names) == 0 && err != nil {
		return &input.Error{File: c.file, Line: 1, Err: fmt.Errorf("not JSON: %w", err), Expected: expected}
	}
	return &input.Error{File: c.file, Line: 1, Value: strings.Join(list.Map(s.names, strconv.Quote), ", "),
		Expected: expected,
		Details:  append([]string{"vllm: one object with the lists input_lens, output_lens"}, knownNames(jsonTables)...)}
}

// listOfObjects matches a field that holds an array of objects.
var listOfObjects = regexp.MustCompile(`"(\w+)"\s*:\s*\[\s*\{`)

// readArray reads an array of objects, one for each request.
func (c *collector) readArray(text *bufio.Reader) error {
	text = bufio.NewReaderSize(input.FiniteJSON(text), peeked)
	head, _ := text.Peek(peeked)
	s := objectSample(head[bytes.IndexByte(head, '[')+1:])
	if slices.Contains(s.names, vllmCompleted) && slices.Contains(s.names, vllmInputTotal) && c.options.Columns.Input == "" {
		return &input.Error{File: c.file, Line: 1, Value: "[", Expected: "one result of a benchmark; jq '.[0]' FILE has the first of several"}
	}
	t := c.understand(s, jsonTables)
	if t == nil {
		bad := &input.Error{File: c.file, Line: 1, Value: "[", Expected: expectedTokensOfTexts}
		if one := s.oneLength(); one != "" {
			bad.Value, bad.Expected = strings.Join(list.Map(s.names, strconv.Quote), ", "), one
		} else if len(s.names) == 0 {
			bad.Expected = "an array of objects, a request each"
		}
		return bad
	}
	c.use(t, "jsonl")
	j := input.NewJSON(c.file, text)
	if _, err := j.Token(); err != nil { // the opening bracket
		return j.Cut(err)
	}
	for !c.enough() && j.More() {
		var element json.RawMessage
		if err := j.Decode(&element); err != nil {
			return j.Cut(err)
		}
		if err := c.addLine(j.Line(), element, t); err != nil {
			return err
		}
	}
	if c.enough() {
		return nil
	}
	if _, err := j.Token(); err != nil {
		return j.Cut(err)
	}
	return j.End("the array")
}

// others are formats of JSON lines that are recognised by fields other than lengths. Missing lengths are an error.
var others = []table{
	{format: "llmservingsim", input: "input_toks", output: "output_toks", arrival: "arrival_time_ns", clock: nanoseconds, required: true, exact: true, mark: callsField},
	{format: "llmservingsim", input: "input_toks", output: "output_toks", arrival: "arrival_time_ns", clock: nanoseconds, required: true, exact: true, mark: "arrival_time_ns"},
	{format: "mooncake", input: "input_length", output: "output_length", arrival: "timestamp", clock: milliseconds, required: true, mark: "timestamp"},
}

// objectSample returns the first objects of JSON lines or of an array.
func objectSample(head []byte) *sample {
	s := &sample{objects: true, values: map[string][]string{}}
	dec := json.NewDecoder(bytes.NewReader(head))
	dec.UseNumber()
	start := 0 // of the next object
	for row := 0; row < sampleRows; row++ {
		names, nested := topFields(head[start:])
		if row == 0 {
			s.names = names
		}
		for _, name := range nested {
			if !slices.Contains(s.nested, name) {
				s.nested = append(s.nested, name)
			}
		}
		var object map[string]any
		if dec.Decode(&object) != nil {
			break
		}
		s.addObject("", object, 0)
		start = int(dec.InputOffset())
		rest := head[start:]
		if trimmed := bytes.TrimLeft(rest, " \t\r\n"); bytes.HasPrefix(trimmed, []byte(",")) { // in an array
			head, start = trimmed[1:], 0
			dec = json.NewDecoder(bytes.NewReader(head))
			dec.UseNumber()
		}
	}
	return s
}

// mostNested is the depth to which nested fields are searched.
const mostNested = 3

// addObject adds the numbers and texts of an object.
func (s *sample) addObject(prefix string, object map[string]any, depth int) {
	for name, value := range object { // map order does not matter: each name has its own entry
		switch v := value.(type) {
		case json.Number:
			s.values[prefix+name] = append(s.values[prefix+name], v.String())
		case string:
			s.values[prefix+name] = append(s.values[prefix+name], v)
		case map[string]any:
			if depth < mostNested {
				s.addObject(prefix+name+".", v, depth+1)
			}
		}
	}
}

// topFields returns the field names of the object that a text begins with, as far as the text goes. nested also has the names within nested
// objects, as a.b.
func topFields(text []byte) (names, nested []string) {
	dec := json.NewDecoder(bytes.NewReader(text))
	_, err := dec.Token() // the opening brace
	for err == nil && dec.More() {
		var token json.Token
		if token, err = dec.Token(); err != nil {
			break
		}
		name, _ := token.(string)
		names, nested = append(names, name), append(nested, name)
		var value json.RawMessage
		err = dec.Decode(&value)
		if strings.Count(name, ".") < mostNested && bytes.HasPrefix(value, []byte("{")) {
			_, within := topFields(value)
			for _, inner := range within {
				nested = append(nested, name+"."+inner)
			}
		}
	}
	return names, nested
}

// The first bytes of compressed files: RFC 1952 and RFC 8878.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// zstdWindow is the most memory in bytes that a frame may ask for, as the zstd program without --long.
const zstdWindow = 1 << 27

// unpacked is the decompressed text of a file.
type unpacked struct {
	*bufio.Reader
	close func()
}

// unzip returns the text of r, decompressed if it begins like a gzip or zstd file, and without a byte-order mark.
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
