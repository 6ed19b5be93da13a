package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/job"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// Set is the results of one folder.
type Set struct {
	Name      string   `json:"name"`
	Badges    []Pair   `json:"badges"` // assumptions and sources of the results
	Columns   []Column `json:"columns"`
	Constants []Pair   `json:"constants"` // columns with one value
	Rows      [][]any  `json:"rows"`      // by point: its cells by column, as numbers, texts or nil
	Command   string   `json:"command"`   // runs a point again, with its Sets appended
	Sets      []string `json:"sets"`      // by point
	Seeds     []int    `json:"seeds"`     // by point
	Front     []int    `json:"front"`     // points that no other beats, best first
	Best      []int    `json:"best"`      // the points that the answers name first
	Points    int      `json:"points"`    // including those that Rows leaves out
	Failed    int      `json:"failed"`

	Goals []Goal `json:"goals"`

	Answers []string    `json:"-"`      // a sentence for each goal
	Legend  []string    `json:"-"`      // meaning of the signs, one per line
	Signs   []string    `json:"signs"`  // by point: suffix of its name, for limits of real servers that it exceeds
	Names   []string    `json:"names"`  // short names of the points
	Spread  [][]float64 `json:"spread"` // by point: the standard deviation of each goal over its seeds
}

// Pair is a name and a value.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Column is a column whose values differ.
type Column struct {
	Name    string `json:"name"`
	Label   string `json:"label"`
	IsKey   bool   `json:"key"`    // of the configuration
	Better  int    `json:"better"` // 1: higher is better, -1: lower, 0: neither
	Numeric bool   `json:"numeric"`
}

// Goal is a goal of the front.
type Goal struct {
	Column   string `json:"column"`
	Label    string `json:"label"`
	Maximize bool   `json:"maximize"`
}

// readSet reads a folder. goals is the value of the flag; "" means default goals.
func readSet(dir, flag, goals string) (*Set, error) {
	t, base, err := tables.ReadFolder(dir)
	if err != nil {
		return nil, err
	}
	if len(t.Rows) == 0 {
		return nil, &input.Error{File: t.Name, Expected: "at least one point"}
	}
	if base == nil { // of a file
		base = &tables.Base{}
	}
	means, seeds, failed, err := t.Means()
	if err != nil {
		return nil, err
	}
	if len(means.Rows) == 0 {
		return nil, &input.Error{File: t.Name, Expected: fmt.Sprintf("a point that is done; all %d failed", failed)}
	}
	s := &Set{Name: filepath.Base(filepath.Clean(dir)), Points: len(means.Rows), Failed: failed, Seeds: list.Map(seeds, func(rows []int) int { return len(rows) })}
	short := means.ShortPoints()
	s.Names = list.Map(means.Rows, func(row []tables.Value) string {
		return short[row[slices.Index(means.Columns, tables.PointColumn)]].String()
	})
	var beyond results.Limits
	for r := range means.Rows {
		limits := means.Limits(r)
		beyond, s.Signs = beyond.Or(limits), append(s.Signs, limits.Sign())
	}
	if legend := beyond.Legend(); legend != "" {
		s.Legend = strings.Split(legend, "\n")
	}
	parsed, err := s.chooseGoals(means, flag, goals)
	if err != nil {
		return nil, err
	}
	if err := s.judge(means, parsed); err != nil {
		return nil, err
	}
	s.describe(means, base)
	s.columns(means)
	s.commands(means, base)
	for _, rows := range seeds {
		s.Spread = append(s.Spread, list.Map(parsed, func(g tables.Goal) float64 {
			_, std := tables.MeanStd(list.Map(rows, func(r int) float64 { v, _ := t.Float(r, g.Column); return v }))
			return tables.Round(std, 3)
		}))
	}
	return s, nil
}

func (s *Set) chooseGoals(t *tables.Table, flag, text string) ([]tables.Goal, error) {
	if text == "" {
		text = "max output_tokens_per_s, min tbt_p99_ms"
		if c := slices.Index(t.Columns, "usd_per_million_output_tokens"); c >= 0 && t.Varies(c) {
			text = "max output_tokens_per_s, min usd_per_million_output_tokens, min tbt_p99_ms"
		}
	}
	goals, err := t.ParseGoals(flag, text)
	for _, g := range goals {
		s.Goals = append(s.Goals, Goal{g.Column, tables.Describe(g.Column).Label, g.Maximize})
	}
	return goals, err
}

