package traces

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"

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
var vllmTable = table{format: "vllm", input: vllmInput, output: vllmOutput, arrival: vllmStart, clock: seconds, fails: true}

// number is an element of a list and its line.
type number struct {
	text string
	line int
}

// readVLLM adds the requests of a result of vLLM's benchmark. Other lists, such as those
// of the texts that were generated, are skipped piece by piece.
func (c *collector) readVLLM(r *bufio.Reader) error {
	c.format = vllmTable.format
	j := input.NewJSON(c.file, r)
	lists := map[string][]number{}
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
			lists[name], err = c.numbers(j, name)
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
		return err
	}
	return c.addLists(lists)
}

// numbers reads a list of numbers.
func (c *collector) numbers(j *input.JSON, name string) ([]number, error) {
	start, err := j.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('[') {
		return nil, &input.Error{File: c.file, Line: j.Line(), Key: name, Expected: "a list of numbers"}
	}
	list := []number{}
	for j.More() {
		token, err := j.Token()
		if err != nil {
			return nil, err
		}
		if len(list) == maxWhole {
			return nil, &input.Error{File: c.file, Line: j.Line(), Key: name, Expected: fmt.Sprintf("at most %d numbers", maxWhole)}
		}
		n := number{line: j.Line()}
		switch token := token.(type) {
		case json.Number:
			n.text = token.String()
		case json.Delim:
			return nil, &input.Error{File: c.file, Line: j.Line(), Key: fmt.Sprintf("%s[%d]", name, len(list)), Expected: "a number"}
		case string:
			n.text = strconv.Quote(token)
		default: // null and truth values
			n.text = fmt.Sprint(token)
		}
		list = append(list, n)
	}
	_, err = j.Token()
	return list, err
}

// addLists adds the requests of lists of equal length.
func (c *collector) addLists(lists map[string][]number) error {
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
		cells := cells{input: in[i].text, output: out[i].text, hasArrival: timed}
		if timed {
			cells.arrival = start[i].text
		}
		named := vllmTable
		place := fmt.Sprintf("[%d]", i)
		named.input, named.output, named.arrival = vllmInput+place, vllmOutput+place, vllmStart+place
		if err := c.add(named.row(c.file, in[i].line, &cells)); err != nil {
			return err
		}
	}
	return nil
}
