package requests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Log is the content of a server's log.
type Log struct {
	File     string
	Requests []Request // in order of arrival
	Server   *Server   // the settings in the log; nil for none
}

// Request is one request of a log. Times are in seconds.
type Request struct {
	Line          int
	Input, Output int     // tokens
	Arrival       float64 // since the first request's
	Queue         float64 // from its arrival to the iteration that begins its prompt; negative if the log lacks it
	TTFT, Latency float64 // from its arrival to the first token, and to the last
}

// Bounds of a log's values.
const (
	maxRequests = 1_000_000
	maxTokens   = 1 << 20
	maxSeconds  = 1e7 // of a log, 116 days: its picoseconds fit
	minLatency  = 1e-6
)

// Read reads a log, with the settings in a file MetaName beside a log of LLMServingSim. Errors in the files
// are of type *input.Error.
func Read(path string) (*Log, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	log, format, err := parse(input.Name(path), text)
	if err != nil || path == input.Stdin || format != servingSim {
		return log, err
	}
	meta := filepath.Join(filepath.Dir(path), MetaName)
	text, err = input.ReadFile(meta)
	if errors.Is(err, fs.ErrNotExist) {
		return log, nil
	} else if err != nil {
		return nil, err
	}
	log.Server, err = parseServer(meta, text)
	return log, err
}

// logKeys are the keys that identify a log's format.
const logKeys = "keys input_toks (LLMServingSim's requests.jsonl), metrics (AIPerf's profile_export.jsonl) or ttfts (vLLM's bench serve --save-result --save-detailed)"

// parse reads the text of a log in the format of its first object.
func parse(file string, text []byte) (*Log, format, error) {
	p := &parser{file: file, text: text, ids: map[string]int{}}
	first := map[string]json.RawMessage{}
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] != '{' {
		return nil, "", &input.Error{File: file, Line: 1, Expected: "JSON with " + logKeys}
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&first); err != nil {
		_, err = p.object(&first, false)
		return nil, "", cmp.Or(err, error(&input.Error{File: file, Line: 1, Expected: "a request in JSON"}))
	}
	var f format
	switch {
	case first["ttfts"] != nil:
		f = vllmBench
	case first["metrics"] != nil:
		f = aiPerf
	case first["input_toks"] != nil:
		f = servingSim
	default:
		return nil, "", &input.Error{File: file, Line: 1, Key: "format", Expected: logKeys}
	}
	requests, err := p.read(f)
	if err != nil {
		return nil, f, err
	}
	if len(requests) == 0 {
		return nil, f, &input.Error{File: file, Expected: "at least one request"}
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	start := requests[0].Arrival
	for i := range requests {
		r := &requests[i]
		if r.Arrival -= start; r.Arrival > maxSeconds {
			return nil, f, p.at(r.Line, "arrival", r.Arrival, fmt.Sprintf("at most %g seconds after the first", maxSeconds))
		}
	}
	return &Log{File: file, Requests: requests}, f, nil
}

// parser reads objects of a text.
type parser struct {
	file string
	text []byte // rest of the text
	line int    // of the object read last
	next int    // lines before text
	ids  map[string]int
}

func (p *parser) at(line int, key string, value any, expected string) error {
	return &input.Error{File: p.file, Line: line, Key: key, Value: fmt.Sprint(value), Expected: expected}
}

// object reads the next object into v, whose keys must all be present, and with strict no others. It returns false
// at the end.
func (p *parser) object(v any, strict bool) (bool, error) {
	space := len(p.text) - len(bytes.TrimLeft(p.text, " \t\r\n"))
	p.next += bytes.Count(p.text[:space], []byte("\n"))
	if p.text = p.text[space:]; len(p.text) == 0 {
		return false, nil
	}
	p.line = p.next + 1
	d := json.NewDecoder(bytes.NewReader(p.text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = errors.New("the file ends within a value")
		}
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return false, &input.Error{File: p.file, Line: p.line, Key: wrong.Field, Value: wrong.Value, Expected: wrong.Type.String()}
		}
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			name, _ = strconv.Unquote(name)
			return false, &input.Error{File: p.file, Line: p.line, Key: name, Expected: "one of " + strings.Join(keys(v), ", "), Nearest: input.Nearest(name, keys(v))}
		}
		return false, &input.Error{File: p.file, Line: p.line, Err: err}
	}
	read := int(d.InputOffset())
	p.next += bytes.Count(p.text[:read], []byte("\n"))
	p.text = p.text[read:]
	return true, nil
}

// keys returns the keys of the struct that v points to.
func keys(v any) (names []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	return names
}

// missing returns the first absent key of a struct of pointers.
func missing(v any) string {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Pointer && f.IsNil() {
			return s.Type().Field(i).Tag.Get("json")
		}
	}
	return ""
}

// request checks a request read from the given line.
func (p *parser) request(r Request) (Request, error) {
	r.Line = p.line
	for _, n := range []struct {
		key   string
		value int
	}{{"input tokens", r.Input}, {"output tokens", r.Output}} {
		if n.value < 1 || n.value > maxTokens {
			return r, p.at(p.line, n.key, n.value, fmt.Sprintf("1 to %d", maxTokens))
		}
	}
	switch {
	case math.IsNaN(r.Arrival) || math.Abs(r.Arrival) > 1e12:
		return r, p.at(p.line, "arrival", r.Arrival, "seconds, up to 1e12")
	case !(r.TTFT >= minLatency && r.TTFT <= maxSeconds):
		return r, p.at(p.line, "time to the first token", r.TTFT, fmt.Sprintf("%g to %g seconds after the arrival", minLatency, maxSeconds))
	case !(r.Latency >= r.TTFT && r.Latency <= maxSeconds):
		return r, p.at(p.line, "time to the last token", r.Latency, fmt.Sprintf("no less than to the first, %g seconds, and at most %g", r.TTFT, maxSeconds))
	case r.Output > 1 && r.Latency-r.TTFT < minLatency:
		return r, p.at(p.line, "time to the last token", r.Latency, fmt.Sprintf("more than to the first, %g seconds, of %d tokens", r.TTFT, r.Output))
	case r.Queue > r.TTFT:
		return r, p.at(p.line, "time in the queue", r.Queue, fmt.Sprintf("at most that to the first token, %g seconds", r.TTFT))
	}
	return r, nil
}

// known refuses a name that an earlier request has.
func (p *parser) known(key, id string) error {
	if before := p.ids[id]; before > 0 {
		return p.at(p.line, key, strconv.Quote(id), fmt.Sprintf("a name of its own; the request on line %d has it", before))
	}
	p.ids[id] = p.line
	if len(p.ids) > maxRequests {
		return p.at(p.line, key, strconv.Quote(id), fmt.Sprintf("at most %d requests", maxRequests))
	}
	return nil
}
