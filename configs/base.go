package configs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/llm"
)

// base is a section that starts from its own preset, or from a file with the whole section.
type base struct {
	key     string // the key that names the preset or file
	section string
	kind    Kind
	also    string // another section that the section's files may have; "" for none
}

const memoryShare = "gpu.memory_share"

// served are keys of such sections that say how a server uses the hardware or model. They stay in effect when a higher layer names another
// one.
var served = []string{memoryShare, "model.expert_tile_hidden", "model.expert_tile_ffn", "model.expert_scale_copies"}

// bases are the sections that may start from a preset or a file.
var bases = []base{
	{"run.model", "model", Model, ""},
	{"gpu.preset", "gpu", GPUs, "pcie"},
	{"dram.preset", "dram", DRAMs, ""},
	{"prices.preset", "prices", PriceLists, ""},
}

var keys = schema.Of[Config]() // keys of the sections that every configuration has

// name returns the key that holds the section's own name.
func (b *base) name() string { return b.section + ".name" }

// root is the preset or file from which a section of a configuration starts.
type root struct {
	preset  string   // name of the preset, or of a part in a table; "" if a file has the whole section
	entries []entry  // of the preset
	files   []*layer // files named instead of the preset or on top of it, the lowest first
	named   *entry   // the entry that names the root
	owner   int      // index of the layer of named
	table   *table   // the table of a user's DRAM part; nil for shipped parts
}

// identity returns the preset or the file that a layer names for the section, or "".
func (b *base) identity(l *layer) string {
	if e := l.find(b.key); e != nil {
		return e.value.String()
	}
	return ""
}

// describes reports whether a layer gives a section as a whole, by its name.
func (b *base) describes(l *layer, name string) bool {
	own := l.find(b.name())
	return own != nil && own.value.String() == name && len(b.missing(l)) == 0
}

// missing returns the required keys of the section that a layer does not set.
func (b *base) missing(l *layer) []string {
	var missing []string
	for _, k := range keys.Section(b.section) {
		if k.Name != b.key && k.Name != l.derives && l.find(k.Name) == nil && !l.mayLack(&k) {
			missing = append(missing, strings.TrimPrefix(k.Name, b.section+"."))
		}
	}
	return missing
}

// mayLack reports whether the layer may leave out a key: the key is optional, or is in an optional section of which the layer sets nothing.
func (l *layer) mayLack(k *schema.Key) bool {
	return slices.ContainsFunc(k.Optional, func(o string) bool {
		return o == k.Name || !slices.ContainsFunc(l.entries, func(e entry) bool { return strings.HasPrefix(e.key, o) })
	})
}

// find returns the root of the section: from the highest layer down, the first layer that names a preset or has the whole section. A run's
// configuration file has the whole section and names itself. Files without a name of their own apply on top of the root that lower layers
// name.
func (b *base) find(ld *Loader, layers []*layer) (*root, error) {
	r := &root{}
	for i := len(layers) - 1; i >= 0; i-- {
		below, named, own := layers[:i], layers[i].find(b.key), layers[i].find(b.name())
		if named == nil && b.changes(own, below) {
			continue
		} else if named == nil {
			return nil, b.unnamed(own, below)
		}
		name := named.value.String()
		switch {
		case slices.Contains(Names(b.kind), name):
			return b.preset(r, i, named, name)
		case b.describes(layers[i], name):
			r.named, r.owner = named, i
			return r, nil
		case name == b.identityBelow(below):
			continue
		}
		if b.kind == DRAMs {
			if err := dram.ForeignForm(b.key, name); err != nil {
				return nil, at(named, err)
			}
		}
		if !isFile(name) && !(b.kind == Model && isModelFolder(name)) {
			_, err := source(b.kind, name, b.key)
			return nil, at(named, err)
		}
		file, err := b.read(ld, name)
		if err != nil {
			return nil, at(named, err)
		}
		r.files = slices.Insert(r.files, 0, file)
		if file.table != nil {
			r.preset, r.table, r.named, r.owner = name, file.table, named, i
			return r, nil
		}
		if e := file.find(b.key); e != nil { // a file that starts from a preset
			return b.preset(r, i, e, e.value.String())
		}
		if own := file.find(b.name()); own != nil && own.value.String() != b.identityBelow(below) {
			if missing := b.missing(file); len(missing) > 0 {
				return nil, b.incomplete(own, missing, b.identityBelow(below))
			}
			r.named, r.owner = named, i
			return r, nil
		}
	}
	if len(r.files) > 0 {
		return nil, &input.Error{File: r.files[0].file, Key: b.name(), Expected: "a name for the whole section, or " + b.key + " with the preset that it starts from"}
	}
	return nil, &input.Error{File: layers[0].file, Key: b.key, Expected: "the name of a preset"}
}

