package dram

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/schema"
)

// standardFile is a table of a standard as TOML. Rows are strings with cells between bars,
// so that a table reads as one.
type standardFile struct {
	Standard string `toml:"standard"` // the name
	Base     string `toml:"base"`     // a standard that ships, whose rows come before these
	Title    string `toml:"title"`

	TransfersPerClock int      `toml:"transfers_per_clock"`
	StepsPerClock     int      `toml:"steps_per_clock"`
	PseudoChannels    int      `toml:"pseudo_channels"`
	SubChannels       int      `toml:"sub_channels"` // 1 where it is left out
	DeviceWidths      []int    `toml:"device_widths"`
	CountsFrom        string   `toml:"counts_from"` // edge of a command that rules count from: first, last
	Rounding          string   `toml:"rounding"`
	Postpone          int      `toml:"postpone"`
	PullIn            int      `toml:"pull_in"`
	Buses             []string `toml:"buses"`
	DataClock         string   `toml:"data_clock"` // command | clocks that it runs on after an access

	Activations string `toml:"activations"` // most of a bank | by how many a refresh lowers the count

	Commands  []string `toml:"commands"`  // name | bus | steps | span | needs | leaves [| any step, or and 1 within 8]
	Rules     []string `toml:"rules"`     // name | level | from | to | clocks [| window]
	Refreshes []string `toml:"refreshes"` // command | interval | recovery
	Timings   []string `toml:"timings"`   // term | meaning | source
	Parts     []string `toml:"parts"`     // the words of each axis of the parts' names
	Values    []string `toml:"values"`    // words | key | value | source
}

// maxTable is the size in bytes of the longest table that is read.
const maxTable = 1 << 20

// ReadStandard reads a table of a standard, or of parts on the base of one that ships; file
// names r in errors, which are of type *input.Error. docs/dram.md describes the form.
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

// maxExpression is the longest expression in bytes, and maxParts the most parts of a table.
const (
	maxExpression = 200
	maxParts      = 1000
)

// tableReader reads the rows of one file.
type tableReader struct {
	file, text string
	s          *Standard
}

// readStandard reads a table, which may have its base among those given.
func readStandard(file, text string, bases []*Standard) (*Standard, error) {
	var f standardFile
	meta, err := input.DecodeTOML(file, text, &f)
	if err != nil {
		return nil, err
	}
	t := &tableReader{file, text, &Standard{}}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		key := unknown[0].String()
		return nil, t.at(key, &input.Error{Key: key, Expected: "a key of a standard's table", Nearest: input.Nearest(key, tableKeys)})
	}
	if f.Base != "" {
		i := slices.IndexFunc(bases, func(b *Standard) bool { return b.Name == f.Base })
		if i < 0 {
			var names []string
			for _, b := range bases {
				names = append(names, b.Name)
			}
			return nil, t.at("base", input.UnknownName("base", f.Base, names))
		}
		base := *bases[i]
		base.rules, base.values, base.Timings, base.Refreshes = slices.Clip(base.rules), slices.Clip(base.values), slices.Clip(base.Timings), slices.Clip(base.Refreshes)
		t.s = &base
	}
	for _, read := range []func(*standardFile) error{t.head, t.commands, t.rules, t.dataClock, t.activations, t.refreshes, t.timings, t.parts} {
		if err := read(&f); err != nil {
			return nil, err
		}
	}
	return t.s, nil
}

// tableKeys are the keys of a standard's file, from which an error takes the nearest name.
var tableKeys = []string{"standard", "base", "title", "transfers_per_clock", "steps_per_clock", "pseudo_channels", "sub_channels", "device_widths", "counts_from",
	"rounding", "postpone", "pull_in", "buses", "data_clock", "activations", "commands", "rules", "refreshes", "timings", "parts", "values"}

// at gives err the file, and the line of a key or the first one that has a row's text.
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

// head reads the keys that are not rows. A file with a base need not have them.
func (t *tableReader) head(f *standardFile) error {
	if f.Standard == "" || strings.ContainsAny(f.Standard, " |\n") || len(f.Standard) > 40 {
		return t.at("standard", &input.Error{Key: "standard", Value: f.Standard, Expected: "the standard's name, one word"})
	}
	t.s.Name = f.Standard
	if f.Title != "" {
		t.s.Title = f.Title
	}
	return cmp.Or(t.counts(f), t.choices(f))
}

