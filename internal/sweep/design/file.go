package design

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// File is the content of a sweep file. Its points are all combinations of one choice from each axis
// that fulfil every condition, repeated over seeds.
type File struct {
	Path    string       // "" for a sweep without a file
	Configs []string     // overlay files of all points; a later one overrides an earlier one
	Sets    []string     // "section.key=value", overriding the files; not part of a sweep file
	Repeats int          // seeds of each point, from run.seed upwards; at least 1
	Set     []Setting    // settings of all points
	Axes    []Axis       // in the order of points: the last one varies fastest
	Where   []*condition // conditions; all must hold

	Loader *configs.Loader // loads the configurations of points; their keys are its keys
}

// Axis is one dimension of the design space.
type Axis struct {
	Kind    string // "grid", "zip", "list" or "latin_hypercube"
	Choices []Choice
	Dropped int // number of samples of a Latin hypercube dropped because they equal an earlier one
}

// Choice is one position on an axis: the keys that it sets.
type Choice struct {
	Name     string // part of the point's name; "": named by its settings
	Settings []Setting
}

// Setting gives a key of the configuration a value.
type Setting struct {
	Key   string
	Value string // in TOML
	Line  int    // line in the file; 0: unknown
}

// FindSetting returns the last setting of a key; nil if there is none.
func FindSetting(settings []Setting, key string) *Setting {
	for i := range slices.Backward(settings) {
		if settings[i].Key == key {
			return &settings[i]
		}
	}
	return nil
}

// MaxCombinations bounds the combinations of a sweep's axes, before conditions.
const MaxCombinations = 100_000

// ReadFile reads a sweep file over configurations of a loader. An error in the file is of type *input.Error and names
// file, line and key. A fault of the machine (input.IsSystemFault) is of another type.
func ReadFile(ld *configs.Loader, path string) (*File, error) {
	if err := ld.Made(); err != nil {
		return nil, err
	}
	text, err := input.ReadFile(path)
	if input.IsSystemFault(err) {
		return nil, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	if err != nil {
		return nil, err
	}
	return ParseFile(ld, input.Name(path), string(text))
}

// ParseFile is ReadFile for a text. Overlay files that it names are relative to path.
func ParseFile(ld *configs.Loader, path, text string) (*File, error) {
	p, err := newFileParser(ld, path, text)
	if err != nil {
		return nil, err
	}
	return p.file()
}

// newFileParser decodes a text.
func newFileParser(ld *configs.Loader, path, text string) (*fileParser, error) {
	var document map[string]any
	meta, err := input.DecodeTOML(path, text, &document)
	if err != nil {
		return nil, err
	}
	p := &fileParser{loader: ld, keys: ld.Keys(), path: path, lines: map[string]int{}, document: document, order: map[string]int{}}
	for key, place := range schema.Scan(text) {
		p.lines[strings.ReplaceAll(key, `"`, "")] = place.Line
	}
	for i, key := range meta.Keys() {
		for n := range key { // a dotted key opens the tables that lead to it
			if name := strings.Join(key[:n+1], "."); p.order[name] == 0 {
				p.order[name] = i + 1
			}
		}
	}
	return p, nil
}

// fileParser turns a decoded document into a File.
type fileParser struct {
	loader   *configs.Loader
	keys     *configs.Schema // of the loader
	path     string
	lines    map[string]int // of keys, unquoted, as in schema.Scan
	document map[string]any
	order    map[string]int // position of each key in the document, from 1; unquoted, joined by dots
}

// fail adds the place to an error.
func (p *fileParser) fail(line int, err error) error {
	return input.Edit(err, func(e *input.Error) { e.File, e.Line = p.path, line })
}

// line returns the line, from 1, on which the nth table of a section ("" for the top) sets key, or
// the longest prefix of it; for an empty key, the line on which the table begins.
func (p *fileParser) line(section string, nth int, key string) int {
	for {
		for _, table := range []string{fmt.Sprintf("%s[%d]", section, nth), section} {
			if line := p.lines[strings.Trim(table+"."+key, ".")]; line > 0 {
				return line
			}
		}
		if key == "" {
			return 0
		}
		key, _ = schema.Split(key)
	}
}

// sections are the keys at the top of a file, with the methods that read their values.
var sections = map[string]func(p *fileParser, f *File, line int, value any) error{
	"config": (*fileParser).config, "repeats": (*fileParser).repeats, "where": (*fileParser).where, "set": (*fileParser).set,
	"grid": (*fileParser).grid, "zip": (*fileParser).zip, "list": (*fileParser).list, LatinHypercube: (*fileParser).latin,
}

// file reads the document of a sweep.
func (p *fileParser) file() (*File, error) {
	f := &File{Path: p.path, Repeats: 1, Loader: p.loader}
	for _, key := range p.sorted(p.document, "") {
		line := p.line("", 0, key)
		if read := sections[key]; read != nil {
			if err := read(p, f, line, p.document[key]); err != nil {
				return nil, err
			}
			continue
		}
		return nil, p.fail(line, input.Edit(input.UnknownName(key, key, slices.Collect(maps.Keys(sections))), func(e *input.Error) {
			e.Value = ""
			if p.keys.Key(key) != nil || strings.Contains(key, ".") {
				e.Nearest = "set." + key
			}
		}))
	}
	return f, p.conflicts(f)
}

// config reads the name of the overlay file.
func (p *fileParser) config(f *File, line int, value any) error {
	config, ok := value.(string)
	if !ok || config == "" {
		return p.fail(line, &input.Error{Key: "config", Value: fmt.Sprint(value), Expected: "a text"})
	}
	if !filepath.IsAbs(config) {
		config = filepath.Join(filepath.Dir(p.path), config)
	}
	f.Configs = []string{config}
	if _, missing := os.Stat(config); missing != nil && !input.IsSystemFault(missing) {
		return p.fail(line, &input.Error{Key: "config", Value: fmt.Sprintf("%q", value), Expected: "a file, here " + config,
			Err: errors.Unwrap(missing)})
	}
	return nil
}

// repeats reads the number of seeds.
func (p *fileParser) repeats(f *File, line int, value any) error {
	n, ok := value.(int64)
	if !ok || n < 1 || n > MaxCombinations {
		return p.fail(line, &input.Error{Key: "repeats", Value: fmt.Sprint(value), Expected: fmt.Sprintf("1 to %d", MaxCombinations)})
	}
	f.Repeats = int(n)
	return nil
}

// set reads the settings of all points.
func (p *fileParser) set(f *File, _ int, value any) error {
	leaves, err := p.leaves("set", 0, value, false)
	if err != nil {
		return err
	}
	for _, l := range leaves {
		s, err := p.setting(l)
		if err != nil {
			return err
		}
		f.Set = append(f.Set, s)
	}
	return nil
}

// where reads one expression or an array of them.
func (p *fileParser) where(f *File, line int, value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		text, ok := v.(string)
		if !ok {
			return p.fail(line, &input.Error{Key: "where", Value: fmt.Sprint(v), Expected: `an expression in quotes, such as "node.ranksets <= 8"`})
		}
		c, err := ParseCondition(p.keys, text)
		if err != nil {
			return p.fail(line, err)
		}
		f.Where = append(f.Where, c)
	}
	return nil
}

