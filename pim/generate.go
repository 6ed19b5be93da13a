package pim

import "github.com/l3sim/l3sim/dram"

// emit appends an instruction of the current head and counts it.
func (p *Program) emit(in Instruction) {
	in.Head, in.Segment = int32(p.head), int32(p.segment)
	*p.add(in.Sequencer) = in
}

// add appends an instruction of unknown contents to fill in and counts it. Next
// has made room for all that one step generates.
func (p *Program) add(s Sequencer) *Instruction {
	p.count[s]++
	n := len(p.pending)
	p.pending = p.pending[:n+1]
	return &p.pending[n]
}

// bankCommand returns an instruction of the bank sequencer for one bank.
func (g *Geometry) bankCommand(cmd dram.Command, op Op, ordinal int, row, column int32) Instruction {
	group, bank := g.Bank(ordinal)
	return Instruction{Command: cmd, Op: op, BankGroup: int8(group), Bank: int8(bank), Row: row, Column: column}
}

// allBanks returns an instruction of the bank sequencer for all banks.
func allBanks(cmd dram.Command, op Op, row, column int32) Instruction {
	return Instruction{Command: cmd, Op: op, BankGroup: -1, Bank: -1, Row: row, Column: column}
}

// rankCommand returns an instruction of the current head and token for the
// whole rank, without row and column.
func (p *Program) rankCommand(cmd dram.Command, op Op, s Sequencer) Instruction {
	return Instruction{
		Head: int32(p.head), Segment: int32(p.segment), Token: int32(p.token), Row: -1, Column: -1,
		BankGroup: -1, Bank: -1, Command: cmd, Op: op, Sequencer: s,
	}
}

// appendToken stores the newest token's key and value: the key's bank and the
// value's banks are opened, written and closed. A bank that holds a burst of both
// is closed in between and comes last. The writes wait for the previous head's
// read-out anyway: the activations yield to it.
func (p *Program) appendToken() {
	g, h := &p.Geometry, &p.Heads[p.head]
	token := h.Context - 1
	keyRow, valueRow := h.FirstRow+g.KeyRow(token), h.FirstRow+g.ValueRow(token)
	keyBank, firstValue := g.KeyBank(token), g.ValueBank(token)
	shared := keyBank >= firstValue && keyBank < firstValue+g.TokenBursts

	open := p.Geometry.bankCommand(dram.ACT, OpActivate, keyBank, keyRow, -1)
	open.Boundary, open.Yield = HeadBoundary, true
	p.emit(open)
	for b := firstValue; b < firstValue+g.TokenBursts; b++ {
		if b != keyBank {
			open := p.Geometry.bankCommand(dram.ACT, OpActivate, b, valueRow, -1)
			open.Yield = true
			p.emit(open)
		}
	}
	for i := range g.TokenBursts {
		p.appendBurst(OpAppendKey, token, i, keyBank, keyRow, g.KeyColumn(token)+int32(i))
	}
	for i := range g.TokenBursts {
		if firstValue+i != keyBank {
			p.appendBurst(OpAppendValue, token, i, firstValue+i, valueRow, g.ValueColumn(token))
		}
	}
	if shared {
		p.emit(p.Geometry.bankCommand(dram.PRE, OpPrecharge, keyBank, -1, -1))
		p.emit(p.Geometry.bankCommand(dram.ACT, OpActivate, keyBank, valueRow, -1))
		p.appendBurst(OpAppendValue, token, keyBank-firstValue, keyBank, valueRow, g.ValueColumn(token))
	}
	p.emit(allBanks(dram.PREA, OpPrecharge, -1, -1))
}

// appendBurst stores one burst of the newest key or value.
func (p *Program) appendBurst(op Op, token, burst, ordinal int, row, column int32) {
	in := p.Geometry.bankCommand(dram.WR, op, ordinal, row, column)
	in.Token, in.Burst = int32(token), uint8(burst)
	p.emit(in)
}

