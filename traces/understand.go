package traces

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Reading says which columns of a file were read, and as what.
type Reading struct {
	Input   string `json:"input"`  // the column of prompt tokens
	Output  string `json:"output"` // the column of tokens to generate
	Times   string `json:"times"`  // of arrivals, "" where all come at once
	Unit    string `json:"unit"`   // of arrivals: "seconds", ..., or "dates"
	Guessed bool   `json:"guessed"`
	Hashes  string `json:"hashes"` // of prefixes, "" for none
	Session string `json:"session"`
}

// sample is the beginning of a file: its columns, with the texts of the first rows.
type sample struct {
	names  []string            // as errors list them
	nested []string            // including nested fields, as a.b
	values map[string][]string // by name
	units  map[string]string   // of columns whose type has a unit

	objects bool // of JSON
}

// sampleRows is the number of rows from which the unit of times is inferred.
const sampleRows = 256

// column returns the texts of a column, without missing ones.
func (s *sample) column(name string) []string {
	return slices.DeleteFunc(slices.Clone(s.values[name]), func(text string) bool { return text == "" || text == "null" })
}

// has reports whether the file has a column of that name, which may be "".
func (s *sample) has(name string) bool { return name != "" && slices.Contains(s.nested, name) }

// isObject reports whether a name is that of an object with named fields.
func (s *sample) isObject(name string) bool {
	return s.objects && slices.ContainsFunc(s.nested, func(other string) bool { return strings.HasPrefix(other, name+".") })
}

// understand returns the table by which a file is read: a known format, or one inferred from its names and values, changed by the columns
// that the user names. It is nil if no column can be lengths.
func (c *collector) understand(s *sample, known []table) *table {
	t := c.lengthsOf(s, known)
	if t == nil {
		return nil
	}
	o := &c.options.Columns
	if s.objects && (t.format == "" || t.format == own[0].format) && slices.Contains(s.names, hashField) {
		t.format = "mooncake" // under other names, such as NVIDIA Dynamo's
	}
	named := o.Arrival != ""
	if named {
		t.arrival, t.required, t.clock, t.exact = o.Arrival, true, seconds, o.Unit != ""
	}
	if !s.has(t.arrival) && o.Input == "" && !named && !t.required {
		if name := c.findTimes(s, t); name != "" {
			t.arrival, t.clock, t.fixed, t.exact = name, seconds, false, false
		}
	}
	if o.Unit != "" {
		t.clock, t.exact = clocks[o.Unit], true
	}
	if o.Session != "" {
		t.session = o.Session
	} else if t.session == "" && t.format != "llmservingsim" {
		if t.session = s.findName(sessionNames); t.session == "" && t.format == "mooncake" {
			t.session = sessionField // the first request may lack it
		}
	}
	if said := s.column(unitField); len(said) > 0 && clocks[said[0]].parse != nil && o.Unit == "" {
		t.clock, t.exact = clocks[said[0]], true
	}
	if said := s.column(blockField); len(said) > 0 && c.blocks.given == 0 && t.block == 0 {
		if n, err := strconv.Atoi(said[0]); err == nil && n >= 1 && n <= maxBlock {
			t.block = n
		}
	}
	c.noteLengths(t, s)
	if s.has(t.arrival) {
		t.required = t.required || !slices.ContainsFunc(delayFields, func(name string) bool { return len(s.values[name]) > 0 })
		c.fitClock(t, s, named)
	} else if !t.required {
		c.noteUnread(t, s)
	}
	return t
}

// lengthsOf returns a copy of the known table whose length columns are both in the file, or a table inferred from names of lengths.
// Otherwise it returns a table with one length; the missing one becomes an error.
func (c *collector) lengthsOf(s *sample, known []table) *table {
	if o := &c.options.Columns; o.Input != "" {
		t := o.table()
		return &t
	}
	for i := range known {
		if t := known[i]; s.has(t.input) && s.has(t.output) && (t.mark == "" || s.has(t.mark)) {
			return &t
		}
	}
	if t := (table{input: s.findName(inputNames), output: s.findName(outputNames), clock: seconds}); t.input != "" && t.output != "" {
		return &t
	}
	if t := choose(known, s.nested); t != nil {
		one := *t
		return &one
	}
	return nil
}

// findTimes returns the column with arrival times, by its name, or "".
func (c *collector) findTimes(s *sample, t *table) string {
	best, rank, weak := "", len(timeNames), slices.Index(timeNames, weakTimes)
	for _, name := range s.nested {
		i, _ := timeName(lastName(name))
		texts := s.column(name)
		if i < 0 || i >= rank || s.isObject(name) || name == t.input || name == t.output || len(texts) == 0 && i >= weak {
			continue
		}
		if len(texts) == 0 || datesIn(texts) || numbersIn(texts) != nil && !isDayNumbers(texts) && (i < weak || rises(numbersIn(texts))) {
			best, rank = name, i
		}
	}
	return best
}

