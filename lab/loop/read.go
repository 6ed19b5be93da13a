package loop

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
)

// Columns are the columns of a file, in order. pim_us is the stand-in's latency in a layer; ms and joules (of
// all GPUs) are of an iteration; alone_us is the time of one layer's transfers without other work: down,
// stand-in, up.
var Columns = []string{"model", "tp", "sub_batches", "batch", "chunk", "finished", "standin", "pim_us", "ms", "joules", "alone_us"}

// Stand-ins of the processing units.
const (
	None   = "none"   // no transfers: the GPU's part alone
	Device = "device" // a kernel of one thread that waits
	Host   = "host"   // flags in pinned memory that the GPU's front end awaits, answered by a thread of the host
	Kernel = "kernel" // flags in pinned memory that kernels set and await, answered by a thread of the host
)

var standIns = []string{None, Device, Host, Kernel}

// Case is the common values of a series' rows.
type Case struct {
	Model      string `json:"model"`
	GPUs       int    `json:"gpus"` // tensor parallelism
	SubBatches int    `json:"sub_batches"`
	Batch      int    `json:"batch"`    // decoding requests of a sub-batch
	Chunk      int    `json:"chunk"`    // prompt tokens in each sub-batch; 0: none
	Finished   int    `json:"finished"` // tokens of the chunk's prompt that were prefilled before
	StandIn    string `json:"standin"`
}

func (c *Case) String() string {
	s := fmt.Sprintf("%s, %d GPUs, %d sub-batches of %d", c.Model, c.GPUs, c.SubBatches, c.Batch)
	if c.Chunk > 0 {
		s += fmt.Sprintf(" + %d after %d", c.Chunk, c.Finished)
	}
	return s + ", " + c.StandIn
}

// Row is one measured iteration.
type Row struct {
	Case
	PIM    float64 // latency of the stand-in in microseconds
	MS     float64
	Joules float64
	Alone  float64 // microseconds
	Line   int
}

// Series is the rows of a case by the stand-in's latency, and the GPU's part of it.
type Series struct {
	Case
	Rows []Row
	GPU  Row    // the case with the stand-in None
	Why  string // why it is not judged; "" if it is
}

// Measured is the content of a file.
type Measured struct {
	File   string
	Series []Series // in the order of the file
}

// Read reads a file of Columns. Its errors are of type *input.Error, with file and line.
func Read(path string) (*Measured, error) {
	text, err := input.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(input.Name(path), text)
}

// Parse is Read for the text of a file.
func Parse(file string, text []byte) (*Measured, error) {
	m := &Measured{File: file}
	gpu, at := map[Case]Row{}, map[Case]int{}
	header := func(columns []string) error {
		if !slices.Equal(columns, Columns) {
			return &input.Error{File: file, Line: 1, Value: strings.Join(columns, ","), Expected: "the columns " + strings.Join(Columns, ",")}
		}
		return nil
	}
	err := csvfile.EachRow(file, bytes.NewReader(text), header, func(line int, record []string) error {
		row, err := parseRow(file, line, record)
		if err != nil {
			return err
		}
		c := row.Case
		if c.StandIn == None {
			if _, twice := gpu[c]; twice {
				return &input.Error{File: file, Line: line, Key: "standin", Value: None, Expected: "one such row for each case"}
			}
			gpu[c] = row
			return nil
		}
		i, there := at[c]
		if !there {
			i = len(m.Series)
			at[c], m.Series = i, append(m.Series, Series{Case: c})
		}
		s := &m.Series[i]
		if slices.ContainsFunc(s.Rows, func(r Row) bool { return r.PIM == row.PIM }) {
			return &input.Error{File: file, Line: line, Key: "pim_us", Value: record[7], Expected: "each latency once for each case"}
		}
		s.Rows = append(s.Rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range m.Series {
		s := &m.Series[i]
		c, there := s.Case, false
		c.StandIn = None
		if s.GPU, there = gpu[c]; !there {
			return nil, &input.Error{File: file, Line: s.Rows[0].Line, Key: "standin", Value: s.StandIn, Expected: "a row of the same case with none, the GPU's part"}
		}
		slices.SortFunc(s.Rows, func(a, b Row) int { return cmp.Compare(a.PIM, b.PIM) })
	}
	if len(m.Series) == 0 {
		return nil, &input.Error{File: file, Expected: "rows with a stand-in"}
	}
	return m, nil
}

func parseRow(file string, line int, record []string) (Row, error) {
	var bad error
	fail := func(i int, expected string) {
		bad = cmp.Or(bad, error(&input.Error{File: file, Line: line, Key: Columns[i], Value: record[i], Expected: expected}))
	}
	whole := func(i, least, most int) int {
		n, err := strconv.Atoi(record[i])
		if err != nil || n < least || n > most {
			fail(i, fmt.Sprintf("a whole number from %d to %d", least, most))
		}
		return n
	}
	number := func(i int, least, most float64) float64 {
		v, err := strconv.ParseFloat(record[i], 64)
		if err != nil || !(v >= least && v <= most) {
			fail(i, fmt.Sprintf("a number from %g to %g", least, most))
		}
		return v
	}
	r := Row{Line: line, Case: Case{
		Model: record[0], GPUs: whole(1, 1, 1024), SubBatches: whole(2, 1, 2), Batch: whole(3, 1, 1<<16),
		Chunk: whole(4, 0, 1<<20), Finished: whole(5, 0, 1<<24), StandIn: record[6],
	}}
	if bad == nil && !slices.Contains(standIns, r.StandIn) {
		fail(6, "one of "+strings.Join(standIns, ", "))
		bad.(*input.Error).Nearest = input.Nearest(r.StandIn, standIns)
	}
	r.PIM, r.MS, r.Joules, r.Alone = number(7, 0, 1e6), number(8, 1e-3, 1e6), number(9, 0, 1e9), number(10, 0, 1e7)
	if r.StandIn == None && r.PIM > 0 && bad == nil {
		fail(7, "0 without a stand-in")
	}
	return r, bad
}
