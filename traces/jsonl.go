package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// The fields of JSON lines that are no columns of a table.
const (
	hashField     = "hash_ids"
	sessionField  = "session_id"
	callsField    = "sub_requests"
	durationField = "tool_duration_ns"
)

// jsonTables are the known formats of JSON lines.
var jsonTables = slices.Concat([]table{
	// Mooncake's traces, https://github.com/kvcache-ai/Mooncake, with hash_ids.
	{format: "mooncake", input: "input_length", output: "output_length", arrival: "timestamp", required: true, clock: milliseconds},
	// LLMServingSim's, https://github.com/casys-kaist/LLMServingSim: requests, and
	// conversations with sub_requests.
	{format: "llmservingsim", input: "input_toks", output: "output_toks", arrival: "arrival_time_ns", required: true, clock: nanoseconds},
	{format: "jsonl", input: vidur.input, output: vidur.output, arrival: vidur.arrival, clock: vidur.clock},
}, own)

func (o object) cells(t *table) cells {
	var c cells
	c.input, _ = o.text(t.input)
	c.output, _ = o.text(t.output)
	c.arrival, c.hasArrival = o.text(t.arrival)
	return c
}

// readJSONLines adds the requests of JSON lines until there are enough. Empty lines are skipped.
func (c *collector) readJSONLines(r *bufio.Reader, t *table) error {
	if c.format = t.format; c.format == "" {
		c.format = "jsonl"
	}
	for line := 1; !c.enough(); line++ {
		text, end := input.ReadLine(r)
		if end != nil && end != io.EOF {
			return input.Edit(input.FileError(c.file, end), func(e *input.Error) { e.Line = line })
		}
		if text := bytes.TrimSpace(text); len(text) > 0 {
			if err := c.addLine(line, text, t); err != nil {
				return err
			}
		}
		if end == io.EOF {
			return nil
		}
	}
	return nil
}

// addLine adds the requests of one line: one, or those of a conversation.
func (c *collector) addLine(line int, text []byte, t *table) error {
	o, err := parseObject(text)
	if err != nil {
		return c.skip(&input.Error{File: c.file, Line: line, Err: err, Expected: "a JSON object with " + t.fields()})
	}
	if calls, ok := o.value(callsField); ok && t.format == "llmservingsim" {
		rows, err := c.conversation(line, o, calls, t)
		if err != nil {
			return c.skip(err)
		}
		for _, r := range rows {
			if err := c.add(r, nil); err != nil || c.enough() {
				return err
			}
		}
		return nil
	}
	r, err := c.jsonRow(line, o, t)
	if err == nil && t.format == "mooncake" {
		r.hashes, err = c.readHashes(line, o, r.input)
	}
	return c.add(r, err)
}

// fields lists the fields that a line must have.
func (t *table) fields() string {
	names := []string{t.input, t.output}
	if t.required {
		names = append([]string{t.arrival}, names...)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func (c *collector) jsonRow(line int, o object, t *table) (row, error) {
	cells := o.cells(t)
	if cells.input == "" || cells.output == "" || t.required && !cells.hasArrival {
		return row{}, &input.Error{File: c.file, Line: line, Expected: t.fields()}
	}
	return t.row(c.file, line, &cells)
}

// readHashes reads the hashes of a prompt's blocks, nil where there are none.
func (c *collector) readHashes(line int, o object, tokens int) ([]uint64, error) {
	raw, ok := o.value(hashField)
	if !ok {
		return nil, nil
	}
	blocks := (tokens + BlockTokens - 1) / BlockTokens
	bad := &input.Error{File: c.file, Line: line, Key: hashField, Value: string(raw), Expected: "an array of whole numbers that are not negative"}
	ids := make([]uint64, 0, blocks)
	if err := json.Unmarshal(raw, &ids); err != nil || bytes.Contains(raw, []byte("null")) {
		return nil, bad
	}
	if len(ids) != blocks {
		bad.Expected = fmt.Sprintf("%d hashes, one for each block of %d tokens of the prompt", blocks, BlockTokens)
		return nil, bad
	}
	return ids, nil
}

// conversation reads a line of LLMServingSim with the calls of an agent: each but the
// first comes so long after the end of the one before it.
func (c *collector) conversation(line int, o object, raw []byte, t *table) ([]row, error) {
	var calls []json.RawMessage
	if err := json.Unmarshal(raw, &calls); err != nil {
		return nil, &input.Error{File: c.file, Line: line, Key: callsField, Expected: "an array of objects with " + t.input + " and " + t.output}
	}
	session := "line " + strconv.Itoa(line) // ids that are there twice are two conversations
	start, ok := o.text(t.arrival)
	at, good := t.parse(start)
	if !ok || !good {
		return nil, &input.Error{File: c.file, Line: line, Key: t.arrival, Value: start, Expected: t.expected}
	}
	rows := make([]row, len(calls))
	think := units.Duration(0)
	for i, text := range calls {
		call, err := parseObject(text)
		if err == nil {
			untimed := *t
			untimed.required = false
			rows[i], err = c.jsonRow(line, call, &untimed)
		}
		if err != nil {
			key := callsField + "[" + strconv.Itoa(i) + "]"
			return nil, input.Edit(c.at(line, err), func(e *input.Error) { e.Key = strings.TrimSuffix(key+"."+e.Key, ".") })
		}
		at = at.after(think)
		rows[i].arrival, rows[i].session, rows[i].waits, rows[i].think = at, session, true, think
		wait, ok := call.text(durationField)
		d, good := nanoseconds.parse(wait)
		if ok && (!good || d.seconds > maxSeconds) {
			return nil, &input.Error{File: c.file, Line: line, Key: durationField, Value: wait, Expected: nanoseconds.expected}
		}
		think = units.Duration(d.seconds)*units.Second + units.Duration(d.picoseconds)
	}
	return rows, nil
}

// at gives an error that has no place its line.
func (c *collector) at(line int, err error) error {
	if bad := new(input.Error); errors.As(err, &bad) {
		return bad
	}
	return &input.Error{File: c.file, Line: line, Err: err}
}
