package dram

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units"
)

// valueRow sets a key of a Spec, or a timing of the standard alone, in all parts whose names have all the words in when. The last matching
// row counts.
type valueRow struct {
	when         []string
	key          string
	value        expression
	text, source string
	place        error // of the row, for errors
}

// row returns the row that sets key in the named part, or nil.
func (s *Standard) row(part, key string) *valueRow {
	words := strings.Split(strings.ToLower(part), "-")
	for i := len(s.values) - 1; i >= 0; i-- {
		v := &s.values[i]
		if v.key == key && !slices.ContainsFunc(v.when, func(w string) bool { return !slices.Contains(words, w) }) {
			return v
		}
	}
	return nil
}

// Source returns the origin of a key's value in a part: the line in the standard's own table, 0 for a row of its base, and the source that
// the row names.
func (s *Standard) Source(part, key string) (line int, source string) {
	row := s.row(part, key)
	if row == nil {
		return 0, ""
	}
	if at, ok := row.place.(*input.Error); ok && at.File == s.file {
		line = at.Line
	}
	return line, row.source
}

// Obey makes s follow a user's standard instead of a shipped one, as long as s.Standard is its name.
func (s *Spec) Obey(own *Standard) { s.standard = own }

// composer fills the keys of a Spec from a table's rows.
type composer struct {
	spec   *Spec
	keys   *schema.Schema
	values map[string]bool // keys that are set; false while the value is being computed
}

// compose returns the named part; the name must be one of PartNames.
func (s *Standard) compose(name string) (*Spec, error) {
	c := &composer{&Spec{Name: name, Standard: s.Name, ECC: NoECC, standard: s}, schema.Of[Spec](), map[string]bool{}}
	for _, k := range c.keys.Keys {
		if row := s.row(name, k.Name); row != nil {
			if err := c.set(row, &k); err != nil {
				return nil, err
			}
		}
	}
	return c.spec, nil
}

// set evaluates a row, after the rows that it depends on, and sets its key. The error has the place of the faulty row.
func (c *composer) set(row *valueRow, key *schema.Key) error {
	err := c.evaluate(row, key)
	if bad := new(input.Error); err == nil || errors.As(err, &bad) {
		return err
	}
	return input.Edit(row.place, func(e *input.Error) { e.Err = err })
}

// evaluate computes the value of a row. It first sets the values that the row's expression names; a cycle is an error.
func (c *composer) evaluate(row *valueRow, key *schema.Key) error {
	if done, begun := c.values[row.key]; begun {
		if !done {
			return fmt.Errorf("%s depends on itself", row.key)
		}
		return nil
	}
	c.values[row.key] = false
	var inner error
	scope := c.spec.scope()
	if row.key != "tCK" {
		if first := c.spec.standard.row(c.spec.Name, "tCK"); first != nil {
			inner = c.set(first, c.keys.Key("tCK"))
		}
		scope.tck = c.spec.TCK
	}
	scope.lookup = func(name string) (float64, bool) {
		if other := c.keys.Key(name); other != nil && inner == nil {
			if r := c.spec.standard.row(c.spec.Name, name); r != nil {
				inner = c.set(r, other)
			}
		}
		return c.spec.timing(name)
	}
	q := row.value(scope)
	for _, err := range []error{inner, scope.err} {
		if err != nil {
			return err
		}
	}
	field := key.Get(c.spec)
	switch {
	case field.Type() == reflect.TypeFor[units.Duration]():
		if !q.time {
			return fmt.Errorf("%s gives %v: expected a time, such as 625ps", row.text, q.n)
		}
		field.SetInt(int64(q.n))
	case field.CanFloat():
		field.SetFloat(q.n)
	case field.CanInt():
		n, err := scope.whole(row.text, q)
		if err != nil {
			return err
		}
		field.SetInt(n)
	default:
		return fmt.Errorf("no table sets %s", row.key)
	}
	c.values[row.key] = true
	return nil
}

// whole converts a quantity that must be a whole number of clocks.
func (s *scope) whole(text string, q quantity) (int64, error) {
	n := s.clocks(q)
	if s.err != nil {
		return 0, s.err
	}
	if n != math.Trunc(n) || math.Abs(n) > 1<<40 {
		return 0, fmt.Errorf("%s gives %v: expected a whole number", text, n)
	}
	return int64(n), nil
}

// Timings are timings of a part that are not keys of Spec and differ from its standard's table: "tPPD 2, tRREFD 8".
type Timings string

// values returns clocks by name. Check refuses invalid text.
func (t Timings) values() (map[string]int, error) {
	values := map[string]int{}
	for one := range strings.SplitSeq(string(t), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		name, number, _ := strings.Cut(one, " ")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 0 || n > 1<<20 {
			return nil, &input.Error{Value: string(t), Expected: `names and clocks, such as "tPPD 2, tRREFD 8"`}
		}
		if _, twice := values[name]; !twice {
			values[name] = n
		}
	}
	return values, nil
}

