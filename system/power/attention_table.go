package power

import (
	"math"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// AttentionGrid is the parameters for which decode attention on DIMM-PIM ranks is tabulated, in every combination.
// Each list ascends.
type AttentionGrid struct {
	Contexts []int // tokens of each request, the newest included
	Batches  []int // requests
	Heads    []int // query heads of a layer
	Groups   []int // query heads of a KV head
	Ranks    []int // number of ranks over which the KV heads of all requests are dealt
	HeadDim  int
}

const mostRows = 1 << 20 // largest number of rows of a grid

// Check has the rules of a grid.
func (g *AttentionGrid) Check(c *input.Check) {
	rows := 1.0
	for _, axis := range []struct {
		key  string
		list []int
		most int
	}{{"context", g.Contexts, 1 << 22}, {"batch", g.Batches, 1 << 16}, {"heads", g.Heads, 1 << 12}, {"grouping", g.Groups, 128}, {"ranks", g.Ranks, 1 << 16}} {
		last := 0
		for _, n := range axis.list {
			c.That(n > last && n <= axis.most, axis.key, n, "rising numbers, 1 to %d", axis.most)
			last = n
		}
		rows *= float64(len(axis.list))
	}
	c.That(rows <= mostRows, "context", len(g.Contexts), "a table of at most %d rows, not %.0f", mostRows, rows)
	for _, heads := range g.Heads {
		for _, group := range g.Groups {
			c.That(heads%max(group, 1) == 0, "grouping", group, "a divisor of %d query heads", heads)
		}
	}
}

// AttentionRow is one layer's decode attention of a batch on ranks, without transfers to or from the ranks.
type AttentionRow struct {
	DRAM      string
	Context   int
	Batch     int
	Heads     int
	KVHeads   int
	Ranks     int
	LatencyUS float64 // of the busiest rank, with refresh
	EnergyUJ  float64 // of all ranks for that time: DRAM, its pins, and units
	EnergyLow float64
	EnergyTop float64
	// ContextError and BatchError bound the relative error of latency if it is interpolated linearly between this row and the
	// row of the next smaller context, or batch; 0 for the smallest.
	ContextError float64
	BatchError   float64
	NotEstimated string // what the energy leaves out, "" for nothing
}

// AttentionRows returns the table of a configuration's ranks, in the order of the grid's lists: heads, grouping, ranks, batch,
// context. An invalid grid returns an *input.Error.
func AttentionRows(cfg *configs.Config, g *AttentionGrid) ([]AttentionRow, error) {
	if err := input.Validate(g); err != nil {
		return nil, err
	}
	var rows []AttentionRow
	for _, group := range g.Groups {
		shape := cfg.HeadShape()
		shape.HeadDim, shape.ValueDim, shape.Queries = g.HeadDim, 0, group
		r := rankAttention{cfg: cfg, shape: shape}
		if err := r.measure(); err != nil {
			return nil, err
		}
		for _, heads := range g.Heads {
			for _, rankCount := range g.Ranks {
				more, err := r.rows(g, heads, rankCount)
				if err != nil {
					return nil, err
				}
				rows = append(rows, more...)
			}
		}
	}
	return rows, nil
}

// rankAttention is the attention of heads of one shape on a rank.
type rankAttention struct {
	cfg   *configs.Config
	shape pim.HeadShape
	table *tables.KernelTable
	draws [energy.Places]ranks.Draw
}

// measure runs heads to get their clocks and the activity of the rank.
func (r *rankAttention) measure() (err error) {
	for place := range energy.Places {
		r.draws[place] = ranks.AttentionDraw(r.cfg, &r.cfg.PIM, energy.Place(place))
	}
	r.table, err = ranks.HeadTable(r.cfg, &r.cfg.PIM, r.shape)
	return err
}

// seconds returns the time of a number of heads, one after another, on one rank.
func (r *rankAttention) seconds(heads, context int) float64 {
	clocks := r.table.Alone(context) + int64(heads-1)*r.table.InSequence(context)
	return float64(r.table.WithRefresh(clocks)) * r.cfg.DRAM.TCK.Seconds()
}

func busiest(batch, kvHeads, rankCount int) int { return (batch*kvHeads + rankCount - 1) / rankCount }

// rows fills the grid. The errors of a row are those of interpolation between its neighbours.
func (r *rankAttention) rows(g *AttentionGrid, heads, rankCount int) (rows []AttentionRow, err error) {
	kv := heads / r.shape.Queries
	for i, batch := range g.Batches {
		for j, context := range g.Contexts {
			most := busiest(batch, kv, rankCount)
			seconds := r.seconds(most, context)
			joules, err := r.joules(batch*kv, rankCount, context, seconds)
			if err != nil {
				return nil, err
			}
			row := AttentionRow{
				DRAM: r.cfg.DRAM.Preset, Context: context, Batch: batch, Heads: heads, KVHeads: kv, Ranks: rankCount, LatencyUS: 1e6 * seconds,
				EnergyUJ: 1e6 * joules[energy.Mid], EnergyLow: 1e6 * joules[energy.Low], EnergyTop: 1e6 * joules[energy.High], NotEstimated: notKnown(r.cfg),
			}
			if j > 0 {
				row.ContextError = interpolation(g.Contexts[j-1], context, func(n int) float64 { return r.seconds(most, n) })
			}
			if i > 0 {
				row.BatchError = interpolation(g.Batches[i-1], batch, func(n int) float64 { return r.seconds(busiest(n, kv, rankCount), context) })
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// joules returns the energy of heads on ranks that work for a time, at each place of the constants' bands. It verifies
// LawEnergy.
func (r *rankAttention) joules(heads, rankCount, context int, seconds float64) (at [energy.Places]float64, err error) {
	a := r.table.Activity(context)
	var parts []float64
	for place := range at {
		d := &r.draws[place]
		head, sum := ofRank(d.Attention(&a)), draw{}
		sum.add(&head, float64(heads))
		all := float64(rankCount) * seconds
		sum[drawRefresh], sum[drawClosed], sum[drawVPP] = all*d.Refresh, all*d.Closed, all*d.VPP
		if at[place] = sum.total(); place == int(energy.Mid) {
			parts = sum[:]
		}
	}
	if bad := energy.Broken(parts, at[energy.Mid], at[energy.Low], at[energy.High]); bad != "" {
		return at, &flow.Violation{Law: flow.LawEnergy, Time: units.FromSeconds(seconds), Detail: bad}
	}
	return at, nil
}

// interpolation returns the largest relative error of a line between two points.
func interpolation(from, to int, exact func(n int) float64) (worst float64) {
	low, high := exact(from), exact(to)
	for n := from + 1; n < to; n++ {
		line := low + float64((high-low)*(float64(n-from)/float64(to-from)))
		worst = max(worst, math.Abs(line/exact(n)-1))
	}
	return worst
}
