package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

const (
	// enough is the measured requests from which on nothing is said of how sure an answer is.
	enough = 2000
	// deciding is the requests that may miss their targets below which it is said that so few decide, and which.
	deciding = 10
)

// sample returns how many requests of a trace are measured with a number of users, 0 for a rate, and how many different ones that are.
func sample(trace *traces.Trace, users int) (measures, different int) {
	from, to := measured(len(trace.Requests), users)
	if trace.Distinct > 0 {
		return to - from, min(to-from, trace.Distinct)
	}
	return to - from, to - from
}

// likelyShares returns the interval of 95% of the share of all requests that attain their targets, where a share of n does (Wilson, JASA 22, 1927).
func likelyShares(p float64, n int) (low, high float64) {
	const z = 1.96
	of := float64(n)
	middle := (p + z*z/(2*of)) / (1 + z*z/of)
	width := float64(z / (1 + z*z/of) * math.Sqrt(float64(p*(1-p))/of+z*z/(4*of*of)))
	return middle - width, middle + width
}

// likely measures between which rates the highest is likely to be: those that an entrant holds where as many requests must attain their targets as
// chance may bring into so small a sample. Where there are enough requests, or all must attain their targets, it says nothing.
func (c *Contest) likely(e *entrant, row *Row) error {
	share := e.judge.share
	_, n := sample(c.trace, row.Users)
	if n >= enough || share == 1 || e.held == 0 && e.failed == 0 { // what is asked for holds, and nothing else was tried
		return nil
	}
	from, err := c.from(e.judge, row.Highest)
	if err != nil {
		return err
	}
	low, high := likelyShares(share, n)
	var rates [2]float64
	sideBySide([]float64{high, low}, func(i int, share float64) {
		j := *e.judge
		j.share = share
		if f := (&entrant{point: e.point, n: e.n, judge: &j}); i == 1 || row.Highest > 0 {
			f.once.Do(func() {})
			rates[i] = c.climb(f, from, wideStep)
		}
	})
	row.Low, row.High = tables.Round(rates[0], 2), tables.Round(max(rates[1], row.Highest), 2)
	return nil
}

// wideStep is how far apart rates are by which it is said how sure an answer is.
const wideStep = 0.1

// few says that few requests decide the highest rate, and which: "" where there are more.
func (r *Row) few(j *Judge) string {
	l := r.next
	if l == nil || l.missed == 0 {
		return ""
	}
	n, different := sample(j.trace, l.Users)
	if may := j.most(n); may*different/n < deciding {
		lengths := list.Map(j.trace.Requests, func(q traces.Request) int { return q.Input })
		slices.Sort(lengths)
		return fmt.Sprintf("%s: few requests decide: of %d that are measured %d may miss the targets, and at the next rate, %s, %d do. Their prompts have %d to %d tokens, half of all at most %d",
			l.System, n, may, l.text(), l.missed, l.prompts[0], l.prompts[1], lengths[(len(lengths)-1)/2])
	}
	return ""
}

// sure says how sure the answers of a number of different requests are, "" where these are enough.
func (r *Report) sure(n int) string {
	if n >= enough || r.Target == 1 {
		return ""
	}
	low, high := likelyShares(r.Target, n)
	return fmt.Sprintf("%d different requests are measured at each rate: where %.4g%% of them attain the targets, of all such requests %.1f to %.1f%% do (95%% confidence). "+
		"The highest rate of all is likely in the column 'likely'; a longer trace, or --requests %d where it has them, tells more", n, 100*r.Target, 100*low, 100*high, DefaultRequests)
}
