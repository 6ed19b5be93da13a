package sweep

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/search"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units/portable"
)

// Search is a file of 'l3sim optimise': a design space, the goals in it, and the budget.
type Search struct {
	Goals       []results.Goal  // two or three
	Limits      []results.Limit // constraints
	Population  int             // designs of a batch, and of a generation
	Evaluations int             // designs of one search
	Seeds       int             // searches of each method
	Seed        uint64          // of the first; the next ones count upwards

	file    *File
	spreads []*spread
	plan    *Plan // of all designs so far; its only axis grows
}

// The sections that only the file of a search has.
const (
	searchSection = "optimise"
	axesSection   = "axes"
)

// mostLevels is the number of values of an axis up to which each is a level. An axis with
// more is searched like one of reals, and its values are rounded to whole steps.
const mostLevels = 1000

// ReadSearch reads the file of a search. Its errors are as ReadFile's and NewPlan's; version
// is the code's.
func ReadSearch(path, version string) (*Search, error) {
	text, err := readText(path)
	if err != nil {
		return nil, err
	}
	return parseSearch(input.Name(path), text, version)
}

// parseSearch is ReadSearch of a text.
func parseSearch(path, text, version string) (*Search, error) {
	p, err := newFileParser(path, text)
	if err != nil {
		return nil, err
	}
	s := &Search{file: &File{Path: p.path, Repeats: 1}}
	var goals, limits any
	err = p.sections(append(p.common(s.file),
		section{searchSection, func(_ int, value any) (err error) {
			goals, limits, err = s.budget(p, value)
			return err
		}},
		section{axesSection, func(_ int, value any) error {
			leaves, err := p.leaves(axesSection, 0, value, false)
			if err != nil {
				return err
			}
			s.spreads, err = p.spreads(axesSection, leaves)
			return err
		}}))
	if err != nil {
		return nil, err
	}
	for _, key := range []string{searchSection, axesSection} {
		if p.document[key] == nil {
			return nil, p.fail(0, &input.Error{Key: key, Expected: "a section [" + key + "]; 'l3sim optimise --help' has an example"})
		}
	}
	axis := Axis{Kind: axesSection}
	for _, v := range s.spreads { // for the check that no key is set twice
		axis.Choices = append(axis.Choices, Choice{Settings: []Setting{{v.key, "", v.line}}})
	}
	if err := p.conflicts(&File{Repeats: 1, Set: s.file.Set, Axes: []Axis{axis}}); err != nil {
		return nil, err
	}
	if err := s.newPlan(version); err != nil {
		return nil, err
	}
	return s, s.targets(p, goals, limits)
}

// budget reads the numbers of [optimise] and returns its goals and constraints, which name
// columns of the results, as they are written.
func (s *Search) budget(p *fileParser, value any) (goals, limits any, err error) {
	population, evaluations, seeds, seed := int64(20), int64(-1), int64(5), int64(1)
	rest, err := p.counts(searchSection, value, []count{
		{"population", &population, 4, 10_000}, {"evaluations", &evaluations, 1, maxCombinations},
		{"seeds", &seeds, 1, 1000}, {"seed", &seed, 0, math.MaxInt64},
	})
	if err != nil {
		return nil, nil, err
	}
	for _, key := range p.sorted(rest, searchSection+".") {
		if key != "objectives" && key != "constraints" {
			names := []string{"objectives", "constraints", "population", "evaluations", "seeds", "seed"}
			return nil, nil, p.fail(p.line(searchSection, 0, key), input.UnknownName(searchSection, key, names))
		}
	}
	s.Population, s.Evaluations, s.Seeds, s.Seed = int(population), int(evaluations), int(seeds), uint64(seed)
	if total := int64(len(search.Methods())) * seeds * evaluations * int64(s.file.Repeats); total > maxCombinations {
		return nil, nil, p.fail(p.line(searchSection, 0, "evaluations"), &input.Error{Key: searchSection + ".evaluations", Value: fmt.Sprint(evaluations),
			Expected: fmt.Sprintf("at most %d runs in all; %d methods with %d seeds are %d", maxCombinations, len(search.Methods()), seeds, total)})
	}
	return rest["objectives"], rest["constraints"], nil
}