// counts reads the keys that are whole numbers or lists, each within its range.
func (t *tableReader) counts(f *standardFile) error {
	s := t.s
	number := func(key string, to *int, v, most int) error {
		if v == 0 && *to != 0 {
			return nil
		}
		if v < 1 || v > most {
			return t.at(key, &input.Error{Key: key, Value: strconv.Itoa(v), Expected: fmt.Sprintf("1 to %d", most)})
		}
		*to = v
		return nil
	}
	for _, n := range []struct {
		key     string
		to      *int
		v, most int
	}{
		{"transfers_per_clock", &s.TransfersPerClock, f.TransfersPerClock, 64}, {"steps_per_clock", &s.StepsPerClock, f.StepsPerClock, 2},
		{"pseudo_channels", &s.PseudoChannels, f.PseudoChannels, 8}, {"postpone", &s.Postpone, f.Postpone, 64}, {"pull_in", &s.PullIn, f.PullIn, 64},
	} {
		if err := number(n.key, n.to, n.v, n.most); err != nil {
			return err
		}
	}
	if s.SubChannels = max(s.SubChannels, 1); f.SubChannels != 0 {
		if err := number("sub_channels", &s.SubChannels, f.SubChannels, 8); err != nil {
			return err
		}
	}
	if len(f.DeviceWidths) > 0 {
		s.DeviceWidths = f.DeviceWidths
	}
	for _, w := range s.DeviceWidths {
		if w < 1 || w > 1024 {
			return t.at("device_widths", &input.Error{Key: "device_widths", Value: strconv.Itoa(w), Expected: "1 to 1024"})
		}
	}
	if len(f.Buses) > 0 {
		s.Buses = f.Buses
	}
	if len(s.Buses) == 0 || len(s.Buses) > maxBuses {
		return t.at("buses", &input.Error{Key: "buses", Expected: fmt.Sprintf("1 to %d names", maxBuses)})
	}
	return nil
}

// choices reads the keys whose values are names.
func (t *tableReader) choices(f *standardFile) error {
	if f.CountsFrom != "" || f.Base == "" {
		if f.CountsFrom != "first" && f.CountsFrom != "last" {
			return t.at("counts_from", input.UnknownName("counts_from", f.CountsFrom, []string{"first", "last"}))
		}
		t.s.fromLast = f.CountsFrom == "last"
	}
	if f.Rounding != "" || f.Base == "" {
		if t.s.round = roundings[f.Rounding]; t.s.round == nil {
			return t.at("rounding", input.UnknownName("rounding", f.Rounding, []string{"jedec", "jedec5", "up"}))
		}
	}
	return nil
}

// cells splits a row into from least to most cells.
func (t *tableReader) cells(key, row string, least, most int) ([]string, error) {
	list := strings.Split(row, "|")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	if len(list) < least || len(list) > most {
		return nil, t.at(row, &input.Error{Key: key, Value: strconv.Quote(row), Expected: fmt.Sprintf("%d cells between bars", least)})
	}
	for len(list) < most {
		list = append(list, "")
	}
	return list, nil
}

// word returns which of names a cell is.
func (t *tableReader) word(key, row, cell string, names []string) (int, error) {
	if i := slices.Index(names, cell); i >= 0 {
		return i, nil
	}
	return 0, t.at(row, input.UnknownName(key, cell, names))
}

// expression reads the cell of a row that is an expression.
func (t *tableReader) expression(key, row, cell string) (expression, error) {
	if len(cell) > maxExpression {
		return nil, t.at(row, &input.Error{Key: key, Expected: fmt.Sprintf("an expression of at most %d bytes", maxExpression)})
	}
	e, err := parseExpression(cell)
	if err != nil {
		return nil, t.at(row, &input.Error{Key: key, Err: err})
	}
	return e, nil
}

// commands reads the rows of commands. A command that a base has is described anew.
func (t *tableReader) commands(f *standardFile) error {
	for _, row := range f.Commands {
		c, err := t.cells("commands", row, 6, 7)
		if err != nil {
			return err
		}
		i, err := t.word("commands", row, c[0], CommandNames())
		if err != nil {
			return err
		}
		a := &t.s.commands[i]
		a.Known, a.AnyStep, a.Second = true, c[6] == "any step", 0
		if within, ok := strings.CutPrefix(c[6], "and 1 within "); ok {
			a.Second, _ = strconv.Atoi(within)
		}
		if c[6] != "" && !a.AnyStep && (a.Second < 1 || a.Second > 64) {
			return t.at(row, &input.Error{Key: "commands", Value: c[6], Expected: `nothing, "any step", or "and 1 within 8", the steps until a second half`})
		}
		if a.Bus, err = t.word("commands", row, c[1], t.s.Buses); err != nil {
			return err
		}
		if a.Steps, err = strconv.Atoi(c[2]); err != nil || a.Steps < 1 || a.Steps > 16 {
			return t.at(row, &input.Error{Key: "commands", Value: c[2], Expected: "the steps that the command takes, 1 to 16"})
		}
		span, err := t.word("commands", row, c[3], spanNames)
		if err != nil {
			return err
		}
		if wide := Span(span) >= WholeRank; wide != Command(i).AllBank() {
			return t.at(row, &input.Error{Key: "commands", Value: c[3], Expected: fmt.Sprintf("the span of %s, whose address has a bank: %v", c[0], !Command(i).AllBank())})
		}
		needs, err := t.word("commands", row, c[4], stateNames)
		if err != nil {
			return err
		}
		leaves, err := t.word("commands", row, c[5], stateNames)
		if err != nil {
			return err
		}
		a.Span, a.Needs, a.Leaves = Span(span), BankState(needs), BankState(leaves)
	}
	return nil
}

