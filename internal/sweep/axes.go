package sweep

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// grid reads [grid]: each key is an axis of its own.
func (p *fileParser) grid(f *File, value any) error {
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

// values reads the array of an axis.
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

// tables reads [[zip]] or [[list]]. Each zip is an axis: the i-th values of its
// arrays belong together. All entries of the list form one axis.
func (p *fileParser) tables(f *File, kind string, value any) error {
	tables, ok := value.([]map[string]any)
	if one, single := value.(map[string]any); single && kind == "zip" {
		tables, ok = []map[string]any{one}, true
	}
	if !ok || len(tables) == 0 {
		return p.fail(p.line("", 0, kind), &input.Error{Key: kind, Expected: "sections [[" + kind + "]]"})
	}
	list := Axis{Kind: "list"}
	for i, table := range tables {
		leaves, err := p.leaves(kind, i, table, true)
		if err != nil {
			return err
		}
		if kind == "zip" {
			axis, err := p.zip(leaves)
			if err != nil {
				return err
			}
			f.Axes = append(f.Axes, axis)
			continue
		}
		choice := Choice{}
		for _, l := range leaves {
			if l.key == "name" {
				if choice.Name, err = p.name(l, l.value); err != nil {
					return err
				}
				continue
			}
			s, err := p.setting(l)
			if err != nil {
				return err
			}
			choice.Settings = append(choice.Settings, s)
		}
		list.Choices = append(list.Choices, choice)
	}
	if kind == "list" {
		f.Axes = append(f.Axes, list)
	}
	return nil
}

// zip makes an axis of keys whose arrays advance together.
func (p *fileParser) zip(leaves []leaf) (Axis, error) {
	axis := Axis{Kind: "zip"}
	for i, l := range leaves {
		list, _ := l.value.([]any)
		if i == 0 {
			axis.Choices = make([]Choice, len(list))
		}
		if len(list) == 0 || len(list) != len(axis.Choices) {
			return axis, p.fail(l.line, &input.Error{Key: "zip." + l.key, Value: fmt.Sprintf("%d values", len(list)),
				Expected: fmt.Sprintf("as many as zip.%s, %d, and at least one", leaves[0].key, len(axis.Choices))})
		}
		for j, v := range list {
			if l.key == "name" {
				name, err := p.name(l, v)
				if err != nil {
					return axis, err
				}
				axis.Choices[j].Name = name
				continue
			}
			s, err := p.setting(leaf{l.key, v, l.line})
			if err != nil {
				return axis, err
			}
			axis.Choices[j].Settings = append(axis.Choices[j].Settings, s)
		}
	}
	return axis, nil
}

// name reads the name of a choice.
func (p *fileParser) name(l leaf, value any) (string, error) {
	text, ok := value.(string)
	if !ok || text == "" || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return "", p.fail(l.line, &input.Error{Key: "name", Value: schema.Written(value), Expected: "a text of one line without control characters"})
	}
	return text, nil
}

// conflicts checks that no two places set the same key and that the
// combinations are not too many.
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
		for key, line := range axis.keys() {
			if err := claim(key, axis.Kind, line); err != nil {
				return err
			}
		}
		if len(axis.Choices) > maxCombinations/n {
			total := float64(f.Repeats)
			for _, a := range f.Axes {
				total *= float64(len(a.Choices))
			}
			return p.fail(0, &input.Error{Key: "axes", Value: fmt.Sprintf("%.6g combinations", total),
				Expected: fmt.Sprintf("at most %d", maxCombinations)})
		}
		n *= len(axis.Choices)
	}
	if seed, ok := seen["run.seed"]; ok && f.Repeats > 1 && seed.what != "set" {
		return p.fail(seed.line, &input.Error{Key: seed.what + ".run.seed", Expected: "either this axis or repeats, not both"})
	}
	return nil
}

// keys yields each key that the axis sets, once, with the first line that sets it.
func (a *Axis) keys() func(yield func(string, int) bool) {
	return func(yield func(string, int) bool) {
		var seen []string
		for _, c := range a.Choices {
			for _, s := range c.Settings {
				if slices.Contains(seen, s.Key) {
					continue
				}
				seen = append(seen, s.Key)
				if !yield(s.Key, s.Line) {
					return
				}
			}
		}
	}
}
