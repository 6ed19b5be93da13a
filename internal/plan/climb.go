package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results/tables"
)

const (
	// longest is the time, 49 days in seconds, over which all requests arrive at the lowest rate that is tried. A run can hold 106
	// days, its last answers included.
	longest = 49 * 86400
	// lowest is the smallest rate of a search, as a share of the rate from which it begins.
	lowest = 1e-4
	// firstStep is the first relative change of the rate of a point of which nothing is known.
	firstStep = 0.05
)

// shares are the shares of the answer at which a configuration is also judged if its knobs are not searched: latency over load.
var shares = []float64{0.25, 0.5, 0.75, 0.9}

// rounded returns a rate with six digits, so that --rate repeats it as printed; a number of users is an
// integer.
func (c *Contest) rounded(rate float64) float64 {
	if c.users {
		return max(1, math.Round(rate))
	}
	return tables.Round(rate, 6)
}

// between says whether a rate between one that holds and one that fails remains to be tried.
func (c *Contest) between(held, failed, precision float64) bool {
	return failed > (1+precision)*held && (!c.users || failed > held+1)
}

// above returns the next rate to try above a rate.
func (c *Contest) above(rate, step float64) float64 {
	higher := float64(rate * (1 + step))
	if c.users {
		return max(higher, rate+1)
	}
	return higher
}

// climb returns the highest rate that an entrant holds, to a precision: it steps up or down from a rate in growing steps, then
// bisects. It is 0 if the entrant holds no rate down to lowest.
func (c *Contest) climb(e *entrant, from, precision float64) float64 {
	step, n := precision, float64(e.n)
	least := max(from*lowest, n/longest)
	if c.users {
		least = 1
	}
	if e.held == 0 {
		step = max(step, firstStep)
	}
	for rate := max(from, e.held, least); ; {
		met := c.holds(e, rate)
		switch {
		case e.judge == nil:
			return 0
		case e.held > 0 && e.failed > 0:
			if !c.between(e.held, e.failed, precision) {
				return e.held
			}
			rate = math.Sqrt(e.held * e.failed)
		case met:
			rate = c.above(rate, step)
		case rate <= least:
			return 0
		default: // the later in the run it failed, the nearer the rate
			rate = max(rate*min(1/(1+step), float64(e.came)/n), least)
		}
		step = min(2*step, 1)
	}
}

// answer returns the row of the highest rate that an entrant holds, to the precision. known is a rate that it is known to hold, 0 for none.
// The requested rate is judged first, and is the answer if it holds.
func (c *Contest) answer(e *entrant, known float64) (*Row, error) {
	j, row := c.open(e), &Row{}
	if j == nil {
		return nil, e.err
	}
	if c.asked > 0 {
		l, err := j.run(c.ctx, c.asked, false)
		if err != nil {
			return nil, err
		}
		row.Tried = []Load{l}
		row.Asked = &Asked{RatePerS: l.RatePerS, Users: l.Users, Met: l.Met, Attainment: l.Attainment, Fails: l.Fails}
	}
	var rates []float64 // to be tried in addition
	if met := row.Asked != nil && row.Asked.Met; !met || known > 0 {
		from := cmp.Or(known, c.asked)
		if from == 0 {
			full, err := j.full(c.ctx)
			if err != nil {
				return nil, err
			}
			from = full / 2
		}
		held := c.climb(e, from, c.search.Precision)
		switch {
		case e.judge == nil:
			return nil, e.err
		case met:
			row.Highest = held
		case held == 0: // the lowest, and one that shows whether requests wait for one another
			rates = []float64{e.failed, 2 * e.failed}
		default:
			row.Tried, rates = append(row.Tried, e.best), []float64{e.failed}
			if known == 0 {
				rates = append(rates, list.Map(shares, func(share float64) float64 { return share * held })...)
			}
		}
	}
	loads, errs := make([]Load, len(rates)), make([]error, len(rates))
	sideBySide(rates, func(i int, rate float64) { loads[i], errs[i] = j.run(c.ctx, c.rounded(rate), false) })
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	row.Tried = append(row.Tried, loads...)
	slices.SortFunc(row.Tried, func(x, y Load) int { return cmp.Compare(x.offered(), y.offered()) })
	row.Tried = slices.CompactFunc(row.Tried, func(x, y Load) bool { return x.offered() == y.offered() })
	row.TooLarge = int(row.Tried[0].Summary.RejectedRequests)
	row.settle(c.asked)
	return row, nil
}

// settle makes the highest rate that meets the targets the answer; if none does, the lowest with a rate of 0. asked is the requested rate
// or number of users.
func (r *Row) settle(asked float64) {
	best := -1
	for i := range r.Tried {
		if r.Tried[i].Met {
			best = i
		}
	}
	r.Load = r.Tried[max(best, 0)]
	if best < 0 {
		second := &r.Tried[min(1, len(r.Tried)-1)]
		r.Alone = r.TTFT == second.TTFT && r.TBT == second.TBT && r.E2E == second.E2E
		r.RatePerS, r.Users = 0, 0
	}
	if best+1 < len(r.Tried) {
		r.next = &r.Tried[best+1]
		r.Limit = r.next.Fails
	}
	r.Dips = slices.ContainsFunc(r.Tried[:max(best, 0)], func(l Load) bool { return !l.Met })
	r.Highest = max(r.offered(), r.Highest)
	if r.Asked != nil && r.Highest > 0 {
		r.Asked.Nodes = int(math.Ceil(asked / r.Highest))
	}
}
