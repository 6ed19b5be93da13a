package controller

// frFCFS takes the ready column access of the oldest request; without one the ready ACT of
// the oldest, then the PRE (Rixner et al., "Memory Access Scheduling", ISCA 2000). An ACT goes before
// a lone column access: where column accesses do not queue for the data bus,
// activations (tFAW) are what bounds the rank, and a clock lost to an ACT is
// lost for good.
var frFCFS = scheduler{name: "fr-fcfs", pick: (*controller).pickOldest}

// pickOldest chooses the oldest column command that may issue. Where at most one bank has one, rows are opened
// first, so that the bus does not run dry.
func (c *controller) pickOldest(b *bus, t int64) choice {
	column, _, reads := c.oldestReady(needRead, b, t)
	write, _, writes := c.oldestReady(needWrite, b, t)
	if lone := reads+writes < 2 || reads == 1 && writes == 1 && column.bank == write.bank; lone {
		if row := c.oldestRow(b, t); row.age < forever {
			return row
		}
	}
	if write.age < column.age {
		column = write
	}
	if column.age < forever {
		return column
	}
	return c.oldestClose(b, t)
}
