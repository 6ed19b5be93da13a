package tables

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// CompareOptions sets what the writers of a comparison show.
type CompareOptions struct {
	Metrics []string // shown in text if they have changed
	Rules   []*Rule  // rules whose trips are listed
}

// ruleJSON is a rule of --fail-if, and the points that broke it.
type ruleJSON struct {
	Rule    string   `json:"rule"`
	Judged  int      `json:"judged"`  // points at which it could trip
	Tripped []string `json:"tripped"` // names of points
}

// WriteJSON writes the comparison as one indented JSON object.
func (c *Comparison) WriteJSON(w io.Writer, o CompareOptions) error {
	out := struct {
		Schema        string        `json:"schema"`
		Points        []PointChange `json:"points"`
		Lost          int           `json:"lost"` // points and seeds that only the old table has
		GainedMetrics []string      `json:"gained_metrics"`
		LostMetrics   []string      `json:"lost_metrics"`
		Rules         []ruleJSON    `json:"rules"`
	}{"l3sim/diff/1", []PointChange{}, c.Lost(), append([]string{}, c.GainedMetrics...), append([]string{}, c.LostMetrics...), []ruleJSON{}}
	for _, p := range c.Points {
		all := p.Metrics
		p.Metrics = map[string]*Change{}
		maps.Copy(p.Metrics, all)
		maps.DeleteFunc(p.Metrics, func(m string, _ *Change) bool { return !slices.Contains(o.Metrics, m) })
		out.Points = append(out.Points, p)
	}
	for _, r := range o.Rules {
		j := ruleJSON{r.Text, c.count(r.Judges), []string{}}
		for i := range c.Points {
			if r.Trips(&c.Points[i]) {
				j.Tripped = append(j.Tripped, c.Points[i].Name)
			}
		}
		out.Rules = append(out.Rules, j)
	}
	return results.WriteJSON(w, out)
}

// WriteText writes the comparison for a terminal: points with a new fate, broken limits, and a table in the style of
// benchstat with a row per metric and point: values with their spread over seeds, the change, and the geometric mean over all
// points.
func (c *Comparison) WriteText(w io.Writer, o CompareOptions) error {
	return c.write(w, o, (*Table).WriteText, false)
}

// WriteMarkdown writes the comparison as GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer, o CompareOptions) error {
	return c.write(w, o, (*Table).WriteMarkdown, true)
}

