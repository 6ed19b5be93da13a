package traces

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// table says which columns of a CSV file, fields of JSON lines or columns of a Parquet file hold a request. A file matches if it has the
// table's input or output column; other columns are ignored.
type table struct {
	format        string
	input, output string
	arrival       string // of arrivals
	required      bool   // arrivals must be present; otherwise missing ones are 0
	clock                // format of the arrivals
	session       string // names the conversation, "" where there is none
	fails         bool   // a request with 0 output tokens has failed
	mark          string // column that a file must have to match; later tables take other files
	exact, fixed  bool   // the clock comes from the name or the user, or from the format
	guessed       bool   // the clock is a guess
	id, parent    string // columns of a request's name, and of the request whose conversation it continues
	failure       string // present and not null in a failed request
	block         int    // tokens for each hash, 0 if to be inferred
}

// clock is the format of a time.
type clock struct {
	parse    func(string) (instant, bool)
	expected string // description of what parse accepts
	name     string // of the unit
}

var (
	seconds      = clock{func(s string) (instant, bool) { return parseDecimal(s, 0) }, "seconds, not negative, such as 0.251", "seconds"}
	milliseconds = clock{func(s string) (instant, bool) { return parseDecimal(s, 3) }, "milliseconds, not negative", "milliseconds"}
	microseconds = clock{func(s string) (instant, bool) { return parseDecimal(s, 6) }, "microseconds, not negative", "microseconds"}
	nanoseconds  = clock{func(s string) (instant, bool) { return parseDecimal(s, 9) }, "nanoseconds, not negative", "nanoseconds"}
	timestamps   = clock{parseTimestamp, "a time such as 2023-11-16 18:17:03.9799600", "dates"}
)

// vidur are the columns of Vidur, https://github.com/microsoft/vidur. They also serve files whose columns the user names.
var vidur = table{format: "vidur", input: "num_prefill_tokens", output: "num_decode_tokens", arrival: "arrived_at", clock: seconds, fixed: true}

// own are the columns of l3sim's own requests.csv, and the plainest names in other files: the name of the arrivals gives their unit.
var own = func() []table {
	var all []table
	for _, unit := range unitNames {
		all = append(all, table{format: "l3sim", input: "input_tokens", output: "output_tokens", arrival: "arrival_" + unit,
			required: true, clock: clocks[unit], mark: "arrival_" + unit, exact: true})
	}
	lengths := all[0] // without arrivals
	lengths.required, lengths.mark, lengths.arrival, lengths.exact = false, "", "", false
	return append(all, lengths)
}()

// csvTables are the known CSV formats.
var csvTables = slices.Concat([]table{
	// Azure LLM inference traces of 2023 and 2024,
	// https://github.com/Azure/AzurePublicDataset.
	{format: "azure", input: "ContextTokens", output: "GeneratedTokens", arrival: "TIMESTAMP", required: true, clock: timestamps, fixed: true},
	vidur,
	// https://github.com/HPMLL/BurstGPT: a request without a response has failed.
	{format: "burstgpt", input: "Request tokens", output: "Response tokens", arrival: "Timestamp", required: true,
		clock: seconds, fixed: true, session: "Session ID", fails: true},
}, own)

// knownNames lists the columns by which tables are recognised and their other columns, one table a line. Columns in brackets are optional.
func knownNames(tables []table) []string {
	var all []string
	for _, t := range tables {
		if t.mark != "" {
			continue
		}
		arrival := t.arrivals()
		if !t.required {
			arrival = "[" + arrival + "]"
		}
		all = append(all, fmt.Sprintf("%s: %s, %s, %s", t.format, t.input, t.output, arrival))
	}
	return append(all, "any other: --columns input=NAME,output=NAME,arrival=NAME,unit=s|ms|us|ns; see docs/reference/traces.md")
}

// choose returns the first table of which a file has a length column, or nil.
func choose(tables []table, names []string) *table {
	has := func(name string) bool { return name != "" && slices.Contains(names, name) }
	for i := range tables {
		if t := &tables[i]; (has(t.input) || has(t.output)) && (t.mark == "" || has(t.mark)) {
			return t
		}
	}
	return nil
}

// arrivals names the columns that may hold the arrivals in the table's format.
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

// cells are the texts of a request's columns; "" for absent ones.
type cells struct {
	input, output, arrival, session string
	hasArrival, failed              bool
	quoted                          bool // quote values in errors
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
	if r.output, ok = parseTokens(c.output); t.fails && c.output == "0" || c.failed {
		r.failed = true
	} else if !ok {
		return row{}, wrong(t.output, c.output, expectedTokens)
	}
	if r.input, ok = parseTokens(c.input); !ok && !r.failed {
		return row{}, wrong(t.input, c.input, expectedTokens)
	}
	if r.timed = c.hasArrival; r.timed {
		if r.arrival, ok = t.parse(c.arrival); !ok {
			return row{}, wrong(t.arrival, c.arrival, t.expected)
		}
	}
	return r, nil
}

