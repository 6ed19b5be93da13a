package hostkv

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/units"
)

// Constants of the measuring programs.
const (
	gib           = units.Bytes(1 << 30)
	localRequests = 32    // of a fetch with locality "local", each with rows of its own
	localRows     = 32768 // of each of these requests
	iterationRow  = units.Bytes(1152)
)

// Fetch is one measured fetch.
type Fetch struct {
	pcie.Rows
	US   float64
	Line int
	Pool string // memory of its rows, as the file names it
}

// Beside is a fetch and a product, each alone and while the other runs throughout.
type Beside struct {
	Fetch
	Product                                  int // rows of the product
	FetchBeside, ProductAlone, ProductBeside float64
}

// Row is one measured iteration.
type Row struct {
	Mode    string  `json:"mode"` // None, Inline, TwoNone, Two8 or Two132
	Batch   int     `json:"batch"`
	Context int     `json:"context"`
	Misses  int     `json:"misses"` // rows per request and layer
	Layers  int     `json:"layers"`
	MS      float64 `json:"ms"`
	Spread  float64 `json:"spread"`
	Line    int     `json:"line"`
}

// Modes of an iteration: the GPU's part alone; fetches in kernel order; and two sub-batches, the fetch of one beside the kernels of the
// other, with 8 blocks of 1,024 threads or 132 of 512.
const (
	None, Inline          = "none", "inline"
	TwoNone, Two8, Two132 = "two_none", "two8", "two132"
)

var modes = []string{None, Inline, Two8, Two132, TwoNone}

var (
	fetchColumns  = []string{"pool_gib", "locality", "row_bytes", "rows", "blocks", "threads", "us"}
	besideColumns = []string{"row_bytes", "rows", "blocks", "threads", "product", "fetch_alone_us", "fetch_beside_us", "product_alone_us", "product_beside_us"}
	// Columns are those of a file of iterations, in order.
	Columns = []string{"mode", "batch", "context", "misses", "layers", "ms", "spread"}
)

// record is a line of a file by its columns.
type record struct {
	file    string
	line    int
	columns []string
	fields  []string
	err     error
}

func (r *record) fail(column, value, expected string) {
	if r.err == nil {
		r.err = &input.Error{File: r.file, Line: r.line, Key: column, Value: value, Expected: expected}
	}
}

func (r *record) text(column string) string { return r.fields[slices.Index(r.columns, column)] }

func (r *record) number(column string, least float64) float64 {
	s := r.text(column)
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= least && x < 1e12) {
		r.fail(column, s, "a number of at least "+strconv.FormatFloat(least, 'g', -1, 64))
	}
	return x
}

func (r *record) whole(column string, least int) int {
	s := r.text(column)
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > 1<<30 {
		r.fail(column, s, "a whole number of at least "+strconv.Itoa(least))
	}
	return n
}

func (r *record) rows() pcie.Rows {
	return pcie.Rows{Count: int64(r.whole("rows", 1)), Bytes: units.Bytes(r.whole("row_bytes", 1)), Grid: pcie.Grid{Blocks: r.whole("blocks", 1), Threads: r.whole("threads", 32)}}
}

// local sets the places of the rows of a fetch with locality "local".
func local(x pcie.Rows) pcie.Rows {
	x.Region = localRequests * localRows * x.Bytes
	return x
}

// each reads a file with these columns, in any order.
func each(file string, columns []string, row func(r *record)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return input.FileError(file, err)
	}
	r := &record{file: file}
	return csvfile.EachRow(file, bytes.NewReader(text), func(header []string) error {
		for _, c := range columns {
			if !slices.Contains(header, c) {
				return &input.Error{File: file, Line: 1, Key: "columns", Value: strings.Join(header, ","), Expected: "the columns " + strings.Join(columns, ",") + "; " + c + " is missing"}
			}
		}
		r.columns = header
		return nil
	}, func(line int, fields []string) error {
		r.line, r.fields = line, fields
		row(r)
		return r.err
	})
}

// ReadFetches reads a file of fetches without other work.
func ReadFetches(file string) (all []Fetch, err error) {
	err = each(file, fetchColumns, func(r *record) {
		f := Fetch{Rows: r.rows(), US: r.number("us", 1e-9), Line: r.line}
		pool := units.Bytes(r.whole("pool_gib", 1)) * gib
		switch where := r.text("locality"); where {
		case "uniform":
			f.Region = pool
		case "local":
			f.Rows = local(f.Rows)
		default:
			r.fail("locality", where, "uniform or local")
		}
		f.Pool = r.text("pool_gib") + " GiB, " + r.text("locality")
		all = append(all, f)
	})
	return all, err
}

// ReadBeside reads a file of fetches that run beside products.
func ReadBeside(file string) (all []Beside, err error) {
	err = each(file, besideColumns, func(r *record) {
		b := Beside{Fetch: Fetch{Rows: local(r.rows()), US: r.number("fetch_alone_us", 1e-9), Line: r.line}, Product: r.whole("product", 1)}
		b.FetchBeside, b.ProductAlone, b.ProductBeside = r.number("fetch_beside_us", 1e-9), r.number("product_alone_us", 1e-9), r.number("product_beside_us", 1e-9)
		all = append(all, b)
	})
	return all, err
}

// Read reads a file of iterations.
func Read(file string) (all []Row, err error) {
	err = each(file, Columns, func(r *record) {
		x := Row{Mode: r.text("mode"), Batch: r.whole("batch", 1), Context: r.whole("context", 1), Misses: r.whole("misses", 0), Layers: r.whole("layers", 1), MS: r.number("ms", 1e-9), Spread: r.number("spread", 0), Line: r.line}
		if !slices.Contains(modes, x.Mode) {
			r.fail("mode", x.Mode, "one of "+strings.Join(modes, ", "))
		}
		if x.Misses > x.Context {
			r.fail("misses", strconv.Itoa(x.Misses), "at most the "+strconv.Itoa(x.Context)+" tokens of context")
		}
		if two := strings.HasPrefix(x.Mode, "two"); two && x.Batch%2 != 0 {
			r.fail("batch", strconv.Itoa(x.Batch), "an even number: two sub-batches are as large")
		}
		all = append(all, x)
	})
	if err == nil && len(all) == 0 {
		err = &input.Error{File: file, Expected: "at least one row below the header"}
	}
	return all, err
}

// rowsOf returns the fetch of a sub-batch in a layer of a measured iteration.
func (x *Row) rowsOf(requests int, grid pcie.Grid) pcie.Rows {
	region := units.Bytes(x.Batch) * units.Bytes(x.Context) * iterationRow
	return pcie.Rows{
		Count: int64(requests) * int64(x.Misses), Bytes: iterationRow, Region: region * units.Bytes(requests) / units.Bytes(x.Batch),
		Cold: true, Grid: grid,
	}
}

// manyBlocks is the grid of fetches in kernel order.
var manyBlocks = pcie.Grid{Blocks: 132, Threads: 512}
