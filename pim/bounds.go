package pim

import "github.com/l3sim/l3sim/dram"

// BoundTable holds the clocks that a rank takes for the bounds of one KV head's pages, which lie in rows of
// their own, each as a key of its smallest and its largest elements: to score them, by their
// number, and to store one.
type BoundTable struct {
	row, step int     // bounds of a row; those that are scored at once
	starts    []int64 // of the first boundRows rows, by step
	perRow    int64   // what each further row adds
	topK      int64

	Store  int64 // one bound written: activation, its bursts, precharge
	Update int64 // one bound read, compared with a key beside the re-layout unit and written again
}

// boundRows is the rows that are measured before further ones add the same.
const boundRows = 3

// NewBoundTable measures the scores of bounds of heads of a shape: in one pass for the added queries of the
// group, or with perQuery in one for each set of query heads. by is SelectBank or SelectRank,
// topK the clocks from the last score to the list.
func NewBoundTable(spec *Spec, d *dram.Spec, shape HeadShape, by string, perQuery bool, topK int) (*BoundTable, error) {
	unit, bounds := *spec, boundsOf(shape)
	if by == SelectRank {
		unit.ProcessingUnit = RankPU
	}
	if perQuery {
		bounds.Queries = shape.Queries
	}
	b, err := newTableBuilder(&unit, d, bounds)
	if err != nil {
		return nil, err
	}
	g := &b.program.geometry
	t := &BoundTable{row: g.RowTokens, step: g.ChunkTokens, topK: int64(topK)}
	for n := t.step; n <= boundRows*t.row; n += t.step {
		t.starts = append(t.starts, b.run(headRun{context: n, scores: true}))
	}
	t.perRow = t.starts[len(t.starts)-1] - t.starts[len(t.starts)-1-t.row/t.step]
	t.Store, t.Update = writeBound(g, d, false), writeBound(g, d, true)
	return t, nil
}

// boundsOf returns the shape in which a unit scores a page's bounds: as one key, of the smallest and largest elements in
// FP16, for one query, the sum of the group's queries.
func boundsOf(shape HeadShape) HeadShape {
	return HeadShape{HeadDim: 2 * shape.HeadDim, Queries: 1, ElementBits: 16}
}

// writeBound returns the clocks for which a bank serves one bound: it is activated, read first where asked
// for, written and closed.
func writeBound(g *Geometry, d *dram.Spec, read bool) (clock int64) {
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
		issue(dram.RD, g.TokenBursts)
	}
	issue(dram.WR, g.TokenBursts)
	issue(dram.PRE, 1)
	return state.Earliest(dram.ACT, a)
}

// Select returns the clocks on an idle rank to score that many bounds and to choose from them.
func (t *BoundTable) Select(bounds int) int64 {
	if bounds < 1 {
		return 0
	}
	i, steps := (bounds-1)/t.step, t.row/t.step
	more := max(0, i/steps-boundRows+1)
	return t.starts[i-more*steps] + int64(more)*t.perRow + t.topK
}
