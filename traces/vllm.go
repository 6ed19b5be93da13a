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

// Lists of requests in a result of 'vllm bench serve --save-result --save-detailed', https://github.com/vllm-project/vllm,
// vllm/benchmarks/serve.py, or of sglang.bench_serving --output-details, https://github.com/sgl-project/sglang,
// python/sglang/benchmark/serving.py. A failed request has 0 output tokens.
const (
	vllmInput  = "input_lens"
	vllmOutput = "output_lens"
	vllmStart  = "start_times" // seconds of the client's clock; missing in older files and in SGLang's
)

// Sums in a result, present even without lists.
const (
	vllmCompleted   = "completed"
	vllmInputTotal  = "total_input_tokens"
	vllmOutputTotal = "total_output_tokens"
)

// vllmTable is the table of these lists.
var vllmTable = table{format: "vllm", input: vllmInput, output: vllmOutput, arrival: vllmStart, clock: seconds, exact: true, fails: true}

// readVLLM adds the requests of a result of vLLM's benchmark. It skips other lists, such as generated texts, piece by piece.
func (c *collector) readVLLM(r *bufio.Reader) error {
	c.use(&vllmTable, "")
	j := input.NewJSON(c.file, r)
	lists := map[string][]json.RawMessage{}
	line := 0                // line of the last list
	var sent json.RawMessage // request rate of the benchmark, per second
	sums := map[string]int{}
	if _, err := j.Token(); err != nil { // the opening brace
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
		case vllmCompleted, vllmInputTotal, vllmOutputTotal:
			var sum int
			if err = j.Decode(&sum); errors.As(err, new(*json.UnmarshalTypeError)) {
				return &input.Error{File: c.file, Line: j.Line(), Key: name, Expected: "a whole number"}
			}
			sums[name] = sum
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
	if n, ok := sums[vllmCompleted]; ok && lists[vllmInput] == nil && lists[vllmOutput] == nil {
		if n < 1 {
			return &input.Error{File: c.file, Line: j.Line(), Key: vllmCompleted, Value: strconv.Itoa(n), Expected: "at least one request that succeeded"}
		}
		return c.addMeans(sums, j.Line())
	}
	return c.addLists(lists, line)
}

// addMeans adds the requests of a result without lists: the completed number, with equal lengths that add up to the sums.
func (c *collector) addMeans(sums map[string]int, line int) error {
	n := sums[vllmCompleted]
	c.table.input, c.table.output = vllmInputTotal, vllmOutputTotal
	for _, name := range []string{vllmInputTotal, vllmOutputTotal} {
		if n > maxWhole || sums[name] < n || sums[name] > n*maxTokens {
			return &input.Error{File: c.file, Line: line, Key: name, Value: strconv.Itoa(sums[name]),
				Expected: fmt.Sprintf("1 to %d tokens for each of %d requests (%s), or the lists that --save-detailed or --output-details writes", maxTokens, n, vllmCompleted)}
		}
	}
	c.note("the result lists no requests, so %d of equal lengths stand for them; --save-detailed (vLLM) or --output-details (SGLang) writes each", n)
	for i := range n {
		if c.enough() {
			return nil
		}
		share := func(name string) int { // the first requests have one more token if the sum is not a multiple
			if i < sums[name]%n {
				return sums[name]/n + 1
			}
			return sums[name] / n
		}
		if err := c.add(row{line: line, input: share(vllmInputTotal), output: share(vllmOutputTotal)}, nil); err != nil {
			return err
		}
	}
	return nil
}

// addLists adds the requests of lists of equal length; errors report line.
func (c *collector) addLists(lists map[string][]json.RawMessage, line int) error {
	in, out, start := lists[vllmInput], lists[vllmOutput], lists[vllmStart]
	_, timed := lists[vllmStart]
	for _, name := range []string{vllmInput, vllmOutput, vllmStart} {
		list, ok := lists[name]
		if !ok && name != vllmStart {
			return &input.Error{File: c.file, Key: name, Expected: "a list of numbers, which --save-detailed writes (vLLM), or --output-details (SGLang)"}
		}
		if ok && len(list) != len(in) {
			return &input.Error{File: c.file, Line: line, Key: name, Value: fmt.Sprintf("%d numbers", len(list)), Expected: fmt.Sprintf("%d, as in %s", len(in), vllmInput)}
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
