package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

// wrongChoice returns the error of the first choice with which no combination is a
// configuration: the first that is about a key of the choice, else the first.
func (p *Plan) wrongChoice() error {
	failed, works := make([][]error, len(p.File.Axes)), make([][]bool, len(p.File.Axes))
	for i, a := range p.File.Axes {
		failed[i], works[i] = make([]error, len(a.Choices)), make([]bool, len(a.Choices))
	}
	for i := range p.Points {
		point := &p.Points[i]
		for axis, choice := range p.choices(point.combination) {
			works[axis][choice] = works[axis][choice] || point.Err == nil
			c := &p.File.Axes[axis].Choices[choice]
			if old := failed[axis][choice]; old == nil || point.Err != nil && !c.isAbout(old) && c.isAbout(point.Err) {
				failed[axis][choice] = point.Err
			}
		}
	}
	for axis := range failed {
		// A Latin hypercube's choices are drawn, not chosen: one that is no
		// configuration is a failed point, unless all are.
		drawn := p.File.Axes[axis].Kind == latinKind && slices.Contains(works[axis], true)
		for choice, err := range failed[axis] {
			if err == nil || works[axis][choice] || drawn {
				continue
			}
			if p.validElsewhere(axis, choice) {
				return &input.InputError{File: p.File.Path, Key: "where", Expected: fmt.Sprintf(
					"conditions that leave a valid combination with %s; those that are left are none: %v", p.parts[axis][choice], err)}
			}
			return p.pointedAt(axis, choice, err)
		}
		if drawn {
			if err := p.wrongListed(axis, works[axis], failed[axis]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAbout says that an error names a key that the choice sets.
func (c *Choice) isAbout(err error) bool {
	bad := new(input.InputError)
	return errors.As(err, &bad) && slices.ContainsFunc(c.Settings, func(s Setting) bool { return s.Key == bad.Key })
}

// pointedAt gives the error of a choice with which nothing works the place of the
// choice, unless it names a key that the choice sets, or is there without it.
func (p *Plan) pointedAt(axis, choice int, err error) error {
	c := &p.File.Axes[axis].Choices[choice]
	if c.isAbout(err) || len(c.Settings) == 0 {
		return err
	}
	if _, alone := configs.Load(p.options(p.File.Set)); alone != nil && placeless(alone).Error() == placeless(err).Error() {
		return err
	}
	s := c.Settings[0]
	return &input.InputError{File: p.place(s), Key: s.Key, Value: s.Value,
		Err: fmt.Errorf("no point with it is a configuration; the first says %w", placeless(err))}
}

// maxLookups bounds the combinations that validElsewhere tries, for the choice of
// an error message alone.
const maxLookups = 1000

// validElsewhere says that a combination with a choice is a configuration which
// the conditions exclude.
func (p *Plan) validElsewhere(axis, choice int) bool {
	if len(p.File.Where) == 0 {
		return false
	}
	kept := make(map[int]bool, len(p.Points))
	for i := range p.Points {
		kept[p.Points[i].combination] = true
	}
	total, tried := 1, 0
	for _, a := range p.File.Axes {
		total *= len(a.Choices)
	}
	for c := range total {
		if kept[c] || p.choice(c, axis) != choice {
			continue
		}
		if tried++; tried > maxLookups {
			break
		}
		if _, err := p.resolver.resolve(p, p.settings(c)); err == nil {
			return true
		}
	}
	return false
}

// choice returns an axis' choice in a combination.
func (p *Plan) choice(combination, axis int) int {
	for a, choice := range p.choices(combination) {
		if a == axis {
			return choice
		}
	}
	return -1
}

// wrongListed returns the error of a value that a Latin hypercube lists and that
// is wrong by itself: no sample with it is a configuration, and neither is what
// all points share with this value alone, for the value's own key. A value that
// only what was drawn beside it rules out is right.
func (p *Plan) wrongListed(axis int, works []bool, failed []error) error {
	a := &p.File.Axes[axis]
	for _, key := range a.listed {
		good, tried := map[string]bool{}, map[string]bool{}
		of := func(c Choice) Setting {
			return c.Settings[slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Key == key })]
		}
		for i, c := range a.Choices {
			good[of(c).Value] = good[of(c).Value] || works[i]
		}
		for i, c := range a.Choices {
			s := of(c)
			if good[s.Value] || failed[i] == nil || tried[s.Value] {
				continue
			}
			tried[s.Value] = true
			alone := append(slices.Clone(p.File.Set), s)
			config, err := configs.Load(p.options(alone))
			if err == nil && key == "run.trace" {
				if _, err = p.traces.info(config); err != nil {
					return p.placed(err, alone, key)
				}
			}
			if bad := new(input.InputError); errors.As(err, &bad) && (bad.Key == key || strings.HasPrefix(bad.Key, key+".")) {
				return err
			}
		}
	}
	return nil
}