// list reads the names of commands that the standard has.
func (t *tableReader) list(key, row, cell string) ([]Command, error) {
	var list []Command
	var names []string
	for _, c := range t.s.Commands() {
		names = append(names, c.String())
	}
	for _, word := range strings.Fields(cell) {
		i, err := t.word(key, row, word, names)
		if err != nil {
			return nil, err
		}
		list = append(list, t.s.Commands()[i])
	}
	if len(list) == 0 {
		return nil, t.at(row, &input.Error{Key: key, Value: strconv.Quote(row), Expected: "commands"})
	}
	return list, nil
}

// rules reads the rows of rules, behind those of a base.
func (t *tableReader) rules(f *standardFile) error {
	for _, row := range f.Rules {
		c, err := t.cells("rules", row, 5, 6)
		if err != nil {
			return err
		}
		r := rule{name: c[0], text: c[4], window: 1}
		level, err := t.word("rules", row, c[1], scopeNames)
		if err != nil {
			return err
		}
		r.level = Scope(level)
		if r.from, err = t.list("rules", row, c[2]); err != nil {
			return err
		}
		if r.next, err = t.list("rules", row, c[3]); err != nil {
			return err
		}
		if r.clocks, err = t.expression("rules", row, c[4]); err != nil {
			return err
		}
		if c[5] != "" {
			if r.window, err = strconv.Atoi(c[5]); err != nil || r.window < 1 || r.window > 1024 || r.level < SameRank || r.level == OtherRank {
				return t.at(row, &input.Error{Key: "rules", Value: c[5], Expected: "a window of 1 to 1024 commands of a rank, a pseudo-channel or the channel"})
			}
		}
		t.s.rules = append(t.s.rules, r)
	}
	return nil
}

// dataClock reads which command starts the data clock, and for how long an access keeps it running.
func (t *tableReader) dataClock(f *standardFile) error {
	if f.DataClock == "" {
		return nil
	}
	if f.DataClock == "none" { // the base has one, and it always runs
		t.s.sync = nil
		return nil
	}
	c, err := t.cells("data_clock", f.DataClock, 2, 2)
	if err != nil {
		return err
	}
	commands, err := t.list("data_clock", f.DataClock, c[0])
	if err != nil {
		return err
	}
	keeps, err := t.expression("data_clock", f.DataClock, c[1])
	t.s.sync = &dataClock{commands[0], keeps}
	return err
}

// activations reads the most activations of a bank, and by how many a refresh lowers the count.
func (t *tableReader) activations(f *standardFile) error {
	if f.Activations == "" {
		return nil
	}
	c, err := t.cells("activations", f.Activations, 2, 2)
	for i := 0; i < 2 && err == nil; i++ {
		t.s.counted[i], err = t.expression("activations", f.Activations, c[i])
	}
	return err
}

// refreshes reads which commands refresh, every how many clocks, and for how long.
func (t *tableReader) refreshes(f *standardFile) error {
	for _, row := range f.Refreshes {
		c, err := t.cells("refreshes", row, 3, 3)
		if err != nil {
			return err
		}
		commands, err := t.list("refreshes", row, c[0])
		if err != nil {
			return err
		}
		t.s.Refreshes = append(t.s.Refreshes, Refresh{commands[0], c[1], c[2]})
	}
	return nil
}

// timings reads meaning and source of timings.
func (t *tableReader) timings(f *standardFile) error {
	for _, row := range f.Timings {
		c, err := t.cells("timings", row, 3, 3)
		if err != nil {
			return err
		}
		t.s.Timings = append(t.s.Timings, Timing{c[0], c[1], c[2]})
	}
	return nil
}
