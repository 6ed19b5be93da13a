package pim

import "github.com/l3sim/l3sim/dram"

// emit appends an instruction of the current head and counts it.
func (p *program) emit(in instruction) {
	in.head, in.segment = int32(p.head), int32(p.segment)
	*p.add(in.sequencer) = in
}

// add appends an instruction of unknown contents to fill in and counts it. Next
// has made room for all that one step generates.
func (p *program) add(s sequencer) *instruction {
	p.count[s]++
	n := len(p.pending)
	p.pending = p.pending[:n+1]
	return &p.pending[n]
}

// addOf is add of a copy of in for one bank.
func (p *program) addOf(in *instruction, ordinal int) *instruction {
	out := p.add(in.sequencer)
	*out = *in
	group, bank := p.geometry.bank(ordinal)
	out.bankGroup, out.bank = int8(group), int8(bank)
	return out
}

// bankCommand returns an instruction of the bank sequencer for one bank.
func bankCommand(g *Geometry, cmd dram.Command, op operation, ordinal int, row, column int32) instruction {
	group, bank := g.bank(ordinal)
	return instruction{command: cmd, op: op, bankGroup: int8(group), bank: int8(bank), row: row, column: column}
}

// allBanks returns an instruction of the bank sequencer for all banks.
func allBanks(cmd dram.Command, op operation, row, column int32) instruction {
	return instruction{command: cmd, op: op, bankGroup: -1, bank: -1, row: row, column: column}
}

// rankCommand returns an instruction of the current head and token for the whole rank, without row and column.
func (p *program) rankCommand(cmd dram.Command, op operation, s sequencer) instruction {
	return instruction{
		head: int32(p.head), segment: int32(p.segment), token: int32(p.token), row: -1, column: -1,
		bankGroup: -1, bank: -1, command: cmd, op: op, sequencer: s,
	}
}

// appendToken stores the newest token's key and value: the key's bank and the value's banks are opened, written and closed.
// A bank that holds a burst of both is closed in between and comes last. The writes wait for the previous head's read-out
// anyway: the activations yield to it.
func (p *program) appendToken() {
	g, h := &p.geometry, &p.heads[p.head]
	unit, within, _ := h.list.place(g, h.context-1)
	token := unit*g.RowTokens + within
	keyRow, valueRow := h.firstRow+g.keyRow(token), h.firstRow+g.valueRow(token)
	keyBank, firstValue := g.keyBank(token), g.valueBank(token)
	shared := keyBank >= firstValue && keyBank < firstValue+g.TokenBursts

	open := bankCommand(g, dram.ACT, opActivate, keyBank, keyRow, -1)
	open.boundary, open.yield = headBoundary, true
	p.emit(open)
	for b := firstValue; b < firstValue+g.TokenBursts; b++ {
		if b != keyBank {
			open := bankCommand(g, dram.ACT, opActivate, b, valueRow, -1)
			open.yield = true
			p.emit(open)
		}
	}
	for i := range g.TokenBursts {
		p.appendBurst(opAppendKey, token, i, keyBank, keyRow, g.keyColumn(token)+int32(i))
	}
	for i := range g.TokenBursts {
		if firstValue+i != keyBank {
			p.appendBurst(opAppendValue, token, i, firstValue+i, valueRow, g.valueColumn(token))
		}
	}
	p.appendScale(token, keyBank, keyRow)
	if bank := g.valueScaleBank(token); bank != keyBank {
		p.appendScale(token, bank, valueRow)
	}
	if shared {
		p.emit(bankCommand(g, dram.PRE, opPrecharge, keyBank, -1, -1))
		p.emit(bankCommand(g, dram.ACT, opActivate, keyBank, valueRow, -1))
		p.appendBurst(opAppendValue, token, keyBank-firstValue, keyBank, valueRow, g.valueColumn(token))
		if g.valueScaleBank(token) == keyBank {
			p.appendScale(token, keyBank, valueRow)
		}
	}
	p.emit(allBanks(dram.PREA, opPrecharge, -1, -1))
}

// appendScale stores the newest key's or value's scale where rows have scales.
func (p *program) appendScale(token, ordinal int, row int32) {
	if p.geometry.scaleChunks > 0 {
		p.appendBurst(opAppendScale, token, 0, ordinal, row, p.geometry.scaleColumn(token))
	}
}

