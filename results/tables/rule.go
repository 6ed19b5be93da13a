package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Rule is a limit on the change of a metric, such as "output_tokens_per_s<-2%". It trips at each
// point whose change exceeds it.
type Rule struct {
	Text     string
	Limit         // of the change: relative to the old value, or absolute
	Relative bool // the change is relative
}

// ParseRule reads a rule: METRIC, an operator, and a number, in percent of the
// old value or, without %, absolute in the metric's unit.
func ParseRule(flag, text string, metrics []string) (*Rule, error) {
	bad := &input.Error{Key: flag, Value: fmt.Sprintf("%q", text), Expected: "METRIC<NUMBER% or METRIC<NUMBER, also with >, such as 'output_tokens_per_s<-2%'"}
	m := ordered.FindStringSubmatch(text)
	if m == nil {
		return nil, bad
	}
	number, relative := strings.CutSuffix(strings.TrimSpace(m[3]), "%")
	limit, ok := parse(strings.TrimSpace(number)).Float()
	if !ok {
		return nil, bad
	}
	if relative {
		limit /= 100
	}
	r := &Rule{text, Limit{Column: strings.TrimSpace(m[1]), Operator: m[2], Value: limit}, relative}
	if slices.Contains(metrics, r.Column) {
		return r, nil
	}
	return nil, NoMetric(flag, r.Column, metrics)
}

// NoMetric is the error for a metric that not both tables have.
func NoMetric(flag, name string, metrics []string) error {
	return &input.Error{Key: flag, Value: fmt.Sprintf("%q", name), Expected: "a metric that both tables have", Nearest: input.Alike(name, metrics), Details: []string{"metrics: " + strings.Join(metrics, ", ")}}
}

// Judges says that the rule can trip at a point: its metric has a value in both tables, or the point fails now.
func (r *Rule) Judges(p *PointChange) bool { return p.Metrics[r.Column] != nil || p.Fate == FailsNow }

// Trips says whether the rule trips at a point: its change exceeds the limit, or the point had
// results and fails now, so the rule cannot be verified.
func (r *Rule) Trips(p *PointChange) bool {
	change := p.Metrics[r.Column]
	switch {
	case p.Fate == FailsNow:
		return true
	case change == nil:
		return false
	case r.Relative:
		return r.Holds(float64(change.Relative))
	}
	return r.Holds(change.New - change.Old)
}

// Judge returns an error if rules trip or cannot be verified.
func (c *Comparison) Judge(rules []*Rule, allowMissing bool) error {
	tripped, unjudged := 0, ""
	for _, r := range rules {
		if c.count(r.Trips) > 0 {
			tripped++
		}
		if c.count(r.Judges) == 0 {
			unjudged = r.Column
		}
	}
	var faults []string
	if tripped > 0 {
		faults = append(faults, fmt.Sprintf("%s of %d tripped", input.Plural(tripped, "rule", "rules"), len(rules)))
	}
	if len(rules) > 0 && !allowMissing {
		switch lost := c.Lost(); {
		case unjudged != "":
			faults = append(faults, "no point has "+unjudged+" in both results (--allow-missing lets that pass)")
		case lost > 0:
			faults = append(faults, input.Plural(lost, "old result has no new one", "old results have no new one")+" (--allow-missing lets that pass)")
		}
	}
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}
