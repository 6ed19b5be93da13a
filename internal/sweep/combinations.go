package sweep

import (
	"go/constant"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// combinations returns the combinations of the axes' choices that no condition
// on the axes' own keys excludes.
func (p *Plan) combinations() ([]int, error) {
	total := 1
	for _, a := range p.File.Axes {
		total *= len(a.Choices)
	}
	var all []int
	for c := range total {
		settings := p.settings(c)
		keep, err := p.keep(func(key string) constant.Value { return assigned(settings, key) })
		if err != nil {
			return nil, err
		}
		if keep {
			all = append(all, c)
		}
	}
	return all, nil
}

// Combination is a configuration of a sweep's axes.
type Combination struct {
	Config *configs.Config
	Names  map[string]string // of the choices, by the keys that they set
}

// Combinations returns the configuration of each combination of the axes, without a plan's
// traces and seeds. The first that is not valid is an *input.Error.
func (f *File) Combinations() ([]Combination, error) {
	p := emptyPlan(f, "", nil)
	combinations, err := p.combinations()
	if err != nil {
		return nil, err
	}
	all := make([]Combination, len(combinations))
	for i, c := range combinations {
		cfg, err := system.Load(p.options(p.settings(c)))
		if err != nil {
			return nil, err
		}
		all[i] = Combination{cfg, map[string]string{}}
		for axis, choice := range p.choices(c) {
			chosen := &f.Axes[axis].Choices[choice]
			for _, s := range chosen.Settings {
				all[i].Names[s.Key] = chosen.Name
			}
		}
	}
	return all, nil
}

// choices yields each axis with its choice in a combination, from the last axis
// to the first.
func (p *Plan) choices(combination int) func(yield func(axis, choice int) bool) {
	return func(yield func(axis, choice int) bool) {
		for axis := len(p.File.Axes) - 1; axis >= 0; axis-- {
			n := len(p.File.Axes[axis].Choices)
			if !yield(axis, combination%n) {
				return
			}
			combination /= n
		}
	}
}

// settings returns the settings of a combination, after those of the file.
func (p *Plan) settings(combination int) []Setting {
	chosen := make([]int, len(p.File.Axes))
	for axis, choice := range p.choices(combination) {
		chosen[axis] = choice
	}
	all := slices.Clone(p.File.Set)
	for axis, choice := range chosen {
		all = append(all, p.File.Axes[axis].Choices[choice].Settings...)
	}
	return all
}

// nameParts prepares name.
func (p *Plan) nameParts() {
	for _, a := range p.File.Axes {
		parts := make([]string, len(a.Choices))
		for i, c := range a.Choices {
			parts[i] = p.namePart(c)
		}
		p.parts = append(p.parts, parts)
	}
}

// namePart returns what a choice adds to the name of a point.
func (p *Plan) namePart(c Choice) string {
	if c.Name != "" {
		return c.Name
	}
	var settings []string
	for _, s := range c.Settings {
		if s.Key != results.SeedColumn {
			settings = append(settings, p.shortKey(s.Key)+"="+schema.Plain(s.Value))
		}
	}
	return strings.Join(settings, ",")
}

// name returns the name of a combination: the parts of its axes, joined by
// commas. The seed is not part of the name.
func (p *Plan) name(combination int) string {
	var parts []string
	for axis, choice := range p.choices(combination) {
		if part := p.parts[axis][choice]; part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "default"
	}
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// shortKey returns a key without its section where no other key of the axes
// ends with the same name.
func (p *Plan) shortKey(key string) string {
	_, last := schema.Split(key)
	for _, other := range p.Keys {
		if _, l := schema.Split(other); l == last && other != key {
			return key
		}
	}
	return last
}

// assigned returns the value that settings give a key, nil where they do not set it.
func assigned(settings []Setting, key string) constant.Value {
	for _, s := range slices.Backward(settings) {
		if s.Key == key {
			return textConstant(s)
		}
	}
	return nil
}
