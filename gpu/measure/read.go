package measure

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// layouts are the columns by which a file's kind is known. Further columns are
// ignored.
var layouts = []struct {
	kind    Kind
	columns string
}{
	{GEMM, "m,n,k,us"},
	{PageSparse, "op,batch,context,q_heads,kv_heads,head_dim,page,pages,us"},
	{Decode, "batch,context,q_heads,kv_heads,head_dim,us"},
	{Prefill, "batch,length,q_heads,kv_heads,head_dim,us"},
	{Prefill, "chunk,finished,q_heads,kv_heads,head_dim,us"},
	{AllReduce, "gpus,bytes,us"},
	{PCIe, "direction,bytes,us"},
	{Elementwise, "op,m,d,us"},
}

// maxSamples bounds the measurements of a file; a fit takes time for each.
const maxSamples = 1_000_000

// elementwiseOps are the kernels that an elementwise file may name.
var elementwiseOps = []string{"layernorm", "add", "gelu", "copy"}

// Read reads the measurements of a CSV file, or of all CSV files of a folder in
// the order of their names. Errors in the files are *input.Error.
func Read(path string) ([]Sample, error) {
	paths := []string{path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(path, "*.csv")); err != nil {
			return nil, &input.Error{File: path, Err: err}
		}
		if len(paths) == 0 {
			return nil, &input.Error{File: path, Expected: "a folder with .csv files"}
		}
		sort.Strings(paths)
	}
	var all []Sample
	for _, p := range paths {
		f, err := input.Open(p)
		if err != nil {
			return nil, err
		}
		samples, err := parse(input.Name(p), f)
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// parse reads one CSV text.
func parse(name string, text io.Reader) ([]Sample, error) {
	r := input.NewCSV(name, text)
	r.TrimLeadingSpace = true
	header, err := r.Read()
	if err == io.EOF {
		return nil, &input.Error{File: name, Expected: "a header line"}
	}
	if err != nil {
		return nil, err
	}
	columns := map[string]int{}
	for i, c := range header {
		columns[strings.TrimSpace(strings.TrimPrefix(c, "\ufeff"))] = i
	}
	kind, err := kindOf(name, columns)
	if err != nil {
		return nil, err
	}
	var samples []Sample
	for {
		fields, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		row := row{name: name, line: r.Line(), columns: columns, fields: fields}
		s := row.sample(kind)
		if row.err != nil {
			return nil, row.err
		}
		if len(samples) == maxSamples {
			return nil, &input.Error{File: name, Line: row.line, Expected: fmt.Sprintf("at most %d measurements", maxSamples)}
		}
		samples = append(samples, s)
	}
	if len(samples) == 0 {
		return nil, &input.Error{File: name, Expected: "at least one measurement after the header"}
	}
	return samples, nil
}

// kindOf returns the kind whose columns a file has.
func kindOf(name string, columns map[string]int) (Kind, error) {
	var expected []string
	for _, l := range layouts {
		missing := false
		for _, c := range strings.Split(l.columns, ",") {
			_, ok := columns[c]
			missing = missing || !ok
		}
		if !missing {
			return l.kind, nil
		}
		expected = append(expected, l.columns)
	}
	return "", &input.Error{File: name, Line: 1, Key: "columns", Expected: strings.Join(expected, " or ")}
}

// row is one line being read; err is its first error.
type row struct {
	name    string
	line    int
	columns map[string]int
	fields  []string
	err     error
}

func (r *row) fail(column, value, expected string) {
	if r.err == nil {
		r.err = &input.Error{File: r.name, Line: r.line, Key: column, Value: strconv.Quote(value), Expected: expected}
	}
}

func (r *row) has(column string) bool { _, ok := r.columns[column]; return ok }

func (r *row) text(column string) string { return strings.TrimSpace(r.fields[r.columns[column]]) }

// integer reads a column between low and high.
func (r *row) integer(column string, low, high int) int {
	n, err := strconv.Atoi(r.text(column))
	if err != nil || n < low || n > high {
		r.fail(column, r.text(column), "a whole number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n
}

// maxSize bounds every size in a file: products of three stay within a float64.
const maxSize = 1 << 40

// sample reads the row.
func (r *row) sample(kind Kind) Sample {
	s := Sample{kind: kind, File: r.name, Line: r.line}
	switch kind {
	case GEMM:
		s.m, s.n, s.k = r.integer("m", 1, maxSize), r.integer("n", 1, maxSize), r.integer("k", 1, maxSize)
	case Decode:
		s.batch, s.context = r.integer("batch", 1, 1<<20), r.integer("context", 1, maxSize)
		s.heads = r.heads()
	case Prefill:
		s.batch = 1
		if r.has("batch") {
			s.batch = r.integer("batch", 1, 1<<20)
		}
		if r.has("chunk") {
			s.chunk, s.finished = r.integer("chunk", 1, maxSize), r.integer("finished", 0, maxSize)
		} else {
			s.chunk = r.integer("length", 1, maxSize)
		}
		s.heads = r.heads()
	case PageSparse:
		r.pageSparse(&s)
	case AllReduce:
		s.gpus, s.bytes = r.integer("gpus", 2, 1<<16), units.Bytes(r.integer("bytes", 1, maxSize))
	case PCIe:
		s.bytes = units.Bytes(r.integer("bytes", 1, maxSize))
		if s.op = r.text("direction"); s.op != "h2d" && s.op != "d2h" {
			r.fail("direction", s.op, "h2d or d2h")
		}
	case Elementwise:
		s.m, s.n = r.integer("m", 1, maxSize), r.integer("d", 1, maxSize)
		s.op = r.text("op")
		if input.Nearest(s.op, elementwiseOps) != s.op || s.op == "" {
			r.fail("op", s.op, "one of "+strings.Join(elementwiseOps, ", "))
		}
	}
	us, err := strconv.ParseFloat(r.text("us"), 64)
	if err != nil || !(us >= 1e-3 && us <= 1e15) { // under a nanosecond nothing was measured, and errors overflow
		r.fail("us", r.text("us"), "microseconds, 0.001 to 1e15")
	}
	s.Seconds = us * 1e-6
	return s
}

// heads reads an attention shape.
func (r *row) heads() gpu.Heads {
	h := gpu.Heads{
		Query: r.integer("q_heads", 1, 1<<16), KV: r.integer("kv_heads", 1, 1<<16),
		Dim: r.integer("head_dim", 1, 1<<16), ElementBits: elementBits,
	}
	if r.err == nil && h.Query%h.KV != 0 {
		r.fail("kv_heads", r.text("kv_heads"), "a divisor of q_heads")
	}
	return h
}
