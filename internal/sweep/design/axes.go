package design

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// grid reads [grid]: each key is an axis of its own.
func (p *fileParser) grid(f *File, _ int, value any) error {
	leaves, err := p.leaves("grid", 0, value, false)
	if err != nil {
		return err
	}
	for _, l := range leaves {
		values, err := p.values(l)
		if err != nil {
			return err
		}
		axis, seen := Axis{Kind: "grid"}, make(map[string]bool, len(values))
		for _, v := range values {
			if seen[v] {
				return p.fail(l.line, &input.Error{Key: "grid." + l.key, Value: v, Expected: "each value once"})
			}
			seen[v] = true
			axis.Choices = append(axis.Choices, Choice{Settings: []Setting{{l.key, v, l.line}}})
		}
		f.Axes = append(f.Axes, axis)
	}
	return nil
}

func (p *fileParser) values(l leaf) ([]string, error) {
	list, ok := l.value.([]any)
	if !ok || len(list) == 0 {
		return nil, p.fail(l.line, &input.Error{Key: l.key, Value: fmt.Sprint(l.value), Expected: "an array of at least one value"})
	}
	values := make([]string, len(list))
	for i, v := range list {
		if values[i], ok = schema.Literal(v); !ok {
			return nil, p.fail(l.line, &input.Error{Key: l.key, Value: fmt.Sprint(v), Expected: "a single value"})
		}
	}
	return values, nil
}

// tables returns the leaves of each table of [[zip]] or [[list]].
func (p *fileParser) tables(kind string, line int, value any) ([][]leaf, error) {
	tables, ok := value.([]map[string]any)
	if !ok || len(tables) == 0 {
		return nil, p.fail(line, &input.Error{Key: kind, Expected: "sections [[" + kind + "]]"})
	}
	all := make([][]leaf, len(tables))
	for i, table := range tables {
		var err error
		if all[i], err = p.leaves(kind, i, table, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// list reads [[list]], whose entries form one axis.
func (p *fileParser) list(f *File, line int, value any) error {
	tables, err := p.tables("list", line, value)
	if err != nil {
		return err
	}
	axis := Axis{Kind: "list", Choices: make([]Choice, len(tables))}
	for i, leaves := range tables {
		for _, l := range leaves {
			if err := p.add(&axis.Choices[i], l); err != nil {
				return err
			}
		}
	}
	f.Axes = append(f.Axes, axis)
	return nil
}

// zip reads [zip] or each [[zip]] as an axis of keys whose arrays advance together.
func (p *fileParser) zip(f *File, line int, value any) error {
	if one, single := value.(map[string]any); single {
		value = []map[string]any{one}
	}
	tables, err := p.tables("zip", line, value)
	if err != nil {
		return err
	}
	for _, leaves := range tables {
		axis := Axis{Kind: "zip"}
		for i, l := range leaves {
			list, _ := l.value.([]any)
			if i == 0 {
				axis.Choices = make([]Choice, len(list))
			}
			if len(list) == 0 || len(list) != len(axis.Choices) {
				return p.fail(l.line, &input.Error{Key: "zip." + l.key, Value: fmt.Sprintf("%d values", len(list)),
					Expected: fmt.Sprintf("as many as zip.%s, %d, and at least one", leaves[0].key, len(axis.Choices))})
			}
			for j, v := range list {
				if err := p.add(&axis.Choices[j], leaf{l.key, v, l.line}); err != nil {
					return err
				}
			}
		}
		f.Axes = append(f.Axes, axis)
	}
	return nil
}

// add sets the name of a choice, or adds the setting of a key.
func (p *fileParser) add(to *Choice, l leaf) error {
	if l.key != "name" {
		s, err := p.setting(l)
		to.Settings = append(to.Settings, s)
		return err
	}
	text, ok := l.value.(string)
	if !ok || text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return p.fail(l.line, &input.Error{Key: "name", Value: schema.Written(l.value), Expected: "a text of one line without control characters"})
	}
	to.Name = text
	return nil
}

// conflicts checks that no two places set the same key, and bounds the number of combinations.
func (p *fileParser) conflicts(f *File) error {
	type place struct {
		what string
		line int
	}
	seen := map[string]place{}
	claim := func(key, what string, line int) error {
		if other, ok := seen[key]; ok {
			return p.fail(line, &input.Error{Key: what + "." + key,
				Expected: fmt.Sprintf("no key that %s sets too (line %d)", other.what, other.line)})
		}
		seen[key] = place{what, line}
		return nil
	}
	for _, s := range f.Set {
		if err := claim(s.Key, "set", s.Line); err != nil {
			return err
		}
	}
	n := f.Repeats
	for _, axis := range f.Axes {
		for _, s := range axis.Keys() {
			if err := claim(s.Key, axis.Kind, s.Line); err != nil {
				return err
			}
		}
		if len(axis.Choices) > MaxCombinations/n {
			total := float64(f.Repeats)
			for _, a := range f.Axes {
				total *= float64(len(a.Choices))
			}
			return p.fail(0, &input.Error{Key: "axes", Value: fmt.Sprintf("%.6g combinations", total),
				Expected: fmt.Sprintf("at most %d", MaxCombinations)})
		}
		n *= len(axis.Choices)
	}
	if seed, ok := seen["run.seed"]; ok && f.Repeats > 1 && seed.what != "set" {
		return p.fail(seed.line, &input.Error{Key: seed.what + ".run.seed", Expected: "either this axis or repeats, not both"})
	}
	return nil
}

// Keys returns the first setting of each key that the axis sets.
func (a *Axis) Keys() []Setting {
	var all []Setting
	for _, c := range a.Choices {
		for _, s := range c.Settings {
			if FindSetting(all, s.Key) == nil {
				all = append(all, s)
			}
		}
	}
	return all
}
