package dram

import (
	"fmt"
	"maps"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Scope says which later commands a constraint applies to, relative to the command that sets it.
type Scope uint8

// The scopes, innermost first. In tables they are levels: a rule of level bank applies to two commands that share a bank, whatever their
// spans. In the rows of Constraints, a command of a rank or more only sets and obeys scopes from SameRank on.
const (
	SameBank Scope = iota
	SameBankGroup
	SameRank
	OtherRank         // the other ranks of the pseudo-channel
	SamePseudoChannel // all ranks of the pseudo-channel
	SameChannel       // all ranks of all pseudo-channels
)

// scopeNames are the levels as tables write them.
var scopeNames = []string{"bank", "bank group", "rank", "other rank", "pseudo-channel", "channel"}

// String returns the scope in words.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return "scope(?)"
}

// Constraint is one timing rule: after Command, Next must not issue in Scope
// before Clocks have passed. With Window w > 1 the distance counts from the
// w-th latest Command instead of the latest: tFAW is a window of four.
type Constraint struct {
	Rule    string // JEDEC term, "tRCD", or the bus rule's name; what a log's waiver names
	Scope   Scope
	Command Command
	Next    Command
	Clocks  int // steps, from the first step of Command to the first of Next
	Window  int
}

// Constraints returns the timing rules of s as rows, one for each pair of commands. They include rules of banks that commands of a whole
// rank obey for all banks. Rules that forbid nothing (a distance below one step) are left out. Check refuses a spec without a timing that a
// rule names.
func (s *Spec) Constraints() []Constraint {
	var rows []Constraint
	table, scope := s.table(), s.scope()
	for i := range table.rules {
		r := &table.rules[i]
		clocks, _ := scope.whole(r.text, r.clocks(scope))
		for _, from := range r.from {
			for _, next := range r.next {
				if steps := table.distance(from, next, int(clocks)); steps >= 1 {
					rows = append(rows, Constraint{r.name, table.lift(r.level, from, next), from, next, steps, r.window})
				}
			}
		}
	}
	return rows
}

// distance returns the steps between the beginnings of two commands that a rule of the given clocks requires.
func (s *Standard) distance(from, next Command, clocks int) int {
	steps := clocks * s.StepsPerClock
	if s.fromLast {
		steps += s.commands[from].Steps - s.commands[next].Steps
	}
	return steps
}

// lift returns the scope of a rule for two commands. A command of a whole rank shares a bank with every other command of the rank, so the
// rule's level rises to the rank.
func (s *Standard) lift(level Scope, from, next Command) Scope {
	if level > SameRank {
		return level
	}
	widest := max(s.commands[from].Span, s.commands[next].Span)
	switch {
	case widest == WholeChannel:
		return SamePseudoChannel
	case widest == WholeRank:
		return SameRank
	}
	return level
}

func (s *Spec) checkRules() error {
	table, scope := s.table(), s.scope()
	own, err := s.Timings.values()
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(own)) {
		if !slices.Contains(table.TimingNames(), n) {
			return &input.Error{Value: n, Expected: "timings of " + table.Name, Nearest: input.Nearest(n, table.TimingNames())}
		}
	}
	type value struct {
		of   expression
		text string
		name string // for errors
	}
	var values []value
	for i := range table.rules {
		r := &table.rules[i]
		values = append(values, value{r.clocks, r.text, fmt.Sprintf("the rule %s, %s", r.name, r.text)})
	}
	others := []expression{table.maxActivations, table.refreshCredit}
	if table.sync != nil {
		others = append([]expression{table.sync.keeps}, others...)
	}
	for _, e := range others {
		values = append(values, value{e, "activations or data_clock", "activations and data_clock"})
	}
	for _, v := range values {
		if v.of == nil {
			continue
		}
		if _, err := scope.whole(v.text, v.of(scope)); err != nil {
			return &input.Error{Value: string(s.Timings), Expected: fmt.Sprintf("a value for each name in %s: %v", v.name, err)}
		}
	}
	for _, r := range table.Refreshes {
		for _, name := range []string{r.Interval, r.Recovery} {
			if n, ok := s.Timing(name); !ok || n < 1 {
				return &input.Error{Value: string(s.Timings), Expected: fmt.Sprintf("a value for %s, which refresh by %v needs", name, r.Command), OtherKeys: []string{name}}
			}
		}
	}
	return nil
}

// TimingNames returns the names of all timings in the table that are not keys of Spec.
func (s *Standard) TimingNames() []string {
	var names []string
	for _, t := range s.Timings {
		if (&Spec{}).clocks(t.Term) == nil {
			names = append(names, t.Term)
		}
	}
	return names
}
