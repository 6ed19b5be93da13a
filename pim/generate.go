package pim

import "github.com/l3sim/l3sim/dram"

// emit appends an instruction of the current head and counts it.
func (p *Program) emit(in Instruction) {
	in.Head, in.Segment = int32(p.head), int32(p.segment)
	p.count[in.Sequencer]++
	p.pending = append(p.pending, in)
}

// bankCommand returns an instruction of the bank sequencer for one bank.
func (p *Program) bankCommand(cmd dram.Command, op Op, ordinal int, row, column int32) Instruction {
	group, bank := p.Geometry.Bank(ordinal)
	return Instruction{Command: cmd, Op: op, BankGroup: int8(group), Bank: int8(bank), Row: row, Column: column}
}

// allBanks returns an instruction of the bank sequencer for all banks.
func allBanks(cmd dram.Command, op Op, row, column int32) Instruction {
	return Instruction{Command: cmd, Op: op, BankGroup: -1, Bank: -1, Row: row, Column: column}
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

	open := p.bankCommand(dram.ACT, OpActivate, keyBank, keyRow, -1)
	open.Boundary, open.Yield = HeadBoundary, true
	p.emit(open)
	for b := firstValue; b < firstValue+g.TokenBursts; b++ {
		if b != keyBank {
			open := p.bankCommand(dram.ACT, OpActivate, b, valueRow, -1)
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
		p.emit(p.bankCommand(dram.PRE, OpPrecharge, keyBank, -1, -1))
		p.emit(p.bankCommand(dram.ACT, OpActivate, keyBank, valueRow, -1))
		p.appendBurst(OpAppendValue, token, keyBank-firstValue, keyBank, valueRow, g.ValueColumn(token))
	}
	p.emit(allBanks(dram.PREA, OpPrecharge, -1, -1))
}

// appendBurst stores one burst of the newest key or value.
func (p *Program) appendBurst(op Op, token, burst, ordinal int, row, column int32) {
	in := p.bankCommand(dram.WR, op, ordinal, row, column)
	in.Token, in.Burst = int32(token), int16(burst)
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
			in.Sequencer, in.Query, in.Burst = BufferSequencer, int16(q), int16(i)
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
		in := p.bankCommand(dram.ACT, OpActivate, b, row, -1)
		if b == 0 {
			in.Boundary = boundary
		}
		in.Yield = boundary != RowBoundary && p.loadYields
		p.emit(in)
	}
}

// startsRow reports whether the stage's next token needs a row switch: it is
// the first of its row or of the stage.
func (p *Program) startsRow(first int) bool {
	return p.token == first || p.token%p.Geometry.RowTokens == 0
}

// scoreChunk generates one chunk's multiply-accumulates and the read-out of its
// partial sums, pass by pass.
func (p *Program) scoreChunk() {
	g := &p.Geometry
	first := p.segment * p.SegmentTokens
	row := p.Heads[p.head].FirstRow + g.KeyRow(p.token)
	if p.startsRow(first) {
		p.openRow(row, false)
	}
	column := g.KeyColumn(p.token)
	for pass := range p.Passes {
		query := pass * p.macs
		queries := min(p.macs, p.Shape.Queries-query)
		slot := p.unit
		p.unit = (p.unit + 1) % resultSlots
		for i := range g.TokenBursts {
			in := allBanks(dram.MACA, OpScore, row, column+int32(i))
			in.Token, in.Burst, in.Slot = int32(p.token), int16(i), int16(slot)
			in.Query, in.Queries = int16(query), int16(queries)
			in.Wait[ResultSequencer] = p.slotRead[slot]
			in.Wait[BufferSequencer] = p.queryLoaded + int64((query+queries)*g.TokenBursts)
			p.emit(in)
		}
		p.readPartials(query, queries, slot)
		p.partialRead[pass] = p.count[ResultSequencer]
		p.slotRead[slot] = p.count[ResultSequencer]
	}
	p.scoreDone = p.count[BankSequencer]
	p.token += g.ChunkTokens
}

// readPartials reads the partial sums of one result slot.
func (p *Program) readPartials(query, queries, slot int) {
	done := p.count[BankSequencer]
	for q := range queries {
		for i := range p.PartialBursts {
			in := allBanks(dram.RDRES, OpReadPartials, -1, -1)
			in.Sequencer, in.Token = ResultSequencer, int32(p.token)
			in.Query, in.Burst, in.Slot = int16(query+q), int16(i), int16(slot)
			in.Count = p.stage == stageScore
			in.Keep = p.token < (p.segment+1)*p.SegmentTokens
			in.Wait[BankSequencer] = done
			p.emit(in)
		}
	}
}

// contextSet generates, pass by pass, the weights of one slot and the
// multiply-accumulates that use them.
func (p *Program) contextSet() {
	g := &p.Geometry
	first := p.segment * p.SegmentTokens
	row := p.Heads[p.head].FirstRow + g.ValueRow(p.token)
	if p.startsRow(first) {
		p.openRow(row, p.rowYields)
	}
	// A head of its own accumulators starts from zero; so does each segment that is
	// read out.
	fresh := p.token == first && (p.segment == 0 || !p.rescore)
	end := min(p.token+p.SetTokens, p.limit)
	for pass := range p.Passes {
		query := pass * p.macs
		queries := min(p.macs, p.Shape.Queries-query)
		slot := p.set
		p.set = (p.set + 1) % weightSlots
		p.loadWeights(pass, query, queries, slot)
		for token := p.token; token < end; token += g.ColumnTokens {
			in := allBanks(dram.MACA, OpContext, row, g.ValueColumn(token))
			in.Token, in.Slot = int32(token), int16(slot)
			in.Query, in.Queries = int16(query), int16(queries)
			in.First = fresh && token == p.token
			in.Wait[BufferSequencer] = p.count[BufferSequencer]
			in.Wait[ResultSequencer] = p.contextRead
			p.emit(in)
		}
		p.setUsed[slot] = p.count[BankSequencer]
		p.contextDone[pass] = p.count[BankSequencer]
	}
	p.token += p.SetTokens
}

// loadWeights broadcasts the weights of one slot: once its former ones have
// been used, and the softmax has seen the last chunk.
func (p *Program) loadWeights(pass, query, queries, slot int) {
	for q := range queries {
		for i := range p.SetBursts {
			in := allBanks(dram.WRBUF, OpLoadWeights, -1, -1)
			in.Sequencer, in.Token = BufferSequencer, int32(p.token)
			in.Query, in.Burst, in.Slot = int16(query+q), int16(i), int16(slot)
			in.Wait[BankSequencer] = p.setUsed[slot]
			in.Wait[ResultSequencer] = p.partialRead[pass]
			p.emit(in)
		}
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
			in.Sequencer, in.Query, in.Burst = ResultSequencer, int16(q), int16(i)
			in.Wait[BankSequencer] = p.contextDone[q/p.macs]
			p.emit(in)
		}
	}
	p.contextRead = p.count[ResultSequencer]
}