func (t Timings) with(name string, clocks int) Timings {
	values, err := t.values()
	if err != nil {
		values = map[string]int{}
	}
	values[name] = clocks
	var list []string
	for _, n := range slices.Sorted(maps.Keys(values)) {
		list = append(list, fmt.Sprintf("%s %d", n, values[n]))
	}
	return Timings(strings.Join(list, ", "))
}

// table returns the standard of s, or nil for an unknown name, which Check refuses.
func (s *Spec) table() *Standard {
	name := cmp.Or(s.Standard, DefaultStandard)
	if s.standard != nil && s.standard.Name == name {
		return s.standard
	}
	if i := slices.IndexFunc(Standards(), func(t *Standard) bool { return t.Name == name }); i >= 0 {
		return Standards()[i]
	}
	return nil
}

// scope returns the scope for expressions of s; it evaluates each timing once.
func (s *Spec) scope() *scope {
	known := map[string]float64{}
	return &scope{tck: s.TCK, round: s.table().round, lookup: func(name string) (float64, bool) {
		v, ok := known[name]
		if !ok {
			if v, ok = s.timing(name); ok {
				known[name] = v
			}
		}
		return v, ok
	}}
}

// Timing returns a timing of s in clocks, by its name in the standard's table, and false for an unknown name.
func (s *Spec) Timing(name string) (clocks int, ok bool) {
	v, ok := s.timing(name)
	return int(v), ok
}

// timing returns the value of a name in an expression: a key of s, a timing that only this standard has, or a row of the standard's table
// for the part.
func (s *Spec) timing(name string) (float64, bool) {
	switch name {
	case "burst":
		return float64(s.BurstClocks()), true
	case "bank_groups":
		return float64(s.BankGroups), true
	case "banks_per_group":
		return float64(s.BanksPerGroup), true
	}
	if clocks := s.clocks(name); clocks != nil {
		return float64(*clocks), true
	}
	if values, _ := s.Timings.values(); len(values) > 0 {
		if n, ok := values[name]; ok {
			return float64(n), true
		}
	}
	row := s.table().row(s.Name, name)
	if row == nil || s.depth > maxDepth {
		return 0, false
	}
	inner := *s
	inner.depth++
	scope := inner.scope()
	n, err := scope.whole(row.text, row.value(scope))
	return float64(n), err == nil
}

const maxDepth = 8 // bounds the nesting of timings that depend on others

// checkParts validates every part of a table, and every rule of it.
func (s *Standard) checkParts(file string) error {
	for _, name := range s.PartNames() {
		part, err := s.compose(name)
		if err == nil {
			err = input.Validate(part)
		}
		if err != nil {
			return input.Edit(err, func(e *input.Error) {
				if e.File != "" && e.File != file { // the row is in the base
					e.Err = fmt.Errorf("%s, line %d: %w", e.File, e.Line, e.Err)
					e.File, e.Line = file, 0
				}
				if e.File == "" {
					e.File = file
					if row := s.row(name, e.Key); row != nil {
						if at, ok := row.place.(*input.Error); ok {
							e.Line = at.Line
						}
					}
				}
				if e.Expected == "" {
					e.Expected = "another value"
				}
				e.Expected += ", in the part " + name + s.missing(name, e.Key)
			})
		}
	}
	return nil
}

// missing lists the parts that have a row for key, if the named part has none; else "".
func (s *Standard) missing(name, key string) string {
	if s.row(name, key) != nil {
		return ""
	}
	var words []string
	for i := range s.values {
		if v := &s.values[i]; v.key == key && len(v.when) > 0 {
			words = append(words, strings.Join(v.when, " "))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(", for which no row gives %s: rows are for %s", key, strings.Join(words, ", "))
}

// Parameter describes one timing of a spec, as the command line prints it.
type Parameter struct {
	Timing
	Clocks int
}

// Parameters returns the timings of s in clocks, with meaning and source, in the order of its standard's table.
func (s *Spec) Parameters() []Parameter {
	var list []Parameter
	for _, t := range s.table().Timings {
		if clocks, ok := s.Timing(t.Term); ok {
			list = append(list, Parameter{t, clocks})
		}
	}
	return list
}

// Set sets a field of s by its configuration key ("tRFC", "rows", "power.IDD0"), or a timing that only its standard has ("tPPD"). Quotes in
// text are optional. Call input.Validate after the last one.
func (s *Spec) Set(key, value string) error {
	keys := schema.Of[Spec]()
	table := s.table()
	if keys.Key(key) != nil || table == nil {
		return keys.Set(s, key, value)
	}
	if !slices.Contains(table.TimingNames(), key) {
		return &input.Error{Key: key, Expected: "a key of the part", Nearest: input.Nearest(key, append(keys.Names(), table.TimingNames()...))}
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > 1<<20 {
		return &input.Error{Key: key, Value: value, Expected: "a whole number of clocks"}
	}
	s.Timings = s.Timings.with(key, n)
	return nil
}
