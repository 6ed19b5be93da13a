package dram

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// standardFile is a standard's table in TOML. Rows are strings with cells between bars, so that the file reads like a table.
type standardFile struct {
	Standard string `toml:"standard"` // the name
	Base     string `toml:"base"`     // a shipped standard, whose rows precede these
	Title    string `toml:"title"`

	TransfersPerClock int      `toml:"transfers_per_clock"`
	StepsPerClock     int      `toml:"steps_per_clock"`
	PseudoChannels    int      `toml:"pseudo_channels"`
	SubChannels       int      `toml:"sub_channels"` // 1 if left out
	DeviceWidths      []int    `toml:"device_widths"`
	CountsFrom        string   `toml:"counts_from"` // edge of a command from which rules count: first, last
	Rounding          string   `toml:"rounding"`
	Postpone          int      `toml:"postpone"`
	PullIn            int      `toml:"pull_in"`
	Buses             []string `toml:"buses"`
	DataClock         string   `toml:"data_clock"` // command | clocks that it continues after an access

	Activations string `toml:"activations"` // maximum for a bank | by how many a refresh lowers the count

	Commands  []string `toml:"commands"`  // name | bus | steps | span | needs | leaves [| any step, or and 1 within 8]
	Rules     []string `toml:"rules"`     // name | level | from | to | clocks [| window]
	Refreshes []string `toml:"refreshes"` // command | interval | recovery
	Timings   []string `toml:"timings"`   // term | meaning | source
	Parts     []string `toml:"parts"`     // the words of each axis of the parts' names
	Values    []string `toml:"values"`    // words | key | value | source
}

const maxTable = 1 << 20 // size in bytes of the longest accepted table

// ReadStandard reads a standard's table, or a table of parts on the base of a shipped standard. file names r in errors, which are of type
// *input.Error. docs/reference/dram.md describes the format.
func ReadStandard(file string, r io.Reader) (*Standard, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, &input.Error{File: file, Err: err}
	}
	if len(text) > maxTable {
		return nil, &input.Error{File: file, Expected: "a table of at most 1 MiB"}
	}
	list, err := shipped()
	if err != nil {
		return nil, err
	}
	s, err := readStandard(file, string(text), list)
	if err != nil {
		return nil, err
	}
	return s, s.checkParts(file)
}

// maxExpression bounds an expression in bytes, and maxParts the parts of a table.
const (
	maxExpression = 200
	maxParts      = 1000
)

// tableReader reads the rows of one file and keeps the first error. Its results after an error are meaningless.
type tableReader struct {
	file, text string
	s          *Standard
	err        error
}

// readStandard reads a table whose base, if any, is among the given standards.
func readStandard(file, text string, bases []*Standard) (*Standard, error) {
	var f standardFile
	meta, err := input.DecodeTOML(file, text, &f)
	if err != nil {
		return nil, err
	}
	t := &tableReader{file: file, text: text, s: &Standard{}}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		key := unknown[0].String()
		expected := "a key of a standard's table"
		if key == "dram" {
			expected += "; a file with [dram] is a configuration, for --config: here --set KEY=VALUE changes a part"
		}
		return nil, t.at(key, &input.Error{Key: key, Expected: expected, Nearest: input.Nearest(key, tableKeys)})
	}
	if f.Base != "" {
		i := slices.IndexFunc(bases, func(b *Standard) bool { return b.Name == f.Base })
		if i < 0 {
			return nil, t.at("base", input.UnknownName("base", f.Base, standardNames(bases)))
		}
		base := *bases[i]
		base.rules, base.values, base.Timings, base.Refreshes = slices.Clip(base.rules), slices.Clip(base.values), slices.Clip(base.Timings), slices.Clip(base.Refreshes)
		base.named = slices.Clip(base.named)
		t.s = &base
	}
	for _, read := range []func(*standardFile){t.head, t.commands, t.rules, t.dataClock, t.activations, t.refreshes, t.timings, t.parts} {
		if read(&f); t.err != nil {
			return nil, t.err
		}
	}
	return t.s, nil
}

