package sweep

import (
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/sweep/design"
)

// variantKey is the key that names a variant of a preset for a system.
const variantKey = "run.variant"

// trial is the source of a point, except for its seed: the number of the combination of choices, whose last axis varies fastest, and
// the variant that the plan tries; "" if the preset has none or the user has chosen.
type trial struct {
	combination int
	variant     string
}

// trials returns each combination with each of its variants. If there are any, the table gets a column with their names.
func (p *Plan) trials(combinations []int) ([]trial, error) {
	all, known := make([]trial, 0, len(combinations)), map[string][]string{}
	for _, c := range combinations {
		settings := p.settings(c)
		presets := presetsOf(p.keys(), settings)
		names, seen := known[presets]
		if !seen {
			var err error
			if names, err = p.File.Loader.Variants(p.options(settings)); input.IsSystemFault(err) {
				return nil, &unreadableError{err}
			} // other errors belong to the point
			known[presets] = names
		}
		if len(names) == 0 {
			all = append(all, trial{combination: c})
		}
		for _, name := range names {
			all = append(all, trial{c, name})
		}
	}
	if slices.ContainsFunc(all, func(t trial) bool { return t.variant != "" }) && !slices.Contains(p.columns, variantKey) {
		p.columns = slices.Insert(p.columns, len(p.columns)-1, variantKey) // before the seed
	}
	return all, nil
}

// settingsOf returns the settings of a trial, after those of the file.
func (p *Plan) settingsOf(t trial) []design.Setting {
	settings := p.settings(t.combination)
	if t.variant != "" {
		settings = append(settings, design.Setting{Key: variantKey, Value: strconv.Quote(t.variant)})
	}
	return settings
}

// nameOf returns the name of a trial.
func (p *Plan) nameOf(t trial) string {
	name := p.name(t.combination)
	switch {
	case t.variant == "":
		return name
	case len(p.File.Axes) == 0:
		return t.variant
	}
	return name + "," + t.variant
}

// dropInvalid drops the variants of a combination that are invalid with its other keys, such as stripes with a policy of pages, if
// another variant is valid.
func (p *Plan) dropInvalid() {
	valid := map[int]bool{}
	for i := range p.Points {
		if p.Points[i].Err == nil {
			valid[p.Points[i].combination] = true
		}
	}
	p.Points = slices.DeleteFunc(p.Points, func(x Point) bool { return x.Err != nil && x.variant != "" && valid[x.combination] })
}
