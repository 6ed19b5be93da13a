package check

// burst is one transfer on a data bus.
type burst struct {
	start, end int64
	record     Record
}

// bus is the command buses of a channel, or the bus of a rank with its own, and the corresponding data buses.
type bus struct {
	last   []Record   // the latest command on each command bus
	halves [][]Record // commands whose second half has not issued, oldest first
	bursts [16]burst
	next   int // next entry of the ring bursts; reads and writes overtake each other by at most CL - CWL
}

// newBus returns a bus without any burst so far.
func newBus() bus {
	var b bus
	for i := range b.bursts {
		b.bursts[i].start, b.bursts[i].end = never, never
	}
	return b
}

// checkBuses checks three rules: one command at a time on a command bus, each on an edge at which it may begin, and one burst at a time on
// the data bus of a pseudo-channel. It returns the command of a burst that overlaps r's, or nil.
func (c *Checker) checkBuses(r Record) *Record {
	b := &c.buses[0]
	if c.privateBuses {
		b = &c.buses[1+r.Address.Rank]
	}
	if b.last == nil {
		for range c.standard.Buses {
			b.last, b.halves = append(b.last, Record{Clock: never}), append(b.halves, nil)
		}
	}
	action := c.standard.Action(r.Command)
	last := &b.last[action.Bus]
	if takes := int64(c.standard.Action(last.Command).Steps); last.Clock != never && r.Clock-last.Clock < takes {
		c.found = append(c.found, Violation{ruleCommandBus, false, *last, r, takes, r.Clock - last.Clock, ""})
	}
	c.checkHalves(b, action.Bus, r)
	*last = r
	if n := int64(c.standard.StepsPerClock); !action.AnyStep && r.Clock%n != 0 {
		c.report(ruleCommandBus, r, "it begins on a rising edge only")
	}
	if !r.Command.IsRead() && !r.Command.IsWrite() {
		return nil
	}
	end := r.Clock + c.spec.DataEnd(r.Command)
	n := burst{start: end - c.spec.BusSteps(c.spec.BurstClocks()), end: end, record: r}
	var met *Record
	for i := range b.bursts {
		o := &b.bursts[i]
		if n.start < o.end && o.start < n.end && int(o.record.Address.Rank)/c.ranksEach == int(r.Address.Rank)/c.ranksEach {
			// The smallest distance at which the new burst does not overlap the old one.
			required := o.end - n.start + r.Clock - o.record.Clock
			met = &Record{}
			*met = o.record
			c.found = append(c.found, Violation{ruleBurst, false, o.record, r, required, r.Clock - o.record.Clock, "bursts on the data bus"})
			break
		}
	}
	b.bursts[b.next] = n
	b.next = (b.next + 1) % len(b.bursts)
	return met
}

// checkHalves checks that the second half of each command before r had a free step in time. Halves take the first free steps, oldest first;
// if any order works, this one does.
func (c *Checker) checkHalves(b *bus, index int, r Record) {
	halves, last := b.halves[index], b.last[index]
	idle := last.Clock + int64(c.standard.Action(last.Command).Steps)
	for len(halves) > 0 && idle < r.Clock {
		halves, idle = halves[1:], idle+1
	}
	end := r.Clock + int64(c.standard.Action(r.Command).Steps)
	for len(halves) > 0 {
		within := int64(c.standard.Action(halves[0].Command).Second)
		if halves[0].Clock+within >= end {
			break
		}
		c.found = append(c.found, Violation{ruleCommandBus, false, halves[0], r, within, r.Clock - halves[0].Clock, "no step is left for the second half of the first"})
		halves = halves[1:]
	}
	if c.standard.Action(r.Command).Second > 0 {
		halves = append(halves, r)
	}
	b.halves[index] = halves
}
