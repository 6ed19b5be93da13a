package configs

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
)

// meanings has a line "package.Type.Field, tab, comment of the field" for each field with a key.
//
//go:embed meanings.tsv
var meanings string

// Explanation is all that 'l3sim config explain' prints about a key.
type Explanation struct {
	Key     string `json:"key"`
	Meaning string `json:"meaning"`
	Takes   string `json:"takes"` // accepted kind of value, with its units
	Range   string `json:"range"` // "" where any such value is legal
	// Band is the range of an uncertain value; "" for a certain one, and for a constant, whose value includes its band.
	Band string `json:"band,omitempty"`
	// Value is the value in effect, set in SetIn. Source is the comment on it there.
	Value  string `json:"value"`
	SetIn  string `json:"set_in"`
	Source string `json:"source"`
	// Default is the value without files, --set and flags, set in DefaultIn.
	Default       string `json:"default"`
	DefaultIn     string `json:"default_in"`
	DefaultSource string `json:"default_source"`
}

// Explain describes a key in the configuration of o, which need not be valid. A name that is not a key is an *input.Error.
func (ld *Loader) Explain(o Options, key string) (*Explanation, error) {
	if err := ld.Made(); err != nil {
		return nil, err
	}
	k := ld.keys.Key(key)
	if k == nil {
		return nil, ld.unknown(key)
	}
	all, err := ld.explain(o, *k)
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// Find explains the keys of a section, or the keys with a word in their name or in a name that other programs use, followed by keys with
// the word in their meaning. An empty word finds all keys. A word that finds nothing is an *input.Error.
func (ld *Loader) Find(o Options, word string) ([]Explanation, error) {
	if err := ld.Made(); err != nil {
		return nil, err
	}
	found := ld.keys.Section(word)
	if slices.Contains(Tables(), word) {
		found = slices.DeleteFunc(slices.Clone(ld.keys.Keys), func(k schema.Key) bool { return k.Name != word && TableOf(k.Name) != word })
	} else if !ld.keys.IsSection(word) {
		called := ld.keys.Called(strings.ReplaceAll(word, "-", "_"))
		in := func(text func(k schema.Key) string) []schema.Key {
			return slices.DeleteFunc(slices.Clone(ld.keys.Keys), func(k schema.Key) bool {
				return !slices.Contains(called, k.Name) && !(len(word) != 2 && strings.Contains(strings.ToLower(text(k)), strings.ToLower(word)))
			})
		}
		found = in(func(k schema.Key) string { return k.Name })
		if len(word) > 2 { // two letters occur in every meaning
			for _, k := range in(func(k schema.Key) string { return meaning(&k) }) {
				if !slices.ContainsFunc(found, func(f schema.Key) bool { return f.Name == k.Name }) {
					found = append(found, k)
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, input.Edit(ld.unknown(word), func(e *input.Error) {
			e.Expected = "a section, or a word of a key's name or meaning"
			words := strings.FieldsFunc(strings.Join(ld.keys.Names(), "."), func(c rune) bool { return c == '.' || c == '_' })
			words = slices.DeleteFunc(words, func(w string) bool { return len(w) < 4 })
			e.Nearest = cmp.Or(input.Nearest(word, words), e.Nearest)
		})
	}
	return ld.explain(o, found...)
}

// explain explains keys in the configuration of o.
func (ld *Loader) explain(o Options, keys ...schema.Key) ([]Explanation, error) {
	r, err := ld.resolveOptions(nil, o)
	if err != nil {
		return nil, err
	}
	var preset Options
	if keys[0].Name != "preset" { // all other defaults come from the system preset
		preset.Flags = []Flag{{"preset", "preset", r.config.Preset}}
	}
	d, err := ld.resolveOptions(nil, preset)
	if err != nil {
		return nil, err
	}
	ld.once.ranges.Do(func() { ld.ranges = ld.readRanges() })
	return list.Map(keys, func(k schema.Key) Explanation {
		e := Explanation{Key: k.Name, Meaning: meaning(&k), Takes: schema.Takes(k.Type), Range: ld.ranges[k.Name]}
		e.Value, e.SetIn, e.Source = r.explain(&k)
		if band, has := r.bands[k.Name]; has {
			b := Band{key: &k}
			e.Band = fmt.Sprintf("[%s, %s]", b.Text(band.low), b.Text(band.high))
		}
		e.Default, e.DefaultIn, e.DefaultSource = d.explain(&k)
		return e
	}), nil
}

// meaning returns the comment of a key's field.
func meaning(k *schema.Key) string {
	in := strings.TrimPrefix(k.Owner.PkgPath(), "github.com/l3sim/l3sim/")
	return lineOf(meanings, in+"."+k.Owner.Name()+"."+k.Field)
}

// explain returns a key's value, the place that sets it, and the comment there.
func (r *resolution) explain(k *schema.Key) (value, place, source string) {
	o := r.origin[k.Name]
	place = o.file
	if o.line > 0 {
		place = fmt.Sprintf("%s:%d", o.file, o.line)
	}
	switch {
	case o.within != "":
		place = o.within + ", named by " + place
	case place == "":
		place = "the program, where nothing names another"
		o.comment = cmp.Or(o.comment, "none: no file of this configuration has it")
	}
	return schema.Text(k.Get(r.config)), place, o.comment
}

// readRanges returns the accepted values by key, as text. Rules that depend on other keys use the default configuration.
func (ld *Loader) readRanges() map[string]string {
	valid, err := ld.Load(Options{})
	if err != nil {
		return nil
	}
	one := reflect.ValueOf(1)
	for _, k := range ld.keys.Section("gpu") { // a kernel's section has rules only if the GPU has the kernel
		if len(k.Optional) > 0 && k.Get(valid).IsZero() && one.CanConvert(k.Type) && k.Type.Kind() != reflect.String {
			k.Set(valid, one.Convert(k.Type))
		}
	}
	all := input.Ranges(valid)
	for _, b := range bases {
		all[b.key] = "a file, or one of " + strings.Join(Names(b.kind), ", ")
	}
	for i := range namedTables {
		if n := &namedTables[i]; n.included() {
			all[n.key] = "a file, or one of " + strings.Join(Names(n.kind), ", ")
		}
	}
	all["preset"] = "one of " + strings.Join(Names(SystemPresets), ", ")
	return all
}

// WriteTOML writes every key of the configuration in the order of the struct; keys of [content] only if they name a file. Loading the text
// as the only overlay gives an equal Config.
func (c *Config) WriteTOML(w io.Writer) error {
	if err := c.Made(); err != nil {
		return err
	}
	lines := map[string][]byte{} // by section, since a section's own keys precede its nested sections
	for _, k := range c.loader.keys.Keys {
		value, ok := schema.Literal(k.Get(c).Interface())
		if !ok {
			return fmt.Errorf("configuration: %s cannot be written", k.Name)
		}
		section, key := schema.Split(k.Name)
		if strings.HasPrefix(k.Name, contentPrefix) && k.Get(c).Len() == 0 {
			continue
		}
		lines[section] = append(append(append(append(lines[section], key...), " = "...), value...), '\n')
	}
	text := lines[""]
	for _, section := range c.loader.keys.Sections() {
		if section+"." == contentPrefix && lines[section] == nil {
			continue
		}
		if outer, _ := schema.Split(section); outer == "" {
			text = append(text, '\n')
		}
		text = append(fmt.Appendf(text, "[%s]\n", section), lines[section]...)
	}
	_, err := w.Write(text)
	return err
}

// SHA256 returns the hexadecimal SHA-256 of the text of WriteTOML. It is equal for two configurations exactly if all keys are equal.
func (c *Config) SHA256() (string, error) {
	hash := sha256.New()
	if err := c.WriteTOML(hash); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