// sorted returns the keys of a table in the order of the document.
func (p *fileParser) sorted(table map[string]any, prefix string) []string {
	return slices.SortedFunc(maps.Keys(table), func(a, b string) int {
		if d := p.order[prefix+a] - p.order[prefix+b]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// leaf is a key of a section with its decoded value.
type leaf struct {
	key   string
	value any
	line  int
}

// leaves returns the keys of the nth table of a section, dotted keys and
// subsections joined, in the order of the document. Each must be a key of the
// configuration, or "name" where that is allowed.
func (p *fileParser) leaves(section string, nth int, value any, named bool) ([]leaf, error) {
	table, ok := value.(map[string]any)
	if !ok {
		return nil, p.fail(p.line("", 0, section), &input.Error{Key: section, Expected: "a section"})
	}
	var all []leaf
	var walk func(table map[string]any, prefix string) error
	walk = func(table map[string]any, prefix string) error {
		if len(table) == 0 {
			place := strings.TrimSuffix(section+"."+prefix, ".")
			return p.fail(p.line(section, nth, strings.TrimSuffix(prefix, ".")), &input.Error{Key: place, Expected: "at least one key"})
		}
		for _, k := range p.sorted(table, section+"."+prefix) {
			key := prefix + k
			l := leaf{key, table[k], p.line(section, nth, key)}
			switch sub, isTable := table[k].(map[string]any); {
			case p.keys.Key(key) != nil, named && key == "name":
				all = append(all, l)
			case isTable:
				if err := walk(sub, key+"."); err != nil {
					return err
				}
			default:
				return p.fail(l.line, p.keys.Unknown(key))
			}
		}
		return nil
	}
	if err := walk(table, ""); err != nil {
		return nil, err
	}
	return all, nil
}

// setting makes a setting of a leaf with a single value.
func (p *fileParser) setting(l leaf) (Setting, error) {
	text, ok := schema.Literal(l.value)
	if !ok {
		return Setting{}, p.fail(l.line, &input.Error{Key: l.key, Value: fmt.Sprint(l.value), Expected: "a single value"})
	}
	return Setting{l.key, text, l.line}, nil
}
