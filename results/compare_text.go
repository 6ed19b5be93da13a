package results

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// CompareOptions says what WriteText and WriteMarkdown of a comparison show.
type CompareOptions struct {
	Metrics []string // with a table each, where they have changed
	Rules   []*Rule  // whose trips are listed
}

// WriteText writes the comparison for a terminal, a table a metric in the style
// of benchstat: values with the spread over seeds, the change, and the geometric
// mean of all points.
func (c *Comparison) WriteText(w io.Writer, o CompareOptions) error { return c.write(w, o, false) }

// WriteMarkdown writes the comparison as GitHub's Markdown.
func (c *Comparison) WriteMarkdown(w io.Writer, o CompareOptions) error { return c.write(w, o, true) }

func (c *Comparison) write(w io.Writer, o CompareOptions, markdown bool) error {
	var b strings.Builder
	b.WriteString(c.headline() + "\n")
	for _, fate := range []Fate{FailsNow, WorksNow, Added, Vanished, OtherSeeds} {
		c.list(&b, fate, markdown)
	}
	c.trips(&b, o.Rules, markdown)
	shown := map[string]bool{}
	changed := c.changedMetrics()
	for _, m := range o.Metrics {
		shown[m] = true
		for _, other := range changed {
			if other != m {
				continue
			}
			t := c.metricTable(m)
			b.WriteString("\n")
			write := t.WriteText
			if markdown {
				write = t.WriteMarkdown
			}
			if err := write(&b); err != nil {
				return err
			}
		}
	}
	var more []string
	for _, m := range changed {
		if !shown[m] {
			more = append(more, m)
		}
	}
	for _, note := range []struct {
		text    string
		metrics []string
	}{{"also changed", more}, {"only in the new results", c.GainedMetrics}, {"only in the old results", c.LostMetrics}} {
		if len(note.metrics) > 0 {
			fmt.Fprintf(&b, "\n%s: %s\n", note.text, strings.Join(note.metrics, ", "))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headline counts the points by fate.
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
	lost := 0
	for i := range c.Points {
		if c.Points[i].Fate != Vanished {
			lost += c.Points[i].Lost
		}
	}
	if lost > 0 {
		text += fmt.Sprintf("; %d old seeds of these are missing", lost)
	}
	configured := 0
	for i := range c.Points {
		if c.Points[i].Reconfigured {
			configured++
		}
	}
	if configured > 0 {
		text += fmt.Sprintf("; %d with another configuration of the same name", configured)
	}
	return text
}

// listed is how many points of a fate are named.
const listed = 20

// list names the points of a fate.
func (c *Comparison) list(b *strings.Builder, fate Fate, markdown bool) {
	n := 0
	for i := range c.Points {
		p := &c.Points[i]
		if p.Fate != fate {
			continue
		}
		if n++; n > listed {
			continue
		}
		if n == 1 {
			fmt.Fprintf(b, "\n%s:\n", fate)
			if markdown {
				b.WriteString("\n")
			}
		}
		b.WriteString(item(markdown) + p.Name)
		if fate == FailsNow {
			b.WriteString(": " + p.Error)
		}
		b.WriteString("\n")
	}
	if n > listed {
		fmt.Fprintf(b, "%sand %d more\n", item(markdown), n-listed)
	}
}

// item begins an item of a list.
func item(markdown bool) string {
	if markdown {
		return "- "
	}
	return "  "
}

// trips lists the rules that trip, and where.
func (c *Comparison) trips(b *strings.Builder, rules []*Rule, markdown bool) {
	for _, r := range rules {
		n := 0
		for i := range c.Points {
			p := &c.Points[i]
			if !r.Trips(p) {
				continue
			}
			if n++; n > listed {
				continue
			}
			if n == 1 {
				fmt.Fprintf(b, "\nbeyond the limit %s:\n", quoted(r.Text, markdown))
				if markdown {
					b.WriteString("\n")
				}
			}
			what := string(p.Fate)
			if relative, _, ok := p.Delta(r.Metric); ok && p.Fate != FailsNow {
				what = percentChange(relative)
			}
			b.WriteString(item(markdown) + p.Name + "  " + what + "\n")
		}
		if n > listed {
			fmt.Fprintf(b, "%sand %d more\n", item(markdown), n-listed)
		}
	}
}

func quoted(text string, markdown bool) string {
	if markdown {
		return "`" + text + "`"
	}
	return text
}

// metricTable returns the points that have another value of a metric, and the
// geometric mean over all that have a positive one in both tables.
func (c *Comparison) metricTable(metric string) *Table {
	t := &Table{Columns: []string{metric, "old", "new", "delta"}}
	logOld, logNew, n, equal := 0.0, 0.0, 0, 0
	for i := range c.Points {
		p := &c.Points[i]
		relative, spread, ok := p.Delta(metric)
		if !ok {
			continue
		}
		old, oldStd := meanStd(p.Old[metric])
		updated, newStd := meanStd(p.New[metric])
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
			delta += " ± " + percent(spread)
		}
		t.Rows = append(t.Rows, []string{name, withSpread(old, oldStd, len(p.Old[metric])), withSpread(updated, newStd, len(p.New[metric])), delta})
	}
	if equal > 0 {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("(%d equal)", equal), "", "", ""})
	}
	if n > 1 {
		a, b := math.Exp(logOld/float64(n)), math.Exp(logNew/float64(n))
		t.Rows = append(t.Rows, []string{"geomean", fourDigits(a), fourDigits(b), percentChange(relativeChange(a, b))})
	}
	return t
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
	return grouped(v, min(decimals, 12))
}

// percentChange writes a relative change with its sign.
func percentChange(v float64) string {
	switch {
	case math.IsInf(v, 0):
		return "from 0"
	case v == 0:
		return "0%"
	}
	return fmt.Sprintf("%+.2f%%", 100*v)
}