// tableKeys are the keys of a standard's file; errors suggest the nearest.
var tableKeys = []string{"standard", "base", "title", "transfers_per_clock", "steps_per_clock", "pseudo_channels", "sub_channels", "device_widths", "counts_from",
	"rounding", "postpone", "pull_in", "buses", "data_clock", "activations", "commands", "rules", "refreshes", "timings", "parts", "values"}

// IsTable reports whether a TOML text is meant as a standard's table: it has at least one of a table's keys.
func IsTable(text string) bool {
	places := schema.Scan(text)
	return slices.ContainsFunc(tableKeys, func(key string) bool { return places[key].Line > 0 })
}

// at adds to err the file, and the line of a key or the first line with a row's text.
func (t *tableReader) at(text string, err error) error {
	line := 0
	if slices.Contains(tableKeys, text) {
		line = schema.Scan(t.text)[text].Line
	}
	if i := strings.Index(t.text, text); line == 0 && i >= 0 {
		line = 1 + strings.Count(t.text[:i], "\n")
	}
	return input.Edit(err, func(e *input.Error) { e.File, e.Line = t.file, line })
}

// fail keeps the first error, which is at a key or row.
func (t *tableReader) fail(text string, err error) {
	if t.err == nil {
		t.err = t.at(text, err)
	}
}

func (t *tableReader) bad(text, key, value, expected string, of ...any) {
	t.fail(text, &input.Error{Key: key, Value: value, Expected: fmt.Sprintf(expected, of...)})
}

// head reads the keys that are not rows. They are optional in a file with a base.
func (t *tableReader) head(f *standardFile) {
	s := t.s
	if f.Standard == "" || strings.ContainsAny(f.Standard, " |\n") || len(f.Standard) > 40 {
		t.bad("standard", "standard", f.Standard, "the standard's name, one word")
	}
	s.Name, s.file = f.Standard, t.file
	if f.Base == "" {
		s.Family = s.Name
	}
	if f.Title != "" {
		s.Title = f.Title
	}
	t.counts(f)
	t.choices(f)
}

// counts reads the keys that are whole numbers or lists, each within its range.
func (t *tableReader) counts(f *standardFile) {
	s := t.s
	s.SubChannels = max(s.SubChannels, 1)
	for _, n := range []struct {
		key     string
		to      *int
		v, most int
	}{
		{"transfers_per_clock", &s.TransfersPerClock, f.TransfersPerClock, 64}, {"steps_per_clock", &s.StepsPerClock, f.StepsPerClock, 2},
		{"pseudo_channels", &s.PseudoChannels, f.PseudoChannels, 8}, {"postpone", &s.Postpone, f.Postpone, 64}, {"pull_in", &s.PullIn, f.PullIn, 64},
		{"sub_channels", &s.SubChannels, f.SubChannels, 8},
	} {
		switch {
		case n.v == 0 && *n.to != 0:
		case n.v < 1 || n.v > n.most:
			t.bad(n.key, n.key, strconv.Itoa(n.v), "1 to %d", n.most)
		default:
			*n.to = n.v
		}
	}
	if len(f.DeviceWidths) > 0 {
		s.DeviceWidths = f.DeviceWidths
	}
	for _, w := range s.DeviceWidths {
		if w < 1 || w > 1024 {
			t.bad("device_widths", "device_widths", strconv.Itoa(w), "1 to 1024")
		}
	}
	if len(f.Buses) > 0 {
		s.Buses = f.Buses
	}
	if len(s.Buses) == 0 || len(s.Buses) > maxBuses {
		t.bad("buses", "buses", "", "1 to %d names", maxBuses)
	}
}

// choices reads the keys whose values are names.
func (t *tableReader) choices(f *standardFile) {
	if f.CountsFrom != "" || f.Base == "" {
		t.s.fromLast = t.word("counts_from", "counts_from", f.CountsFrom, []string{"first", "last"}) == 1
	}
	if f.Rounding != "" || f.Base == "" {
		names := []string{"jedec", "jedec5", "up"}
		t.s.round = roundings[names[t.word("rounding", "rounding", f.Rounding, names)]]
	}
}

