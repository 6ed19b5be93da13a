package tables

import (
	"fmt"
	"github.com/l3sim/l3sim/results"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// CompareOptions says what WriteText and WriteMarkdown of a comparison show.
type CompareOptions struct {
	Metrics []string // in the table, where they have changed
	Rules   []*Rule  // whose trips are listed
}

// WriteText writes the comparison for a terminal, one table in the style of benchstat, a row a metric and point:
// values with the spread over seeds, the change, and the geometric mean of all points.
func (c *Comparison) WriteText(w io.Writer, o CompareOptions) error { return c.write(w, o, false) }

// WriteMarkdown writes the comparison as GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer, o CompareOptions) error { return c.write(w, o, true) }

// write writes a comparison: points whose fate changed, limits that broke, then a table of the metrics that changed.
func (c *Comparison) write(w io.Writer, o CompareOptions, markdown bool) error {
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
	more, t := c.changedMetrics(), &Table{Columns: []string{"metric", "point", "old", "new", "delta"}}
	for _, m := range o.Metrics {
		at := slices.Index(more, m)
		if at < 0 {
			continue
		}
		more = slices.Delete(more, at, at+1)
		c.addMetric(t, m)
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
		write := t.WriteText
		if markdown {
			write = t.WriteMarkdown
		}
		if err := write(&b); err != nil {
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
	text := fmt.Sprintf("%d points", len(c.Points))
	if len(c.Points) == 1 {
		text = "1 point"
	}
	if c.count(Equal) == len(c.Points) && c.Lost() == 0 {
		return text + ", equal in every metric"
	}
	for _, f := range []Fate{Changed, Equal, Added, Vanished, OtherSeeds, FailsNow, StillFails, WorksNow} {
		if n := c.count(f); n > 0 {
			text += fmt.Sprintf(", %d %s", n, f)
		}
	}
	lost, configured := 0, 0
	for i := range c.Points {
		if c.Points[i].Fate != Vanished {
			lost += c.Points[i].Lost
		}
		if c.Points[i].Reconfigured {
			configured++
		}
	}
	if lost > 0 {
		text += fmt.Sprintf("; %d old seeds of these are missing", lost)
	}
	if configured > 0 {
		text += fmt.Sprintf("; %d with another configuration of the same name", configured)
	}
	return text
}

const mostNamed = 6 // how many metrics a note names

const maxListed = 20 // how many points a list names

// list writes a heading and the points for which item is not "".
func (c *Comparison) list(b *strings.Builder, heading string, markdown bool, item func(*PointChange) string) {
	begins, n := "  ", 0
	if markdown {
		begins = "- "
	}
	for i := range c.Points {
		text := item(&c.Points[i])
		if text == "" {
			continue
		}
		if n++; n > maxListed {
			continue
		}
		if n == 1 {
			fmt.Fprintf(b, "\n%s:\n", heading)
			if markdown {
				b.WriteString("\n")
			}
		}
		b.WriteString(begins + text + "\n")
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
		if !r.Trips(p) {
			return ""
		}
		if relative, _, ok := p.Delta(r.Metric); ok && p.Fate != FailsNow {
			return p.Name + "  " + percentChange(relative)
		}
		return p.Name + "  " + string(p.Fate)
	}
}

// addMetric adds the points that have another value of a metric, and the
// geometric mean over all that have a positive one in both tables.
func (c *Comparison) addMetric(t *Table, metric string) {
	logOld, logNew, n, equal := 0.0, 0.0, 0, 0
	for i := range c.Points {
		p := &c.Points[i]
		relative, spread, ok := p.Delta(metric)
		if !ok {
			continue
		}
		old, oldStd := MeanStd(p.Old[metric])
		updated, newStd := MeanStd(p.New[metric])
		if old > 0 && updated > 0 {
			logOld, logNew, n = logOld+math.Log(old), logNew+math.Log(updated), n+1
		}
		if relative == 0 && spread == 0 {
			equal++
			continue
		}
		name := p.Name
		if p.OldName != "" {
			name += " (was " + p.OldName + ")"
		}
		delta := percentChange(relative)
		if len(p.Old[metric]) > 1 {
			delta += fmt.Sprintf(" ± %.1f%%", 100*spread)
		}
		t.Add(metric, name, withSpread(old, oldStd, len(p.Old[metric])), withSpread(updated, newStd, len(p.New[metric])), delta)
	}
	if equal > 0 {
		t.Add(metric, fmt.Sprintf("(%d equal)", equal), nil, nil, nil)
	}
	if n > 1 {
		a, b := math.Exp(logOld/float64(n)), math.Exp(logNew/float64(n))
		t.Add(metric, "geomean", fourDigits(a), fourDigits(b), percentChange(relativeChange(a, b)))
	}
}

// withSpread writes a mean and, of several seeds, their spread.
func withSpread(mean, std float64, n int) string {
	text := fourDigits(mean)
	if n > 1 && mean != 0 {
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
