package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

const (
	// enough is the number of measured requests from which on an answer states no uncertainty.
	enough = 2000
	// deciding is the number of requests allowed to miss their targets below which chance, such as a few long
	// requests, decides the rate.
	deciding = 10
)

// few says that so few of n requests may miss their targets that chance decides.
func few(n int, share float64) bool { return share < 1 && float64(n)*(1-share) < deciding }

// sample returns how many requests of a trace are measured with a number of users (0 for a rate), and how many different ones.
func sample(trace *traces.Trace, users int) (measures, different int) {
	from, to := measured(len(trace.Requests), users)
	return to - from, min(to-from, cmp.Or(trace.Distinct, to))
}

// likelyShares returns the 95% interval of the share of all requests that attain their targets, if a share p of n does (Wilson, JASA 22, 1927).
func likelyShares(p float64, n int) (low, high float64) {
	const z = 1.96
	of := float64(n)
	middle := (p + z*z/(2*of)) / (1 + z*z/of)
	width := float64(z / (1 + z*z/of) * math.Sqrt(float64(p*(1-p))/of+z*z/(4*of*of)))
	return middle - width, middle + width
}

// likely measures the likely range of the highest rate. In a small sample the share of requests that attain their targets is off by
// chance; the range is from the rate at which its upper bound would be required to that of its lower bound. It notes this if few
// requests decide.
func (c *Contest) likely(e *entrant, row *Row) {
	share := e.judge.share
	_, n := sample(c.trace, row.Users)
	if !few(n, share) || slices.Contains(e.fails, Failure{Name: tooFew}) || e.held == 0 && e.failed == 0 { // the request holds, and nothing else was tried
		return
	}
	low, high := likelyShares(share, n)
	var rates [2]float64
	sideBySide([]float64{high, low}, func(i int, share float64) {
		j := *e.judge
		j.share = share
		f := &entrant{point: e.point, n: e.n, judge: &j}
		f.once.Do(func() {})
		rates[i] = c.climb(f, cmp.Or(row.Highest, c.asked, e.failed/lowest), wideStep) // if none holds, from where the search began
	})
	row.Low, row.High = tables.Round(rates[0], 2), tables.Round(rates[1], 2)
}

// wideStep is the step between rates in the range of uncertainty.
const wideStep = 0.1

// sure says how certain the answers from a number of different requests are, "" if there are
// enough.
func (r *Report) sure(n int) string {
	if n >= enough || r.Target == 1 {
		return ""
	}
	low, high := likelyShares(r.Target, n)
	text := fmt.Sprintf("%d different requests are measured at each rate: where %.4g%% of them attain the targets, of all such requests %.1f to %.1f%% do (95%% confidence)", n, 100*r.Target, 100*low, 100*high)
	if slices.ContainsFunc(r.Rows, func(x *Row) bool { return x.High > 0 }) {
		text += fmt.Sprintf(". Few decide, the %.4g%% that may miss them, such as the longest prompts: the highest rate of all is likely in the column 'likely'", 100*(1-r.Target))
	}
	return fmt.Sprintf("%s; a longer trace, or --requests %d where it has them, tells more", text, DefaultRequests)
}
