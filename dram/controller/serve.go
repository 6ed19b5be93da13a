package controller

import "github.com/l3sim/l3sim/dram"

// serve issues the picked command.
func (c *controller) serve(p choice, t int64) {
	a, bit := c.channel.places[p.bank].Address, c.channel.places[p.bank].bit
	b := &c.queues.banks[p.bank]
	switch p.need {
	case needPrecharge:
		c.issue(dram.PRE, a, t)
		c.stats.Banks[p.bank].Conflicts++
		c.channel.openBanks[a.Rank] &^= bit
	case needReadRow, needWriteRow:
		e := &b.entries[b.first[p.need&1]] // the read or the write
		a.Row = e.row
		c.waits.row(p.bank, e.queued)
		c.issue(dram.ACT, a, t)
		c.channel.openBanks[a.Rank] |= bit
		c.sched.buses[c.sched.busOf[a.Rank]].acts++
		b.opened(a.Row)
	default:
		c.sched.moved(p.need, int(a.Rank), t, c.front.held[needWrite].full())
		c.serveColumn(b, int(b.first[p.need]), a, t)
		c.front.stalled = false
	}
	c.sched.passed(p.need, int(a.Rank))
	c.sched.updateNeeds(p.bank)
}

// serveColumn issues the column access of entry i of b and ends its request.
func (c *controller) serveColumn(b *bankQueue, i int, a dram.Address, t int64) {
	e := b.entries[i]
	if b.full() {
		c.queues.full[e.bank] = false
		c.front.countMovable(b, 1)
	}
	b.remove(i)
	b.shares = b.shares && (e.kind == needRead || b.writesShare())
	c.queues.entries--
	c.queues.inRank[a.Rank]--
	if len(b.entries) == 0 {
		c.refresh.idleBank(int(e.bank), t)
	}
	if c.queues.inRank[a.Rank] == 0 {
		c.refresh.units[c.refresh.unitOf[int(a.Rank)*c.channel.banksPerRank]].idle = t // of the whole rank
	}
	a.Row, a.Column = e.row, e.column
	cmd := needCommands[e.kind]
	if c.closedPage && b.hits == 0 && c.channel.earliestOf(cmd+1, a, t) <= t { // a table may give a command with auto-precharge other steps
		cmd++ // RDA, WRA
		c.channel.openBanks[a.Rank] &^= c.channel.places[e.bank].bit
	}
	c.waits.column(e.kind, int(e.bank), e.arrived, t, t+c.channel.dataEnds[cmd])
	c.issue(cmd, a, t)
	of := &c.stats.Banks[e.bank]
	if b.served > 0 {
		of.RowHits++
	}
	b.served++
	of.QueueClocks += c.channel.clocks(t - e.queued)
	if e.kind == needRead {
		c.stats.Ranks[a.Rank].Reads++
	} else {
		c.stats.Ranks[a.Rank].Writes++
	}
	c.served(&e, t+c.channel.dataEnds[cmd])
}

// served completes a column access whose data ends at end.
func (c *controller) served(e *entry, end int64) {
	c.endStep = max(c.endStep, end)
	c.front.filters[e.kind][e.slot()]--
	switch {
	case e.check && e.kind == needWrite:
		c.stats.CheckWrites++
	case e.check:
		c.stats.CheckReads++
		c.fetched(e.id, end)
		c.front.eachMerged(e.merged, func(w *mergedRead) { c.fetched(w.fetch, end) })
	case e.kind == needWrite:
		c.writeEnds(e, end)
	case c.check != nil:
		c.check.reads.of[e.id].merged = e.merged
		c.partEnds(e.id, end)
	default:
		c.readEnds(e.request, e.accepted, e.arrived, end)
		c.front.eachMerged(e.merged, func(w *mergedRead) { c.readEnds(w.request, w.accepted, w.arrived, end) })
	}
}

// readEnds counts a read: a whole request, or a burst of an open one. Its latencies begin with its acceptance and with its arrival.
func (c *controller) readEnds(request int32, accepted, arrived, end int64) {
	c.endStep = max(c.endStep, end)
	if request >= 0 {
		c.burstEnds(request, end)
		return
	}
	c.stats.Latency.add(c.channel.clocks(end - accepted))
	c.stats.ArrivalLatency.add(c.channel.clocks(end - arrived))
}

// writeEnds counts a write.
func (c *controller) writeEnds(e *entry, end int64) {
	if e.request >= 0 {
		c.burstEnds(e.request, end)
		return
	}
	c.stats.WriteLatency.add(c.channel.clocks(end - e.accepted))
}
