package check

import "github.com/l3sim/l3sim/dram"

// relation is how two commands of one rank lie to each other, nearest first.
type relation uint8

const (
	sameBank relation = iota
	sameGroup
	otherGroup
)

// checkDistances compares r with the latest command of each kind in its bank,
// its bank group and its rank. Of an earlier command only the strictest rule is
// reported, and of a kind only the nearest: a farther command of the same kind
// that is too close was reported against the nearer ones already.
func (c *Checker) checkDistances(rank *rankHistory, r Record) {
	all := r.Command.AllBank()
	for cmd := range dram.Command(dram.Commands) {
		best := Violation{Required: -1}
		consider := func(first *Record) {
			if first.Clock == never {
				return
			}
			gap := r.Clock - first.Clock
			rule, required := c.distance(first.Command, r.Command, relate(first, &r))
			if rule == "tRTW" && gap < int64(required)-1 {
				// One clock short, the strobe's postamble is cut; two, the write's
				// preamble has no place. They are waived apart.
				rule, required = "tWPRE", required-1
			}
			if gap < int64(required) && int64(required)-gap > best.Required-best.Actual {
				best = Violation{Rule: rule, First: *first, Second: r, Required: int64(required), Actual: gap}
			}
		}
		consider(&rank.rank[cmd])
		if !all {
			consider(&rank.groups[r.Address.BankGroup][cmd])
			consider(&rank.banks[c.bank(r)][cmd])
		}
		if best.Required >= 0 {
			c.found = append(c.found, best)
		}
	}
}

// relate returns how the commands of one rank lie; an all-bank command lies in
// every bank.
func relate(first, second *Record) relation {
	a, b := &first.Address, &second.Address
	switch {
	case first.Command.AllBank() || second.Command.AllBank():
		return sameBank
	case a.BankGroup != b.BankGroup:
		return otherGroup
	case a.Bank != b.Bank:
		return sameGroup
	}
	return sameBank
}

// distance returns the rule between two commands of one rank and the clocks
// that it asks for. No rule asks for 0 clocks.
func (c *Checker) distance(first, second dram.Command, where relation) (rule string, clocks int) {
	s := c.spec
	if first == dram.REF {
		return "tRFC", s.TRFC
	}
	switch second {
	case dram.ACT, dram.ACTA:
		return c.beforeActivate(first, where)
	case dram.PRE, dram.PREA:
		return c.beforePrecharge(first, where)
	case dram.REF:
		return c.beforeRefresh(first)
	case dram.RD, dram.RDA, dram.MACA:
		return c.beforeRead(first, where)
	case dram.WR, dram.WRA:
		return c.beforeWrite(first, where)
	case dram.WRBUF:
		if first.IsRead() {
			return "tRTW", s.CL + s.BurstLength/2 + 2 - s.CWL
		}
	}
	return "", 0 // RDRES and WRBUF touch no bank
}

// writeEnd returns the clocks from a write command to the end of its data.
func (c *Checker) writeEnd() int { return c.spec.CWL + c.spec.BurstLength/2 }

func (c *Checker) beforeActivate(first dram.Command, where relation) (string, int) {
	s := c.spec
	switch first {
	case dram.ACT, dram.ACTA:
		switch where {
		case sameBank:
			return "tRC", s.TRC
		case sameGroup:
			return "tRRD_L", s.TRRDL
		}
		return "tRRD_S", s.TRRDS
	case dram.PRE, dram.PREA, dram.RDA, dram.WRA:
		if where == sameBank {
			return c.precharged(first)
		}
	}
	return "", 0
}

// precharged returns the distance from a command that precharges to the end of
// the precharge.
func (c *Checker) precharged(first dram.Command) (string, int) {
	s := c.spec
	switch first {
	case dram.RDA:
		return "tRTP+tRP", s.TRTP + s.TRP
	case dram.WRA:
		return "tWR+tRP", c.writeEnd() + s.TWR + s.TRP
	}
	return "tRP", s.TRP
}

func (c *Checker) beforePrecharge(first dram.Command, where relation) (string, int) {
	s := c.spec
	if where != sameBank {
		return "", 0
	}
	switch first {
	case dram.ACT, dram.ACTA:
		return "tRAS", s.TRAS
	case dram.RD, dram.RDA, dram.MACA:
		return "tRTP", s.TRTP
	case dram.WR, dram.WRA:
		return "tWR", c.writeEnd() + s.TWR
	}
	return "", 0
}

func (c *Checker) beforeRefresh(first dram.Command) (string, int) {
	switch first {
	case dram.ACT, dram.ACTA:
		return "tRC", c.spec.TRC
	case dram.PRE, dram.PREA, dram.RDA, dram.WRA:
		return c.precharged(first)
	}
	return "", 0
}

// columnGap returns the distance of two column accesses in one direction.
func (c *Checker) columnGap(where relation) (string, int) {
	if where == otherGroup {
		return "tCCD_S", c.spec.TCCDS
	}
	return "tCCD_L", c.spec.TCCDL
}

func (c *Checker) beforeRead(first dram.Command, where relation) (string, int) {
	s := c.spec
	switch first {
	case dram.ACT, dram.ACTA:
		if where == sameBank {
			return "tRCD", s.TRCD
		}
	case dram.RD, dram.RDA, dram.MACA:
		return c.columnGap(where)
	case dram.WR, dram.WRA:
		if where == otherGroup {
			return "tWTR_S", c.writeEnd() + s.TWTRS
		}
		return "tWTR_L", c.writeEnd() + s.TWTRL
	}
	return "", 0
}

func (c *Checker) beforeWrite(first dram.Command, where relation) (string, int) {
	s := c.spec
	switch first {
	case dram.ACT, dram.ACTA:
		if where == sameBank {
			return "tRCD", s.TRCD
		}
	case dram.RD, dram.RDA, dram.RDRES:
		return "tRTW", s.CL + s.BurstLength/2 + 2 - s.CWL
	case dram.WR, dram.WRA, dram.MACA:
		return c.columnGap(where)
	}
	return "", 0
}
