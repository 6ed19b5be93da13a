package controller

import "github.com/l3sim/l3sim/dram"

// serve issues the picked command.
func (c *controller) serve(p choice, t int64) {
	a, bit := c.places[p.bank].Address, c.places[p.bank].bit
	b := &c.banks[p.bank]
	switch p.need {
	case needPrecharge:
		c.issue(dram.PRE, a, t)
		c.stats.Banks[p.bank].Conflicts++
		c.openBanks[a.Rank] &^= bit
	case needReadRow, needWriteRow:
		a.Row = b.entries[b.first[p.need&1]].row // of the read or of the write
		c.issue(dram.ACT, a, t)
		c.openBanks[a.Rank] |= bit
		c.buses[c.busOf[a.Rank]].acts++
		b.opened(a.Row)
	default:
		c.moved(p.need, int(a.Rank), t)
		c.serveColumn(b, int(b.first[p.need]), a, t)
		c.restBus(int(a.Rank), p.need)
		c.stuck = false
	}
	c.updateNeeds(p.bank)
}

// serveColumn issues the column access of entry i of b and ends its request.
func (c *controller) serveColumn(b *bankQueue, i int, a dram.Address, t int64) {
	e := b.entries[i]
	if b.full() {
		c.countMovable(b, 1)
	}
	b.remove(i)
	b.shares = b.shares && (e.kind == needRead || b.writesShare())
	c.queued--
	c.queuedInRank[a.Rank]--
	if len(b.entries) == 0 {
		c.refresh.idleBank(int(e.bank), t)
	}
	if c.queuedInRank[a.Rank] == 0 {
		c.refresh.idleFrom(int(a.Rank), t)
	}
	a.Row, a.Column = e.row, e.column
	cmd := needCommands[e.kind]
	if c.closedPage && b.hits == 0 && c.earliestOf(cmd+1, a, t) <= t { // which a table may give other steps than those without
		cmd++ // RDA, WRA
		c.openBanks[a.Rank] &^= c.places[e.bank].bit
	}
	c.issue(cmd, a, t)
	of := &c.stats.Banks[e.bank]
	if b.served > 0 {
		of.RowHits++
	}
	b.served++
	of.QueueClocks += c.clocks(t - e.queued)
	if e.kind == needRead {
		c.stats.Ranks[a.Rank].Reads++
	} else {
		c.stats.Ranks[a.Rank].Writes++
	}
	c.served(&e, t+c.dataEnds[cmd])
}

// served ends a column access whose data is over at end.
func (c *controller) served(e *entry, end int64) {
	c.endStep = max(c.endStep, end)
	c.filters[e.kind][e.slot()]--
	switch {
	case e.check && e.kind == needWrite:
		c.stats.CheckWrites++
	case e.check:
		c.stats.CheckReads++
		c.fetched(e.id, end)
		c.eachWaiting(e.merged, func(w *waiting) { c.fetched(w.fetch, end) })
	case e.kind == needWrite:
		c.stats.WriteLatency.add(c.clocks(end - e.accepted))
	case c.check != nil:
		c.check.reads.of[e.id].merged = e.merged
		c.partEnds(e.id, end)
	default:
		c.readEnds(e.accepted, e.arrived, end)
		c.eachWaiting(e.merged, func(w *waiting) { c.readEnds(w.accepted, w.arrived, end) })
	}
}

// readEnds counts a read, whose latencies begin with its acceptance and with its arrival.
func (c *controller) readEnds(accepted, arrived, end int64) {
	c.endStep = max(c.endStep, end)
	c.stats.Latency.add(c.clocks(end - accepted))
	c.stats.ArrivalLatency.add(c.clocks(end - arrived))
}

// eachWaiting calls back for a chain of merged reads and frees it.
func (c *controller) eachWaiting(first int32, of func(*waiting)) {
	for w := first; w >= 0; {
		node := &c.chain[w]
		of(node)
		w, node.next, c.freeChain = node.next, c.freeChain, w
	}
}

// gate returns the first step, at least t, at which the command's bus takes it. With one bus and commands
// of one step, tick itself issues at most one a step.
func (c *controller) gate(cmd dram.Command, t int64) int64 {
	if c.simpleBus {
		return t
	}
	return c.commandBuses.Earliest(cmd, t)
}

// simpleBuses reports whether the standard has one command bus and every command that the
// controller gives takes one step and no second half; each clock has one step.
func simpleBuses(spec *dram.Spec, p *Policy) bool {
	s := spec.Rules()
	if len(s.Buses) > 1 || s.StepsPerClock > 1 {
		return false
	}
	for _, cmd := range asked(spec, p) {
		if a := s.Action(cmd); a.Steps > 1 || a.Second > 0 {
			return false
		}
	}
	return true
}

// asked returns the commands that the controller gives.
func asked(spec *dram.Spec, p *Policy) []dram.Command {
	s := spec.Rules()
	list := []dram.Command{dram.ACT, dram.PRE, dram.PREA, dram.RD, dram.WR}
	for _, r := range s.Refreshes {
		list = append(list, r.Command)
	}
	if sync, ok := s.DataClockCommand(); ok {
		list = append(list, sync)
	}
	if most, _ := spec.Managed(); most > 0 {
		command, _ := managementCommand(s, p)
		list = append(list, command)
	}
	if p.Page == "closed" {
		list = append(list, dram.RDA, dram.WRA)
	}
	if p.PowerDown != "off" {
		list = append(list, dram.PDE, dram.PDX, dram.SRE, dram.SRX)
	}
	return list
}

// startClock gives the command that starts the data clock before a column access that finds it
// stopped; the access then issues at c.syncedAt. It reports whether the access can issue at t; if not, c.ready
// is when to go on.
func (c *controller) startClock(p choice, t int64) (runs bool) {
	rank := c.places[p.bank].Rank
	if c.state.ClockRuns(needCommands[p.need], int(rank), t) {
		return true
	}
	a := dram.Address{Rank: rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	if at := c.earliestOf(c.sync, a, t); at > t {
		c.ready = at
		return false
	}
	c.issue(c.sync, a, t)
	c.synced, c.syncedAt = p, t+int64(c.spec.Rules().Action(c.sync).Steps)
	return false
}
