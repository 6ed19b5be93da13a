package service

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
)

// Series identifies rows that are reported together: a server and its model, as the files name
// them.
type Series struct {
	GPU       string `json:"gpu"`
	GPUs      int    `json:"gpus"` // that share each layer (tensor parallelism)
	Framework string `json:"framework"`
	Model     string `json:"model"`
}

// Row is one measurement. In a static batch all requests, with equal prompts, are there at the
// start, and the server runs until the last has all its tokens. In a closed loop each of Batch
// users sends a request, and the next when it has been answered.
type Row struct {
	Series
	Input, Output int // tokens of each request
	Batch         int // requests, or users
	// Latency is the time of the whole batch in seconds; in a closed loop the mean time from a
	// request's first token to its last.
	Latency float64
	TTFT    float64 // mean seconds to the first token in a closed loop; else 0
	File    string
	Line    int
}

// The columns of a file; a Table supplies missing ones.
const (
	columnGPU       = "gpu"
	columnGPUs      = "gpus"
	columnFramework = "framework"
	columnModel     = "model"
	columnInput     = "in_tokens"
	columnOutput    = "out_tokens"
	columnBatch     = "batch"
	columnLatency   = "latency_s"
	columnTTFT      = "ttft_ms" // of a closed loop, in place of the latency
	columnTPOT      = "tpot_ms"
)

var (
	columns     = append(request[:len(request):len(request)], columnLatency)
	loopColumns = append(request[:len(request):len(request)], columnTTFT, columnTPOT)
	request     = []string{columnGPU, columnGPUs, columnFramework, columnModel, columnInput, columnOutput, columnBatch}
)

// Bounds of a row's values.
const (
	maxRows    = 100_000
	maxGPUs    = 4096
	maxTokens  = 1 << 20
	maxBatch   = 1 << 16
	maxPrompts = 1 << 20 // tokens of all prompts, at most in one iteration
	minLatency = 1e-6    // seconds
	maxLatency = 1e9
)

// parse reads the CSV text of a file; its table supplies what the text leaves out.
func parse(file string, text io.Reader, about *FileTable) ([]Row, error) {
	var fields *fields
	var rows []Row
	err := csvfile.EachRow(file, text, func(header []string) (err error) {
		fields, err = newFields(file, header, about)
		return err
	}, func(line int, record []string) error {
		fields.record, fields.line = record, line
		row := fields.row()
		if rows = append(rows, row); fields.err == nil && len(rows) > maxRows {
			return &input.Error{File: file, Line: line, Expected: fmt.Sprintf("at most %d rows", maxRows)}
		}
		return fields.err
	})
	if err == nil && len(rows) == 0 {
		err = &input.Error{File: file, Expected: "at least one row after the header"}
	}
	return rows, err
}

// fields are the values of a record by column; err is the first error.
type fields struct {
	file   string
	at     map[string]int    // column in the file
	fixed  map[string]string // values supplied by the table
	names  map[string]string // of the columns in the file
	loop   bool              // the rows are of closed loops
	record []string
	line   int
	err    error
}

func newFields(file string, header []string, about *FileTable) (*fields, error) {
	f := &fields{file: file, at: map[string]int{}, fixed: about.fixed(), names: map[string]string{}}
	for _, column := range append(loopColumns, columnLatency) {
		if f.names[column] = column; about.Columns[column] != "" {
			f.names[column] = about.Columns[column]
		}
	}
	has := func(column string) bool { return slices.Contains(header, f.names[column]) }
	needed := columns
	if f.loop = !has(columnLatency) && (has(columnTTFT) || has(columnTPOT)); f.loop {
		needed = loopColumns
	}
	for _, column := range needed {
		if _, given := f.fixed[column]; given {
			continue
		}
		i := slices.Index(header, f.names[column])
		if i < 0 {
			return nil, &input.Error{File: file, Line: 1, Key: "columns", Value: strings.Join(header, ","),
				Expected: fmt.Sprintf("%s; %q is missing, and no %s gives it", strings.Join(needed, ","), f.names[column], TableName)}
		}
		f.at[column] = i
	}
	return f, nil
}

// fail keeps a row's first error.
func (f *fields) fail(column, value, expected string) {
	if f.err == nil {
		f.err = &input.Error{File: f.file, Line: f.line, Key: f.names[column], Value: strconv.Quote(value), Expected: expected}
	}
}

// text returns a column's text, or the table's value for it.
func (f *fields) text(column string) string {
	value, given := f.fixed[column]
	if !given {
		value = strings.TrimSpace(f.record[f.at[column]])
	}
	if value == "" {
		f.fail(column, value, "a name")
	}
	return value
}

func (f *fields) integer(column string, most int) int {
	text := f.text(column)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		f.fail(column, text, fmt.Sprintf("a whole number from 1 to %d", most))
	}
	return n
}

func (f *fields) row() Row {
	row := Row{
		Series: Series{GPU: f.text(columnGPU), GPUs: f.integer(columnGPUs, maxGPUs), Framework: f.text(columnFramework), Model: f.text(columnModel)},
		Input:  f.integer(columnInput, maxTokens), Output: f.integer(columnOutput, maxTokens), Batch: f.integer(columnBatch, maxBatch),
		File: f.file, Line: f.line,
	}
	if f.err == nil && row.Batch > maxPrompts/row.Input {
		f.fail(columnBatch, f.text(columnBatch), fmt.Sprintf("at most %d prompt tokens in all", maxPrompts))
	}
	switch {
	case !f.loop:
		row.Latency = f.seconds(columnLatency, 1, "seconds")
	case f.err == nil && row.Output < 2:
		f.fail(columnOutput, f.text(columnOutput), "at least 2, so that there is a time between tokens")
	default:
		row.TTFT = f.seconds(columnTTFT, 1e-3, "milliseconds")
		row.Latency = f.seconds(columnTPOT, 1e-3, "milliseconds") * float64(row.Output-1)
	}
	return row
}

// seconds returns a time in seconds; unit is the unit of the file in seconds.
func (f *fields) seconds(column string, unit float64, name string) float64 {
	text := f.text(column)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v*unit < minLatency || v*unit > maxLatency {
		f.fail(column, text, fmt.Sprintf("%s, %v to %v", name, minLatency/unit, maxLatency/unit))
	}
	return v * unit
}

// users returns the users of a closed loop, 0 for a static batch.
func (r *Row) users() int {
	if r.TTFT > 0 {
		return r.Batch
	}
	return 0
}
