package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/search"
	"github.com/l3sim/l3sim/results"
)

// design is a point of the design space, all its repeats together.
type design struct {
	first int // of its points in the plan
	search.Score
	done bool // it has its score
}

// searcher is the searches of a file under way. They share designs: what one of them has
// evaluated costs the others no run, but counts in their budgets.
type searcher struct {
	*Search
	options RunOptions
	byValue map[string]*design // by the values of the axes; nil: no configuration, or excluded
	designs []*design          // in the order of the plan's points
	entries []*Entry           // of the plan's points
	refused error              // of the first combination that is no configuration
	done    int64              // evaluations
	ran     int
}

// newPlan makes the plan, without points, and tries each value of the axes alone.
func (s *Search) newPlan(version string) error {
	f := *s.file
	f.Axes = []Axis{{Kind: axesSection}}
	var keys []string
	for _, v := range s.spreads {
		if v.key == results.SeedColumn {
			return &input.Error{File: f.Path, Line: v.line, Key: axesSection + "." + v.key, Expected: "no axis of seeds; repeats averages over them"}
		}
		keys = append(keys, v.key)
	}
	s.plan = emptyPlan(&f, version, keys)
	s.plan.parts = [][]string{nil}
	for _, v := range s.spreads {
		values := v.list
		if values == nil {
			values = []string{v.value(0, s.Evaluations), v.value(math.Nextafter(1, 0), s.Evaluations)}
		}
		for _, text := range values {
			if err := s.plan.wrongAlone([]Setting{{v.key, text, v.line}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Found is what a search found.
type Found struct {
	Plan    *Plan
	Outcome *Outcome
	Search  *results.Search
	Front   *results.Exploration // of the points that meet all constraints
}

// Run carries out the searches of all methods and seeds, or those of a shard, one after the
// other; the points of a batch run side by side. Of o it takes Journal, Workers and Progress,
// which gets evaluations. The same file gives the same points, whatever the workers and
// the journal. For a shard it returns no Search and no Front. Where no point meets all
// constraints, the error names the closest, and Plan and Outcome are there.
func (s *Search) Run(ctx context.Context, o RunOptions, shard *Shard) (*Found, error) {
	run := &searcher{Search: s, options: o, byValue: map[string]*design{}}
	var searches []results.SearchRun
	for i := range s.Seeds * len(search.Methods()) {
		if shard != nil && i%shard.Count != shard.Index {
			continue
		}
		one := results.SearchRun{Method: search.Methods()[i%len(search.Methods())], Seed: s.Seed + uint64(i/len(search.Methods()))}
		if err := run.search(ctx, &one); err != nil {
			return nil, err
		}
		searches = append(searches, one)
	}
	found := &Found{Plan: s.plan, Outcome: &Outcome{Entries: run.entries, Ran: run.ran, Reused: len(run.entries) - run.ran}}
	for _, e := range run.entries {
		if e.Status == results.StatusFailed {
			found.Outcome.Failed++
		}
	}
	if shard != nil {
		return found, nil
	}
	return found, run.judge(found, searches)
}

// search carries out one search and fills in its points.
func (s *searcher) search(ctx context.Context, one *results.SearchRun) error {
	var fault error
	problem := &search.Problem{
		Variables: list.Map(s.spreads, (*spread).variable), Goals: len(s.Goals),
		Key: func(genes []float64) string {
			choice, key := s.choice(genes)
			if fault == nil {
				fault = s.admit(key, choice)
			}
			if fault != nil || s.byValue[key] == nil {
				return ""
			}
			return key
		},
		Evaluate: func(ctx context.Context, batch [][]float64) ([]search.Score, error) {
			if fault != nil {
				return nil, fault
			}
			return s.evaluate(ctx, one, batch)
		},
	}
	_, err := search.Run(ctx, problem, search.Options{Method: one.Method, Population: s.Population, Evaluations: s.Evaluations, Seed: one.Seed})
	if err == nil {
		err = fault
	}
	if err == nil && len(one.Points) == 0 {
		err = s.nothing()
	}
	return err
}

// nothing is the error of axes without a combination that can run.
func (s *searcher) nothing() error {
	if s.plan.baseErr != nil {
		return inputError(s.refused) // it is not of an axis
	}
	bad := &input.Error{File: s.file.Path, Key: axesSection, Expected: "at least one combination that is a configuration and fulfils every condition"}
	if s.refused != nil {
		bad.Err = fmt.Errorf("the first that was tried says %w", placeless(s.refused))
	}
	return bad
}

// admit adds the design of a choice to the plan, unless it is known, no configuration, or
// excluded. It returns faults of the machine.
func (s *searcher) admit(key string, choice Choice) error {
	if _, known := s.byValue[key]; known {
		return nil
	}
	axis := &s.plan.File.Axes[0]
	axis.Choices = append(axis.Choices, choice)
	s.plan.parts[0] = append(s.plan.parts[0], s.plan.namePart(choice))
	points, err := s.plan.resolve(len(axis.Choices) - 1)
	if lost := new(unreadableError); errors.As(err, &lost) {
		return err
	}
	if err == nil && len(points) > 0 {
		err = points[0].Err
	}
	if err != nil || len(points) == 0 {
		if s.refused == nil {
			s.refused = err
		}
		s.byValue[key] = nil
		return nil
	}
	s.byValue[key] = &design{first: len(s.plan.Points)}
	s.designs = append(s.designs, s.byValue[key])
	s.plan.Points = append(s.plan.Points, points...)
	return nil
}

// evaluate scores a batch. It runs the points that no search has run yet.
func (s *searcher) evaluate(ctx context.Context, one *results.SearchRun, batch [][]float64) ([]search.Score, error) {
	if err := s.runNew(ctx); err != nil {
		return nil, err
	}
	var scores []search.Score
	for _, genes := range batch {
		_, key := s.choice(genes)
		d := s.byValue[key]
		if !d.done {
			d.Score, d.done = s.score(d), true
		}
		one.Points = append(one.Points, d.first/s.file.Repeats)
		scores = append(scores, d.Score)
	}
	s.done += int64(len(batch))
	return scores, nil
}

// runNew runs the points of the plan that have no result.
func (s *searcher) runNew(ctx context.Context) error {
	part := *s.plan
	part.Points = s.plan.Points[len(s.entries):]
	if len(part.Points) == 0 {
		return context.Cause(ctx)
	}
	o := s.options
	o.Progress = func(done, _ int64) {
		if s.options.Progress != nil {
			total := len(search.Methods()) * s.Seeds * s.Evaluations
			s.options.Progress(s.done+done/int64(s.file.Repeats), int64(total))
		}
	}
	outcome, err := part.Run(ctx, o)
	if err != nil {
		return err
	}
	s.entries = append(s.entries, outcome.Entries...)
	s.ran += outcome.Ran
	return nil
}

// score returns the mean of a design's repeats in each goal, and the violation of its
// constraints, summed. A point has no costs if one of its repeats failed, or has no number for a goal or a
// constraint.
func (s *searcher) score(d *design) search.Score {
	var score search.Score
	values, ok := s.means(d)
	if !ok {
		return search.Score{Violation: math.Inf(1)}
	}
	for i, g := range s.Goals {
		score.Costs = append(score.Costs, g.Cost(values[i]))
	}
	for i, l := range s.Limits {
		score.Violation += l.Violation(values[len(s.Goals)+i])
	}
	return score
}

// columns returns the columns of the goals, then of the constraints.
func (s *Search) columns() []string {
	goals := list.Map(s.Goals, func(g results.Goal) string { return g.Column })
	return append(goals, list.Map(s.Limits, func(l results.Limit) string { return l.Column })...)
}

// means returns the means of a design over its repeats: of each goal, then of each
// constraint's column. It is false where one of them has no number.
func (s *searcher) means(d *design) ([]float64, bool) {
	table := &results.Table{Columns: s.plan.header()}
	for i := range s.file.Repeats {
		table.Rows = append(table.Rows, row(&s.plan.Points[d.first+i], s.entries[d.first+i]))
	}
	columns := s.columns()
	values := make([]float64, len(columns))
	for i, name := range columns {
		column := slices.Index(table.Columns, name)
		for r := range table.Rows {
			v, ok := table.Number(r, column)
			if !ok {
				return nil, false
			}
			values[i] += v / float64(s.file.Repeats)
		}
	}
	return values, true
}

// infeasible is the error of constraints that no point meets. It says how close one came.
func (s *searcher) infeasible() error {
	bad := &input.Error{File: s.file.Path, Key: searchSection + ".constraints"}
	best := slices.MinFunc(s.designs, func(a, b *design) int { return cmp.Compare(a.Violation, b.Violation) })
	values, ok := s.means(best)
	if !ok {
		bad.Expected = "a point that runs; all of them failed, the first says " + s.entries[best.first].Error
		return bad
	}
	bad.Value = strings.Join(list.Map(s.Limits, results.Limit.String), ", ")
	var has []string
	for i, l := range s.Limits {
		if v := values[len(s.Goals)+i]; !l.Holds(v) {
			has = append(has, fmt.Sprintf("%s = %.6g", l.Column, v))
		}
	}
	bad.Expected = fmt.Sprintf("constraints that a point meets; none of %d does, and the closest, %s, has %s",
		len(s.designs), s.plan.Points[best.first].Name, strings.Join(has, ", "))
	return bad
}
