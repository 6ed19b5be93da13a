package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// A named table is a set of keys that another key includes by name, from an embedded table or a file. A layer that names a table replaces
// the entries of lower layers. Keys in the same layer or above override the table's entries.
type namedTable struct {
	key      string
	kind     Kind
	sections []string // sections of the table's entries
	but      []string // keys of these sections that are not entries
}

var namedTables = []namedTable{
	{"gpu.fit", Fits, sectionsIn("gpu"), nil},
	{"energy.constants", EnergyTables, []string{"energy"}, nil},
	{"dram.preset", DRAMs, []string{"dram"}, []string{"dram.dies", "dram.ecc", "dram.timings"}},
	{"prices.preset", PriceLists, []string{"prices"}, nil},
}

// sectionsIn returns the direct subsections of a section.
func sectionsIn(section string) []string {
	return slices.DeleteFunc(keys.Sections(), func(s string) bool { in, _ := schema.Split(s); return in != section })
}

// has reports whether a key is an entry of the table.
func (n *namedTable) has(key string) bool {
	return key != n.key && !slices.Contains(n.but, key) &&
		slices.ContainsFunc(n.sections, func(s string) bool { return strings.HasPrefix(key, s+".") })
}

// TableOf returns the key that names the table with the entry key, or "".
func TableOf(key string) string {
	for i := range namedTables {
		if namedTables[i].has(key) {
			return namedTables[i].key
		}
	}
	return ""
}

// Tables returns the keys that name tables.
func Tables() []string {
	var names []string
	for i := range namedTables {
		names = append(names, namedTables[i].key)
	}
	return names
}

// included reports whether the table's entries are added to the layer that names it. Tables of the other kinds are roots of sections
// (bases).
func (n *namedTable) included() bool { return n.kind == Fits || n.kind == EnergyTables }

// include adds the entries of the tables that a layer names to the layer, except entries that the layer has itself.
func (ld *Loader) include(l *layer) (*layer, error) {
	for i := range namedTables {
		n := &namedTables[i]
		named := l.find(n.key)
		if named == nil || !n.included() || named.value.String() == "" || n.whole(ld, l) {
			continue
		}
		table, err := ld.table(n, named)
		if err != nil {
			return nil, err
		}
		if n.whole(ld, table) {
			l.whole = append(l.whole, n.key)
		}
		own := *named
		for _, e := range table.entries {
			if l.find(e.key) == nil {
				e.named = &own
				l.entries = append(l.entries, e)
			}
		}
	}
	return l, nil
}

// whole reports whether a layer has every required entry of the table. Entries of lower layers then do not apply. A run's configuration,
// when read again, has all entries next to the table's name.
func (n *namedTable) whole(ld *Loader, l *layer) bool {
	return !slices.ContainsFunc(ld.keys.Keys, func(k schema.Key) bool { return n.has(k.Name) && len(k.Optional) == 0 && l.find(k.Name) == nil })
}

// replaced reports whether a layer above an entry of a table names another whole table in its place.
func (e *entry) replaced(above ...*layer) bool {
	return e.named != nil && slices.ContainsFunc(above, func(l *layer) bool { return slices.Contains(l.whole, e.named.key) })
}

// FitWith returns an embedded fit that sets a key or, if none does, other keys of its section. The configuration's own fit comes first. It
// returns "" if no fit does.
func (c *Config) FitWith(key string) string {
	section, _ := schema.Split(key)
	for _, sets := range []func(e entry) bool{
		func(e entry) bool { return e.key == key }, func(e entry) bool { return strings.HasPrefix(e.key, section+".") },
	} {
		for _, name := range append([]string{c.GPU.Fit}, Names(Fits)...) {
			if l, err := presetLayer(Fits, name, "gpu.fit"); err == nil && slices.ContainsFunc(l.entries, sets) {
				return name
			}
		}
	}
	return ""
}

// table reads the table that an entry names.
func (ld *Loader) table(n *namedTable, named *entry) (*layer, error) {
	name := named.value.String()
	if slices.Contains(Names(n.kind), name) {
		return plain.presetLayer(&presetLayers, n.kind, name, n.key)
	}
	if !isFile(name) {
		return nil, at(named, unknownPreset(n.kind, name, n.key))
	}
	text, err := input.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = &input.Error{Key: n.key, Value: strconv.Quote(name), Err: err, Expected: "a TOML file, or one of " + strings.Join(Names(n.kind), ", ")}
	}
	if err != nil {
		return nil, at(named, err)
	}
	l, err := ld.parse(input.Name(name), string(text))
	if err == nil && n.kind == Fits {
		err = checkFit(input.Name(name), string(text))
	}
	if err != nil {
		return nil, err
	}
	for _, e := range l.entries {
		if !n.has(e.key) {
			return nil, &input.Error{File: e.file, Line: e.line, Key: e.key, Expected: fmt.Sprintf("keys of [%s] alone in a file that %s names", strings.Join(n.sections, "], ["), n.key)}
		}
	}
	if len(l.entries) == 0 {
		return nil, &input.Error{File: l.file, Expected: "a section [" + n.sections[0] + "]"}
	}
	return l, nil
}

