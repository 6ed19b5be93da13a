package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/list"
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
		return c.readShareGPT(text)
	case bytes.HasPrefix(first, []byte("{")):
		return c.readObjects(text)
	}
	return c.readCSV(text)
}

// peeked is how much of a file that begins with an object tells what it is. The results
// of vLLM's benchmark have all their numbers before their lists.
const peeked = 1 << 15

// readObjects reads a file that begins with an object: lines of them, or vLLM's one.
func (c *collector) readObjects(text *bufio.Reader) error {
	if c.options.Columns != (Columns{}) {
		t := c.options.Columns.table()
		return c.readJSONLines(text, &t)
	}
	head, _ := text.Peek(peeked) // what cannot be read is an error later
	var names []string
	for name := range topFields(head) {
		for i := range jsonTables {
			if t := &jsonTables[i]; name == t.input || name == t.output || name == t.arrival || name == callsField && t.format == "llmservingsim" {
				return c.readJSONLines(text, t)
			}
		}
		if strings.HasPrefix(name, "input_len") || name == "total_input_tokens" {
			return c.readVLLM(text)
		}
		names = append(names, strconv.Quote(name))
	}
	known := list.Map(jsonTables, func(t table) string { return t.fields() })
	return &input.Error{File: c.file, Line: 1, Value: strings.Join(names, ", "),
		Expected: "JSON lines with " + strings.Join(known, ", or with ") + "; or results of vLLM's benchmark with input_lens and output_lens; or --columns of 'l3sim trace'"}
}

// topFields yields the names of the fields of the object that a text begins with, as far
// as it goes.
func topFields(text []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		dec := json.NewDecoder(bytes.NewReader(text))
		depth, key := 0, false // key: what comes next in the outermost object is a name
		for {
			token, err := dec.Token()
			if err != nil {
				return
			}
			name, isText := token.(string)
			switch {
			case token == json.Delim('{') || token == json.Delim('['):
				depth++
				key = depth == 1
				continue
			case token == json.Delim('}') || token == json.Delim(']'):
				if depth--; depth == 0 {
					return
				}
				key = depth == 1
				continue
			case depth == 1 && key && isText:
				key = false
				if !yield(name) {
					return
				}
				continue
			}
			key = depth == 1
		}
	}
}
