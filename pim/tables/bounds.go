package tables

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/series"
)

// BoundTable holds a rank's clocks for the bounds of one KV head's pages: to score them, by their number, and to store one. A page's bounds
// are stored in separate rows, as one key with its smallest and its largest elements.
type BoundTable struct {
	Pace   Pace                            // power limit for scoring; Store and Update open only one bank
	step   int                             // bounds scored at once
	scores series.Series[machine.Activity] // by step
	topK   int64

	Store  int64 // one bound written: activation, bursts, precharge
	Update int64 // one bound read, compared with a key by logic in the re-layout unit, and written again
}

const boundRows = 16 // rows of bounds up to which a table is checked: further rows add the same

// NewBoundTable measures the scoring of bounds for heads of a shape: in one pass for the sum of the group's queries or, with perQuery, in
// one pass for each set of query heads. by is SelectBank or SelectRank, topK the clocks from the last score to the list.
func NewBoundTable(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, by string, perQuery bool, topK int) (*BoundTable, error) {
	bounds := BoundsOf(shape)
	if perQuery {
		bounds.Queries = shape.Queries
	}
	b, err := BoundBuilder(spec, d, bounds, by)
	if err != nil {
		return nil, err
	}
	g := &b.Program.Geometry
	t := &BoundTable{step: g.ChunkTokens, topK: int64(topK)}
	row := g.RowTokens / t.step
	t.scores = series.New(boundRows*row, func(i int) machine.Activity { return b.Measure(machine.Head{Context: (i + 1) * t.step, Scores: true}) }, row)
	t.Store, t.Update = writeBound(g, d, false), writeBound(g, d, true)
	return t, nil
}

// BoundsOf returns the shape in which a unit scores a page's bounds: one key, of the smallest and largest elements in FP16, for one query,
// the sum of the group's queries.
func BoundsOf(shape pim.HeadShape) pim.HeadShape {
	return pim.HeadShape{HeadDim: 2 * shape.HeadDim, Queries: 1, ElementBits: 16}
}

// writeBound returns the clocks that one bound takes in a bank: activation, a read if requested, the write and precharge.
func writeBound(g *pim.Geometry, d *dram.Spec, read bool) (clock int64) {
	state, a := dram.NewState(d, 1), dram.Address{}
	issue := func(cmd dram.Command, times int) {
		for i := range times {
			a.Column = int32(i)
			clock = state.Earliest(cmd, a)
			state.Issue(cmd, a, clock)
		}
	}
	issue(dram.ACT, 1)
	if read {
		issue(dram.RD, g.KeyBursts)
	}
	issue(dram.WR, g.KeyBursts)
	issue(dram.PRE, 1)
	return state.Earliest(dram.ACT, a)
}

// Select returns the clocks on an idle rank to score the given number of bounds and to choose from them.
func (t *BoundTable) Select(bounds int) int64 {
	if bounds < 1 {
		return 0
	}
	a := t.Activity(bounds)
	return t.Pace.Clocks(clocksAt(&t.scores, (bounds-1)/t.step)+t.topK, &a)
}

// Activity returns a rank's activity for scoring the given number of bounds.
func (t *BoundTable) Activity(bounds int) machine.Activity {
	if bounds < 1 {
		return machine.Activity{}
	}
	return t.scores.At((bounds - 1) / t.step)
}

// Values of PageLoad.Select: which device scores pages.
const (
	SelectBank = "bank" // the units at the banks, on rows of bounds
	SelectRank = "rank" // a rank-level unit that reads the bounds over the rank's bus
	SelectGPU  = "gpu"  // the GPUs, which hold the bounds in their memory: no clocks of the rank
	SelectNone = "none" // none: the list is given
)

// BoundBuilder returns a runner that scores bounds, in a rank-level unit with SelectRank.
func BoundBuilder(spec *pim.Spec, d *dram.Spec, bounds pim.HeadShape, by string) (*machine.Runner, error) {
	if err := input.Validate(spec); err != nil {
		return nil, err
	}
	unit := *spec
	if by == SelectRank {
		unit.ProcessingUnit = pim.RankLevelUnit
	}
	return machine.NewRunner(&unit, d, bounds)
}
