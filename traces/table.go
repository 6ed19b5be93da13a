package traces

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// table says which columns of a CSV file, fields of JSON lines or columns of a Parquet
// file hold a request. A file has the columns if it names that of the input or of the
// output; all others are ignored.
type table struct {
	format        string
	input, output string
	arrival       string // of arrivals
	required      bool   // the arrivals must be there, else 0 stands for them
	clock                // of arrivals
	session       string // names the conversation, "" where there is none
	fails         bool   // a request of 0 tokens to generate has failed
	alternative   bool   // only files with these arrivals; a later table takes others of these names
}

// clock is how a time is written.
type clock struct {
	parse    func(string) (instant, bool)
	expected string // what parse takes
}

var (
	seconds      = clock{func(s string) (instant, bool) { return parseDecimal(s, 0) }, "seconds, not negative, such as 0.251"}
	milliseconds = clock{func(s string) (instant, bool) { return parseDecimal(s, 3) }, "milliseconds, not negative"}
	microseconds = clock{func(s string) (instant, bool) { return parseDecimal(s, 6) }, "microseconds, not negative"}
	nanoseconds  = clock{func(s string) (instant, bool) { return parseDecimal(s, 9) }, "nanoseconds, not negative"}
	timestamps   = clock{parseTimestamp, "a time such as 2023-11-16 18:17:03.9799600"}
)

// vidur are the columns of Vidur, https://github.com/microsoft/vidur, which are also
// those of files that others give columns by name.
var vidur = table{format: "vidur", input: "num_prefill_tokens", output: "num_decode_tokens", arrival: "arrived_at", clock: seconds}

// own are l3sim's own requests.csv, and the plainest names for files of others: the name of
// the arrivals says their unit.
var own = func() []table {
	var all []table
	for _, unit := range unitNames {
		all = append(all, table{format: "l3sim", input: "input_tokens", output: "output_tokens", arrival: "arrival_" + unit,
			required: true, clock: clocks[unit], alternative: true})
	}
	lengths := all[0] // without arrivals
	lengths.required, lengths.alternative = false, false
	return append(all, lengths)
}()

// csvTables are the known CSV formats.
var csvTables = slices.Concat([]table{
	// Azure LLM inference traces of 2023 and 2024,
	// https://github.com/Azure/AzurePublicDataset.
	{format: "azure", input: "ContextTokens", output: "GeneratedTokens", arrival: "TIMESTAMP", required: true, clock: timestamps},
	vidur,
	// https://github.com/HPMLL/BurstGPT: a request without an answer has failed.
	{format: "burstgpt", input: "Request tokens", output: "Response tokens", arrival: "Timestamp", required: true,
		clock: seconds, session: "Session ID", fails: true},
}, own)

// knownNames lists the names by which tables are known and what names others, a line each. Names in brackets may be missing.
func knownNames(tables []table) []string {
	var all []string
	for _, t := range tables {
		if t.alternative {
			continue
		}
		arrival := t.arrivals()
		if !t.required {
			arrival = "[" + arrival + "]"
		}
		all = append(all, fmt.Sprintf("%s: %s, %s, %s", t.format, t.input, t.output, arrival))
	}
	return append(all, "any other: --columns input=NAME,output=NAME,arrival=NAME,unit=s|ms|us|ns; see docs/lab/traces.md")
}

// choose returns the first of some tables that a file has, going by the names in it; nil where
// it has none. known says which names tell a table.
func choose(tables []table, names []string, known func(t *table) []string) *table {
	has := func(name string) bool { return name != "" && slices.Contains(names, name) }
	for i := range tables {
		if t := &tables[i]; slices.ContainsFunc(known(t), has) && !(t.alternative && !has(t.arrival)) {
			return t
		}
	}
	return nil
}

// lengths are the names by which a CSV or Parquet file is known.
func (t *table) lengths() []string { return []string{t.input, t.output} }

