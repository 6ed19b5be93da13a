package tables

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Rule is a limit on the change of a metric, such as "output_tokens_per_s<-2%":
// it trips at each point whose change is beyond it.
type Rule struct {
	Text     string
	Metric   string
	Operator string  // <, <=, > or >=
	Limit    float64 // of the change: a share of the old value, or absolute
	Relative bool
}

// rulePattern is METRIC, an operator, a number, and % for a relative limit.
var rulePattern = regexp.MustCompile(`^\s*([^<>=\s]+)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*(%?)\s*$`)

// ParseRule reads a rule: METRIC, an operator, and a number, in percent of the
// old value or, without %, absolute in the metric's unit.
func ParseRule(flag, text string, metrics []string) (*Rule, error) {
	m := rulePattern.FindStringSubmatch(text)
	bad := &input.Error{Key: flag, Value: fmt.Sprintf("%q", text), Expected: "METRIC<NUMBER% or METRIC<NUMBER, also with >, such as 'output_tokens_per_s<-2%'"}
	if m == nil {
		return nil, bad
	}
	limit, err := strconv.ParseFloat(m[3], 64)
	if err != nil || math.IsInf(limit, 0) {
		return nil, bad
	}
	r := &Rule{Text: text, Metric: m[1], Operator: m[2], Limit: limit, Relative: m[4] != ""}
	if r.Relative {
		r.Limit /= 100
	}
	if slices.Contains(metrics, r.Metric) {
		return r, nil
	}
	return nil, &input.Error{Key: flag, Value: fmt.Sprintf("%q", r.Metric), Expected: "a metric that both tables have", Nearest: input.Alike(r.Metric, metrics), Details: []string{"metrics: " + strings.Join(metrics, ", ")}}
}

// Judged returns the number of points at which a rule can trip: those with a value of
// its metric in both tables, and those that fail now.
func (r *Rule) Judged(c *Comparison) int {
	n := 0
	for i := range c.Points {
		if _, _, ok := c.Points[i].Delta(r.Metric); ok || c.Points[i].Fate == FailsNow {
			n++
		}
	}
	return n
}

// Trips says whether the rule trips at a point: its change is beyond the limit,
// or it had results and fails now, so that the rule cannot be shown to hold.
func (r *Rule) Trips(p *PointChange) bool {
	if p.Fate == FailsNow {
		return true
	}
	change, _, ok := p.Delta(r.Metric)
	if !ok {
		return false
	}
	if !r.Relative {
		a, _ := MeanStd(p.Old[r.Metric])
		b, _ := MeanStd(p.New[r.Metric])
		change = b - a
	}
	return Limit{Operator: r.Operator, Value: r.Limit}.Holds(change)
}