// loadQuery loads q of all query heads, once the append is over, or else the
// previous head's scores are done with theirs.
func (p *Program) loadQuery() {
	after := p.scoreDone
	if p.Heads[p.head].Append {
		after = p.count[BankSequencer]
	}
	p.queryLoaded = p.count[BufferSequencer]
	for q := range p.Shape.Queries {
		for i := range p.Geometry.TokenBursts {
			in := allBanks(dram.WRBUF, OpLoadQuery, -1, -1)
			in.Sequencer, in.Query, in.Burst = BufferSequencer, uint8(q), uint8(i)
			in.Wait[BankSequencer] = after
			p.emit(in)
		}
	}
}

// openRow switches all banks to row, unless token continues in the open one.
func (p *Program) openRow(row int32, yield bool) {
	boundary := RowBoundary
	if p.open {
		closing := allBanks(dram.PREA, OpPrecharge, -1, -1)
		closing.Yield = yield
		p.emit(closing)
	} else if !p.Heads[p.head].Append {
		boundary = HeadBoundary
	} else {
		boundary = NoBoundary
	}
	p.open = true
	if p.simultaneous {
		in := allBanks(dram.ACTA, OpActivate, row, -1)
		in.Boundary, in.Yield = boundary, boundary != RowBoundary && p.loadYields
		p.emit(in)
		return
	}
	for b := range p.Geometry.Banks {
		in := p.Geometry.bankCommand(dram.ACT, OpActivate, b, row, -1)
		if b == 0 {
			in.Boundary = boundary
		}
		in.Yield = boundary != RowBoundary && p.loadYields
		p.emit(in)
	}
}

// startRow switches to the row of the stage's next token: the first of its row
// or of the stage. The templates are what all instructions of the row have
// in common.
func (p *Program) startRow() {
	g := &p.Geometry
	p.rowEnd = p.token/g.RowTokens*g.RowTokens + g.RowTokens
	row, yield := p.Heads[p.head].FirstRow, false
	op, out, outCommand, outSequencer := OpScore, OpReadPartials, dram.RDRES, ResultSequencer
	if p.stage == stageContext {
		row += g.ValueRow(p.token)
		p.column = g.ValueColumn(p.token)
		yield = p.rowYields
		op, out, outCommand, outSequencer = OpContext, OpLoadWeights, dram.WRBUF, BufferSequencer
	} else {
		row += g.KeyRow(p.token)
		p.column = g.KeyColumn(p.token)
	}
	p.openRow(row, yield)
	p.read = p.rankCommand(dram.MACA, op, BankSequencer)
	p.read.Row = row
	p.transfer = p.rankCommand(outCommand, out, outSequencer)
	p.transfer.Count = p.stage == stageScore
}

// scoreChunk generates one chunk's multiply-accumulates and the read-out of its
// partial sums, pass by pass.
func (p *Program) scoreChunk() {
	g := &p.Geometry
	if p.token >= p.rowEnd {
		p.startRow()
	}
	p.read.Token, p.transfer.Token = int32(p.token), int32(p.token)
	p.transfer.Keep = p.token < (p.segment+1)*p.SegmentTokens
	for pass := range p.Passes {
		query := pass * p.macs
		queries := min(p.macs, p.Shape.Queries-query)
		slot := p.unit
		p.unit = (p.unit + 1) % resultSlots
		in := &p.read
		in.Slot, in.Query, in.Queries = uint8(slot), uint8(query), uint8(queries)
		in.Wait[ResultSequencer] = p.slotRead[slot]
		in.Wait[BufferSequencer] = p.queryLoaded + uint32((query+queries)*g.TokenBursts)
		for i := range g.TokenBursts {
			out := p.add(BankSequencer)
			*out = *in
			out.Column, out.Burst = p.column+int32(i), uint8(i)
			in.Wait = [sequencers]uint32{}
		}
		p.transfer.Slot = uint8(slot)
		p.transfer.Wait[BankSequencer] = p.count[BankSequencer]
		p.transferAll(query, queries, p.PartialBursts)
		p.partialRead[pass] = p.count[ResultSequencer]
		p.slotRead[slot] = p.count[ResultSequencer]
	}
	p.scoreDone = p.count[BankSequencer]
	p.token += g.ChunkTokens
	p.column += int32(g.TokenBursts)
}

