package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Fields of JSON lines that are not columns of a table.
const (
	hashField     = "hash_ids"
	sessionField  = "session_id"
	callsField    = "sub_requests"
	durationField = "tool_duration_ns"
)

// jsonTables are the known formats of JSON lines.
var jsonTables = slices.Concat([]table{
	// Qwen-Bailian's, https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon: Mooncake's names, times in seconds, and a hash for each
	// block of 16 tokens.
	{format: "bailian", input: "input_length", output: "output_length", arrival: "timestamp", required: true, clock: seconds, fixed: true,
		mark: "parent_chat_id", id: "chat_id", parent: "parent_chat_id", block: 16},
	// Mooncake's traces, https://github.com/kvcache-ai/Mooncake, with hash_ids; NVIDIA Dynamo's and AIPerf's with conversations.
	{format: "mooncake", input: "input_length", output: "output_length", arrival: "timestamp", clock: milliseconds, fixed: true},
	// LLMServingSim's, https://github.com/casys-kaist/LLMServingSim: requests, and
	// conversations with sub_requests.
	{format: "llmservingsim", input: "input_toks", output: "output_toks", arrival: "arrival_time_ns", required: true, clock: nanoseconds, exact: true},
	// profile_export.jsonl of NVIDIA AIPerf, https://github.com/ai-dynamo/aiperf.
	{format: "aiperf", input: "metrics.input_sequence_length.value", output: "metrics.output_sequence_length.value", arrival: "metadata.request_start_ns",
		required: true, clock: nanoseconds, exact: true, session: "metadata.session_num", failure: "error"},
	{format: "jsonl", input: vidur.input, output: vidur.output, arrival: vidur.arrival, clock: vidur.clock, fixed: true},
}, own)

// Fields of JSON lines with more about a request, or about the file.
var delayFields = []string{"delay", "delay_ms"} // milliseconds from the end of the previous turn to this one

const (
	phaseField = "metadata.benchmark_phase" // of AIPerf's records: warm-up requests are not load
	unitField  = "timestamp_unit"           // unit of the file's times, on its first line
	blockField = "block_size"               // tokens for each hash, on the first line
)

func (o object) cells(t *table) cells {
	var c cells
	c.input, _ = o.text(t.input)
	c.output, _ = o.text(t.output)
	c.arrival, c.hasArrival = o.text(t.arrival)
	c.session, _ = o.text(t.session)
	_, c.failed = o.text(t.failure)
	return c
}

// readJSONLines adds the requests of JSON lines until there are enough. Empty lines are skipped.
func (c *collector) readJSONLines(r *bufio.Reader, t *table) error {
	c.use(t, "jsonl")
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

// addLine adds the requests of one line: one request, or those of a conversation.
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
	if phase, _ := o.text(phaseField); t.format == "aiperf" && phase == "warmup" {
		c.warmup++
		return nil
	}
	if _, failed := o.text(t.failure); failed {
		if _, timed := o.text(t.arrival); !timed {
			c.failed++
			return nil
		}
	}
	r, err := c.jsonRow(line, o, t)
	if err == nil && !r.failed && t.format != "llmservingsim" {
		r.hashes, err = c.readHashes(line, o, t, r.input)
	}
	if err == nil {
		err = c.goesOnWith(line, o, t, &r)
	}
	return c.add(r, err)
}

// goesOnWith finds a request's conversation: by the request that it names as its parent, or by a session. Within a session, a turn with a
// delay waits for the one before it.
func (c *collector) goesOnWith(line int, o object, t *table, r *row) error {
	if t.parent != "" {
		id, _ := o.text(t.id)
		parent, _ := o.text(t.parent)
		root, known := c.roots[parent]
		if !known {
			root = id
		}
		r.session, c.roots[id] = root, root
		return nil
	}
	if r.session == "" {
		return nil
	}
	last, later := c.ends[r.session]
	for _, name := range delayFields {
		wait, ok := o.text(name)
		if !ok {
			continue
		}
		d, good := milliseconds.parse(wait)
		if !good || d.seconds > maxSeconds {
			return &input.Error{File: c.file, Line: line, Key: name, Value: wait, Expected: milliseconds.expected}
		}
		if r.waits = later; later {
			r.think = units.Duration(d.seconds)*units.Second + units.Duration(d.picoseconds)
			if !r.timed {
				r.arrival = last.after(r.think)
			}
		}
	}
	c.ends[r.session] = r.arrival
	return nil
}

// fields lists the required fields of a line.
func (t *table) fields() string {
	names := []string{t.input, t.output}
	if t.required {
		names = append([]string{t.arrival}, names...)
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func (c *collector) jsonRow(line int, o object, t *table) (row, error) {
	cells := o.cells(t)
	if !cells.failed && (cells.input == "" || cells.output == "") || t.required && !cells.hasArrival {
		var lacks []string
		for _, name := range t.columns() {
			if _, ok := o.text(name); !ok && name != t.session && (name != t.arrival || t.required) {
				lacks = append(lacks, "no "+name)
			}
		}
		return row{}, &input.Error{File: c.file, Line: line, Err: errors.New(strings.Join(lacks, ", ")), Expected: t.fields()}
	}
	return t.row(c.file, line, &cells)
}

// conversation reads a line of LLMServingSim with the calls of an agent. Each call but the first follows the end of the one before after a
// delay.
func (c *collector) conversation(line int, o object, raw []byte, t *table) ([]row, error) {
	var calls []json.RawMessage
	if err := json.Unmarshal(raw, &calls); err != nil {
		return nil, &input.Error{File: c.file, Line: line, Key: callsField, Expected: "an array of objects with " + t.input + " and " + t.output}
	}
	session := "line " + strconv.Itoa(line) // a repeated id is a second conversation
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

// at adds the line to an error without a place.
func (c *collector) at(line int, err error) error {
	if bad := new(input.Error); errors.As(err, &bad) {
		return bad
	}
	return &input.Error{File: c.file, Line: line, Err: err}
}