// changes reports whether a layer only modifies the section of the layers below: its name for the section (own) is nil, comes from --set,
// or equals theirs.
func (b *base) changes(own *entry, below []*layer) bool {
	return own == nil || own.line == 0 || own.value.String() == b.identityBelow(below)
}

// unnamed is the error for a layer that gives the section a name of its own but does not say what it starts from.
func (b *base) unnamed(own *entry, below []*layer) error {
	return &input.Error{File: own.file, Line: own.line, Key: own.key, Value: schema.Written(own.value.String()), Expected: fmt.Sprintf(
		"%s with it, the preset or the file that [%s] starts from (%s takes a file with a whole section); without a name it changes %s",
		b.key, b.section, b.key, b.identityBelow(below))}
}

func (b *base) identityBelow(layers []*layer) string {
	for _, l := range slices.Backward(layers) {
		if id := b.identity(l); id != "" {
			return id
		}
	}
	return ""
}

func (b *base) preset(r *root, owner int, named *entry, name string) (*root, error) {
	l, err := presetLayer(b.kind, name, b.key)
	if err != nil {
		return nil, at(named, err)
	}
	r.preset, r.entries, r.named, r.owner = name, l.entries, named, owner
	return r, nil
}

// incomplete is the error for a section that has a name of its own and lacks keys.
func (b *base) incomplete(name *entry, missing []string, below string) error {
	const most = 5
	list := strings.Join(missing[:min(len(missing), most)], ", ")
	if n := len(missing) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	bad := &input.Error{File: name.file, Line: name.line, Key: name.key, Value: schema.Written(name.value.String()), Expected: fmt.Sprintf(
		"a whole section [%s] with a new name: it lacks %s; with %s it starts from a preset", b.section, list, b.key)}
	if below != "" {
		bad.Expected += ", without a name it changes " + below
	}
	return bad
}

