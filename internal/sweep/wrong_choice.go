package sweep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
)

// option is an entry that a sweep file lists: a choice of an axis, or a value in an array
// of a Latin hypercube.
type option struct {
	settings []Setting
	choices  []int // choices of the axis with this option
}

// options returns the options that the axis lists. Samples of a Latin hypercube's ranges
// are drawn, so they are not options.
func (a *Axis) options() []option {
	var all []option
	if a.Kind != latinKind {
		for i := range a.Choices {
			all = append(all, option{a.Choices[i].Settings, []int{i}})
		}
		return all
	}
	at := map[Setting]int{}
	for i, c := range a.Choices {
		for _, s := range c.Settings {
			if !slices.Contains(a.listed, s.Key) {
				continue
			}
			if _, seen := at[s]; !seen {
				at[s] = len(all)
				all = append(all, option{settings: []Setting{s}})
			}
			all[at[s]].choices = append(all[at[s]].choices, i)
		}
	}
	return all
}

// wrongChoice returns an error for the first option whose points are all invalid. It is the
// error of the option alone, else that of its first point: a value of a Latin hypercube may
// be valid alone, and invalid beside the drawn values.
func (p *Plan) wrongChoice() error {
	works, failed := make([][]bool, len(p.File.Axes)), make([][]error, len(p.File.Axes))
	for i, a := range p.File.Axes {
		works[i], failed[i] = make([]bool, len(a.Choices)), make([]error, len(a.Choices))
	}
	allFail := true
	for i := range p.Points {
		point := &p.Points[i]
		allFail = allFail && point.Err != nil
		for axis, choice := range p.choices(point.combination) {
			works[axis][choice] = works[axis][choice] || point.Err == nil
			if failed[axis][choice] == nil {
				failed[axis][choice] = point.Err
			}
		}
	}
	if allFail && p.baseErr != nil {
		return p.Points[0].Err // the error is not of an axis
	}
	for axis := range p.File.Axes {
		a := &p.File.Axes[axis]
		for _, o := range a.options() {
			var first error
			for _, c := range o.choices {
				if first == nil {
					first = failed[axis][c]
				}
			}
			if first == nil || len(o.settings) == 0 || slices.ContainsFunc(o.choices, func(c int) bool { return works[axis][c] }) {
				continue
			}
			if err := p.wrongAlone(o.settings); err != nil {
				return err
			}
			if a.Kind == latinKind && !allFail {
				continue
			}
			s, where := o.settings[0], ""
			if len(p.File.Where) > 0 {
				where = " that the conditions leave"
			}
			return &input.Error{File: p.place(s), Key: s.Key, Value: s.Value,
				Err: fmt.Errorf("no point with it%s is a configuration; the first says %w", where, placeless(first))}
		}
	}
	if allFail {
		return p.Points[0].Err
	}
	return nil
}

// wrongAlone returns the error of a configuration with the settings of all points and some
// more, where the error names a key of these.
func (p *Plan) wrongAlone(settings []Setting) error {
	all := append(slices.Clone(p.File.Set), settings...)
	config, err := system.Load(p.options(all))
	if err == nil {
		_, err = p.cache.info(config)
		err = p.placed(err, all, "run.trace")
	}
	bad := new(input.Error)
	if errors.As(err, &bad) && slices.ContainsFunc(settings, func(s Setting) bool { return s.Key == bad.Key }) {
		return err
	}
	return nil
}