// judge finds the front, and the best point for each goal.
func (s *Set) judge(means *tables.Table, goals []tables.Goal) error {
	e, err := tables.Explore(means, goals)
	if err != nil {
		return err
	}
	place := map[string]int{}
	point := slices.Index(means.Columns, tables.PointColumn)
	for i, row := range means.Rows {
		place[row[point].String()] = i
	}
	for _, p := range e.Front {
		s.Front = append(s.Front, place[p.Point])
	}
	for i, g := range goals {
		best := slices.MinFunc(e.Front, func(a, b tables.FrontPoint) int { return cmp.Compare(g.Cost(a.Values[i]), g.Cost(b.Values[i])) })
		answer, named := s.answers(means, g, place[best.Point])
		if s.Answers = append(s.Answers, answer); !slices.Contains(s.Best, named) {
			s.Best = append(s.Best, named)
		}
	}
	return nil
}

// describe fills in the badges: from the columns if values differ, else from the base.
func (s *Set) describe(t *tables.Table, base *tables.Base) {
	value := func(key string) string {
		for c, name := range t.Columns {
			if quantity, _ := tables.SplitUnit(name); (name == key || quantity == key) && t.IsConfig()[c] {
				return valuesOf(t, c)
			}
		}
		return base.Keys[key]
	}
	for _, b := range []Pair{{"model", "run.model"}, {"system", "run.system"}, {"GPU", "gpu.preset"}, {"GPUs", "node.gpus"}, {"DRAM", "dram.preset"},
		{"DIMM memory", "node.memory_capacity"}, {"ranksets", "node.ranksets"}, {"trace", "run.trace"}, {"requests", "run.requests"}} {
		if text := value(b.Value); text != "" {
			s.Badges = append(s.Badges, Pair{b.Name, text})
		}
	}
	if slices.Contains(t.Columns, "usd_per_million_output_tokens") {
		s.Badges = append(s.Badges, Pair{"prices", value("prices.name") + " of " + value("prices.date")})
	}
	if base.Version != "" {
		s.Badges = append(s.Badges, program(base.Version))
	}
}

// program identifies the l3sim that made the results: a version or a commit, or for a local build the first digits of its
// executable's hash.
func program(version string) Pair {
	hash, own := strings.CutPrefix(version, "executable-")
	hash = hash[:min(len(hash), 12)]
	if own {
		return Pair{"l3sim", "own build " + hash}
	}
	return Pair{"l3sim", hash}
}

// valuesOf describes the values of a column: up to five of them, or the smallest and the largest.
func valuesOf(t *tables.Table, c int) string {
	distinct, numeric := t.Distinct(t.All(), c)
	values := list.Map(distinct, func(v tables.Value) string { return tables.ForPeople(t.Columns[c], v) })
	switch {
	case len(values) <= 5:
		return strings.Join(values, ", ")
	case !numeric:
		return fmt.Sprintf("%d values", len(values))
	}
	return values[0] + " to " + values[len(values)-1]
}

// columns fills in the columns that vary with the points' cells, and the constants.
func (s *Set) columns(t *tables.Table) {
	isKey := t.IsConfig()
	s.Rows = make([][]any, len(t.Rows))
	for c, name := range t.Columns {
		if name == tables.SeedColumn || name == tables.StatusColumn || name == tables.ErrorColumn || name == tables.ConfigColumn {
			continue
		}
		if !t.Varies(c) && name != tables.PointColumn {
			s.Constants = append(s.Constants, Pair{name, t.Rows[0][c].String()})
			continue
		}
		is := tables.Describe(name)
		numeric := !slices.Contains([]tables.Kind{tables.Text, tables.Truth}, t.Kind(c))
		s.Columns = append(s.Columns, Column{name, is.Label, isKey[c], map[tables.Better]int{tables.Higher: 1, tables.Lower: -1}[is.Better], numeric})
		for r, row := range t.Rows {
			var cell any = row[c].String()
			switch v, ok := row[c].Float(); {
			case numeric && !ok:
				cell = nil
			case numeric && isKey[c]:
				cell = v
			case numeric: // six digits of a result
				cell = tables.Round(v, 6)
			}
			s.Rows[r] = append(s.Rows[r], cell)
		}
	}
}

// commands fills in the commands that run the points again.
func (s *Set) commands(t *tables.Table, base *tables.Base) {
	if base.Command != "sweep" && base.Command != "run" { // a run does not give the row
		return
	}
	s.Command = "l3sim run"
	for _, c := range base.Configs {
		s.Command += " --config " + job.ShellQuote(c)
	}
	for _, set := range base.Sets {
		s.Command += " --set " + job.ShellQuote(set)
	}
	isKey := t.IsConfig()
	for _, row := range t.Rows {
		command := ""
		for c, name := range t.Columns {
			if !isKey[c] {
				continue
			}
			set, ok := sweep.SettingOf(name, row[c].String())
			if ok && !slices.Contains(base.Sets, set) {
				command += " --set " + job.ShellQuote(set)
			}
		}
		s.Sets = append(s.Sets, command)
	}
}