func (c *Comparison) write(w io.Writer, o CompareOptions, write func(*Table, io.Writer) error, markdown bool) error {
	var b strings.Builder
	b.WriteString(c.headline() + "\n")
	for _, fate := range []Fate{FailsNow, WorksNow, Added, Vanished, OtherSeeds} {
		c.list(&b, string(fate), markdown, fated(fate))
	}
	for _, r := range o.Rules {
		limit := r.Text
		if markdown {
			limit = "`" + limit + "`"
		}
		c.list(&b, "beyond the limit "+limit, markdown, tripping(r))
	}
	t := &Table{Columns: []string{"metric", "point", "old", "new", "delta"}}
	more := c.changedMetrics()
	for _, m := range o.Metrics {
		if at := slices.Index(more, m); at >= 0 {
			more = slices.Delete(more, at, at+1)
			c.addMetric(t, m)
		}
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
		if err := write(t, &b); err != nil {
			return err
		}
	}
	for _, note := range []struct {
		text    string
		metrics []string
	}{{"also changed", more}, {"only in the new results", c.GainedMetrics}, {"only in the old results", c.LostMetrics}} {
		if n := len(note.metrics); n > mostNamed {
			fmt.Fprintf(&b, "\n%s: %d metrics; --full shows them\n", note.text, n)
		} else if n > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n", note.text, strings.Join(note.metrics, ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c *Comparison) headline() string {
	text := input.Plural(len(c.Points), "point", "points")
	of := func(f Fate) int { return c.count(func(p *PointChange) bool { return p.Fate == f }) }
	if of(Equal) == len(c.Points) && c.Lost() == 0 {
		return text + ", equal in every metric"
	}
	lost := c.Lost()
	for _, f := range []Fate{Changed, Equal, Added, Vanished, OtherSeeds, FailsNow, StillFails, WorksNow} {
		if n := of(f); n > 0 {
			text += fmt.Sprintf(", %d %s", n, f)
		}
	}
	for i := range c.Points {
		if c.Points[i].Fate == Vanished {
			lost -= c.Points[i].Lost
		}
	}
	if lost > 0 {
		text += fmt.Sprintf("; %d old seeds of these are missing", lost)
	}
	if n := c.count(func(p *PointChange) bool { return p.Reconfigured }); n > 0 {
		text += fmt.Sprintf("; %d with another configuration of the same name", n)
	}
	return text
}

const (
	mostNamed = 6  // largest number of metrics in a note
	maxListed = 20 // largest number of points in a list
)

// list writes a heading and the points for which item is not "".
func (c *Comparison) list(b *strings.Builder, heading string, markdown bool, item func(*PointChange) string) {
	begins, n := "  ", 0
	if markdown {
		begins, heading = "- ", heading+":\n"
	} else {
		heading += ":"
	}
	for i := range c.Points {
		text := item(&c.Points[i])
		if text == "" {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintf(b, "\n%s\n", heading)
		}
		if n <= maxListed {
			b.WriteString(begins + text + "\n")
		}
	}
	if n > maxListed {
		fmt.Fprintf(b, "%sand %d more\n", begins, n-maxListed)
	}
}

func fated(fate Fate) func(*PointChange) string {
	return func(p *PointChange) string {
		switch {
		case p.Fate != fate:
			return ""
		case fate == FailsNow:
			return p.Name + ": " + p.Error
		}
		return p.Name
	}
}

// tripping describes the points at which a rule trips.
func tripping(r *Rule) func(*PointChange) string {
	return func(p *PointChange) string {
		switch {
		case !r.Trips(p):
			return ""
		case p.Fate == FailsNow:
			return p.Name + "  " + string(p.Fate)
		}
		change := p.Metrics[r.Column]
		if r.Relative {
			return p.Name + "  " + percentChange(float64(change.Relative))
		}
		by := change.New - change.Old
		text := fourDigits(by)
		if by > 0 {
			text = "+" + text
		}
		return p.Name + "  " + text
	}
}

// addMetric adds the points at which a metric changed, and the geometric mean over all points with
// a positive value in both tables.
func (c *Comparison) addMetric(t *Table, metric string) {
	logOld, logNew, n, equal := 0.0, 0.0, 0, 0
	for i := range c.Points {
		p := &c.Points[i]
		x := p.Metrics[metric]
		if x == nil {
			continue
		}
		if x.Old > 0 && x.New > 0 {
			logOld, logNew, n = logOld+math.Log(x.Old), logNew+math.Log(x.New), n+1
		}
		if !x.differs {
			equal++
			continue
		}
		name, delta := p.Name, percentChange(float64(x.Relative))
		if p.OldName != "" {
			name += " (was " + p.OldName + ")"
		}
		if x.seeds > 1 {
			delta += fmt.Sprintf(" ± %.1f%%", 100*x.spread)
		}
		t.Add(metric, name, withSpread(x.Old, x.oldStd), withSpread(x.New, x.newStd), delta)
	}
	if equal > 0 {
		t.Add(metric, fmt.Sprintf("(%d equal)", equal), nil, nil, nil)
	}
	if n > 1 {
		a, b := math.Exp(logOld/float64(n)), math.Exp(logNew/float64(n))
		t.Add(metric, "geomean", fourDigits(a), fourDigits(b), percentChange(relativeChange(a, b)))
	}
}

// withSpread writes a mean and, if seeds differ, their spread.
func withSpread(mean, std float64) string {
	text := fourDigits(mean)
	if std > 0 && mean != 0 {
		text += " ± " + strconv.FormatFloat(100*math.Abs(std/mean), 'f', 0, 64) + "%"
	}
	return text
}

// fourDigits writes a number with at least four significant digits.
func fourDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	return results.GroupDigits(strconv.FormatFloat(v, 'f', min(decimals, 12), 64))
}

func percentChange(v float64) string {
	switch {
	case math.IsInf(v, 0):
		return "from 0"
	case v == 0:
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", 100*v)
}