// cells splits a row into cells; false if their number is not from least to most.
func (t *tableReader) cells(key, row string, least, most int) ([]string, bool) {
	list := strings.Split(row, "|")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	if len(list) < least || len(list) > most {
		t.bad(row, key, strconv.Quote(row), "%d cells between bars", least)
	}
	for len(list) < most {
		list = append(list, "")
	}
	return list, t.err == nil
}

// word returns the index of a cell in names, or 0.
func (t *tableReader) word(key, row, cell string, names []string) int {
	i := slices.Index(names, cell)
	if i < 0 {
		t.fail(row, input.UnknownName(key, cell, names))
	}
	return max(i, 0)
}

// number returns the whole number in a cell, from 1 to most.
func (t *tableReader) number(key, row, cell string, most int, expected string) int {
	n, err := strconv.Atoi(cell)
	if err != nil || n < 1 || n > most {
		t.bad(row, key, cell, "%s", expected)
	}
	return n
}

func (t *tableReader) expression(key, row, cell string) expression {
	if len(cell) > maxExpression {
		t.bad(row, key, "", "an expression of at most %d bytes", maxExpression)
		return nil
	}
	e, names, err := parseExpression(cell)
	if err != nil {
		t.fail(row, &input.Error{Key: key, Err: err})
	}
	t.s.named = append(t.s.named, names...)
	return e
}

// commands reads the rows of commands. A row replaces the base's description of its command.
func (t *tableReader) commands(f *standardFile) {
	for _, row := range f.Commands {
		c, ok := t.cells("commands", row, 6, 7)
		if !ok {
			return
		}
		i := t.word("commands", row, c[0], CommandNames())
		a := &t.s.commands[i]
		a.Known, a.AnyStep, a.Second = true, c[6] == "any step", 0
		if within, ok := strings.CutPrefix(c[6], "and 1 within "); ok {
			a.Second, _ = strconv.Atoi(within)
		}
		if c[6] != "" && !a.AnyStep && (a.Second < 1 || a.Second > 64) {
			t.bad(row, "commands", c[6], `nothing, "any step", or "and 1 within 8", the steps until a second half`)
		}
		a.Bus = t.word("commands", row, c[1], t.s.Buses)
		a.Steps = t.number("commands", row, c[2], 16, "the steps that the command takes, 1 to 16")
		a.Span = Span(t.word("commands", row, c[3], spanNames))
		if wide := a.Span >= WholeRank; wide != Command(i).AllBank() {
			t.bad(row, "commands", c[3], "the span of %s, whose address has a bank: %v", c[0], !Command(i).AllBank())
		}
		a.Needs, a.Leaves = BankState(t.word("commands", row, c[4], stateNames)), BankState(t.word("commands", row, c[5], stateNames))
	}
}

// list reads the names of commands; at least one must be in the standard.
func (t *tableReader) list(key, row, cell string) (list []Command) {
	var names []string
	for _, c := range t.s.Commands() {
		names = append(names, c.String())
	}
	for _, word := range strings.Fields(cell) {
		if i := t.word(key, row, word, names); t.err == nil {
			list = append(list, t.s.Commands()[i])
		}
	}
	if len(list) == 0 {
		t.bad(row, key, strconv.Quote(row), "commands")
		return []Command{0}
	}
	return list
}

// rules reads the rows of rules and appends them to those of the base.
func (t *tableReader) rules(f *standardFile) {
	for _, row := range f.Rules {
		c, ok := t.cells("rules", row, 5, 6)
		if !ok {
			return
		}
		r := rule{name: c[0], text: c[4], window: 1, level: Scope(t.word("rules", row, c[1], scopeNames))}
		r.from, r.next, r.clocks = t.list("rules", row, c[2]), t.list("rules", row, c[3]), t.expression("rules", row, c[4])
		if c[5] != "" {
			const expected = "a window of 1 to 1024 commands of a rank, a pseudo-channel or the channel"
			if r.window = t.number("rules", row, c[5], 1024, expected); r.level < SameRank || r.level == OtherRank {
				t.bad(row, "rules", c[5], expected)
			}
		}
		t.s.rules = append(t.s.rules, r)
	}
}

