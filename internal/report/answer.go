package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/results/tables"
)

// answers says which design is best for a goal, and returns its row. A design that exceeds server boards is never the answer: if
// it would be, a second sentence says so.
func (s *Set) answers(t *tables.Table, g tables.Goal, best int) (text string, row int) {
	built := func(row int) bool { return !t.Limits(row).Boards }
	if built(best) {
		return s.answer(t, g, best, built), best
	}
	at := -1
	for r := range t.Rows {
		if _, ok := t.Float(r, g.Column); ok && built(r) && (at < 0 || s.isBetter(t, g, r, at)) {
			at = r
		}
	}
	if at < 0 {
		return "No board of a server holds any of these designs. " + s.answer(t, g, best, func(int) bool { return true }), best
	}
	value, _ := t.Float(best, g.Column)
	_, unit := tables.Words(g.Column)
	return fmt.Sprintf("%s Design %s would have %s, but no board of a server holds it.", s.answer(t, g, at, built), s.label(best), strings.TrimSpace(readable(g.Column, value)+" "+unit)), at
}

// label is a design's name with the signs of the limits that it exceeds.
func (s *Set) label(row int) string { return s.Names[row] + s.Signs[row] }

// answer says in a sentence which of the designs that count is best for a goal, and its lead over the best of another system
// or, if all have one system, over the next best design.
func (s *Set) answer(t *tables.Table, g tables.Goal, best int, counts func(row int) bool) string {
	value, _ := t.Float(best, g.Column)
	words, unit := tables.Words(g.Column)
	amount := strings.TrimSpace(readable(g.Column, value)+" "+unit) + band(t, best, g.Column)
	if len(t.Rows) == 1 {
		return words + ": " + amount + "."
	}
	most, own, other := "lowest", t.Value(best, "run.system"), -1
	if g.Maximize {
		most = "highest"
	}
	for r := range t.Rows {
		if r == best || !counts(r) {
			continue
		}
		// The best of another system takes precedence over the best of the same.
		foreign, held := t.Value(r, "run.system") != own, other >= 0 && t.Value(other, "run.system") != own
		if other < 0 || foreign && !held || foreign == held && s.isBetter(t, g, r, other) {
			other = r
		}
	}
	name := "design " + s.label(best)
	if strings.HasPrefix(s.Names[best], "#") {
		name += ": " + strings.ReplaceAll(t.Value(best, tables.PointColumn).String(), ",", ", ")
	}
	whose, text := "the next best", fmt.Sprintf("D%s has the %s %s: %s", name[1:], most, words, amount)
	if other < 0 {
		return text + "."
	}
	if system := t.Value(other, "run.system"); system != own {
		whose, text = system.String()+" at its best", fmt.Sprintf("%s has the %s %s: %s (%s)", own, most, words, amount, name)
	}
	if base, ok := t.Float(other, g.Column); ok {
		text += fmt.Sprintf(", %s %s (%s, design %s)", ahead(value, base), whose, readable(g.Column, base), s.label(other))
	}
	return text + "."
}

// isBetter says that a row is better than another, which may have no number.
func (s *Set) isBetter(t *tables.Table, g tables.Goal, row, than int) bool {
	a, ok := t.Float(row, g.Column)
	b, has := t.Float(than, g.Column)
	return ok && (!has || g.Cost(a) < g.Cost(b))
}

// ahead compares a value with another: as a factor from two on, else in percent.
func ahead(value, base float64) string {
	switch ratio := value / base; {
	case value == base:
		return "as much as"
	case base <= 0:
		return "beside"
	case ratio >= 2:
		return fmt.Sprintf("%.3g times that of", ratio)
	case ratio > 1:
		return fmt.Sprintf("%.3g%% more than", 100*(ratio-1))
	default:
		return fmt.Sprintf("%.3g%% less than", 100*(1-ratio))
	}
}

// readable writes a value of a column with three significant digits, and all digits before the
// point.
func readable(column string, v float64) string {
	switch {
	case strings.HasSuffix(column, "_bytes"):
		return tables.ForPeople(column, tables.Of(v))
	case v < 100 && v > -100:
		return tables.Of(tables.Round(v, 3)).String()
	}
	return tables.Of(math.Round(v)).String()
}

// band returns the range of a metric over the bands of prices, "" for a metric without prices.
func band(t *tables.Table, row int, metric string) string {
	low, is := t.Float(row, metric+"_low")
	high, also := t.Float(row, metric+"_high")
	if !is || !also {
		return ""
	}
	return fmt.Sprintf(", %s to %s by the bands of prices", readable(metric, low), readable(metric, high))
}
