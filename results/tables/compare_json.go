package tables

import (
	"github.com/l3sim/l3sim/results"
	"io"
	"math"
)

const compareSchema = "l3sim/diff/1" // names the form of a comparison's JSON

type comparisonJSON struct {
	Schema        string      `json:"schema"`
	Points        []pointJSON `json:"points"`
	Lost          int         `json:"lost"` // points and seeds that only the old table has
	GainedMetrics []string    `json:"gained_metrics"`
	LostMetrics   []string    `json:"lost_metrics"`
	Rules         []ruleJSON  `json:"rules"`
}

// pointJSON is a point of both tables, or of one of them.
type pointJSON struct {
	*PointChange
	Metrics map[string]changeJSON `json:"metrics"`
}

// changeJSON has the means over the seeds that both tables have.
type changeJSON struct {
	Old    float64  `json:"old"`
	New    float64  `json:"new"`
	Change *float64 `json:"change"` // as a share of old; null from 0
}

// ruleJSON is a rule of --fail-if, and the points that broke it.
type ruleJSON struct {
	Rule    string   `json:"rule"`
	Judged  int      `json:"judged"`  // points at which it can trip
	Tripped []string `json:"tripped"` // names of points
}

// WriteJSON writes the comparison as one indented JSON object, with the metrics of o.
func (c *Comparison) WriteJSON(w io.Writer, o CompareOptions) error {
	out := comparisonJSON{
		Schema: compareSchema, Points: []pointJSON{}, Lost: c.Lost(), Rules: []ruleJSON{},
		GainedMetrics: append([]string{}, c.GainedMetrics...), LostMetrics: append([]string{}, c.LostMetrics...),
	}
	for i := range c.Points {
		p := &c.Points[i]
		j := pointJSON{p, map[string]changeJSON{}}
		for _, m := range o.Metrics {
			relative, _, ok := p.Delta(m)
			if !ok {
				continue
			}
			change := changeJSON{Change: &relative}
			change.Old, _ = MeanStd(p.Old[m])
			change.New, _ = MeanStd(p.New[m])
			if math.IsInf(relative, 0) {
				change.Change = nil
			}
			j.Metrics[m] = change
		}
		out.Points = append(out.Points, j)
	}
	for _, r := range o.Rules {
		j := ruleJSON{r.Text, r.Judged(c), []string{}}
		for i := range c.Points {
			if r.Trips(&c.Points[i]) {
				j.Tripped = append(j.Tripped, c.Points[i].Name)
			}
		}
		out.Rules = append(out.Rules, j)
	}
	return results.WriteJSON(w, out)
}