// dataClock reads the command that starts the data clock, and how long an access keeps it running.
func (t *tableReader) dataClock(f *standardFile) {
	switch f.DataClock {
	case "":
	case "none": // turns off the base's data clock: it always runs
		t.s.sync = nil
	default:
		if c, ok := t.cells("data_clock", f.DataClock, 2, 2); ok {
			t.s.sync = &dataClock{t.list("data_clock", f.DataClock, c[0])[0], t.expression("data_clock", f.DataClock, c[1])}
		}
	}
}

// activations reads the maximum activations of a bank, and by how many a refresh lowers the count.
func (t *tableReader) activations(f *standardFile) {
	if f.Activations == "" {
		return
	}
	c, ok := t.cells("activations", f.Activations, 2, 2)
	if ok {
		t.s.maxActivations = t.expression("activations", f.Activations, c[0])
		t.s.refreshCredit = t.expression("activations", f.Activations, c[1])
	}
}

// refreshes reads the refresh commands, their intervals and their durations.
func (t *tableReader) refreshes(f *standardFile) {
	for _, row := range f.Refreshes {
		if c, ok := t.cells("refreshes", row, 3, 3); ok {
			t.s.Refreshes = append(t.s.Refreshes, Refresh{t.list("refreshes", row, c[0])[0], c[1], c[2]})
		}
	}
}

func (t *tableReader) timings(f *standardFile) {
	for _, row := range f.Timings {
		if c, ok := t.cells("timings", row, 3, 3); ok {
			t.s.Timings = append(t.s.Timings, Timing{c[0], c[1], c[2]})
		}
	}
}

// parts reads the axes of the parts' names and the rows of their values.
func (t *tableReader) parts(f *standardFile) {
	if len(f.Parts) > 0 {
		t.s.axes = nil
	}
	for _, axis := range f.Parts {
		t.s.axes = append(t.s.axes, strings.Fields(strings.ToLower(axis)))
	}
	parts := 1
	for _, axis := range t.s.axes {
		parts = min(parts*len(axis), maxParts+1)
	}
	if len(t.s.axes) == 0 || parts == 0 || parts > maxParts {
		t.bad("parts", "parts", "", "the words of each axis of the parts' names, %d parts at most", maxParts)
	}
	for _, row := range f.Values {
		if c, ok := t.cells("values", row, 3, 4); ok {
			t.s.values = append(t.s.values, valueRow{
				when: strings.Fields(strings.ToLower(c[0])), key: c[1], text: c[2], source: c[3], value: t.expression("values", row, c[2]),
				place: t.at(row, &input.Error{Key: "values", Value: strconv.Quote(row)}),
			})
		}
	}
	if t.err == nil {
		t.known(f)
	}
}

// known refuses rows of values that no part has or no code reads, for example with a misspelt timing.
func (t *tableReader) known(f *standardFile) {
	words := slices.Concat(t.s.axes...)
	keys := append(schema.Of[Spec]().Names(), t.s.TimingNames()...)
	for _, r := range t.s.Refreshes {
		keys = append(keys, r.Interval, r.Recovery)
	}
	for i, v := range t.s.values[len(t.s.values)-len(f.Values):] {
		row := f.Values[i]
		for _, w := range v.when {
			if !slices.Contains(words, w) {
				t.fail(row, input.UnknownName("values", w, words))
			}
		}
		if !slices.Contains(keys, v.key) && !slices.Contains(t.s.named, v.key) {
			t.fail(row, &input.Error{Key: "values", Value: v.key, Expected: "a key of a part, a timing, or a name that an expression has", Nearest: input.Nearest(v.key, keys)})
		}
	}
}