// targets reads the goals and constraints.
func (s *Search) targets(p *fileParser, goals, limits any) error {
	columns := &results.Table{Name: "the results of " + s.file.Path, Columns: s.plan.header()}
	key := searchSection + ".objectives"
	text, ok := goals.(string)
	if !ok || text == "" {
		return p.fail(p.line(searchSection, 0, "objectives"), &input.Error{Key: key, Value: shown(goals),
			Expected: `two or three goals, such as "max output_tokens_per_s, min tbt_p99_ms"`})
	}
	var err error
	if s.Goals, err = columns.ParseGoals(key, text); err != nil {
		return p.fail(p.line(searchSection, 0, "objectives"), err)
	}
	list, ok := limits.([]any)
	if !ok && limits != nil {
		list = []any{limits}
	}
	key = searchSection + ".constraints"
	for _, v := range list {
		line := p.line(searchSection, 0, "constraints")
		text, ok := v.(string)
		if !ok {
			return p.fail(line, &input.Error{Key: key, Value: fmt.Sprint(v), Expected: `texts, such as "tbt_p99_ms <= 100"`})
		}
		limit, err := columns.ParseLimit(key, text)
		if err != nil {
			return p.fail(line, err)
		}
		s.Limits = append(s.Limits, limit)
	}
	return nil
}

// shown writes a value of a document for an error, "" where it is not given.
func shown(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// variable returns the levels of a key. Numbers that rise are in order, other lists are not.
func (s *spread) variable() search.Variable {
	var v search.Variable
	switch {
	case s.list != nil:
		for i := range s.list {
			v.Levels = append(v.Levels, (float64(i)+0.5)/float64(len(s.list)))
		}
		v.Categorical = !s.rising()
	case s.step > 0 && (s.max-s.min)/s.step < mostLevels:
		n := math.Floor((s.max-s.min)/s.step+1e-9) + 1
		for k := range int(n) {
			u := (float64(k) + 0.5) / n
			if s.log {
				u = min(1, portable.Log(1+float64(float64(k)*s.step)/s.min)/portable.Log(s.max/s.min))
			}
			v.Levels = append(v.Levels, u)
		}
	}
	return v
}

// rising says that the values of a list are numbers or quantities, each larger than the one
// before.
func (s *spread) rising() bool {
	if _, isQuantity := schema.UnitOf(s.typ); !isQuantity && (!isNumeric(s.typ) || s.typ.Kind() == reflect.String) {
		return false
	}
	before := math.Inf(-1)
	for _, text := range s.list {
		field, err := schema.Parse(s.typ, text)
		if err != nil || schema.Number(field) <= before {
			return false
		}
		before = schema.Number(field)
	}
	return true
}

// choice returns the settings of genes, and their values as one text. Values of reals have
// the digits that a Latin hypercube of as many samples as one search would give them.
func (s *Search) choice(genes []float64) (Choice, string) {
	var c Choice
	var key strings.Builder
	for i, v := range s.spreads {
		c.Settings = append(c.Settings, Setting{v.key, v.value(min(genes[i], math.Nextafter(1, 0)), s.Evaluations), v.line})
		key.WriteString(c.Settings[i].Value + "\n")
	}
	return c, key.String()
}

// Axes describes the axes in words, one a line: the key, and its values or their range.
func (s *Search) Axes() []string {
	var all []string
	for _, v := range s.spreads {
		variable := v.variable()
		first, last := v.value(0, s.Evaluations), v.value(math.Nextafter(1, 0), s.Evaluations)
		switch {
		case v.list != nil && variable.Categorical:
			all = append(all, fmt.Sprintf("%s: %s (no order)", v.key, strings.Join(v.list, ", ")))
		case v.list != nil:
			all = append(all, fmt.Sprintf("%s: %s", v.key, strings.Join(v.list, ", ")))
		case variable.Levels != nil:
			all = append(all, fmt.Sprintf("%s: %s to %s, %d values", v.key, first, last, len(variable.Levels)))
		default:
			all = append(all, fmt.Sprintf("%s: %s to %s", v.key, first, last))
		}
	}
	return slices.Clip(all)
}
