package pim

import "github.com/l3sim/l3sim/dram"

// The program of a rank-level unit (Hermes, compared with in L3, section 6.1): no multipliers beside the banks, but one unit
// in the buffer chip that reads keys and values over the rank's data bus. Banks are read in groups of one bank of each bank
// group, so that bursts follow each other at tCCD_S, and the next group is activated meanwhile. All banks close at a row's
// end, so that the rank can refresh. q, scores and results stay in the buffer chip. Whole chunks are read.

// stepRankLevel generates a few instructions of a stage after the append.
func (p *program) stepRankLevel() {
	switch p.stage {
	case stageScore, stageRescore, stageContext:
		p.readGroup()
	case stageReadOut:
		// The banks are closed; a segment's output stays in the buffer chip.
		p.open = p.token < p.heads[p.head].context
	}
}

// readGroup generates the reads of one column of a group of banks for one pass. With the first ones come the activation
// of the next group and the group's scales.
func (p *program) readGroup() {
	g, h := &p.geometry, &p.heads[p.head]
	unit, within, rowEnd := h.list.place(g, p.token)
	if p.token >= p.rowEnd {
		p.rowEnd = min(rowEnd, p.token+p.visitTokens-within%p.visitTokens)
		p.group, p.pass = 0, 0
	}
	row, column, op := h.firstRow+int32(2*unit), g.keyColumn(within), opReadKey
	if p.stage == stageContext {
		row, column, op = row+1, g.valueColumn(within), opReadValue
	}
	groups, end := g.Banks/g.bankGroups, min(p.rowEnd, p.limit)
	if p.pass == 0 && p.streamed == 0 {
		p.columns = (end - p.token + g.ChunkTokens - 1) / g.ChunkTokens * g.TokenBursts
		p.openGroups(row)
	}
	p.readColumn(op, row, column+int32(p.streamed))
	if p.streamed++; p.streamed < p.columns {
		return
	}
	p.streamed = 0
	if op == opReadValue && p.group == groups-1 && p.pass == p.passes-1 && end >= p.limit && (end >= h.context || !p.rescore) {
		p.pending[len(p.pending)-1].last = true
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
		if op == opReadKey {
			p.scoreRead = p.count[resultSequencer]
		}
	}
}

// openGroups activates row in the group of banks that follows the current one, and before it in that one if it is the
// first, and reads the current group's scales. Where a read needs scales of other groups, too, all come first.
func (p *program) openGroups(row int32) {
	ahead, groups := 1, p.geometry.Banks/p.geometry.bankGroups
	if p.needsAllScales() {
		ahead = groups
	}
	if p.group == 0 {
		for group := range ahead {
			p.openGroup(group, row)
		}
		p.opens = p.count[bankSequencer]
	}
	p.opened = p.opens
	switch {
	case ahead == 1 && p.group+1 < groups:
		p.openGroup(p.group+1, row)
		p.opens = p.count[bankSequencer]
		fallthrough
	case ahead == 1:
		p.readGroupScales(row, p.group)
	case p.group == 0:
		for group := range groups {
			p.readGroupScales(row, group)
		}
	}
}

// needsAllScales reports whether a group's reads need scales that other groups' banks hold: q takes on scales of elements, which lie with
// all tokens of a group of keys, and a value that is wider than a group of banks has its scale in any of its banks.
func (p *program) needsAllScales() bool {
	g := &p.geometry
	if g.scaleChunks == 0 {
		return false
	}
	return p.stage == stageContext && g.TokenBursts > g.bankGroups || p.stage != stageContext && p.shape.KeyGroup > 0
}

// readGroupScales reads the scales of a whole row that a group's banks hold.
func (p *program) readGroupScales(row int32, from int) {
	g := &p.geometry
	columns := g.scaleColumns(0, g.RowTokens)
	in := p.rankCommand(dram.RD, opReadScale, resultSequencer)
	in.row = row
	in.wait[bankSequencer] = p.opened
	for c := range columns {
		in.column = int32(g.rowBursts - columns + c)
		for b := range g.bankGroups {
			p.addOf(&in, from*g.bankGroups+b)
		}
	}
}

// readColumn reads a column of the current group's banks.
func (p *program) readColumn(op operation, row, column int32) {
	g := &p.geometry
	in := p.rankCommand(dram.RD, op, resultSequencer)
	in.row, in.column = row, column
	in.query, in.queries = uint8(p.pass*p.macs), uint8(min(p.macs, p.shape.Queries-p.pass*p.macs))
	in.wait[bankSequencer] = p.opened
	in.count = p.stage == stageScore
	if op == opReadValue {
		in.wait[resultSequencer] = p.scoreRead
		in.count = false
		in.first = p.streamed == 0 && p.token == p.segment*p.segmentTokens && (p.segment == 0 || !p.rescore)
	}
	for b := range g.bankGroups {
		ordinal := p.group*g.bankGroups + b
		out := p.addOf(&in, ordinal)
		if op == opReadValue {
			out.token = int32(p.token + p.streamed*g.ColumnTokens + ordinal/g.TokenBursts)
			out.burst = uint8(ordinal % g.TokenBursts)
			continue
		}
		first := p.token + p.streamed/g.TokenBursts*g.ChunkTokens + ordinal
		out.token, out.burst = int32(first), uint8(p.streamed%g.TokenBursts)
		out.keep = first < (p.segment+1)*p.segmentTokens
	}
}

// openGroup activates row in a group of banks.
func (p *program) openGroup(group int, row int32) {
	for b := range p.geometry.bankGroups {
		in := bankCommand(&p.geometry, dram.ACT, opActivate, group*p.geometry.bankGroups+b, row, -1)
		if group == 0 && b == 0 {
			switch {
			case p.open:
				in.boundary = rowBoundary
			case !p.heads[p.head].appends:
				in.boundary = headBoundary
			}
			p.open = true
		}
		p.emit(in)
	}
}

// closeGroup precharges a group of banks once it has been read.
func (p *program) closeGroup(group int) {
	for b := range p.geometry.bankGroups {
		in := bankCommand(&p.geometry, dram.PRE, opPrecharge, group*p.geometry.bankGroups+b, -1, -1)
		in.wait[resultSequencer] = p.count[resultSequencer]
		p.emit(in)
	}
}
