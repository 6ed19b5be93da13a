package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// mooncakeFields are the fields that a line of a Mooncake trace must have.
const mooncakeFields = "timestamp (ms), input_length and output_length"

// mooncakeLine is a line of a Mooncake trace,
// https://github.com/kvcache-ai/Mooncake. Its hash_ids, which say what
// prefixes requests share, are not read.
type mooncakeLine struct {
	Timestamp    *float64 `json:"timestamp"` // ms from the start of the trace
	InputLength  *int64   `json:"input_length"`
	OutputLength *int64   `json:"output_length"`
}

// readMooncake adds the rows of JSON lines until it has enough. Empty lines are
// skipped.
func readMooncake(file string, r *bufio.Reader, to *rows) error {
	for line := 1; !to.enough(); line++ {
		text, err := input.ReadLine(r)
		if err != nil && err != io.EOF {
			return input.Edit(input.FileError(file, err), func(e *input.Error) { e.Line = line })
		}
		if text := bytes.TrimSpace(text); len(text) > 0 {
			r, err := mooncakeRow(file, line, text)
			if err != nil {
				return err
			}
			if err := to.add(r); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
	return nil
}

func mooncakeRow(file string, line int, text []byte) (row, error) {
	var m mooncakeLine
	if err := json.Unmarshal(text, &m); err != nil {
		return row{}, &input.Error{File: file, Line: line, Err: err, Expected: "a JSON object with " + mooncakeFields}
	}
	if m.Timestamp == nil || m.InputLength == nil || m.OutputLength == nil {
		return row{}, &input.Error{File: file, Line: line, Expected: mooncakeFields}
	}
	r := row{line: line}
	var err error
	if r.input, err = tokens(file, line, "input_length", *m.InputLength, strconv.FormatInt(*m.InputLength, 10)); err != nil {
		return row{}, err
	}
	if r.output, err = tokens(file, line, "output_length", *m.OutputLength, strconv.FormatInt(*m.OutputLength, 10)); err != nil {
		return row{}, err
	}
	if ms := *m.Timestamp; !(ms >= 0 && ms <= maxSeconds*1e3) {
		return row{}, &input.Error{
			File: file, Line: line, Key: "timestamp", Value: strconv.FormatFloat(ms, 'g', -1, 64),
			Expected: "milliseconds, not negative, at most 106 days",
		}
	}
	r.arrival = fromPicoseconds(units.FromSeconds(*m.Timestamp / 1e3))
	return r, nil
}
