package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
)

const (
	variantKey     = "run.variant"
	variantSection = "variants" // of a system preset: [variants.SYSTEM] with NAME = { "section.key" = value }
)

// variant is a named set of keys that a system preset has for one system: policies, for example, between which its operator would choose.
type variant struct {
	system, name string
	entries      []entry
}

// parseVariants reads the variants of a system preset.
func (ld *Loader) parseVariants(file, text string) (all []variant, err error) {
	var document map[string]any
	meta, err := input.DecodeTOML(file, text, &document)
	if err != nil {
		return nil, err
	}
	places := schema.Scan(text)
	for _, key := range meta.Keys() {
		if key[0] != variantSection || len(key) < 3 {
			continue
		}
		place := places[key.String()]
		if len(key) == 3 {
			all = append(all, variant{system: key[1], name: key[2]})
			continue
		}
		e := entry{key: key[3], file: file, line: place.Line, comment: place.Comment}
		k := ld.keys.Key(e.key)
		if k == nil || len(key) > 4 {
			return nil, input.Edit(ld.unknown(e.key), func(bad *input.Error) { bad.File, bad.Line = file, place.Line })
		}
		if e.value, err = schema.Convert(k.Type, lookUp(document, key)); err != nil {
			return nil, input.Edit(err, func(bad *input.Error) { bad.File, bad.Line, bad.Key = file, place.Line, key.String() })
		}
		last := &all[len(all)-1]
		last.entries = append(last.entries, e)
	}
	return all, nil
}

// topmost returns a key's entry in the highest layer that has one, or nil.
func topmost(layers []*layer, key string) *entry {
	for _, l := range slices.Backward(layers) {
		if e := l.find(key); e != nil {
			return e
		}
	}
	return nil
}

// variantsOf returns a preset's variants for the system that the layers name.
func variantsOf(preset *layer, layers []*layer) (all []variant) {
	system := topmost(layers, "run.system").value.String()
	for _, v := range preset.variants {
		if v.system == system {
			all = append(all, v)
		}
	}
	return all
}

// variantLayer returns the layer of the variant that layers name, or nil. layers[0] is the system preset.
func variantLayer(layers []*layer) (*layer, error) {
	e := topmost(layers, variantKey)
	if e == nil || e.value.String() == "" {
		return nil, nil
	}
	all := variantsOf(layers[0], layers)
	names := list.Map(all, func(v variant) string { return v.name })
	if i := slices.Index(names, e.value.String()); i >= 0 {
		return &layer{preset: true, entries: all[i].entries, file: layers[0].file}, nil
	}
	if len(names) == 0 {
		return nil, at(e, &input.Error{Key: variantKey, Value: schema.Written(e.value.String()),
			Expected: fmt.Sprintf("\"\" with run.system = %s: %s has no variants of it", topmost(layers, "run.system").value, layers[0].file), OtherKeys: []string{"run.system"}})
	}
	return nil, at(e, input.UnknownName(variantKey, e.value.String(), names))
}

// Variants returns the names of the variants between which an operator would choose: those of the preset for its system, without those that
// set a key that the options also set. It returns none if the options choose a variant.
func (ld *Loader) Variants(o Options) ([]string, error) {
	if err := ld.Made(); err != nil {
		return nil, err
	}
	layers, err := ld.userLayers(nil, o)
	if err != nil {
		return nil, err
	}
	top, err := systemPreset(layers)
	if err != nil {
		return nil, err
	}
	system, err := ld.presetLayer(&ld.presets, SystemPresets, top.value.String(), top.key)
	if err != nil {
		return nil, at(top, err)
	}
	if topmost(layers, variantKey) != nil {
		return nil, nil
	}
	var names []string
	for _, v := range variantsOf(system, append([]*layer{system}, layers...)) {
		if !slices.ContainsFunc(v.entries, func(e entry) bool { return topmost(layers, e.key) != nil }) {
			names = append(names, v.name)
		}
	}
	return names, nil
}

// ofVariants reports whether a key of a text is within a preset's variants.
func ofVariants(name string) bool {
	return name == variantSection || strings.HasPrefix(name, variantSection+".")
}