// Fit is the section [fit] of a table of kernel parameters: where they come from. It sets no key. [gpu.measured] of the table has the range
// of the data.
type Fit struct {
	Source string `toml:"source"` // of the measurements
	Rows   int    `toml:"rows"`   // number of rows that the parameters were fitted to; 0 for none or unknown
	// HeldOut describes errors on held-out rows that are not of a single kind of kernel.
	HeldOut string `toml:"held_out,omitempty"`
	// Base is the fit that supplies all kinds without an entry in Kinds; "" for none.
	Base string `toml:"base,omitempty"`
	// Scaled reports that Base is another GPU's fit, scaled by the data sheets.
	Scaled bool               `toml:"scaled,omitempty"`
	Kinds  map[string]FitKind `toml:"kinds,omitempty"` // by kind of kernel
}

// FitKind says where the parameters of a kind of kernels come from.
type FitKind struct {
	Rows int `toml:"rows,omitempty"` // number of rows that they were fitted to
	// Mean, Median and P90 are errors in percent on held-out shapes; 0 if unknown.
	Mean   float64 `toml:"mean,omitempty"`
	Median float64 `toml:"median,omitempty"`
	P90    float64 `toml:"p90,omitempty"`
	Range  string  `toml:"range,omitempty"` // range of the rows
	From   string  `toml:"from,omitempty"`  // another fit, from which the parameters are taken
}

// String formats the entry as in a fit file.
func (k FitKind) String() string {
	var fields []string
	add := func(given bool, format string, v any) {
		if given {
			fields = append(fields, fmt.Sprintf(format, v))
		}
	}
	add(k.Rows > 0, "rows = %d", k.Rows)
	add(k.Mean > 0, "mean = %.1f", k.Mean)
	add(k.Median > 0, "median = %.1f", k.Median)
	add(k.P90 > 0, "p90 = %.1f", k.P90)
	add(k.Range != "", "range = %q", k.Range)
	add(k.From != "", "from = %q", k.From)
	return "{" + strings.Join(fields, ", ") + "}"
}

// FitOf returns the origin of an embedded fit.
func FitOf(name string) (*Fit, error) {
	text, err := source(Fits, name, "gpu.fit")
	if err != nil {
		return nil, err
	}
	return fitOf(string(Fits)+" "+name, text)
}

// fitOf reads the section [fit] of a file.
func fitOf(file, text string) (*Fit, error) {
	var document struct {
		Fit Fit `toml:"fit"`
	}
	_, err := input.DecodeTOML(file, text, &document)
	return &document.Fit, err
}

// checkFit returns the faults in the section [fit] of a user's file.
func checkFit(file, text string) error {
	f, err := fitOf(file, text)
	if err != nil {
		return err
	}
	places := schema.Scan(text)
	bad := func(key string, value any, expected string) error {
		line := places[key].Line
		for k := key; line == 0 && strings.Contains(k, "."); { // a field of an inline table has the line of its kind
			k = k[:strings.LastIndexByte(k, '.')]
			line = places[k].Line
		}
		return &input.Error{File: file, Line: line, Key: key, Value: fmt.Sprint(value), Expected: expected}
	}
	source := func(key, name string) error {
		if name == "" || isFile(name) || slices.Contains(Names(Fits), name) {
			return nil
		}
		err := input.UnknownName(key, name, Names(Fits))
		return input.Edit(err, func(e *input.Error) { e.File, e.Line = file, bad(key, name, "").(*input.Error).Line })
	}
	if f.Rows < 0 {
		return bad("fit.rows", f.Rows, "0 or more rows")
	}
	if err := source("fit.base", f.Base); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Kinds)) {
		k, key := f.Kinds[kind], "fit.kinds."+kind
		if k.Rows < 0 {
			return bad(key+".rows", k.Rows, "0 or more rows")
		}
		for _, e := range []struct {
			name string
			v    float64
		}{{"mean", k.Mean}, {"median", k.Median}, {"p90", k.P90}} {
			if !(e.v >= 0 && e.v <= 1e6) {
				return bad(key+"."+e.name, e.v, "an error in percent, 0 or more")
			}
		}
		if err := source(key+".from", k.From); err != nil {
			return err
		}
	}
	return nil
}

// describesFit reports whether a key is [fit] or one of its keys.
func describesFit(key string) bool {
	return key == "fit" || slices.Contains(describingKeys, key) || strings.HasPrefix(key, "fit.kinds.") && inKinds(key)
}

// describingKeys are the keys of [fit] other than those of kinds.
var describingKeys = []string{"fit.source", "fit.rows", "fit.held_out", "fit.base", "fit.scaled", "fit.kinds"}

// inKinds reports whether a key is a kind or one of its fields.
func inKinds(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) == 3 || len(parts) == 4 && slices.Contains([]string{"rows", "mean", "median", "p90", "range", "from"}, parts[3])
}