// unreadArrivals refuses a file that this table would read as requests that all come at once,
// although a name in it promises times of arrival.
func (t *table) unreadArrivals(file string, line int, names []string) error {
	if t.format == "" || t.required || slices.Contains(names, t.arrival) {
		return nil // the user named the columns, or the times are read, or the lack of them is an error
	}
	for _, name := range names {
		if low := strings.ToLower(name); strings.HasPrefix(low, "arriv") || strings.HasPrefix(low, "timestamp") {
			return &input.Error{File: file, Line: line, Key: name, Expected: "times of arrival in a column " + t.arrivals(),
				Details: []string{fmt.Sprintf("--columns arrival=%s,input=%s,output=%s,unit=s|ms|us|ns reads this file as it is", name, t.input, t.output)}}
		}
	}
	return nil
}

// arrivals names the columns that may hold the arrivals of the table's format.
func (t *table) arrivals() string {
	if t.format != own[0].format {
		return t.arrival
	}
	return "arrival_" + strings.Join(unitNames, ", arrival_")
}

func (t *table) columns() []string {
	var names []string
	for _, name := range []string{t.input, t.output, t.arrival, t.session} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// cells are the texts of a request's columns. What is not there is "".
type cells struct {
	input, output, arrival, session string
	hasArrival                      bool
	quoted                          bool // in errors
}

func (t *table) row(file string, line int, c *cells) (row, error) {
	r := row{line: line, session: c.session}
	wrong := func(key, text, expected string) error {
		if c.quoted {
			text = strconv.Quote(text)
		}
		return &input.Error{File: file, Line: line, Key: key, Value: text, Expected: expected}
	}
	var ok bool
	if r.output, ok = parseTokens(c.output); t.fails && c.output == "0" {
		r.failed = true
	} else if !ok {
		return row{}, wrong(t.output, c.output, expectedTokens)
	}
	if r.input, ok = parseTokens(c.input); !ok && !r.failed {
		return row{}, wrong(t.input, c.input, expectedTokens)
	}
	if c.hasArrival {
		if r.arrival, ok = t.parse(c.arrival); !ok {
			return row{}, wrong(t.arrival, c.arrival, t.expected)
		}
	}
	return r, nil
}

// maxTokens is the largest number of input or output tokens of a request that a trace may hold.
const maxTokens = 1 << 24

// expectedTokens is what an error says of a wrong number of tokens.
var expectedTokens = fmt.Sprintf("a whole number of tokens from 1 to %d", maxTokens)

func parseTokens(text string) (int, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return int(n), err == nil && n >= 1 && n <= maxTokens
}

// Columns name what holds a request in a file of no known format: a CSV file, JSON lines
// or a Parquet file. The zero value names nothing.
type Columns struct {
	Arrival       string // "" where all requests arrive at once
	Input, Output string
	Unit          string // of arrivals: "s", "ms", "us" or "ns"; "" is "s"
}

// ParseColumns reads columns as a user gives them: arrival=NAME,input=NAME,output=NAME,unit=UNIT,
// without arrival and unit if need be. An error is an *input.Error without a key.
func ParseColumns(text string) (Columns, error) {
	var c Columns
	for _, part := range strings.Split(text, ",") {
		key, name, _ := strings.Cut(part, "=")
		places := map[string]*string{"arrival": &c.Arrival, "input": &c.Input, "output": &c.Output, "unit": &c.Unit}
		to := places[key]
		if to == nil {
			return Columns{}, input.UnknownName("", key, []string{"arrival", "input", "output", "unit"})
		}
		if name == "" || *to != "" {
			return Columns{}, &input.Error{Value: strconv.Quote(text), Expected: "one name for " + key}
		}
		*to = name
	}
	if c.Input == "" || c.Output == "" {
		return Columns{}, &input.Error{Value: strconv.Quote(text), Expected: "input=NAME,output=NAME, and arrival=NAME where there are arrivals"}
	}
	if _, ok := clocks[c.Unit]; !ok {
		return Columns{}, input.UnknownName("", "unit="+c.Unit, list.Map(unitNames, func(u string) string { return "unit=" + u }))
	}
	return c, nil
}

// unitNames are the units of arrivals, the coarsest first.
var unitNames = []string{"s", "ms", "us", "ns"}

// clocks are those of the units.
var clocks = map[string]clock{"": seconds, "s": seconds, "ms": milliseconds, "us": microseconds, "ns": nanoseconds}

func (c Columns) table() table {
	return table{input: c.Input, output: c.Output, arrival: c.Arrival, required: c.Arrival != "", clock: clocks[c.Unit]}
}