// isFile reports whether a name that is not a preset's looks like a file.
func isFile(name string) bool {
	ext := filepath.Ext(name)
	info, err := os.Stat(name)
	return name == input.Stdin || strings.ContainsAny(name, `/\`) || strings.Contains(name, ".toml:") || ext == ".toml" || ext == ".json" || err == nil && info.Mode().IsRegular()
}

// isModelFolder reports whether a name is a folder with a config.json, the form that servers accept.
func isModelFolder(name string) bool {
	info, err := os.Stat(filepath.Join(name, modelFile))
	return err == nil && info.Mode().IsRegular()
}

// noFile is the error for a path that does not exist, and may be the name of a model on Hugging Face.
func (b *base) noFile(path string, err error) error {
	what := "a TOML file with [" + b.section + "]"
	switch b.kind {
	case Model:
		what = "a model's config.json, the folder that has it, or " + what
	case DRAMs:
		what += " or the table of a standard"
	}
	if ext := filepath.Ext(path); b.kind == Model && ext != ".json" && ext != ".toml" {
		what += " on this machine (nothing is fetched from Hugging Face)"
	}
	names := Names(b.kind)
	return &input.Error{Key: b.key, Value: strconv.Quote(path), Err: cmp.Or(errors.Unwrap(err), err), Expected: what + ", or one of " + strings.Join(names, ", "),
		Nearest: input.Alike(strings.TrimPrefix(strings.ToLower(filepath.Base(path)), "meta-"), names)}
}

// read reads a file with the section: TOML, a model's config.json, or a table of a DRAM standard.
func (b *base) read(ld *Loader, path string) (*layer, error) {
	if b.kind == DRAMs {
		l, err := tableLayer(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, b.noFile(path, err)
		}
		if l != nil || err != nil {
			return l, err
		}
	}
	most := input.MaxText
	if b.kind == Model {
		path, most = inFolder(path), maxModelText
	}
	if what, instead := otherKind(path); b.kind == Model && what != "" {
		return nil, &input.Error{File: input.Name(path), Value: what, Expected: instead}
	}
	text, err := input.ReadUpTo(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, b.noFile(path, err)
	}
	if err != nil {
		return nil, err
	}
	if b.kind == Model && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return modelLayer(path, text)
	}
	l, err := ld.parse(input.Name(path), string(text))
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(l.entries, func(e entry) bool { return strings.HasPrefix(e.key, b.section+".") || e.key == b.key }) {
		return nil, &input.Error{File: l.file, Expected: "a section [" + b.section + "]"}
	}
	if b.kind == PriceLists && l.find("prices.date") == nil {
		return nil, &input.Error{File: l.file, Key: "prices.date", Expected: "the date of the prices in this file, YYYY-MM-DD"}
	}
	for _, e := range l.entries {
		if section, _, _ := strings.Cut(e.key, "."); e.key != b.key && section != b.section && section != b.also {
			return nil, &input.Error{File: e.file, Line: e.line, Key: e.key, Expected: "keys of [" + b.section + "] alone in a file that " + b.key + " names"}
		}
	}
	return l, nil
}

// modelFile is the file of a model on Hugging Face's hub that describes its shape.
const modelFile = "config.json"

// maxModelText bounds a config.json in bytes. Quantised checkpoints may list every module that is not quantised.
const maxModelText = 16 << 20

// inFolder returns the path of the config.json in a model's folder, and any other path unchanged.
func inFolder(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, modelFile)
	}
	return path
}

// modelLayer reads a model's config.json, which does not say how many GPUs share a replica.
func modelLayer(path string, text []byte) (*layer, error) {
	name, beside := besideModel(path)
	m, quantised, notes, err := llm.FromCheckpoint(text, name, beside)
	if err != nil {
		return nil, input.Edit(err, func(e *input.Error) { e.File = input.Name(path) })
	}
	if m.Name == "" {
		m.Name = modelName(path)
	}
	l := &layer{derives: layoutKey, file: input.Name(path)}
	comment := "from " + l.file
	if beside != nil {
		comment += " and " + name + " beside it"
	}
	for _, note := range notes {
		l.notes = append(l.notes, l.file+": "+note)
	}
	for _, k := range schema.Of[llm.Model]().Keys {
		if key := "model." + k.Name; key != l.derives && !slices.Contains(served, key) {
			e := entry{key: key, value: k.Get(m), file: l.file, comment: comment}
			if key == "model.weight_bits" && quantised != "" {
				e.comment += "; quantised: " + quantised
			}
			l.set(e)
		}
	}
	return l, nil
}

// besideModel returns the name and the text of the first file next to a config.json that may describe the checkpoint's quantisation.
func besideModel(path string) (name string, text []byte) {
	if path == input.Stdin {
		return "", nil
	}
	for _, f := range llm.BesideFiles {
		if text, err := os.ReadFile(filepath.Join(filepath.Dir(path), f.Name)); err == nil {
			return f.Name, text
		}
	}
	return "", nil
}

// modelName derives a model's name from its path. A config.json has the name of its folder, or of its entry in the hub's cache
// (models--ORG--NAME/snapshots/REVISION). Any other file has its own name.
func modelName(path string) string {
	if filepath.Base(path) != modelFile {
		return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	folder := filepath.Dir(path)
	if whole, err := filepath.Abs(folder); err == nil && folder != "." { // also for ".."
		folder = whole
	}
	if up := filepath.Dir(folder); filepath.Base(up) == "snapshots" {
		parts := strings.Split(filepath.Base(filepath.Dir(up)), "--")
		return parts[len(parts)-1]
	}
	if name := filepath.Base(folder); name != "." && name != string(filepath.Separator) {
		return name
	}
	return strings.TrimSuffix(modelFile, filepath.Ext(modelFile))
}