// maxTokens bounds the input tokens, and the output tokens, of a request.
const maxTokens = 1 << 24

// expectedTokens is the expected text of errors for numbers of tokens.
var expectedTokens = fmt.Sprintf("a whole number of tokens from 1 to %d", maxTokens)

// parseTokens reads a whole number of tokens, possibly with commas between thousands or written as a real: 1024, 1,024, 1024.0. It refuses
// three zeros after a point, which may be thousands.
func parseTokens(text string) (int, bool) {
	if whole, zeros, real := strings.Cut(text, "."); real && len(zeros) != 3 && strings.Trim(zeros, "0") == "" {
		text = whole
	}
	n, err := strconv.ParseInt(number(text, ','), 10, 64)
	return int(n), err == nil && n >= 1 && n <= maxTokens
}

// thousandsSeparated matches a number with commas between thousands and an optional fraction.
var thousandsSeparated = regexp.MustCompile(`^\d{1,3}(,\d{3})+(\.\d*)?$`)

// number normalises a numeric cell of a CSV file: it removes commas between thousands, or replaces a decimal comma if columns are separated
// by semicolons.
func number(text string, comma rune) string {
	switch {
	case !strings.Contains(text, ","):
		return text
	case comma == ';' && strings.Count(text, ",") == 1 && !strings.Contains(text, "."):
		return strings.Replace(text, ",", ".", 1)
	case thousandsSeparated.MatchString(text):
		return strings.ReplaceAll(text, ",", "")
	}
	return text
}

// Columns name the columns of a request in a CSV file, JSON lines or a Parquet file, if the file's own names are unknown. The zero value
// names nothing. A nested field of JSON lines is a.b.
type Columns struct {
	Arrival       string // "" where the file's names say it, or all requests arrive at once
	Input, Output string // both or neither
	Unit          string // of arrivals: "s", "ms", "us" or "ns"; "" is what the file says, "s" of a column named here
	Session       string // the conversation
	Block         int    // prompt tokens for each hash; 0: inferred from the numbers
}

// columnKeys are the keys of ParseColumns, in order.
var columnKeys = []string{"arrival", "input", "output", "unit", "session", "block"}

// ParseColumns parses columns as a user gives them, such as arrival=NAME,input=NAME,output=NAME,unit=UNIT, or unit=s alone. An error is an
// *input.Error without a key.
func ParseColumns(text string) (Columns, error) {
	var c Columns
	block := ""
	for _, part := range strings.Split(text, ",") {
		key, name, pair := strings.Cut(part, "=")
		if !pair {
			return Columns{}, &input.Error{Value: strconv.Quote(part), Expected: "KEY=NAME, such as input=prompt_tokens,output=answer_tokens; keys are " + strings.Join(columnKeys, ", ")}
		}
		places := map[string]*string{"arrival": &c.Arrival, "input": &c.Input, "output": &c.Output, "unit": &c.Unit, "session": &c.Session, "block": &block}
		to := places[key]
		if to == nil {
			return Columns{}, input.UnknownName("", key, columnKeys)
		}
		if name == "" || *to != "" {
			return Columns{}, &input.Error{Value: strconv.Quote(text), Expected: "one name for " + key}
		}
		*to = name
	}
	if (c.Input == "") != (c.Output == "") {
		return Columns{}, &input.Error{Value: strconv.Quote(text), Expected: "input=NAME,output=NAME, and arrival=NAME where there are arrivals"}
	}
	if _, ok := clocks[c.Unit]; !ok {
		return Columns{}, input.UnknownName("", "unit="+c.Unit, list.Map(unitNames, func(u string) string { return "unit=" + u }))
	}
	if block != "" {
		var err error
		if c.Block, err = strconv.Atoi(block); err != nil || c.Block < 1 || c.Block > maxBlock {
			return Columns{}, &input.Error{Value: "block=" + block, Expected: fmt.Sprintf("block=N, 1 to %d tokens", maxBlock)}
		}
	}
	return c, nil
}

// unitNames are the units of arrivals, from coarse to fine.
var unitNames = []string{"s", "ms", "us", "ns"}

// clocks are the formats of times by unit.
var clocks = map[string]clock{"": seconds, "s": seconds, "ms": milliseconds, "us": microseconds, "ns": nanoseconds}

func (c Columns) table() table {
	return table{input: c.Input, output: c.Output, clock: clocks[c.Unit]}
}
