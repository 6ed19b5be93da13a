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

// Options say which part of a file is read. The zero value reads all of it.
type Options struct {
	// Requests is the number of requests that are read, the first in the file, and
	// nothing behind them. 0 reads all, at most Most.
	Requests int
	Most     int     // 0 is 1,000,000: a simulation of more takes tens of gigabytes
	SkipBad  bool    // malformed lines are left out and counted
	Columns  Columns // of a file of no known format
	// From and To bound the arrivals that are read, from the arrival of the file's first
	// request on; To itself is out. To = 0 reads all.
	From, To units.Duration
}

// RequestsFile is the name of the requests in a folder that l3sim run writes.
const RequestsFile = "requests.csv"

// Load reads the trace file at path, or that of a run's folder. What it begins with gives the format, and whether
// it is packed, not the file's name. Requests are sorted by arrival, and arrivals count
// from the first.
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

// Read is Load from a reader; name stands for the file in errors and names the trace.
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

// maxWhole is the largest number of requests of a file that is read to its end, where
// nothing else is asked for.
const maxWhole = 1_000_000

// row is one request as a file gives it.
type row struct {
	arrival       instant
	input, output int
	line          int
	hashes        []uint64
	session       string // "" for a request of no conversation
	waits         bool   // for the turn before it, if there is one, and think behind that
	think         units.Duration
	failed        bool  // it has no answer
	timed         bool  // the file says when it came
	turn          *Turn // of the session, where its place is known
}

// collector collects the requests of a file.
type collector struct {
	file    string
	options Options
	format  string

	chunks          [][]Request    // of chunkRequests each, but for the last
	found           int            // requests in them
	first           instant        // arrival of the file's first request
	begun           bool           // there was one
	least, most     units.Duration // arrivals
	last            units.Duration // arrival of the request that was read last
	unordered       int
	failed, skipped int
	firstBad        error

	sessions map[string]int // numbers of conversations

	table  table // by which the file is read
	timed  bool  // a request had a time of its own
	blocks blocks
	ends   map[string]instant // the last arrival of conversations whose turns wait
	roots  map[string]string  // of requests: the first of their conversations
	warmup int                // requests before a benchmark began to measure
	notes  []string
}

// use has a file read by a table; format is that of tables of no known one.
func (c *collector) use(t *table, format string) {
	c.table = *t
	if c.format = t.format; c.format == "" {
		c.format = format
	}
}

// chunkRequests is the number of requests for which room is made at once. A slice that
// grows leaves several times its size behind.
const chunkRequests = 1 << 14

func (c *collector) keep(r Request) {
	if c.found%chunkRequests == 0 {
		c.chunks = append(c.chunks, make([]Request, 0, chunkRequests))
	}
	last := &c.chunks[len(c.chunks)-1]
	*last = append(*last, r)
	c.found++
}

// enough says that nothing more needs to be read.
func (c *collector) enough() bool {
	return c.options.Requests > 0 && c.found >= c.options.Requests
}

// skip counts a malformed line, or returns what is wrong with it.
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

// add adds a row, or does what is to be done with a wrong one.
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
	// The difference of two durations may not fit a third.
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

// turn returns the place of a row in its conversation; its numbers come later.
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
		return nil, &input.Error{File: c.file, Expected: "at least one request"}
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