// fitClock sets a table's time format: from the name or the type of the column, from the form of dates, or from the magnitude of epoch
// times; else it guesses.
func (c *collector) fitClock(t *table, s *sample, named bool) {
	texts := s.column(t.arrival)
	_, unit := timeName(lastName(t.arrival))
	if of := s.units[t.arrival]; of != "" {
		unit = of
	}
	numbers := numbersIn(texts)
	if of := s.units[t.arrival]; of != "" && c.options.Columns.Unit == "" && !datesIn(texts) { // a type is more reliable than a name
		t.clock = clocks[of]
		return
	}
	switch known := t.parse != nil && t.exact; {
	case known:
		return
	case len(texts) == 0 && unit == "":
		if !t.fixed && !named {
			t.guessed = true
			c.note("arrivals in %s are read as %s, a guess, as the first rows have none; --columns unit=s|ms|us|ns says otherwise", t.arrival, t.name)
		}
		return
	case datesIn(texts):
		t.clock = timestamps
		return
	case unit != "" && !t.fixed:
		t.clock = clocks[unit]
		return
	case numbers == nil:
		return // the first invalid row gives the error
	}
	if a, b := epochUnit([]float64{slices.Min(numbers)}), epochUnit([]float64{slices.Max(numbers)}); a != "" && b != "" && a != b {
		c.note("arrivals in %s mix %s and %s since 1970: write all in one unit", t.arrival, clocks[a].name, clocks[b].name)
	}
	if unit := epochUnit(numbers); unit != "" {
		if i := slices.IndexFunc(texts, isRounded); i >= 0 {
			c.note("arrivals in %s are rounded: %s has too few digits for seconds since 1970", t.arrival, texts[i])
		}
		if t.name != clocks[unit].name && (t.fixed || named) {
			c.note("arrivals in %s are read as %s since 1970, by their size; --columns unit=s|ms|us|ns says otherwise", t.arrival, clocks[unit].name)
		}
		t.clock = clocks[unit]
		return
	}
	if named {
		c.noteNamed(t, numbers)
		return
	}
	if t.fixed && t.name != milliseconds.name {
		return
	}
	rank, _ := timeName(lastName(t.arrival))
	if created := slices.Index(timeNames, "created_time"); rank == created { // as in NVIDIA Dynamo's
		t.clock = milliseconds
	}
	guess := guessUnit(numbers, t.name == milliseconds.name)
	if clocks[guess].name == t.name && t.fixed && !dense(numbers) {
		return
	}
	t.clock, t.guessed = clocks[guess], true
	other := "ms"
	if guess == "ms" {
		other = "s"
	}
	sure := ""
	if r := rate(numbers); r == 0 && len(numbers) > 1 {
		return // if all requests arrive at once, the unit does not matter
	} else if r > 0 {
		sure = fmt.Sprintf(", so that the first %d come at %.3g a second", len(numbers), r*math.Pow(1000, float64(slices.Index(unitNames, guess))))
	}
	c.note("arrivals in %s are read as %s, a guess by their size%s; --columns unit=%s reads %s", t.arrival, t.name, sure, other, clocks[other].name)
}

// noteNamed adds a note if a column that the user named is read as seconds and the size of its times suggests another unit.
func (c *collector) noteNamed(t *table, numbers []float64) {
	if guess := guessUnit(numbers, false); t.name == seconds.name && guess != "s" {
		c.note("arrivals in %s are read as seconds, since --columns gives no unit; by their size they are rather %s, which --columns unit=%s reads", t.arrival, clocks[guess].name, guess)
	}
}

// epochUnit returns the unit of times since 1970 that fall in the years 2001 to 5138; "" for others.
func epochUnit(numbers []float64) string {
	least, most := slices.Min(numbers), slices.Max(numbers)
	for i, unit := range unitNames {
		if scale := math.Pow(1000, float64(i)); least >= 1e9*scale && most < 1e11*scale {
			return unit
		}
	}
	return ""
}

// Mean gaps between requests from which the unit is guessed. A language-model server gets between one request in twenty seconds and two
// hundred a second. Whole numbers are rarely seconds.
const (
	longGap  = 500 // in seconds with fractions
	wholeGap = 20  // in whole seconds
	shortGap = 5   // in milliseconds, some with fractions
	wholeMS  = 0.5 // in whole milliseconds
)

// dense reports whether times in milliseconds would be so dense that they may be seconds.
func dense(milliseconds []float64) bool {
	return len(milliseconds) > leastGaps && rate(milliseconds) > 1.0/shortGap
}

// leastGaps is the number of gaps needed to contradict a format's unit.
const leastGaps = 2

// guessUnit returns the unit in which the mean gap of times is plausible. The default is milliseconds (inMS) or seconds.
func guessUnit(numbers []float64, inMS bool) string {
	r := rate(numbers)
	if inMS && len(numbers) <= leastGaps {
		return "ms"
	}
	fractions := slices.ContainsFunc(numbers, func(x float64) bool { return x != math.Trunc(x) })
	gap, long, short := 1/r, float64(wholeGap), float64(wholeMS)
	if fractions {
		long, short = longGap, shortGap
	}
	switch {
	case r == 0 && inMS:
		return "ms"
	case r == 0:
		return "s"
	case inMS && gap >= short || !inMS && gap > long && gap <= 1e3*longGap:
		return "ms"
	case inMS || gap <= long:
		return "s"
	case gap <= 1e6*longGap:
		return "us"
	}
	return "ns"
}

