package machine

import "github.com/l3sim/l3sim/dram"

// The program of a rank-level unit (Hermes, compared with L3 in L3, section 6.1): there are no multipliers at the banks, but one unit in
// the buffer chip that reads keys and values over the rank's data bus. Banks are read in groups of one bank of each bank group, so that
// bursts follow each other at tCCD_S, while the next group is activated. All banks close at a row's end, so that the rank can refresh. q,
// scores and results stay in the buffer chip. Only whole chunks are read.

// stepRankLevel generates a few instructions of a stage after the append.
func (p *Program) stepRankLevel() {
	switch p.stage {
	case stageScore, stageRescore, stageContext:
		p.readGroup()
	case stageReadOut:
		// The banks are closed; a segment's output stays in the buffer chip.
		p.open = p.token < p.Heads[p.head].Context
	}
}

// readGroup generates the reads of one column of a group of banks for one pass. The first of them include the activation of the next group,
// and the group's scales.
func (p *Program) readGroup() {
	g, h := &p.Geometry, &p.Heads[p.head]
	unit, within, rowEnd := h.List.Place(g, p.token)
	if p.token >= p.rowEnd {
		p.rowEnd = min(rowEnd, p.token+p.VisitTokens-within%p.VisitTokens)
		p.group, p.pass = 0, 0
	}
	row, column, op := h.FirstRow+int32(2*unit), g.KeyColumn(within), OpReadKey
	if p.stage == stageContext {
		row, column, op = row+1, g.ValueColumn(within), OpReadValue
	}
	groups, end := g.Banks/g.BankGroups, min(p.rowEnd, p.limit)
	if p.pass == 0 && p.streamed == 0 {
		p.columns = (end - p.token + g.ChunkTokens - 1) / g.ChunkTokens * p.chunkColumns()
		p.openGroups(row)
	}
	p.readColumn(op, row, column+int32(p.streamed))
	if p.streamed++; p.streamed < p.columns {
		return
	}
	p.streamed = 0
	if op == OpReadValue && p.group == groups-1 && p.pass == p.passes-1 && end >= p.limit && (end >= h.Context || !p.Rescore) {
		p.pending[len(p.pending)-1].Last = true
	}
	if p.pass < p.passes-1 {
		p.pass++
		return
	}
	p.closeGroup(p.group)
	p.pass = 0
	if p.group++; p.group == groups {
		p.group = 0
		p.token = end
		if op == OpReadKey {
			p.scoreRead = p.count[ResultSequencer]
		}
	}
}

// chunkColumns returns the number of columns of a bank that a chunk takes in the stage's row.
func (p *Program) chunkColumns() int {
	if p.stage == stageContext {
		return p.Geometry.ValueBursts
	}
	return p.Geometry.KeyBursts
}

// openGroups activates row in the next group of banks (and first in the current group, if that is the first one), and reads the current
// group's scales. If a read also needs scales of other groups, all groups' scales come first.
func (p *Program) openGroups(row int32) {
	ahead, groups := 1, p.Geometry.Banks/p.Geometry.BankGroups
	if p.needsAllScales() {
		ahead = groups
	}
	if p.group == 0 {
		for group := range ahead {
			p.openGroup(group, row)
		}
		p.opens = p.count[BankSequencer]
	}
	p.opened = p.opens
	switch {
	case ahead == 1 && p.group+1 < groups:
		p.openGroup(p.group+1, row)
		p.opens = p.count[BankSequencer]
		fallthrough
	case ahead == 1:
		p.readGroupScales(row, p.group)
	case p.group == 0:
		for group := range groups {
			p.readGroupScales(row, group)
		}
	}
}

// needsAllScales reports whether a group's reads need scales stored in other groups' banks. There are two cases: q is multiplied by scales
// of elements, which are spread over all tokens of a group of keys; or a value is wider than a group of banks, and its scale is in any of
// its banks.
func (p *Program) needsAllScales() bool {
	g := &p.Geometry
	if g.ScaleChunks == 0 {
		return false
	}
	return p.stage == stageContext && g.ValueBursts > g.BankGroups || p.stage != stageContext && p.Shape.KeyGroup > 0
}

// readGroupScales reads the scales of a whole row that are in a group's banks.
func (p *Program) readGroupScales(row int32, from int) {
	g := &p.Geometry
	columns := g.ScaleColumns(0, g.RowTokens)
	in := p.rankCommand(dram.RD, OpReadScale, ResultSequencer)
	in.Row = row
	in.wait[BankSequencer] = p.opened
	for c := range columns {
		in.Column = int32(g.RowBursts - columns + c)
		for b := range g.BankGroups {
			p.addOf(&in, from*g.BankGroups+b)
		}
	}
}

// readColumn reads a column of the current group's banks.
func (p *Program) readColumn(op Operation, row, column int32) {
	g := &p.Geometry
	in := p.rankCommand(dram.RD, op, ResultSequencer)
	in.Row, in.Column = row, column
	in.Query, in.Queries = uint8(p.pass*p.MACs), uint8(min(p.MACs, p.Shape.Queries-p.pass*p.MACs))
	in.wait[BankSequencer] = p.opened
	in.Count = p.stage == stageScore
	if op == OpReadValue {
		in.wait[ResultSequencer] = p.scoreRead
		in.Count = false
		in.First = p.streamed == 0 && p.token == p.segment*p.SegmentTokens && (p.segment == 0 || !p.Rescore)
	}
	for b := range g.BankGroups {
		ordinal := p.group*g.BankGroups + b
		out := p.addOf(&in, ordinal)
		if op == OpReadValue {
			out.Token = int32(p.token + p.streamed*g.ColumnTokens + ordinal/g.ValueBursts)
			out.Burst = uint8(ordinal % g.ValueBursts)
			continue
		}
		first := p.token + p.streamed/g.KeyBursts*g.ChunkTokens + ordinal
		out.Token, out.Burst = int32(first), uint8(p.streamed%g.KeyBursts)
		out.Keep = first < (p.segment+1)*p.SegmentTokens
	}
}

func (p *Program) openGroup(group int, row int32) {
	for b := range p.Geometry.BankGroups {
		in := bankCommand(&p.Geometry, dram.ACT, OpActivate, group*p.Geometry.BankGroups+b, row, -1)
		if group == 0 && b == 0 {
			switch {
			case p.open:
				in.boundary = rowBoundary
			case !p.Heads[p.head].Appends:
				in.boundary = headBoundary
			}
			p.open = true
		}
		p.emit(in)
	}
}

// closeGroup precharges a group of banks after its reads.
func (p *Program) closeGroup(group int) {
	for b := range p.Geometry.BankGroups {
		in := bankCommand(&p.Geometry, dram.PRE, OpPrecharge, group*p.Geometry.BankGroups+b, -1, -1)
		in.wait[ResultSequencer] = p.count[ResultSequencer]
		p.emit(in)
	}
}