// transferAll generates the bursts of one slot: partial sums to the rank PU, or
// weights from it.
func (p *Program) transferAll(query, queries, bursts int) {
	in := &p.transfer
	for q := range queries {
		for i := range bursts {
			out := p.add(in.Sequencer)
			*out = *in
			out.Query, out.Burst = uint8(query+q), uint8(i)
			in.Wait = [sequencers]uint32{}
		}
	}
}

// contextSet generates, pass by pass, the weights of one slot and the
// multiply-accumulates that use them. The weights wait until the slot's former ones
// have been used, and the softmax has seen the last chunk.
func (p *Program) contextSet() {
	if p.token >= p.rowEnd {
		p.startRow()
	}
	// A head's accumulators start from zero; so do those of each segment that
	// is read out by itself.
	fresh := p.token == p.segment*p.SegmentTokens && (p.segment == 0 || !p.rescore)
	columns := p.setColumns
	p.transfer.Token = int32(p.token)
	for pass := range p.Passes {
		query := pass * p.macs
		queries := min(p.macs, p.Shape.Queries-query)
		slot := p.set
		p.set = (p.set + 1) % weightSlots
		p.transfer.Slot = uint8(slot)
		p.transfer.Wait[BankSequencer] = p.setUsed[slot]
		p.transfer.Wait[ResultSequencer] = p.partialRead[pass]
		p.transferAll(query, queries, p.SetBursts)
		in := &p.read
		in.Slot, in.Query, in.Queries = uint8(slot), uint8(query), uint8(queries)
		in.Wait[BufferSequencer] = p.count[BufferSequencer]
		in.Wait[ResultSequencer] = p.contextRead
		columns = 0
		for token := p.token; token < p.limit && columns < p.setColumns; token += p.Geometry.ColumnTokens {
			out := p.add(BankSequencer)
			*out = *in
			out.Token, out.Column = int32(token), p.column+int32(columns)
			out.First = fresh && columns == 0
			in.Wait = [sequencers]uint32{}
			columns++
		}
		p.setUsed[slot] = p.count[BankSequencer]
		p.contextDone[pass] = p.count[BankSequencer]
	}
	p.token += p.SetTokens
	p.column += int32(columns)
}

// jump passes over tokens of the running stage, whole chunks of the open row or whole
// rows from a row's beginning on.
func (p *Program) jump(tokens int) {
	p.token += tokens
	if p.token-tokens >= p.rowEnd {
		p.rowEnd = p.token
	} else if p.stage == stageContext {
		p.column += int32(tokens / p.Geometry.ColumnTokens)
	} else {
		p.column += int32(tokens / p.Geometry.ChunkTokens * p.Geometry.TokenBursts)
	}
}

// readContext reads the accumulators of all query heads. At the head's end the
// banks close meanwhile.
func (p *Program) readContext() {
	if p.token >= p.Heads[p.head].Context {
		closing := allBanks(dram.PREA, OpPrecharge, -1, -1)
		closing.Yield = p.drainYields
		p.emit(closing)
		p.open = false
	}
	for q := range p.Shape.Queries {
		for i := range p.ContextBursts {
			in := allBanks(dram.RDRES, OpReadContext, -1, -1)
			in.Sequencer, in.Query, in.Burst = ResultSequencer, uint8(q), uint8(i)
			in.Wait[BankSequencer] = p.contextDone[q/p.macs]
			p.emit(in)
		}
	}
	p.contextRead = p.count[ResultSequencer]
}