// rate returns the mean rate of times, per unit of theirs; 0 if all are equal.
func rate(numbers []float64) float64 {
	if span := slices.Max(numbers) - slices.Min(numbers); span > 0 {
		return float64(len(numbers)-1) / span
	}
	return 0
}

// numbersIn parses texts as numbers and drops up to one in ten that are not; nil if more are not.
func numbersIn(texts []string) []float64 {
	var numbers []float64
	for _, text := range texts {
		if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			numbers = append(numbers, x)
		}
	}
	if 10*(len(texts)-len(numbers)) > len(texts) {
		return nil
	}
	return numbers
}

func datesIn(texts []string) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(text string) bool { _, ok := parseTimestamp(text); return !ok })
}

// rises reports whether numbers grow from row to row, with up to one exception in ten.
func rises(numbers []float64) bool {
	down := 0
	for i := 1; i < len(numbers); i++ {
		if numbers[i] < numbers[i-1] {
			down++
		}
	}
	n := len(numbers)
	return n > 1 && numbers[n-1] > numbers[0] && 10*down <= n
}

// noteUnread adds a note about columns that may hold arrivals, if the file has none by name: dates, and rising numbers other than row
// numbers.
func (c *collector) noteUnread(t *table, s *sample) {
	var found, unread []string
	unit := ""
	for _, name := range s.nested {
		if name == t.input || name == t.output || name == t.session {
			continue
		}
		texts := s.column(name)
		numbers := numbersIn(texts)
		switch rank, _ := timeName(lastName(name)); {
		case s.isObject(name) && rank >= 0 && rank < slices.Index(timeNames, weakTimes):
			unread = append(unread, name+" (an object)")
			continue
		case len(texts) == 0 || datesIn(texts):
		case holdsGaps(lastName(name)) && numbers != nil:
			unread = append(unread, fmt.Sprintf("%s (%s: times between arrivals must be added up)", name, texts[0]))
			continue
		case slices.Contains(durations, withoutUnit(name)) && numbers != nil && !rises(numbers):
			unread = append(unread, fmt.Sprintf("%s (%s: times of arrival rise, durations do not)", name, texts[0]))
			continue
		case rank >= 0 && isDayNumbers(texts):
			unread = append(unread, fmt.Sprintf("%s (%s: a day)", name, texts[0]))
			continue
		case isCoarse(name) && rises(numbers) || strings.Contains(plainName(name), "arrival") || rank >= 0 && numbers == nil:
			unread = append(unread, fmt.Sprintf("%s (%s)", name, texts[0]))
			continue
		}
		if dates := datesIn(texts) && len(texts) > 1; !dates && (!rises(numbers) || numbering(numbers)) {
			continue
		} else if found = append(found, name); len(found) == 1 && !dates {
			if unit = epochUnit(numbers); unit == "" {
				unit = guessUnit(numbers, false)
			}
			unit = ",unit=" + unit
		}
	}
	switch {
	case len(found) == 1:
		c.note("no column is known to hold arrivals, so all requests come at once; %s may: --columns arrival=%s,input=%s,output=%s%s", found[0], found[0], t.input, t.output, unit)
	case len(found) == 0 && len(unread) > 0:
		c.note("no column is known to hold arrivals, so all requests come at once; not read, as neither times in s, ms, us or ns nor dates such as 2026-01-02T03:04:05: %s", strings.Join(unread, ", "))
	case len(found) > 1:
		c.note("no column is known to hold arrivals, so all requests come at once; %s may: --columns arrival=%s,input=%s,output=%s%s", strings.Join(found, ", "), found[0], t.input, t.output, unit)
	}
}

// numbering reports whether numbers count the rows.
func numbering(numbers []float64) bool {
	for i := range numbers {
		if i > 0 && numbers[i] != numbers[i-1]+1 {
			return false
		}
	}
	return true
}

// note adds a remark for readers of the file.
func (c *collector) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// reading returns the columns that were read.
func (c *collector) reading() Reading {
	t := &c.table
	r := Reading{Input: t.input, Output: t.output, Guessed: t.guessed, Session: t.session}
	if t.arrival != "" && c.timed {
		r.Times, r.Unit = t.arrival, t.name
	}
	if t.parent != "" {
		r.Session = t.parent
	}
	if c.blocks.lines > 0 {
		r.Hashes = hashField
	}
	if len(c.sessions) == 0 {
		r.Session = ""
	}
	return r
}

// lacks is the error for a file without one of the two lengths.
func (t *table) lacks(file string, line int, names []string) error {
	for _, name := range []string{t.input, t.output, t.arrival} {
		if name != "" && !slices.Contains(names, name) && (name != t.arrival || t.required) {
			return &input.Error{File: file, Line: line, Expected: "a column " + name, Nearest: input.Nearest(name, names)}
		}
	}
	return nil
}
