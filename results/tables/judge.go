package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Judge returns the error of rules that trip or cannot be judged.
func (c *Comparison) Judge(rules []*Rule, allowMissing bool) error {
	tripped, unjudged := 0, ""
	for _, r := range rules {
		if slices.ContainsFunc(c.Points, func(p PointChange) bool { return r.Trips(&p) }) {
			tripped++
		}
		if r.Judged(c) == 0 {
			unjudged = r.Metric
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