// readScales brings the scales of the stage's tokens in the open row to the buffer unit: one bank of each bank group, then the next
// ones. Opened is the bank sequencer's count before the row's activations; if the row was switched to bank by bank, the scales
// of a bank wait for its own activation only. What follows waits for all scales.
func (p *program) readScales(within int, opened uint32) {
	g := &p.geometry
	to := within + min(p.rowEnd, p.limit) - p.token
	columns := g.scaleColumns(within, to)
	if columns == 0 {
		return
	}
	in := p.rankCommand(dram.RD, opReadScale, resultSequencer)
	in.row = p.openRow
	first := g.scaleColumn(within)
	for ordinal := 0; ordinal < g.Banks; ordinal += g.bankGroups {
		for c := range columns {
			in.column = first + int32(c)
			for b := ordinal; b < ordinal+g.bankGroups; b++ {
				out := p.addOf(&in, b)
				out.wait[bankSequencer] = p.count[bankSequencer]
				if opened != p.count[bankSequencer] && !p.simultaneous {
					out.wait[bankSequencer] = opened + uint32(b) + 1
				}
			}
		}
	}
	p.scaled = p.count[resultSequencer]
}

// later returns the later one of two counts of a sequencer.
func later(a, b uint32) uint32 {
	if int32(a-b) < 0 {
		return b
	}
	return a
}

// appendBurst stores one burst of the newest key or value.
func (p *program) appendBurst(op operation, token, burst, ordinal int, row, column int32) {
	in := bankCommand(&p.geometry, dram.WR, op, ordinal, row, column)
	in.token, in.burst = int32(token), uint8(burst)
	p.emit(in)
}

// keyGroup returns the group of the next token's key, 0 where keys have no groups.
func (p *program) keyGroup() int {
	if p.shape.KeyGroup == 0 {
		return 0
	}
	unit, within, _ := p.heads[p.head].list.place(&p.geometry, p.token)
	return (unit*p.geometry.RowTokens + within) / p.shape.KeyGroup
}

// loadQuery loads q of all query heads, once the append is over, or else the previous head's scores are done with theirs.
func (p *program) loadQuery() {
	after, scales := p.scoreDone, uint32(0)
	if p.heads[p.head].appends && p.stage == stageLoad {
		after = p.count[bankSequencer]
	}
	if p.shape.KeyGroup > 0 && p.geometry.scaleChunks > 0 { // q takes on scales that come with the row
		if p.stage == stageLoad {
			p.loaded, p.appended = -1, after
			return
		}
		after, scales = later(after, p.appended), p.scaled
	}
	p.queryLoaded, p.loaded = p.count[bufferSequencer], p.keyGroup()
	for q := range p.shape.Queries {
		for i := range p.geometry.QueryBursts {
			in := allBanks(dram.WRBUF, opLoadQuery, -1, -1)
			in.sequencer, in.query, in.burst, in.token = bufferSequencer, uint8(q), uint8(i), int32(p.token)
			in.wait[bankSequencer], in.wait[resultSequencer] = after, scales
			p.emit(in)
		}
	}
}

// switchRow switches all banks to a visit of row, unless they are there.
func (p *program) switchRow(row int32, visit int, yield bool) {
	boundary := rowBoundary
	if p.open && row == p.openRow && visit == p.visited {
		return
	}
	if p.open {
		closing := allBanks(dram.PREA, opPrecharge, -1, -1)
		closing.yield = yield
		p.emit(closing)
	} else if !p.heads[p.head].appends {
		boundary = headBoundary
	} else {
		boundary = noBoundary
	}
	p.open, p.openRow, p.visited = true, row, visit
	if p.simultaneous {
		in := allBanks(dram.ACTA, opActivate, row, -1)
		in.boundary, in.yield = boundary, boundary != rowBoundary && p.loadYields
		p.emit(in)
		return
	}
	for b := range p.geometry.Banks {
		in := bankCommand(&p.geometry, dram.ACT, opActivate, b, row, -1)
		if b == 0 {
			in.boundary = boundary
		}
		in.yield = boundary != rowBoundary && p.loadYields
		p.emit(in)
	}
}

// startRow switches to the row of the stage's next token: the first of its row or of the stage. The templates are what all
// instructions of the row have in common.
func (p *program) startRow() {
	g, h := &p.geometry, &p.heads[p.head]
	unit, within, end := h.list.place(g, p.token)
	p.rowEnd = min(end, p.token+p.visitTokens-within%p.visitTokens)
	row, yield := h.firstRow+int32(2*unit), false
	op, out, outCommand, outSequencer := opScore, opReadPartials, dram.RDRES, resultSequencer
	if p.stage == stageContext {
		row++
		p.column = g.valueColumn(within)
		yield = p.rowYields
		op, out, outCommand, outSequencer = opContext, opLoadWeights, dram.WRBUF, bufferSequencer
	} else {
		p.column = g.keyColumn(within)
	}
	before := p.count[bankSequencer]
	if p.switchRow(row, within/p.visitTokens, yield); p.count[bankSequencer] != before { // activations are the last
		before = p.count[bankSequencer] - uint32(g.Banks)
	}
	p.readScales(within, before)
	p.read = p.rankCommand(dram.MACA, op, bankSequencer)
	p.read.row = row
	p.transfer = p.rankCommand(outCommand, out, outSequencer)
	p.transfer.count = p.stage == stageScore
}

