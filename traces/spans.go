package traces

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// OpenTelemetry spans with generative-AI attributes, https://github.com/open-telemetry/semantic-conventions-genai. They come as OTLP
// requests in JSON (https://opentelemetry.io/docs/specs/otlp/; the collector's file exporter writes one a line), or as one object a span,
// as SDK exporters print them.
var spanTable = table{format: "otel", input: "gen_ai.usage.input_tokens", output: "gen_ai.usage.output_tokens", arrival: "startTimeUnixNano",
	required: true, clock: nanoseconds, exact: true, session: "gen_ai.conversation.id"}

// Attributes of a span.
const (
	operationAttribute = "gen_ai.operation.name"
	errorAttribute     = "error.type"
)

// inference are the operations that are requests to a model. Spans of agents and tools contain such spans, and are not requests themselves.
var inference = []string{"chat", "text_completion", "generate_content"}

// older are former names of attributes, which vLLM's traces and older libraries write.
var older = map[string]string{"gen_ai.usage.input_tokens": "gen_ai.usage.prompt_tokens", "gen_ai.usage.output_tokens": "gen_ai.usage.completion_tokens"}

// readSpans adds the requests of all spans of a file.
func (c *collector) readSpans(r *bufio.Reader) error {
	c.use(&spanTable, "")
	j := input.NewJSON(c.file, r)
	others := 0
	for !c.enough() {
		var text json.RawMessage
		if err := j.Decode(&text); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		o, err := parseObject(text)
		if err != nil {
			if err = c.placed(err, j.Line(), ""); err != nil {
				return err
			}
			continue
		}
		spans, err := c.spansOf(o, j.Line())
		if err != nil {
			return err
		}
		for _, span := range spans {
			if c.enough() {
				break
			}
			r, isRequest, err := c.span(span, j.Line())
			if !isRequest && err == nil {
				others++
				continue
			}
			if err := c.add(r, err); err != nil {
				return err
			}
		}
	}
	if others > 0 {
		c.note("%s no inference (%s is not %s): left out", input.Plural(others, "span is", "spans are"), operationAttribute, strings.Join(inference, ", "))
	}
	return nil
}

// spansOf returns the spans in an OTLP request, or the object itself if it is a span.
func (c *collector) spansOf(o object, line int) ([]object, error) {
	spans := []object{o}
	for _, name := range []string{"resourceSpans", "scopeSpans", "spans"} {
		if _, ok := o.value("resourceSpans"); !ok {
			return spans, nil
		}
		var within []object
		for _, outer := range spans {
			text, ok := outer.value(name)
			if !ok {
				continue
			}
			var parts []json.RawMessage
			if err := json.Unmarshal(text, &parts); err != nil {
				return nil, &input.Error{File: c.file, Line: line, Key: name, Expected: "an array of objects"}
			}
			for _, part := range parts {
				inner, err := parseObject(part)
				if err != nil {
					return nil, &input.Error{File: c.file, Line: line, Key: name, Err: err, Expected: "an array of objects"}
				}
				within = append(within, inner)
			}
		}
		spans = within
	}
	return spans, nil
}

// span reads a span, and returns false if it is not a request to a model.
func (c *collector) span(o object, line int) (r row, isRequest bool, err error) {
	of, err := c.attributes(o, line)
	if err != nil {
		return row{}, false, err
	}
	get := func(name string) string {
		if text, ok := of[name]; ok {
			return text
		}
		return of[older[name]]
	}
	cells := cells{input: get(spanTable.input), output: get(spanTable.output), session: get(spanTable.session)}
	operation, named := of[operationAttribute]
	if named && !slices.Contains(inference, operation) || !named && cells.input == "" && cells.output == "" {
		return row{}, false, nil
	}
	status, _ := o.text("status.code")
	if status == "" {
		status, _ = o.text("status.status_code")
	}
	cells.failed = of[errorAttribute] != "" || status == "2" || strings.HasSuffix(status, "ERROR")
	t := spanTable
	for _, name := range []string{t.arrival, "start_time_unix_nano", "startTime", "start_time"} {
		if cells.arrival, cells.hasArrival = o.text(name); cells.hasArrival {
			if t.arrival = name; datesIn([]string{cells.arrival}) {
				t.clock = timestamps
			}
			break
		}
	}
	missing := ""
	switch {
	case !cells.hasArrival:
		missing = t.arrival
	case cells.failed:
	case cells.input == "":
		missing = t.input
	case cells.output == "":
		missing = t.output
	}
	if missing != "" {
		return row{}, true, &input.Error{File: c.file, Line: line, Err: errors.New("no " + missing), Expected: "a span with " + t.fields()}
	}
	r, err = t.row(c.file, line, &cells)
	return r, true, err
}

// attributes returns a span's attributes, given as an OTLP list of keys and values or as an object.
func (c *collector) attributes(o object, line int) (map[string]string, error) {
	text, ok := o.value("attributes")
	if !ok {
		return nil, nil
	}
	of := map[string]string{}
	if text[0] == '{' {
		fields, err := parseObject(text)
		if err != nil {
			return nil, &input.Error{File: c.file, Line: line, Key: "attributes", Err: err, Expected: "names with values"}
		}
		for _, f := range fields {
			if of[f.name], ok = fields.text(f.name); !ok {
				delete(of, f.name)
			}
		}
		return of, nil
	}
	var list []struct {
		Key   string
		Value map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, &input.Error{File: c.file, Line: line, Key: "attributes", Expected: `a list such as [{"key": "` + spanTable.input + `", "value": {"intValue": "9"}}]`}
	}
	for _, a := range list {
		if _, twice := of[a.Key]; twice {
			return nil, &input.Error{File: c.file, Line: line, Key: "attributes", Err: fmt.Errorf("two attributes %q", a.Key), Expected: "one of each name"}
		}
		for _, kind := range []string{"intValue", "stringValue", "doubleValue"} {
			if value, ok := a.Value[kind]; ok {
				of[a.Key] = strings.Trim(string(value), `"`)
			}
		}
	}
	return of, nil
}
