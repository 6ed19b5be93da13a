package traces

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// The lists of a result of 'vllm bench serve --save-result --save-detailed' that hold
// requests, https://github.com/vllm-project/vllm, vllm/benchmarks/serve.py. A request
// that failed has 0 output tokens.
const (
	vllmInput  = "input_lens"
	vllmOutput = "output_lens"
	vllmStart  = "start_times" // seconds of the client's clock; not in files of older versions
)

// vllmTable holds a request of these lists as a table does.
var vllmTable = table{format: "vllm", input: vllmInput, output: vllmOutput, arrival: vllmStart, clock: seconds, exact: true, fails: true}

// readVLLM adds the requests of a result of vLLM's benchmark. Other lists, such as those
// of the texts that were generated, are skipped piece by piece.
func (c *collector) readVLLM(r *bufio.Reader) error {
	c.use(&vllmTable, "")
	j := input.NewJSON(c.file, r)
	lists := map[string][]json.RawMessage{}
	line := 0                            // of the last list
	var sent json.RawMessage             // requests a second that the benchmark sent
	if _, err := j.Token(); err != nil { // the brace
		return j.Cut(err)
	}
	for j.More() {
		token, err := j.Token()
		if err != nil {
			return j.Cut(err)
		}
		name, _ := token.(string)
		switch name {
		case vllmInput, vllmOutput, vllmStart:
			if _, twice := lists[name]; twice {
				return &input.Error{File: c.file, Line: j.Line(), Key: name, Expected: "one list of this name"}
			}
			list := []json.RawMessage{}
			if err = j.Decode(&list); errors.As(err, new(*json.UnmarshalTypeError)) {
				return &input.Error{File: c.file, Line: j.Line(), Key: name, Expected: "a list of numbers"}
			}
			lists[name], line = list, j.Line()
		case "request_rate":
			err = j.Decode(&sent)
		default:
			err = j.Skip()
		}
		if err != nil {
			return j.Cut(err)
		}
	}
	if _, err := j.Token(); err != nil {
		return j.Cut(err)
	}
	if err := j.End("the object"); err != nil {
		return input.Edit(err, func(e *input.Error) {
			if e.Err == nil {
				e.Expected += "; a file of one run: sed -n 1p FILE has the first of several"
			}
		})
	}
	if rate, err := strconv.ParseFloat(strings.Trim(string(sent), `"`), 64); lists[vllmStart] == nil && err == nil && rate > 0 && !math.IsInf(rate, 0) {
		c.note("the file has no %s, so all requests come at once; the benchmark sent %[2]g a second: --rate %[2]g", vllmStart, rate)
	}
	return c.addLists(lists, line)
}

// addLists adds the requests of lists of equal length; line is that of errors.
func (c *collector) addLists(lists map[string][]json.RawMessage, line int) error {
	in, out, start := lists[vllmInput], lists[vllmOutput], lists[vllmStart]
	_, timed := lists[vllmStart]
	for _, name := range []string{vllmInput, vllmOutput, vllmStart} {
		list, ok := lists[name]
		if !ok && name != vllmStart {
			return &input.Error{File: c.file, Key: name, Expected: "a list of numbers, which --save-detailed writes"}
		}
		if ok && len(list) != len(in) {
			return &input.Error{File: c.file, Key: name, Value: fmt.Sprintf("%d numbers", len(list)), Expected: fmt.Sprintf("%d, as in %s", len(in), vllmInput)}
		}
	}
	for i := range in {
		if c.enough() {
			return nil
		}
		cells := cells{input: string(in[i]), output: string(out[i]), hasArrival: timed}
		if timed {
			cells.arrival = string(start[i])
		}
		named := vllmTable
		place := fmt.Sprintf("[%d]", i)
		named.input, named.output, named.arrival = vllmInput+place, vllmOutput+place, vllmStart+place
		if err := c.add(named.row(c.file, line, &cells)); err != nil {
			return err
		}
	}
	return nil
}
