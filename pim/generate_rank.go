package pim

import "github.com/l3sim/l3sim/dram"

// The program of a rank-level PU (Hermes, compared with in L3, section 6.1): no
// multipliers beside the banks, but one unit in the buffer chip that reads keys and values
// over the rank's data bus. Banks are read in groups of one bank of each bank
// group, so that bursts follow each other at tCCD_S, and the next group is
// activated meanwhile. All banks close at a row's end, so that the rank
// can refresh. q, scores and results stay in the buffer chip. Whole chunks are read.

// stepRankPU generates a few instructions of a stage after the append.
func (p *Program) stepRankPU() {
	switch p.stage {
	case stageScore, stageRescore, stageContext:
		p.readGroup()
	case stageReadOut:
		// The banks are closed; a segment's output stays in the buffer chip.
		p.open = p.token < p.Heads[p.head].Context
	}
}

// readGroup generates the reads of one group of banks for one pass.
func (p *Program) readGroup() {
	g := &p.Geometry
	if p.token >= p.rowEnd {
		p.rowEnd = p.token/g.RowTokens*g.RowTokens + g.RowTokens
		p.group, p.pass = 0, 0
	}
	row, column, op := p.Heads[p.head].FirstRow+g.KeyRow(p.token), g.KeyColumn(p.token), OpReadKey
	if p.stage == stageContext {
		row, column, op = row+1, g.ValueColumn(p.token), OpReadValue
	}
	if p.group == 0 && p.pass == 0 {
		p.openGroup(0, row)
		p.opened = p.count[BankSequencer]
	}
	end := min(p.rowEnd, p.limit)
	chunks := (end - p.token + g.ChunkTokens - 1) / g.ChunkTokens
	p.readBursts(op, row, column, chunks*g.TokenBursts)

	groups := g.Banks / g.BankGroups
	if p.pass == 0 && p.group+1 < groups {
		p.openGroup(p.group+1, row)
		p.opened = p.count[BankSequencer]
	}
	if p.pass < p.Passes-1 {
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

// readBursts reads columns columns of the current group's banks.
func (p *Program) readBursts(op Op, row, column int32, columns int) {
	g := &p.Geometry
	in := p.rankCommand(dram.RD, op, ResultSequencer)
	in.Row = row
	in.Query, in.Queries = uint8(p.pass*p.macs), uint8(min(p.macs, p.Shape.Queries-p.pass*p.macs))
	in.Wait[BankSequencer] = p.opened
	if op == OpReadValue {
		in.Wait[ResultSequencer] = p.scoreRead
	}
	for c := range columns {
		for b := range g.BankGroups {
			out := p.add(ResultSequencer)
			*out = in
			ordinal := p.group*g.BankGroups + b
			group, bank := g.Bank(ordinal)
			out.BankGroup, out.Bank, out.Column = int8(group), int8(bank), column+int32(c)
			first := p.token + c/g.TokenBursts*g.ChunkTokens + ordinal
			out.Token, out.Burst = int32(first), uint8(c%g.TokenBursts)
			if op == OpReadValue {
				out.Token = int32(p.token + c*g.ColumnTokens + ordinal/g.TokenBursts)
				out.Burst = uint8(ordinal % g.TokenBursts)
			}
		}
	}
}

// openGroup activates row in a group of banks.
func (p *Program) openGroup(group int, row int32) {
	for b := range p.Geometry.BankGroups {
		in := p.Geometry.bankCommand(dram.ACT, OpActivate, group*p.Geometry.BankGroups+b, row, -1)
		if group == 0 && b == 0 {
			switch {
			case p.open:
				in.Boundary = RowBoundary
			case !p.Heads[p.head].Append:
				in.Boundary = HeadBoundary
			}
			p.open = true
		}
		p.emit(in)
	}
}

// closeGroup precharges a group of banks once it has been read.
func (p *Program) closeGroup(group int) {
	for b := range p.Geometry.BankGroups {
		in := p.Geometry.bankCommand(dram.PRE, OpPrecharge, group*p.Geometry.BankGroups+b, -1, -1)
		in.Wait[ResultSequencer] = p.count[ResultSequencer]
		p.emit(in)
	}
}
