package whole

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
)

// Row is one measurement as in its table. Texts are literal; missing numbers are 0.
type Row struct {
	Line        int
	Source      string
	Model       string
	GPU         string
	GPUs        int
	Precision   string
	Framework   string
	Version     string
	Parallelism string
	Speculation string
	Input       int // tokens of a prompt, -1 if missing
	Output      int // tokens of an answer
	Concurrency string
	TPOT        float64 // milliseconds
	Statistic   string
	OutputRate  float64 // output tokens per second and GPU
	TotalRate   float64
	Note        string
}

// Columns are those that a table must have, in any order. Others are ignored, except for Optional.
var Columns = []string{"model", "gpu", "gpus", "precision", "framework", "parallelism", "speculation", "input", "output", "concurrency", "tpot_ms", "output_tok_s_gpu"}

// Optional are columns that are read if present.
var Optional = []string{"source", "version", "ttft_ms", "statistic", "total_tok_s_gpu", "note"}

const (
	maxRows   = 100_000
	maxGPUs   = 4096
	maxTokens = 1 << 24
)

// record is a line of a table by its columns; err is the first error.
type record struct {
	file   string
	line   int
	at     map[string]int
	fields []string
	err    error
}

func (r *record) text(column string) string {
	if i, ok := r.at[column]; ok {
		return strings.TrimSpace(r.fields[i])
	}
	return ""
}

func (r *record) fail(column, expected string) {
	if r.err == nil {
		r.err = &input.Error{File: r.file, Line: r.line, Key: column, Value: strconv.Quote(r.text(column)), Expected: expected}
	}
}

// integer returns a whole number, or missing if the column is empty.
func (r *record) integer(column string, least, most, missing int) int {
	text := r.text(column)
	if text == "" {
		return missing
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		r.fail(column, fmt.Sprintf("a whole number from %d to %d, or nothing where it is not known", least, most))
	}
	return n
}

// number returns a positive number, or 0 if the column is empty.
func (r *record) number(column, unit string) float64 {
	text := r.text(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1e9 {
		r.fail(column, unit+" above 0, at most 1e9, or nothing where it is not known")
	}
	return v
}

// Read reads a table.
func Read(path string) ([]Row, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(input.Name(path), text)
}

func parse(file string, text []byte) ([]Row, error) {
	r, rows := &record{file: file, at: map[string]int{}}, []Row(nil)
	header := func(columns []string) error {
		for _, c := range columns {
			if n := len(columns) - len(slices.DeleteFunc(slices.Clone(columns), func(o string) bool { return o == c })); n > 1 && c != "" {
				return &input.Error{File: file, Line: 1, Key: c, Expected: "each column once"}
			}
		}
		for _, c := range append(slices.Clip(Columns), Optional...) {
			i := slices.Index(columns, c)
			if i >= 0 {
				r.at[c] = i
			} else if slices.Contains(Columns, c) {
				return &input.Error{File: file, Line: 1, Key: "columns", Value: strings.Join(columns, ","), Expected: fmt.Sprintf("%s; %q is missing", strings.Join(Columns, ","), c), Nearest: input.Nearest(c, columns)}
			}
		}
		return nil
	}
	err := csvfile.EachRow(file, bytes.NewReader(text), header, func(line int, fields []string) error {
		r.line, r.fields = line, fields
		rows = append(rows, r.row())
		if len(rows) > maxRows {
			return &input.Error{File: file, Line: line, Expected: fmt.Sprintf("at most %d rows", maxRows)}
		}
		return r.err
	})
	if err == nil && len(rows) == 0 {
		err = &input.Error{File: file, Expected: "at least one row after the header"}
	}
	return rows, err
}

func (r *record) row() Row {
	r.number("ttft_ms", "milliseconds") // only to check its form
	return Row{
		Line: r.line, Source: r.text("source"), Model: r.text("model"), GPU: r.text("gpu"), GPUs: r.integer("gpus", 1, maxGPUs, 0), Precision: r.text("precision"),
		Framework: r.text("framework"), Version: r.text("version"), Parallelism: r.text("parallelism"), Speculation: r.text("speculation"),
		Input: r.integer("input", 0, maxTokens, -1), Output: r.integer("output", 0, maxTokens, 0), Concurrency: r.text("concurrency"),
		TPOT: r.number("tpot_ms", "milliseconds"), Statistic: r.text("statistic"),
		OutputRate: r.number("output_tok_s_gpu", "tokens a second and GPU"), TotalRate: r.number("total_tok_s_gpu", "tokens a second and GPU"), Note: r.text("note"),
	}
}
