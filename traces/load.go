package traces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Options select the part of a file to read. The zero value reads all of it.
type Options struct {
	// Requests is the number of requests to read, the first in the file. 0 reads all, at most Most.
	Requests int
	Most     int     // 0 is 1,000,000, since a larger simulation takes tens of gigabytes
	SkipBad  bool    // leave out malformed lines and count them
	Columns  Columns // columns of a file of unknown format
	// From and To bound the arrivals to read, counted from the file's first request; To is exclusive. To = 0 reads all.
	From, To units.Duration
}

// RequestsFile is the name of the requests file in a run's result folder.
const RequestsFile = "requests.csv"

// Load reads the trace file at path, or the one in a run's result folder. It recognises format and compression from the file's first bytes,
// not its name. Requests are sorted by arrival, and arrivals count from the first.
//
// An error in the file is an *input.Error that names file, line and column.
func (o Options) Load(path string) (*Trace, error) {
	if inside := filepath.Join(path, RequestsFile); exists(inside) {
		path = inside
	}
	f, err := input.Open(path)
	if err != nil {
		return nil, openError(path, err)
	}
	defer f.Close()
	return o.Read(input.Name(path), f)
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// openError returns an error for a path that cannot be opened. A path that does not exist
// may be a misspelt name of a built-in trace.
func openError(path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &input.Error{
		Key: "run.trace", Value: strconv.Quote(path), Err: errors.Unwrap(err),
		Expected: "a trace file or one of " + strings.Join(BuiltinNames(), ", "),
		Nearest:  input.Nearest(path, BuiltinNames()),
	}
}

// Read is Load from a reader; name identifies the file in errors and names the trace.
func (o Options) Read(name string, r io.Reader) (*Trace, error) {
	if o.Most == 0 {
		o.Most = maxWhole
	}
	if o.Requests < 0 || o.Requests > MaxRequests {
		return nil, badRequests(o.Requests)
	}
	text, err := unzip(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return nil, &input.Error{File: name, Err: err}
	}
	defer text.close()
	c := &collector{file: name, options: o, sessions: map[string]int{}, ends: map[string]instant{}, roots: map[string]string{}}
	c.blocks.given = o.Columns.Block
	if err := c.read(text.Reader, r); err != nil {
		return nil, err
	}
	return c.trace()
}

// maxWhole is the default limit on the requests of a file that is read to its end.
const maxWhole = 1_000_000

// row is one request as the file gives it.
type row struct {
	arrival       instant
	input, output int
	line          int
	hashes        []uint64
	session       string // "" for a request of no conversation
	waits         bool   // waits for the previous turn, if any, and for think after it
	think         units.Duration
	failed        bool  // the request has no answer
	timed         bool  // the file gives its arrival
	turn          *Turn // its turn in the session, if known
}

// collector collects the requests of a file.
type collector struct {
	file    string
	options Options
	format  string

	chunks          [][]Request    // of chunkRequests each, except the last
	found           int            // requests in them
	first           instant        // arrival of the file's first request
	begun           bool           // first is set
	least, most     units.Duration // earliest and latest arrival
	last            units.Duration // arrival of the request read last
	unordered       int
	failed, skipped int
	firstBad        error

	sessions map[string]int // conversation numbers by name

	table  table // the table by which the file is read
	timed  bool  // a request had a time of its own
	blocks blocks
	ends   map[string]instant // last arrival of each conversation whose turns wait
	roots  map[string]string  // the first request of each request's conversation
	warmup int                // number of requests before the benchmark began to measure
	notes  []string
}

// use sets the table by which the file is read; format names it if the table is of no known format.
func (c *collector) use(t *table, format string) {
	c.table = *t
	if c.format = t.format; c.format == "" {
		c.format = format
	}
}

// chunkRequests is the number of requests allocated at once. A growing slice would leave several times its size as garbage.
const chunkRequests = 1 << 14

func (c *collector) keep(r Request) {
	if c.found%chunkRequests == 0 {
		c.chunks = append(c.chunks, make([]Request, 0, chunkRequests))
	}
	last := &c.chunks[len(c.chunks)-1]
	*last = append(*last, r)
	c.found++
}

// enough reports whether no more needs to be read.
func (c *collector) enough() bool {
	return c.options.Requests > 0 && c.found >= c.options.Requests
}

// skip counts a malformed line, or returns its error if lines are not skipped.
func (c *collector) skip(err error) error {
	if !c.options.SkipBad {
		return input.Edit(err, func(e *input.Error) {
			e.Details = append(e.Details, "l3sim trace convert FILE --skip-bad --to jsonl --out OTHER leaves malformed lines out")
		})
	}
	if c.skipped++; c.skipped == 1 {
		c.firstBad = err
	}
	return nil
}

// add adds a row, or handles the error of a wrong one.
func (c *collector) add(r row, err error) error {
	if err != nil {
		return c.skip(err)
	}
	if !c.begun {
		c.begun, c.first = true, r.arrival
	}
	at, ok := r.arrival.since(c.first)
	if o := &c.options; o.To > 0 && (!ok || at < o.From || at >= o.To) {
		return nil
	}
	if r.failed {
		c.failed++
		return nil
	}
	if c.found == 0 {
		c.least, c.most, c.last = at, at, at
	}
	// Computed in seconds, since the difference of two durations may overflow.
	if span := max(c.most, at).Seconds() - min(c.least, at).Seconds(); !ok || span >= float64(maxSeconds+1) {
		return c.skip(&input.Error{File: c.file, Line: r.line, Expected: "an arrival within 106 days of all before it"})
	}
	if c.options.Requests == 0 && c.found == c.options.Most {
		instead := "run.requests = N (--requests N) reads the first N alone"
		if c.options.Most > maxWhole {
			instead = "--window FROM:TO reads a part"
		}
		return &input.Error{File: c.file, Line: r.line, Expected: fmt.Sprintf("at most %d requests; %s", c.options.Most, instead)}
	}
	if at < c.last {
		c.unordered++
	}
	c.least, c.most, c.last = min(c.least, at), max(c.most, at), at
	c.timed = c.timed || r.timed
	c.keep(Request{Arrival: at, Input: r.input, Output: r.output, Hashes: r.hashes, Turn: c.turn(&r)})
	return nil
}

// turn returns the turn of a row in its conversation; turns are numbered later.
func (c *collector) turn(r *row) *Turn {
	if r.session == "" {
		return nil
	}
	n, ok := c.sessions[r.session]
	if !ok {
		n = len(c.sessions)
		c.sessions[r.session] = n
	}
	if r.turn == nil {
		r.turn = &Turn{Waits: r.waits, Think: r.think}
	}
	r.turn.Session = n
	return r.turn
}

func (c *collector) trace() (*Trace, error) {
	switch found := c.found; {
	case found == 0 && c.options.To > 0 && c.begun:
		return nil, &input.Error{File: c.file, Expected: fmt.Sprintf("at least one request from %v to %v", c.options.From, c.options.To)}
	case found == 0 && c.skipped > 0:
		return nil, &input.Error{File: c.file, Err: c.firstBad, Expected: "at least one request that is well formed"}
	case found == 0:
		expected := "at least one request"
		if c.failed > 0 {
			expected += fmt.Sprintf(" that succeeded; %d failed", c.failed)
		}
		return nil, &input.Error{File: c.file, Expected: expected, Details: c.notes}
	case found < c.options.Requests:
		return nil, &input.Error{
			Key: "run.requests", Value: fmt.Sprint(c.options.Requests),
			Expected: fmt.Sprintf("1 to %d, the number of requests in %s", found, c.file),
		}
	}
	if c.blocks.lines > 0 && c.blocks.size() == 0 {
		return nil, c.blocks.unknown()
	}
	if c.warmup > 0 {
		c.note("%s left out, of the warm-up", input.Plural(c.warmup, "request is", "requests are"))
	}
	t := &Trace{Name: c.file, Requests: slices.Concat(c.chunks...), Format: c.format,
		Failed: c.failed, Skipped: c.skipped, FirstBad: c.firstBad, Unordered: c.unordered, Reading: c.reading(), Notes: c.notes}
	if c.blocks.lines > 0 && c.blocks.size() != BlockTokens {
		t.HashTokens = c.blocks.size()
	}
	for i := range t.Requests {
		t.Requests[i].Arrival -= c.least
	}
	c.chunks = nil
	t.normalize()
	return t, nil
}
