package results

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
)

// SearchFile is the name of a search's record in its folder, beside ResultsFile.
const SearchFile = "search.json"

// searchSchema names the form of Search's JSON.
const searchSchema = "l3sim/search/1"

// Search is what 'l3sim optimise' did and found. Its points are those of the table beside
// it, by number from 0, the repeats of a point counting once.
type Search struct {
	Schema      string      `json:"schema"` // searchSchema
	Goals       []Goal      `json:"goals"`
	Limits      []Limit     `json:"constraints"`
	Population  int         `json:"population"`
	Evaluations int         `json:"evaluations"` // budget of one search
	Repeats     int         `json:"repeats"`     // rows of each point
	Designs     int         `json:"points"`      // evaluated by all searches together
	Feasible    int         `json:"feasible"`    // of these, those that meet all constraints
	Searches    []SearchRun `json:"searches"`
	// Influences are of the points that the methods drew which do not choose.
	Influences []Influence `json:"influences"`
}

// SearchRun is one search.
type SearchRun struct {
	Method string `json:"method"`
	Seed   uint64 `json:"seed"`
	Points []int  `json:"points"` // in the order of evaluation
	// Hypervolume is the volume that the points so far dominate, after each Population of
	// them, as a share of the volume that the points of all searches dominate.
	Hypervolume []float64 `json:"hypervolume"`
}

// final is the share at the end.
func (r *SearchRun) final() float64 { return r.Hypervolume[len(r.Hypervolume)-1] }

// Duel is how often the first method of a search ends with a larger hypervolume than
// another one with the same seed and budget.
type Duel struct {
	Method string // the other one
	Won    int
	Tied   int
	Seeds  int
	Mean   float64 // final hypervolume of the other one, over the seeds
}

// Duels compares the first method with each other one. Mean is the first one's own.
func (s *Search) Duels() (first string, mean float64, duels []Duel) {
	finals, methods := map[string]map[uint64]float64{}, []string{}
	for i := range s.Searches {
		one := &s.Searches[i]
		if finals[one.Method] == nil {
			finals[one.Method] = map[uint64]float64{}
			methods = append(methods, one.Method)
		}
		finals[one.Method][one.Seed] = one.final()
		if one.Method == methods[0] {
			mean += one.final()
		}
	}
	mean /= float64(len(finals[methods[0]]))
	for _, other := range methods[1:] {
		d := Duel{Method: other}
		for i := range s.Searches { // in order, for a sum that has one value
			if s.Searches[i].Method != other {
				continue
			}
			mine, theirs := finals[methods[0]][s.Searches[i].Seed], s.Searches[i].final()
			d.Seeds++
			d.Mean += theirs
			if mine > theirs {
				d.Won++
			} else if mine == theirs {
				d.Tied++
			}
		}
		d.Mean /= float64(d.Seeds)
		duels = append(duels, d)
	}
	return methods[0], mean, duels
}

// WriteJSON writes the record as one indented JSON object and a line end.
func (s *Search) WriteJSON(w io.Writer) error {
	named := *s
	named.Schema = searchSchema
	if named.Limits == nil {
		named.Limits = []Limit{}
	}
	return WriteJSON(w, &named)
}

// WriteText writes how the methods compare, and which keys matter.
func (s *Search) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d points evaluated", s.Designs)
	if len(s.Limits) > 0 {
		fmt.Fprintf(&b, ", %d with %s", s.Feasible, strings.Join(list.Map(s.Limits, Limit.String), " and "))
	}
	first, mean, duels := s.Duels()
	fmt.Fprintf(&b, "\n\nhypervolume with %d evaluations, of what all searches together reach:\n  %-16s %5.1f%%\n", s.Evaluations, first, 100*mean)
	for _, d := range duels {
		fmt.Fprintf(&b, "  %-16s %5.1f%%  %s is better with %d of %d seeds", d.Method, 100*d.Mean, first, d.Won, d.Seeds)
		if d.Tied > 0 {
			fmt.Fprintf(&b, ", equal with %d", d.Tied)
		}
		b.WriteByte('\n')
	}
	if len(s.Influences) > 0 {
		b.WriteString("\nshare of a metric's variance that a key alone decides, over the points drawn at random:\n")
		if err := influenceTable(s.Influences).WriteText(&b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ReadSearch reads the record in a folder, whose table is t. Where there is none it returns nil.
// A record that is not of this table is an *input.Error.
func ReadSearch(dir string, t *Table) (*Search, error) {
	path, s := filepath.Join(dir, SearchFile), &Search{}
	found, err := readJSON(path, s, &s.Schema, searchSchema)
	if !found {
		return nil, err
	}
	bad := &input.Error{File: path, Key: "points", Value: fmt.Sprint(s.Designs), Expected: "as many as " + t.Name + " has rows"}
	if s.Repeats < 1 || s.Designs*s.Repeats != len(t.Rows) {
		return nil, bad
	}
	for i := range s.Goals {
		if s.Goals[i].index, err = t.Column("goals", s.Goals[i].Column); err != nil {
			return nil, input.Edit(err, func(e *input.Error) { e.File = path })
		}
	}
	for _, l := range s.Limits {
		if _, err := t.Column("constraints", l.Column); err != nil {
			return nil, input.Edit(err, func(e *input.Error) { e.File = path })
		}
		if !slices.Contains([]string{"<=", ">=", "<", ">"}, l.Operator) {
			return nil, &input.Error{File: path, Key: "constraints", Value: fmt.Sprintf("%q", l.Operator), Expected: "<=, >=, < or >"}
		}
	}
	for _, one := range s.Searches {
		if len(one.Hypervolume) == 0 || slices.ContainsFunc(one.Points, func(p int) bool { return p < 0 || p >= s.Designs }) {
			bad.Expected = "points of " + t.Name + ", and their hypervolume, in each search"
			return nil, bad
		}
	}
	return s, nil
}