// scoreChunk generates one chunk's multiply-accumulates and the read-out of its partial sums, pass by pass.
func (p *program) scoreChunk() {
	g := &p.geometry
	if p.token >= p.rowEnd {
		p.startRow()
	}
	if p.keyGroup() != p.loaded {
		p.loadQuery()
	}
	p.read.token, p.transfer.token = int32(p.token), int32(p.token)
	p.transfer.keep = p.token < (p.segment+1)*p.segmentTokens
	for pass := range p.passes {
		query := pass * p.macs
		queries := min(p.macs, p.shape.Queries-query)
		slot := p.unit
		p.unit = (p.unit + 1) % resultSlots
		in := &p.read
		in.slot, in.query, in.queries = uint8(slot), uint8(query), uint8(queries)
		in.wait[resultSequencer] = later(p.slotRead[slot], p.scaled) // so that the row is not closed before
		in.wait[bufferSequencer] = p.queryLoaded + uint32((query+queries)*g.QueryBursts)
		for i := range g.TokenBursts {
			out := p.add(bankSequencer)
			*out = *in
			out.column, out.burst = p.column+int32(i), uint8(i)
			in.wait = [sequencers]uint32{}
		}
		p.transfer.slot = uint8(slot)
		p.transfer.wait[bankSequencer] = p.count[bankSequencer]
		p.transferAll(query, queries, p.partialBursts)
		p.partialRead[pass] = p.count[resultSequencer]
		p.slotRead[slot] = p.count[resultSequencer]
	}
	p.scoreDone = p.count[bankSequencer]
	p.token += g.ChunkTokens
	p.column += int32(g.TokenBursts)
}

// transferAll generates the bursts of one slot: partial sums to the buffer unit, or weights from it.
func (p *program) transferAll(query, queries, bursts int) {
	in := &p.transfer
	for q := range queries {
		for i := range bursts {
			out := p.add(in.sequencer)
			*out = *in
			out.query, out.burst = uint8(query+q), uint8(i)
			in.wait = [sequencers]uint32{}
		}
	}
}

// contextSet generates, pass by pass, the weights of one slot and the multiply-accumulates that use them. The weights wait
// until the slot's former ones have been used, and the softmax has seen the last chunk.
func (p *program) contextSet() {
	if p.token >= p.rowEnd {
		p.startRow()
	}
	// A head's accumulators start from zero; so do those of each segment that is read out by itself.
	fresh := p.token == p.segment*p.segmentTokens && (p.segment == 0 || !p.rescore)
	columns := p.setColumns
	p.transfer.token = int32(p.token)
	for pass := range p.passes {
		query := pass * p.macs
		queries := min(p.macs, p.shape.Queries-query)
		slot := p.set
		p.set = (p.set + 1) % weightSlots
		p.transfer.slot = uint8(slot)
		p.transfer.wait[bankSequencer] = p.setUsed[slot]
		p.transfer.wait[resultSequencer] = later(p.partialRead[pass], p.scaled)
		p.transferAll(query, queries, p.setBursts)
		in := &p.read
		in.slot, in.query, in.queries = uint8(slot), uint8(query), uint8(queries)
		in.wait[bufferSequencer] = p.count[bufferSequencer]
		in.wait[resultSequencer] = p.contextRead
		columns = 0
		for token := p.token; token < p.limit && columns < p.setColumns; token += p.geometry.ColumnTokens {
			out := p.add(bankSequencer)
			*out = *in
			out.token, out.column = int32(token), p.column+int32(columns)
			out.first = fresh && columns == 0
			in.wait = [sequencers]uint32{}
			columns++
		}
		p.setUsed[slot] = p.count[bankSequencer]
		p.contextDone[pass] = p.count[bankSequencer]
	}
	p.token += p.setTokens
	p.column += int32(columns)
}

// jump passes over tokens of the running stage, whole chunks of the open row or whole rows from a row's beginning on.
func (p *program) jump(tokens int) {
	p.token += tokens
	if p.token-tokens >= p.rowEnd {
		p.rowEnd = p.token
	} else if p.stage == stageContext {
		p.column += int32(tokens / p.geometry.ColumnTokens)
	} else {
		p.column += int32(tokens / p.geometry.ChunkTokens * p.geometry.TokenBursts)
	}
}

// readContext reads the accumulators of all query heads. At the head's end the banks close meanwhile.
func (p *program) readContext() {
	if p.token >= p.heads[p.head].context {
		closing := allBanks(dram.PREA, opPrecharge, -1, -1)
		closing.yield = p.drainYields
		p.emit(closing)
		p.open = false
	}
	for q := range p.shape.Queries {
		for i := range p.contextBursts {
			in := allBanks(dram.RDRES, opReadContext, -1, -1)
			in.sequencer, in.query, in.burst = resultSequencer, uint8(q), uint8(i)
			in.wait[bankSequencer] = p.contextDone[q/p.macs]
			p.emit(in)
		}
	}
	p.contextRead = p.count[resultSequencer]
}
