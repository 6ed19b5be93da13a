package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

// answers fills in a sentence for each goal: its best point, and by how much it is ahead of the best
// of another system, or of the first point where all have one system.
func (s *Set) answers() {
	at := func(name string) int {
		return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	}
	point, system := at(tables.PointColumn), at("run.system")
	for i, g := range s.Goals {
		c := at(g.Column)
		if c < 0 || i >= len(s.Headline) {
			continue
		}
		best := slices.IndexFunc(s.Rows, func(row []any) bool { return row[point] == s.Headline[i].Point })
		value, _ := s.Rows[best][c].(float64)
		other, than := 0, fmt.Sprint(s.Rows[0][point])
		if system >= 0 {
			other = -1
			for r, row := range s.Rows {
				v, ok := row[c].(float64)
				if ok && row[system] != s.Rows[best][system] && (other < 0 || (v > s.Rows[other][c].(float64)) == g.Maximize) {
					other, than = r, fmt.Sprint("the best of ", row[system])
				}
			}
		}
		text := fmt.Sprintf("%s is best for %s: %s", s.Headline[i].Point, g.Label, readable(g.Column, value))
		if other >= 0 && other != best {
			if base, ok := s.Rows[other][c].(float64); ok {
				text += ahead(value, base) + fmt.Sprintf(" %s (%s)", than, readable(g.Column, base))
			}
		}
		s.Answers = append(s.Answers, text+".")
	}
}

// ahead says how a value compares with another: as a factor from two on, else in percent.
func ahead(value, base float64) string {
	switch ratio := value / base; {
	case value == base:
		return ", as"
	case base <= 0:
		return ", beside"
	case ratio >= 2:
		return fmt.Sprintf(", %.3g times that of", ratio)
	case ratio > 1:
		return fmt.Sprintf(", %.3g%% more than", 100*(ratio-1))
	default:
		return fmt.Sprintf(", %.3g%% less than", 100*(1-ratio))
	}
}

// readable writes a value of a column with three significant digits, but never a digit less than
// it has before the point.
func readable(column string, v float64) string {
	switch {
	case strings.HasSuffix(column, "_bytes"):
		return tables.ForPeople(column, tables.Of(v))
	case v < 100 && v > -100:
		return tables.Of(tables.Round(v, 3)).String()
	}
	return tables.Of(math.Round(v)).String()
}

// spread fills in the sample standard deviation of each goal over the seeds of each point, whose rows are given.
func (s *Set) spread(t *tables.Table, seeds [][]int) {
	for _, rows := range seeds {
		s.Spread = append(s.Spread, list.Map(s.Goals, func(g Goal) float64 {
			var values []float64
			for _, r := range rows {
				if v, ok := t.Float(r, g.Column); ok {
					values = append(values, v)
				}
			}
			_, std := tables.MeanStd(values)
			return tables.Round(std, 6)
		}))
	}
}
